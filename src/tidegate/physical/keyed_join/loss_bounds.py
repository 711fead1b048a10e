"""Upper bounds of missing results. An estimate from a sample does not know how few results were possible."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels.graph import Graph


def add_step_counts(before: Facts, reports: Sequence[Facts], *, in_use: bool) -> dict[str, Any]:
    """Add up the elements of each stream, the results, and whether any constraint was ever used."""
    came = [sum(each) for each in zip(*(report["elements"] for report in reports), strict=True)]
    if before:
        came = [one + other for one, other in zip(before["came"], came, strict=True)]
    results = before.get("results", 0) + sum(report.get("results", 0) for report in reports)
    return {"came": came, "results": results, "used": in_use or before.get("used", False)}


def cap_estimate(told: Facts, graph: Graph, so_far: Facts) -> Facts:
    """Limit an estimate of missing results to what is possible. Return nothing if no result can be missing."""
    if not told:
        return told
    most = _most_missing(told["of"], graph, so_far) if so_far["used"] else 0
    if most <= 0:
        return {}
    known = {name: min(told[name], most) for name in ("estimate", "low", "high") if told[name] is not None}
    return {**told, "high": most, **known}


def _most_missing(kind: str, graph: Graph, so_far: Facts) -> int:
    """Return the greatest possible number of missing results or pairs.

    A result is determined by one element of each source, a pair by its parent.
    """
    came = so_far["came"]
    if kind == "results":
        most: int = prod(min(came[stream] for stream in group) for group in graph.sources) - so_far["results"]
        return most
    return sum(came[edge.parent] for edge in graph.edges)
