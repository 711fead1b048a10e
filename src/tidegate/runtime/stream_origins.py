"""Find the source streams that reach each port, and the groups of streams that meet."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.runtime.stage import FromStage, FromStream
from tidegate.runtime.stage_graph import StageGraph

Address = tuple[int, int]
"""Address of a port: the number of the stage, and of the port in it."""


def origins_by_port(graph: StageGraph) -> dict[Address, frozenset[str]]:
    """Return the source streams whose elements reach each port."""
    found: dict[Address, frozenset[str]] = {}
    for stage in graph.stages:
        for port, feed in enumerate(stage.feeds):
            match feed:
                case FromStream(stream=stream):
                    found[stage.number, port] = frozenset([stream])
                case FromStage(stage=number):
                    below = range(len(graph.by_number[number].feeds))
                    found[stage.number, port] = frozenset().union(*(found[number, p] for p in below))
    return found


def meeting_streams(graph: StageGraph) -> tuple[frozenset[str], ...]:
    """Return groups of source streams: streams that meet in a query wait for each other's watermarks."""
    by_port = origins_by_port(graph)
    return merge_overlapping(
        frozenset().union(*(by_port[stage.number, port] for port in range(len(stage.feeds)))) for stage in graph.stages
    )


def merge_overlapping(sets: Iterable[frozenset[str]]) -> tuple[frozenset[str], ...]:
    """Merge sets until no two have an element in common.

    Examples
    --------
    >>> [sorted(group) for group in merge_overlapping(map(frozenset, ["ab", "c", "bd"]))]
    [['c'], ['a', 'b', 'd']]
    """
    groups: list[frozenset[str]] = []
    for each in sets:
        apart = [group for group in groups if not group & each]
        groups = [*apart, each.union(*(group for group in groups if group & each))]
    return tuple(groups)
