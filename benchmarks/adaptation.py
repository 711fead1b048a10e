"""Adaptation of windows and granules: the experiments of chapter 24 of the dissertation, embedded.

24.1: when the effect of another window size becomes visible, and when it is full. 24.2: memory, processor time and
output of a count with coarser granules, and the estimates of the cost model. 24.3: half a window against half of the
input. 24.4: the resource manager keeps a limit on memory while queries of Table 24.1 come, also in a burst, and while
the rates of all streams triple and fall again, with several mixes of queries. Where even the worst sizes need more than
the limit, by the cost model, the limit is infeasible, and memory is not compared with it.
Tables and pictures are in `out/adaptation`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.support.adaptation_kept import Kept
from benchmarks.support.adaptation_live import (
    FULL,
    QUICK,
    SURGE,
    Plan,
    find_limit,
    find_limit_of_surge,
    keep_limit,
    keep_limit_in_surge,
)
from benchmarks.support.adaptation_pictures import Line, draw
from benchmarks.support.adaptation_runs import SECOND, STREAMS, Moment, follow_script, make_rows, run_with
from benchmarks.support.report import Report, main, say
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adapt, Adaptation
from tidegate.runtime.costs.estimate import estimate_graph, total_of
from tidegate.runtime.costs.knowledge import Knowledge, know_sources
from tidegate.runtime.costs.learn import NO_SAMPLE, RunSample, learn, span_between
from tidegate.runtime.figures import figures_of_operators
from tidegate.runtime.state import sizes_of_operators

Figures = dict[str, float]

SEEDS = (24, 25, 26)
"""Mixes of queries and rates of section 24.4."""


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    figures: Figures = {}
    exact = [
        _change_window(100 if quick else 400, figures),
        _change_granule(20 if quick else 120, figures),
        _compare_with_shedding(100 if quick else 400, figures),
    ]
    _keep_limit(figures, quick=quick)
    return Report("adaptation", all(exact), {}, figures)


# ---- 24.1


def _change_window(rate: int, figures: Figures) -> bool:
    """Reduce windows from 60 to 30 s at 80 s, and enlarge them again at 150 s."""
    say("24.1: a window of 60 s, of 30 s from 80 s on, of 60 s from 150 s on")
    window = "WINDOW(RANGE MIN 30 SECONDS, MAX 60 SECONDS)"
    text = f"{STREAMS}SELECT x.v FROM a {window} x, b {window} y WHERE ABS(x.v - y.v) < 0.0005"
    tables = {name: make_rows(240, rate, seed, 50) for seed, name in enumerate("ab")}
    run = run_with(text, tables, follow_script({80: 0.0, 150: 1.0}), rate)
    down = find_transition(run.moments, run.memory(70, 80), run.memory(142, 150), 80, 150)
    up = find_transition(run.moments, run.memory(142, 150), run.memory(215, 235), 150, 235)
    named = zip(("visible_down", "full_down", "visible_up", "full_up"), (*down, *up), (110, 140, 180, 210), strict=True)
    for name, found, predicted in named:
        figures[f"{name}_s"] = found
        say(f"  {name:<14} {found:7.1f} s, predicted {predicted} s")
    figures["memory_of_half_window"] = run.memory(142, 150) / run.memory(70, 80)
    draw("24.1", "Windows of 60, 30 and 60 seconds", "seconds", [Line("state", *_memory_of(run.moments))],
         {"visible": (110, 180), "full": (140, 210), "changed": (80, 150)})  # fmt: skip
    return abs(down[1] - 140) < 10 and abs(up[1] - 210) < 10


def find_transition(
    moments: Sequence[Moment], before: float, after: float, begin: float, end: float
) -> tuple[float, float]:
    """Return when a linear change between two levels begins and when it ends, by where it is at a fifth and at four."""
    span = [each for each in moments if begin <= each.now < end]
    shares = [(each.memory - before) / (after - before) for each in span]
    first, last = (
        next(each.now for each, share in zip(span, shares, strict=True) if share >= part) for part in (0.2, 0.8)
    )
    rest = (last - first) / 3.0
    return first - rest, last + rest


def _memory_of(moments: Sequence[Moment], unit: float = 1.0) -> tuple[list[float], list[float]]:
    return [each.now / unit for each in moments], [each.memory / 1e6 for each in moments]


# ---- 24.2


def _change_granule(rate: int, figures: Figures) -> bool:
    """Count over ten minutes by granules of 20 ms, and of 10 s in the middle third."""
    third, step = 2_400, 10
    say(f"24.2: a count over 10 minutes by 20 ms, and by 10 s from {third} s to {2 * third} s")
    text = (
        f"{STREAMS}SELECT COUNT(*) AS n FROM a WINDOW(RANGE 10 MINUTES) "
        "GRANULARITY(COARSEST 10 SECONDS, FINEST 20 MILLISECONDS)"
    )
    watched = _Estimated(follow_script({third: 0.0, 2 * third: 1.0}))
    tables = {"a": make_rows(3 * third, rate, 0, 50)}
    run = run_with(text, tables, watched, rate * step)
    table = []
    for name, begin in (("fine", 0), ("coarse", third), ("fine_again", 2 * third)):
        first, last = begin + 1_300, begin + third - 20
        span, (bytes_, seconds) = run.between(first, last), watched.estimates[_index_before(run.moments, last)]
        rows = (span[-1].rows_out - span[0].rows_out) / (span[-1].now - span[0].now)
        found = _Row(name, run.memory(first, last), run.cpu(first, last), rows, bytes_, seconds)
        table.append(found)
        figures |= {f"{name}_memory_error": bytes_ / found.memory - 1.0, f"{name}_cpu_error": seconds / found.cpu - 1.0}
        say(f"  {name:<12} {found.memory:10,.0f} bytes, CPU {100 * found.cpu:.3f} %, {rows:8.2f} elements/s;"
            f" estimated {bytes_:10,.0f} bytes, {100 * seconds:.3f} %")  # fmt: skip
    figures["coarse_memory"], figures["coarse_cpu"] = table[1].memory / table[0].memory, table[1].cpu / table[0].cpu
    times = [each.now for each in run.moments]
    model = Line("estimated", times, [each[0] / 1e6 for each in watched.estimates])
    draw("24.2", "A count by granules of 20 ms, 10 s and 20 ms", "seconds",
         [Line("state", *_memory_of(run.moments)), model], {"changed": (third, 2 * third)})  # fmt: skip
    return table[1].rows < table[0].rows / 5


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    memory: float
    cpu: float
    rows: float
    estimated_memory: float
    estimated_cpu: float


def _index_before(moments: Sequence[Moment], time: float) -> int:
    return max(number for number, each in enumerate(moments) if each.now < time)


class _Estimated:
    """A hook that estimates each step by what a run taught in the ten minutes before, and asks another one."""

    def __init__(self, adapt: Adapt) -> None:
        self.adapt, self.since, self.known = adapt, NO_SAMPLE, Knowledge()
        self.estimates: list[tuple[float, float]] = []

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        found = self.adapt(seen)
        sizes = {key: float(each.newest.size) for key, each in {**seen.sizes, **found}.items()}
        sample = RunSample(
            figures_of_operators(seen.figures.copy()), sizes_of_operators(seen.operator_sizes()),
            dict(seen.watermarks), dict(seen.arrived), seen.step,
        )  # fmt: skip
        span = span_between(self.since, sample)
        if self.since is NO_SAMPLE or found:
            self.since = sample
        elif span is not None and span.time >= 600 * SECOND:
            sources = self.known.sources or know_sources(seen.streams, {}, {})
            known = learn(seen.graph, replace(self.known, sources=sources), span, sizes)
            operators = {place: replace(each, row_bytes=None) for place, each in known.operators.items()}
            self.known, self.since = replace(known, operators=operators), sample
        self.estimates.append(total_of(estimate_graph(seen.graph, self.known, sizes)))
        return found


# ---- 24.3


def _compare_with_shedding(rate: int, figures: Figures) -> bool:
    """Join by a number of 50 within 10 s: with all of it, with 5 s, and with half of the elements."""
    say("24.3: half a window against half of the input")
    window = "WINDOW(RANGE MIN 5 SECONDS, MAX 10 SECONDS)"
    text = (
        f"{STREAMS}SELECT x.at AS at, x.v AS v, y.at AS at_y, y.v AS w FROM a {window} x, b {window} y WHERE x.k = y.k"
    )
    tables = {name: make_rows(60, rate, seed, 50) for seed, name in enumerate("ab")}
    random = np.random.default_rng(7)
    shed = {name: each.filter(pa.array(random.random(each.num_rows) < 0.5)) for name, each in tables.items()}
    runs, pairs = {}, {}
    for name, given, rows, script in (
        ("full", tables, rate, {}), ("halved", tables, rate, {0.0: 0.0}), ("shed", shed, rate // 2, {})
    ):  # fmt: skip
        batches: list[pa.RecordBatch] = []

        def keep(_: str, batch: pa.RecordBatch, batches: list[pa.RecordBatch] = batches) -> None:
            if "at_y" in batch.schema.names:
                batches.append(batch.select(["at", "v", "at_y", "w"]))

        runs[name] = run_with(text, given, follow_script(script), rows, keep)
        pairs[name] = {tuple(row.values()) for batch in batches for row in batch.to_pylist()}
    begin = min(row[0] for row in pairs["full"])
    late = {name: {row for row in found if min(row[0], row[2]) - begin > 15 * SECOND} for name, found in pairs.items()}
    near = {row for row in late["full"] if abs(row[0] - row[2]) < 5 * SECOND}
    for name, run in runs.items():
        memory, cpu = run.memory(30, 58), run.cpu(30, 58)
        share = len(late[name]) / len(late["full"])
        figures |= {f"{name}_memory": memory, f"{name}_results": share}
        say(f"  {name:<8} {memory:10,.0f} bytes, CPU {100 * cpu:6.3f} %, {100 * share:6.2f} % of the results")
        figures[f"{name}_cpu"] = cpu
    figures["near_pairs_kept"] = len(near & late["halved"]) / len(near)
    say(f"  half a window keeps {100 * figures['near_pairs_kept']:.2f} % of the pairs less than 5 s apart, "
        f"half of the input {100 * len(near & late['shed']) / len(near):.2f} %")  # fmt: skip
    draw("24.3", "Half a window against half of the input", "seconds",
         [Line(name, *_memory_of(run.moments)) for name, run in runs.items()], {})  # fmt: skip
    return late["halved"] == near


# ---- 24.4


def _keep_limit(figures: Figures, *, quick: bool) -> None:
    """Keep limits with several mixes of queries; figures are the worst of all."""
    plan = QUICK if quick else FULL
    say(f"24.4: {plan.queries} queries of Table 24.1, then {plan.rounds} times {plan.new}, then {plan.burst}; "
        f"and {plan.queries} queries while rates are {SURGE:g} times as high, and after that")  # fmt: skip
    found: list[Kept] = []
    for seed in SEEDS[:1] if quick else SEEDS:
        found += [
            _keep_one_limit(f"queries of mix {seed}", plan, seed, find_limit, keep_limit),
            _keep_one_limit(f"rates of mix {seed}", plan, seed, find_limit_of_surge, keep_limit_in_surge),
        ]
    figures["worst_overshoot"] = max(each.overshoot(plan.window) for each in found)
    figures["worst_overshoot_at_any_time"] = max(each.largest for each in found)
    figures["quality_vs_best"] = min(each.quality_vs_best() for each in found)
    figures["missing_quality"] = max(each.missing_quality() for each in found)
    figures["changes_per_window"] = max(each.changes_per_window(plan.window) for each in found)
    spans = [span for each in found for span in each.spans]
    figures["spans"] = len(spans)
    figures["spans_with_a_best"] = sum(each.quality_vs_best is not None for each in spans)
    figures["infeasible_spans"] = sum(not each.is_feasible for each in spans)
    figures["changes"] = sum(len(each.watched.changes) for each in found)
    figures["warnings"] = sum(each.warnings for each in found)


def _keep_one_limit(
    name: str,
    plan: Plan,
    seed: int,
    find: Callable[[Path, Plan, int], float],
    keep: Callable[[Path, Plan, float, int], Kept],
) -> Kept:
    with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
        limit = find(Path(first), plan, seed)
        say(f"  {name}, limit {limit / 1e6:.2f} MB")
        kept = keep(Path(second), plan, limit, seed)
    for span in kept.spans:
        compared = "" if span.quality_vs_best is None else f", {span.quality_vs_best:.3f} of the best that fits"
        said = "" if span.is_feasible else "; infeasible"
        say(f"    {span.name:<7} memory up to {kept.overshoot_in(span, plan.window):.3f} of the limit, "
            f"quality {span.quality:.3f}{compared}; the worst sizes need {span.least:.2f}{said}")  # fmt: skip
    say(f"    at any time up to {kept.largest:.3f}; {len(kept.watched.changes)} changes, "
        f"{kept.changes_per_window(plan.window):.2f} a window while nothing else changes")  # fmt: skip
    times = [each.now / 60 for each in kept.moments]
    lines = [
        Line("state", *_memory_of(kept.moments, 60)),
        Line("limit", times, [limit / 1e6] * len(times), dashed=True),
    ]
    events = {
        "queries or rates change": tuple(each / 60 for each in kept.events),
        "sizes change": tuple(each / 60 for each in kept.watched.changes),
    }
    draw(f"24.4 {name}", f"Memory within a limit: {name}", "minutes", lines, events)
    return kept


if __name__ == "__main__":
    main(measure, __doc__ or "")
