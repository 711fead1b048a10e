"""Upper bounds of missing results. An estimate from a sample does not know how few results were possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from tidegate.physical.common.control import Losses
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.report import KeyedJoinReport


@dataclass(frozen=True, slots=True)
class JoinTotals:
    """Elements of each stream and results since the beginning, and whether any constraint was ever used."""

    elements: tuple[int, ...]
    results: int
    used: bool


def add_step_counts(before: JoinTotals | None, reports: Sequence[KeyedJoinReport], *, in_use: bool) -> JoinTotals:
    """Add the reports of a step to the totals. `in_use`: some constraint is used in the next step."""
    elements = tuple(sum(each) for each in zip(*(report.arrivals.elements for report in reports), strict=True))
    results = sum(report.results for report in reports)
    if before is None:
        return JoinTotals(elements, results, in_use)
    elements = tuple(one + other for one, other in zip(before.elements, elements, strict=True))
    return JoinTotals(elements, before.results + results, in_use or before.used)


def cap_estimate(estimate: Losses | None, graph: Graph, totals: JoinTotals) -> Losses | None:
    """Limit an estimate of missing results to what is possible. Return None if no result can be missing."""
    if estimate is None:
        return None
    most = _most_missing(estimate.of, graph, totals) if totals.used else 0
    if most <= 0:
        return None
    middle = None if estimate.estimate is None else min(estimate.estimate, most)
    return replace(estimate, estimate=middle, low=min(estimate.low, most), high=min(estimate.high, most))


def _most_missing(kind: str, graph: Graph, totals: JoinTotals) -> int:
    """Return the greatest possible number of missing results or pairs.

    A result is determined by one element of each source, a pair by its parent.
    """
    came = totals.elements
    if kind == "results":
        return prod(min(came[stream] for stream in group) for group in graph.sources) - totals.results
    return sum(came[edge.parent] for edge in graph.edges)
