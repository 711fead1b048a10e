"""k-constraints: what joins with synopses keep and cost, against a sliding-window join in the same run.

Kernels alone, on one core, in the set-ups of the paper: memory over time for each k (Figures 4, 6, 8, 20), what
an element costs (Table 1), constraints that are found by watching while k changes (5, 7, 9), combinations (10, 11); and
queries in SQL over Linear Road's reports (Table 3, in bytes of state, against plain joins; with the data of
TIDEGATE_DATA). `out/kmon` gets tables and pictures.
Whole queries over three links follow, on Spark against plain joins, and in this process without windows against those
with windows (`windowless_state_ratio`).

Ratios are ours in terms of the window join's: below one says that we keep or cost less. Those of memory are of elements
in the last fifth of a run, those of cost of processor time; of several k, the worst counts. Those whose name ends in
`vs_simulation` are of elements that we keep in terms of those that the paper's method keeps, element by element on the
same data, at the worst moment. Windows have 50,000 rows of each stream. Results are compared wherever constraints hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.support.kmon_figures import (
    COMBINED_LEVELS,
    DELAYS,
    EXPERIMENTS,
    SIZES,
    Measured,
    Trade,
    combined,
    crossover,
    measured,
    traded,
)
from benchmarks.support.kmon_links import spark_links
from benchmarks.support.kmon_monitoring import Followed, figure5, figure7, figure9
from benchmarks.support.kmon_pictures import (
    cost_lines,
    draw_combined,
    draw_followed,
    draw_memory,
    draw_traded,
    memory_lines,
    write_tables,
)
from benchmarks.support.kmon_road import PRINTED, REPORTS, table3
from benchmarks.support.kmon_runs import Course
from benchmarks.support.kmon_windowless import windowless_links
from benchmarks.support.report import Report, main, say

Figures = dict[str, float]

NOTES = """Simulated is what the paper's method keeps on the same data; printed is what the specification's simulation
kept on other data of this kind at one moment, in part rounded. k is the exact one of the data, which is up to four per
cent more than the k that was asked for.
CurCarSeg of Table 3 keeps active cars; the plain join also keeps the last report of every car that ever drove. After
the 45 minutes of the data half of all cars still drive. Linear Road lasts three hours: with the data four times behind
one another (3h), each time with other cars, there are eight times as many cars as active ones.
In batches of 2,000, much of the cost is that of a batch, whatever is in it: calls of compiled loops, of which our join
makes more than the window join. The difference between the two sizes of batches says how much."""

QUICK_NOTES = "This was a quick run, with a tenth of the arrivals: windows are not full, levels and costs mean little."


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    part, runs = (0.1, 1) if quick else (1.0, 5)
    several = [_experiment(measured(each, runs=runs, part=part)) for each in EXPERIMENTS]
    ratios = {f"{each.experiment.figure}_worst_memory": each.worst_memory for each in several}
    ratios |= {f"{each.experiment.figure}_worst_vs_simulation": each.worst_of_simulated for each in several}
    for size, suffix in zip(SIZES, ("", "_10k"), strict=True):
        ratios |= {f"cost_{each.experiment.kind}{suffix}": each.worst_cost(size) for each in several}
    figures = {name: value for each in several for name, value in _figures(each).items()}
    equal = all(each.equal for each in several)
    together = combined(part=part)
    for more, said, right in (_combinations(together, part), _monitoring(part), _road(part)):
        ratios, figures, equal = ratios | more, figures | said, equal and right
    lines = [*memory_lines(several, together), "", *cost_lines(several), "", *_table3_lines(figures), "", NOTES]
    write_tables([*lines, QUICK_NOTES] if quick else lines)
    say("\n".join([*lines, QUICK_NOTES] if quick else lines))
    links, endless = spark_links(quick=quick), windowless_links(quick=quick)
    equal &= links.equal and endless.equal
    return Report("kmon", equal, ratios | links.ratios | endless.ratios, figures | links.figures | endless.figures)


def _experiment(each: Measured) -> Measured:
    say(f"{each.experiment.figure}: {'equal' if each.equal else 'DIFFERENT'} results")
    draw_memory(each)
    return each


def _figures(each: Measured) -> Figures:
    figure, kind = each.experiment.figure, each.experiment.kind
    found = {f"{figure}_k{k}_kept": course.level() for k, course in each.courses.items()}
    for k, course in each.courses.items():
        found[f"{figure}_k{k}_vs_simulation"] = course.level() / course.simulated_level()
        found[f"{figure}_k{k}_vs_printed"] = course.level() / each.experiment.levels[k]
    for (k, size), (ours, others) in each.costs.items():
        found |= {f"{kind}_k{k}_batch{size}_us": ours, f"{kind}_k{k}_batch{size}_window_us": others}
    return found


def _combinations(courses: Mapping[str, Course], part: float) -> tuple[Figures, Figures, bool]:
    """Figures 10 and 11."""
    trades = [traded(k, part=part) for k in (DELAYS if part == 1 else DELAYS[1::3])]
    crossing = crossover(trades)
    draw_combined(courses)
    draw_traded(trades, crossing)
    names = {name: name.replace(" ", "_") for name in courses}
    ratios = {f"fig10_{names[n]}_memory": course.level() / course.window_level() for n, course in courses.items()}
    ratios["fig10_worst_vs_simulation"] = max(course.worst_of_simulated() for course in courses.values())
    figures = {f"fig10_{names[n]}_kept": course.level() for n, course in courses.items()}
    figures |= {f"fig10_{names[n]}_vs_simulation": c.level() / c.simulated_level() for n, c in courses.items()}
    figures |= {f"fig10_{names[n]}_vs_printed": courses[n].level() / level for n, level in COMBINED_LEVELS.items()}
    figures |= {name: value for trade in trades for name, value in _trade(trade).items()}
    equal = all(course.equal for course in courses.values()) and all(trade.equal for trade in trades)
    return ratios, figures | {"fig11_crossover_k": crossing}, equal


def _trade(trade: Trade) -> Figures:
    return {f"fig11_k{trade.k}_clusters_kept": trade.clustered, f"fig11_k{trade.k}_both_kept": trade.both}


WATCHED: Mapping[str, tuple[str, Callable[..., Followed]]] = {
    "fig5": ("Figure 5: join distances are watched", figure5),
    "fig7": ("Figure 7: clusters are watched", figure7),
    "fig9": ("Figure 9: the order of parents is watched", figure9),
}


def _monitoring(part: float) -> tuple[Figures, Figures, bool]:
    """Figures 5, 7 and 9; results may be missing there, but none may be wrong."""
    figures: Figures = {}
    sound = True
    for name, (title, follow) in WATCHED.items():
        followed = follow(part=part)
        draw_followed(name, title, followed)
        sound &= followed.sound and followed.results > 0
        used = sum(k is not None for k in followed.used)
        figures |= {
            f"{name}_false_negatives": followed.missing / max(followed.results, 1),
            f"{name}_worst_block": max(followed.lost),
            f"{name}_share_of_time_in_use": used / len(followed.used),
        }
    return {}, figures, sound


def _road(part: float) -> tuple[Figures, Figures, bool]:
    """Table 3."""
    if not REPORTS.exists():
        say(f"there is no {REPORTS}: Linear Road is left out (TIDEGATE_DATA names the folder)")
        return {}, {}, True
    once = table3()
    ratios = {"table3_worst_memory": max(_of_window(course) for course in once.values())}
    figures, equal = _roads(once, ""), all(course.equal and course.results for course in once.values())
    if part == 1:
        long = table3(copies=4)
        ratios["table3_worst_memory_3h"] = max(_of_window(course) for course in long.values())
        figures |= _roads(long, "_3h")
        equal &= all(course.equal for course in long.values())
    return ratios, figures, equal


def _of_window(course: Course) -> float:
    return course.level() / course.window_level()


def _roads(courses: Mapping[str, Course], suffix: str) -> Figures:
    found: Figures = {}
    for name, course in courses.items():
        ours, others = course.cost()
        found |= {f"table3_{name}_memory{suffix}": _of_window(course), f"table3_{name}_time{suffix}": ours / others}
    return found


def _table3_lines(figures: Figures) -> list[str]:
    lines = [f"{'Table 3':<12} {'memory':>8} {'time':>6} {'memory 3h':>10} {'time 3h':>8} {'printed':>12}"]
    for name, (memory, time) in PRINTED.items():
        cells = [
            figures.get(f"table3_{name}_{what}", float("nan")) for what in ("memory", "time", "memory_3h", "time_3h")
        ]
        lines.append(
            f"{name:<12} {cells[0]:>8.4f} {cells[1]:>6.2f} {cells[2]:>10.4f} {cells[3]:>8.2f} {f'{memory} {time}':>12}"
        )
    return lines


if __name__ == "__main__":
    main(measure, __doc__)
