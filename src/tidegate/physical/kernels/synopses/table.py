"""The kept elements of one stream as columns that grow, with an index of the keys by which parents find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.physical.kernels.compiled import compiled
from tidegate.physical.kernels.synopses.graph import Graph
from tidegate.physical.kernels.synopses.index import KeyIndex
from tidegate.physical.kernels.synopses.model import GONE, NEVER, NO, UNKNOWN, Arrivals, Positions

Array = npt.NDArray[Any]


@dataclass(slots=True, eq=False)
class Table:
    """Columns with room for more rows; of the rows, those from `fresh` on came with this batch.

    key0…    the code of the key of an edge at this stream
    start, end, number, row   as they arrived
    low, high   when all that is known of the element and below it is valid
    component
    child0…  for an edge to a child: its position in the table of the child, or -1
    seen0…   for an edge to a child: how many elements of the child's stream there were when this one arrived
    base0…, after0…   for an edge from parents whose clusters are used: an arrival number at or before which
             this key has occurred, and how often it has occurred since
    first0…  when the first parent known started
    """

    columns: dict[str, Array]
    count: int
    fresh: int
    waiting: Positions
    indexes: dict[int, KeyIndex]
    changed: bool = True

    @classmethod
    def empty(cls, graph: Graph, stream: int, watched: frozenset[int]) -> Table:
        columns: dict[str, Array] = {name: np.empty(0, kind) for name, kind in _kinds(graph, stream, watched).items()}
        indexes = {edge: KeyIndex.sized(0) for edge in graph.above[stream]}
        return cls(columns, 0, 0, np.empty(0, np.int32), indexes)

    def __getitem__(self, name: str) -> Array:
        return self.columns[name][: self.count]

    def append(self, values: Mapping[str, Array | int], rows: int) -> None:
        """Append rows; a column that is not given gets what says that nothing is known."""
        after = self.count + rows
        for name, column in self.columns.items():
            if after > len(column):
                column = _grown(column, self.count, after)  # noqa: PLW2901 - the same column
                self.columns[name] = column
            column[self.count : after] = values[name] if name in values else _nothing(name)
        before, self.count = self.count, after
        self.changed = True
        for edge, index in self.indexes.items():
            if not index.has_room(rows):
                self.indexes[edge] = index = KeyIndex.sized(2 * after)  # noqa: PLW2901 - the same index
                index.insert(self[f"key{edge}"], 0, before, self["component"], self["number"])
            index.insert(self[f"key{edge}"], before, after, self["component"], self["number"])

    def new(self) -> Positions:
        return np.arange(self.fresh, self.count, dtype=np.int32)

    def compact(self, *, always: bool) -> Positions | None:
        """Remove what is gone, if that is much; where each row is then, or -1."""
        alive = _alive(self["component"])
        if alive == self.count or (not always and 3 * alive >= 2 * self.count - 64):
            return None
        moved, rows = _moved(self["component"], alive)
        room = len(self.columns["component"]) <= 4 * alive + 1024
        for name, column in self.columns.items():
            if room:
                column[:alive] = column[rows]
            else:
                self.columns[name] = column[rows]
        self.count, self.waiting = alive, moved[self.waiting]
        for edge in self.indexes:
            self.indexes[edge] = index = KeyIndex.sized(self.count)
            index.insert(self[f"key{edge}"], 0, self.count, self["component"], self["number"])
        return moved


@compiled
def _alive(component: Any) -> Any:
    count = 0
    for each in component:
        count += each < GONE
    return count


@compiled
def _moved(component: Any, alive: Any) -> Any:
    """Where each row is when those that are gone have been removed, and which rows are left."""
    moved, rows = np.empty(len(component), np.int32), np.empty(alive, np.int32)
    count = 0
    for row in range(len(component)):
        lives = component[row] < GONE
        moved[row] = count if lives else -1
        if lives:
            rows[count] = row
            count += 1
    return moved, rows


def arrived(arrivals: Arrivals, edges: tuple[int, ...], seen: Mapping[int, int]) -> dict[str, Array | int]:
    """Elements as values of columns; `seen` has the number of arrivals for each edge to a child."""
    values: dict[str, Array | int] = {f"key{edge}": arrivals.keys[edge] for edge in edges}
    values |= {f"seen{edge}": count for edge, count in seen.items()}
    values |= {"start": arrivals.start, "end": arrivals.end, "low": arrivals.start, "high": arrivals.end}
    passes = arrivals.passes
    component = UNKNOWN if passes is None else np.where(passes, np.uint8(UNKNOWN), np.uint8(NO))
    return values | {"number": arrivals.number, "row": arrivals.row, "component": component}


@compiled
def follow(pointers: Any, moved: Any) -> None:
    """Let pointers into a table lead to where the rows are now."""
    for row in range(len(pointers)):
        if pointers[row] >= 0:
            pointers[row] = moved[pointers[row]]


def _kinds(graph: Graph, stream: int, watched: frozenset[int]) -> dict[str, type]:
    below, above = graph.below[stream], graph.above[stream]
    kinds: dict[str, type] = {f"key{edge}": np.int64 for edge in sorted(below + above)}
    kinds |= dict.fromkeys(("start", "end", "low", "high", "number", "row"), np.int64) | {"component": np.uint8}
    kinds |= {f"child{edge}": np.int32 for edge in below} | {f"seen{edge}": np.int64 for edge in below}
    for edge in above:
        if edge in watched:
            kinds |= dict.fromkeys((f"base{edge}", f"after{edge}", f"first{edge}"), np.int64)
    return kinds


def _nothing(name: str) -> int:
    if name.startswith("child"):
        return -1
    return NEVER if name.startswith(("base", "first")) else 0


def _grown(column: Array, count: int, needed: int) -> Array:
    grown = np.empty(max(needed, 2 * count, 64), column.dtype)
    grown[:count] = column[:count]
    return grown
