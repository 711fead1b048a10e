"""The paper's Figures 3 to 8, each for one dimension and for two."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchmarks.support.rts_bench import MILLION, Bench
from benchmarks.support.rts_pictures import Outcome, Panel, draw_against, draw_over_time
from benchmarks.support.rts_setups import Setup, short

TYPICAL = 0.3
"""The probability of new queries where it is not varied."""


def draw_figures(bench: Bench) -> None:
    for figure in (_figure3, _figure4, _figure5, _figure6, _figure7, _figure8):
        figure(bench)


def _figure3(bench: Bench) -> None:
    tau, queries = bench.scale.threshold, bench.scale.over_time
    panels = _panels(lambda d: {0: bench.outcome(Setup(d, queries[d - 1], tau))})
    draw_over_time("figure3", f"Figure 3: static queries, tau {short(tau)}, over time", panels)


def _figure4(bench: Bench) -> None:
    tau, sizes = bench.scale.threshold, bench.scale.sizes
    panels = _panels(lambda d: {m: bench.outcome(Setup(d, m, tau)) for m in sizes[d - 1]})
    panels = [Panel(f"{d}D", panel.outcomes) for d, panel in enumerate(panels, 1)]
    draw_against("figure4", f"Figure 4: static queries, tau {short(tau)}, by their number", "queries", panels)


def _figure5(bench: Bench) -> None:
    queries, thresholds = bench.scale.queries, bench.scale.thresholds
    panels = _panels(lambda d: {tau: bench.outcome(Setup(d, queries[d - 1], tau)) for tau in thresholds})
    draw_against("figure5", "Figure 5: static queries, by their threshold", "tau", panels)


def _figure6(bench: Bench) -> None:
    panels = _panels(lambda d: {0: bench.outcome(stochastic(bench, d, TYPICAL))})
    draw_over_time("figure6", f"Figure 6: new queries with probability {TYPICAL} (scaled), over time", panels)


def _figure7(bench: Bench) -> None:
    panels = _panels(lambda d: {p: bench.outcome(stochastic(bench, d, p)) for p in bench.scale.inserting})
    draw_against("figure7", "Figure 7: by the probability of new queries (scaled)", "p_ins", panels, evenly=True)


def _figure8(bench: Bench) -> None:
    scale = bench.scale
    panels = _panels(
        lambda d: {
            0: bench.outcome(Setup(d, scale.queries[d - 1], scale.threshold, "fixed load", elements=scale.elements))
        }
    )
    draw_over_time("figure8", "Figure 8: a new query for each that leaves, over time", panels)


def stochastic(bench: Bench, dimensions: int, probability: float) -> Setup:
    """As many new queries for each one there was at first as the paper has, which begins with a million."""
    scale = bench.scale
    queries = scale.queries[dimensions - 1]
    rate = probability * queries / MILLION * (3 * MILLION / scale.elements)
    return Setup(dimensions, queries, scale.threshold, "stochastic", rate, scale.elements)


def _panels(outcomes: Callable[[int], Mapping[float, Outcome]]) -> list[Panel]:
    found = []
    for dimensions in (1, 2):
        each = outcomes(dimensions)
        queries = next(iter(each.values())).setup.queries
        found.append(Panel(f"{dimensions}D, m = {short(queries)}", each))
    return found
