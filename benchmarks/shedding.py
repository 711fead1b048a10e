"""Window joins that shed: which share of all results is found with few of the comparisons.

Everything in one run and under the same budgets, which are numbers of comparisons, not seconds. Streams are those
of the paper's generator. Compared are the paper's algorithms (with their formulas corrected) element by element,
dropping input at random, our join, and our join if it knew beforehand how productive each lag is. `out/shedding`
gets the tables, and pictures in the shape of the paper's Figures 7 to 17.

`share_…` are shares of the whole join's results at a budget of 5 % of its comparisons, where the peak of matches
lies late; `…_filtered` with prefixes and signatures of sets, at the same budget, where an entry of a list that is
read counts like a comparison, and so does a verification.

`equi_vs_random_5` is of a join by key with the same condition besides: the share of its results at 5 % of its
comparisons, which are of rows with equal keys, as a multiple of what dropping input at random finds.

`burst_…` are of a run on Spark, in real time: a join by any predicate, of which a minute has five times the rows that
it can compare in time. Batches may take two seconds; of those of the burst, from the fourth on, the longest counts.
"""

from __future__ import annotations

import math
import time

from benchmarks.support import shedding_figures as first
from benchmarks.support import shedding_utility as second
from benchmarks.support.report import Report, main, say
from benchmarks.support.shedding_bench import FULL, LATE, QUICK, Shares, exact, grid, optimal_cases, printed, recovery
from benchmarks.support.shedding_keys import measure_keys
from benchmarks.support.shedding_peak import measure_peak
from benchmarks.support.shedding_pictures import publish
from benchmarks.support.shedding_spark import spark_burst


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    scale, sizes = (QUICK, first.SMALL) if quick else (FULL, first.LARGE)
    right = exact(scale)
    shares = grid(scale)
    figures = dict(_named(shares))
    late = {key: each for key, each in shares.items() if key[0] == LATE}
    figures["worst_vs_random_late_peak"] = min(each["ours"] / each["random"] for each in late.values())
    figures["recovery_batches"], figures["of_optimum_after_change"] = recovery(scale)
    figures |= printed(scale)
    figures["algorithm5_optimal_cases"] = optimal_cases(scale.cases)
    right_keys, keyed = measure_keys(scale.seconds, scale.seeds, (0.05,) if quick else (0.02, 0.05, 0.1))
    right, figures = right and right_keys, figures | keyed
    figures |= measure_peak(
        90 if quick else 160, (0.01, 0.05) if quick else (0.01, 0.02, 0.05), (0.05,) if quick else (0.05, 1.0)
    )
    best, gains, drawn = _pictures(sizes)
    figures |= drawn
    six, eight = shares[LATE, 0.6, 0.05], shares[LATE, 0.8, 0.05]
    ratios = {
        "share_zipf06": six["ours"],
        "share_zipf08": eight["ours"],
        "share_zipf06_filtered": six["filtered"],
        "share_zipf08_filtered": eight["filtered"],
        "vs_random_zipf08": eight["ours"] / eight["random"],
        "of_optimum_zipf08": eight["ours"] / eight["knowing"],
        "indexed_vs_random_best": best["overlap_indexed"],
        "utility_at_skew_2": gains["inverse_2"],
        "equi_vs_random_5": keyed["equi_vs_random_5"],
    }
    burst = spark_burst(quick=quick)
    return Report("shedding", right and burst.right, ratios | burst.ratios, figures | burst.figures)


def _named(shares: dict[tuple[float, float, float], Shares]) -> dict[str, float]:
    return {
        f"shift{shift:g}_zipf{skew:g}_budget{budget:g}_{method}": share
        for (shift, skew, budget), each in shares.items()
        for method, share in each.items()
    }


def _pictures(sizes: first.Sizes) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Draw everything: the best of Figure 15 by join, the gains of Figure 16, and other figures."""
    begin = time.monotonic()
    seven = first.figure7()
    eight, nine, rates = first.figures8_and_9()
    eleven, twelve, directions = first.figures11_and_12()
    say(f"figures 7, 8, 9, 11 and 12 took {time.monotonic() - begin:.0f} s")
    ten, thirteen, fourteen = first.figure10(sizes), first.figure13(sizes), second.figure14(sizes)
    say(f"figures 7 to 14 took {time.monotonic() - begin:.0f} s")
    fifteen, best = second.figure15(sizes)
    say(f"figures 7 to 15 took {time.monotonic() - begin:.0f} s")
    sixteen, gains = second.figure16(sizes)
    seventeen = second.figure17(sizes)
    say(f"figures 7 to 17 took {time.monotonic() - begin:.0f} s")
    publish([seven, eight, nine, ten, eleven, twelve, thirteen, fourteen, fifteen, sixteen, seventeen])
    named = {f"figure15_{name}": value for name, value in best.items()}
    named |= {f"figure16_{name}": value for name, value in gains.items() if not math.isnan(value)}
    return best, gains, rates | directions | named


if __name__ == "__main__":
    main(measure, __doc__)
