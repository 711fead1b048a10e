"""Range thresholds: what an element costs by each method, in the set-ups of the paper's section 8.

All methods in one run, on one core, kernels alone, answers compared (query, element and total): the scan, the
interval tree (in two dimensions the segment-interval tree and the R-tree), the paper's distributed tracking, and
our batch method with batches of 10,000. `out/rts` gets the table, and pictures in the shape of the paper's Figures
3 to 8. Then ranges in a plane with keys, a thousand alerts as statements of one text compared with ten of them, and
our method on Spark.

A ratio `…_vs_…` compares the time for taking in elements, on average over a whole life; `…_total_vs_…` the
time for everything, with building, registrations and terminations. What is smaller than in the paper is said
in `NOTES`, at the end of the table, and in the pictures.
"""

from __future__ import annotations

from benchmarks.support.report import Report, main, say
from benchmarks.support.rts_bench import FULL, MILLION, PAPER, QUICK, Bench
from benchmarks.support.rts_figures import draw_figures
from benchmarks.support.rts_keyed import measure_keyed
from benchmarks.support.rts_pictures import HEAD, Outcome, write_table
from benchmarks.support.rts_setups import Setup, world
from benchmarks.support.rts_shared import measure_shared
from benchmarks.support.rts_spark import spark_figures
from tidegate.physical.subscriptions.kernels.batch import BatchTracker

NOTES = """Scan, stabbing and R-tree are sampled: from some moments of a life, with what is live then, they count for a
short while; what they cost in between is interpolated, and their registrations and terminations cost nothing, which
favours them. The others live through everything. Static in one dimension, there are a million queries as in the
paper, and two million without trees; in two dimensions a million without trees. Other set-ups have as many as is
said (m). New queries then come with a probability that is smaller by the same factor: the pictures show the
paper's, the table the real one. Queries come and go at the ends of batches of 10,000 elements, for all methods."""

PAPER_NOTES = """This was a run at the scale of the paper: a million queries in Figures 3 and 5 to 8. In two dimensions
the segment-interval tree and distributed tracking have too many entries for that. The scan, the interval tree and the
R-tree are sampled. Queries come and go at the ends of batches of 10,000 elements, for all methods."""

QUICK_NOTES = """This was a quick run: thresholds of the pictures are a tenth of the paper's, streams as short, and
there are few queries, for which scans are quick; a million are without trees, and `d1_vs_paper` is of 100,000."""


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    bench = Bench(QUICK if quick else FULL)
    bench.warm()
    say(HEAD)
    ratios, figures = headlines(bench)
    draw_figures(bench)
    notes = f"{NOTES}\n{QUICK_NOTES}" if quick else NOTES
    write_table(bench.outcomes.values(), notes)
    say(f"{notes}\n{bench.compared:,} answers of other methods were compared with ours")
    figures |= {name: cost for outcome in bench.outcomes.values() for name, cost in costs(outcome).items()}
    keyed, keyed_right = measure_keyed(quick=quick)
    shared, shared_figures, same = measure_shared(quick=quick)
    on_spark, right = spark_figures(quick=quick)
    equal = bench.equal and keyed_right and same and right
    return Report("rts", equal, ratios | shared, {**figures, **keyed, **shared_figures, **on_spark})


def measure_paper() -> Report:
    """Draw the figures with a million queries where the paper has them: Figures 3 and 5 to 8."""
    bench = Bench(PAPER)
    bench.warm()
    say(HEAD)
    draw_figures(bench)
    write_table(bench.outcomes.values(), PAPER_NOTES)
    figures = {name: cost for outcome in bench.outcomes.values() for name, cost in costs(outcome).items()}
    return Report("rts", bench.equal, {}, figures)


def headlines(bench: Bench) -> tuple[dict[str, float], dict[str, float]]:
    """What is asked of the method: static queries, with the paper's threshold."""
    few, paper, one, two = (
        bench.outcome(setup).costs
        for setup in (Setup(1, 10_000), Setup(1, bench.scale.tracked), Setup(1, MILLION), Setup(2, MILLION))
    )
    ratios = {
        "d1_vs_scan": one["scan"].per_element / one["batch"].per_element,
        "d1_vs_paper": paper["tracking"].per_element / paper["batch"].per_element,
        "d2_vs_scan": two["scan"].per_element / two["batch"].per_element,
        "growth_10k_to_1m": one["batch"].per_element / few["batch"].per_element,
        "d1_total_vs_scan": one["scan"].total / one["batch"].total,
        "d1_total_vs_paper": paper["tracking"].total / paper["batch"].total,
        "d2_total_vs_scan": two["scan"].total / two["batch"].total,
    }
    return ratios, {
        "bytes_per_query": bytes_per_query(),
        "microseconds_per_element_1m": one["batch"].per_element,
    }


def bytes_per_query() -> float:
    """What the state of a million queries takes at most, in one dimension, if it is saved after every batch."""
    given = world(Setup(1, MILLION))
    tracker, most = BatchTracker.empty(1).register(given.ranges), 0
    for number in range(20):
        tracker, _ = tracker.absorb(given.batch(number))
        most = max(most, sum(column.nbytes for part in tracker.to_columns().values() for column in part.values()))
    return most / len(tracker)


def costs(outcome: Outcome) -> dict[str, float]:
    """Nanoseconds for an operation by each method."""
    name = outcome.setup.name.lower().replace(",", "").replace(" ", "_")
    return {f"{name}_{method}_ns_per_operation": 1e3 * outcome.per_operation(method) for method in outcome.costs}


if __name__ == "__main__":
    main(measure, __doc__, measure_paper=measure_paper)
