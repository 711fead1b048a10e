"""Results: combinations of elements that are complete, each when the last element of it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.closure import closure
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.model import YES, Combinations, Ints, Positions
from tidegate.physical.kernels.synopses.table import Table


class Partial:
    """Combinations of what is reached from some members of a cover."""

    __slots__ = ("high", "low", "reached")

    def __init__(self, graph: Graph, tables: Sequence[Table], stream: int, at: Positions) -> None:
        self.reached, _ = closure(graph, tables, stream, at)
        self.low, self.high = tables[stream]["low"][at], tables[stream]["high"][at]

    def join(self, other: Partial, here: Positions, there: Positions) -> None:
        """Combine pairs with another one, if they agree in all that both have and overlap."""
        low = np.maximum(self.low[here], other.low[there])
        high = np.minimum(self.high[here], other.high[there])
        agree = low < high
        for stream in self.reached.keys() & other.reached.keys():
            agree &= self.reached[stream][here] == other.reached[stream][there]
        here, there = here[agree], there[agree]
        more = {s: other.reached[s][there] for s in other.reached.keys() - self.reached.keys()}
        self.reached = {s: position[here] for s, position in self.reached.items()} | more
        self.low, self.high = low[agree], high[agree]


def combinations(graph: Graph, tables: Sequence[Table], promoted: Sequence[Positions]) -> Combinations:
    """All combinations in which an element has become complete just now."""
    cover = graph.covers[0]
    found = [_with(graph, tables, promoted, cover, stream) for stream in cover if len(promoted[stream])]
    rows = tuple(_joined([tables[s]["row"][p.reached[s]] for p in found]) for s in range(len(graph)))
    return Combinations(rows, _joined([p.low for p in found]), _joined([p.high for p in found]))


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])


def _with(
    graph: Graph, tables: Sequence[Table], promoted: Sequence[Positions], cover: tuple[int, ...], stream: int
) -> Partial:
    """Those with new elements of one member: earlier members may be new, too, later ones are not."""
    partial = Partial(graph, tables, stream, promoted[stream])
    left = [member for member in cover if member != stream]
    while left:
        member = next(m for m in left if graph.reached[m] & partial.reached.keys())
        left.remove(member)
        complete = tables[member]["component"] == YES
        if member > stream:
            complete[promoted[member]] = False
        other = Partial(graph, tables, member, np.flatnonzero(complete).astype(np.int32))
        shared = max(graph.reached[member] & partial.reached.keys(), key=lambda s: len(graph.reached[s]))
        here, there = _pairs(partial.reached[shared], other.reached[shared], tables[shared].count)
        partial.join(other, here, there)
    return partial


@compiled
def _pairs(left: Any, right: Any, size: Any) -> Any:
    """All pairs of equal positions."""
    head, following = np.full(size, -1, np.int32), np.empty(len(left), np.int32)
    for i in range(len(left)):
        following[i] = head[left[i]]
        head[left[i]] = i
    count = 0
    for j in range(len(right)):
        i = head[right[j]] if right[j] >= 0 else -1
        while i >= 0:
            count += 1
            i = following[i]
    here, there = np.empty(count, np.int32), np.empty(count, np.int32)
    count = 0
    for j in range(len(right)):
        i = head[right[j]] if right[j] >= 0 else -1
        while i >= 0:
            here[count], there[count] = i, j
            count += 1
            i = following[i]
    return here, there
