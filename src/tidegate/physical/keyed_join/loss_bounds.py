"""What can be missing at most: an estimate from a sample knows nothing of how little there was to be found."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join.kernels.graph import Graph


def went_on(before: Facts, reports: Sequence[Facts], *, in_use: bool) -> dict[str, Any]:
    """What has come of each stream, how many results there were, and whether any constraint was ever made use of."""
    came = [sum(each) for each in zip(*(report["elements"] for report in reports), strict=True)]
    if before:
        came = [one + other for one, other in zip(before["came"], came, strict=True)]
    results = before.get("results", 0) + sum(report.get("results", 0) for report in reports)
    return {"came": came, "results": results, "used": in_use or before.get("used", False)}


def capped(told: Facts, graph: Graph, so_far: Facts) -> Facts:
    """An estimate of what is missing that is not more than what there can be; nothing if nothing can be missing."""
    if not told:
        return told
    most = _most(told["of"], graph, so_far) if so_far["used"] else 0
    if most <= 0:
        return {}
    known = {name: min(told[name], most) for name in ("estimate", "low", "high") if told[name] is not None}
    return {**told, "high": most, **known}


def _most(kind: str, graph: Graph, so_far: Facts) -> int:
    """A result has one element of each source, and is not another one with the same; a pair, one of the parents."""
    came = so_far["came"]
    if kind == "results":
        most: int = prod(min(came[stream] for stream in group) for group in graph.sources) - so_far["results"]
        return most
    return sum(came[edge.parent] for edge in graph.edges)
