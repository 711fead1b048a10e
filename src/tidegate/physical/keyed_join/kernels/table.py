"""Kept elements of one stream as growing columns, with an index of the keys by which parents find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Array, Ints, Positions
from tidegate.physical.keyed_join.kernels.bounds import LEAST
from tidegate.physical.keyed_join.kernels.changes import (
    RemovedRows,
    TableChanges,
    take_changed_positions,
    take_removed_rows,
)
from tidegate.physical.keyed_join.kernels.graph import Graph
from tidegate.physical.keyed_join.kernels.index import KeyIndex
from tidegate.physical.keyed_join.kernels.layout import (
    END,
    HIGH,
    LOW,
    NUMBER,
    START,
    ElementArrays,
    ElementColumns,
    TableLayout,
)
from tidegate.physical.keyed_join.kernels.model import GONE, NO, NO_POSITIONS, Components, StreamArrivals
from tidegate.physical.keyed_join.kernels.rows import (
    BLOCK,
    chain_rows,
    count_alive,
    fill_defaults,
    pack_rows,
    write_arrivals,
)

_ALL_PASS = np.empty(0, np.uint8)
_PADDING = 8 * 37
"""Padding between columns. Without it, columns are a power of two apart, and one row's values share a cache set."""

_MOST_GONE = 8192
"""Rows that may be gone without being removed: moving columns takes longer than skipping such rows."""


class Floor(NamedTuple):
    """Lower bound of a column for each block, over elements that lack a child, for the first `known` rows."""

    least: Ints
    known: int


@dataclass(slots=True, eq=False)
class Table:
    """Columns with room for more rows. Rows from `fresh` on arrived with this batch.

    start, end, number, row   as they arrived
    low, high   when the element and all known elements below it are valid
    key0…    the code of the key of an edge at this stream; `same` says which edges share a column
    component
    child0…  for an edge to a child: its position in the table of the child, or -1
    seen0…   for an edge to a child: the arrivals of the child's stream when this element arrived
    base0…, after0…   for an edge from parents whose cluster constraints are used: an arrival number at or before which
             this key has occurred, and how often it has occurred since
    first0…  when the first known parent started
    was, was base0…   the values in the log, and `noted`: the row of the log, or -1

    The columns are rows of a few arrays, so that a compiled loop gets all of them as one argument: `elements`.
    """

    layout: TableLayout
    indexes: dict[int, KeyIndex]
    elements: ElementColumns
    arrays: ElementArrays
    """The same columns, for compiled loops."""
    blanks: Ints
    """Default value of new elements in each column of integers."""
    count: int = 0
    fresh: int = 0
    alive: int = 0
    """Number of elements that were not gone when there were `checked` rows."""
    checked: int = 0
    chained_rows: int = 0
    """Number of rows in the chains of their keys."""
    waiting: Positions = field(default_factory=lambda: NO_POSITIONS)
    """Positions of Unknown elements, in graphs in which parents are not found by their keys."""
    columns: dict[str, Array] = field(default_factory=dict)
    """All columns by name, with their room."""
    keys: dict[int, Ints] = field(default_factory=dict)
    """Column with the key of each edge."""
    children: dict[int, Positions] = field(default_factory=dict)
    """Column with the position of the child over each edge."""
    repeats: bool = False
    """True if a new element has the key of another one."""
    floors: dict[tuple[int, int], Floor] = field(default_factory=dict)
    removed: list[RemovedRows] = field(default_factory=list)
    """Rows of elements that have been removed since the last log entry, and their rows in the log."""
    views: dict[str, Array] = field(default_factory=dict)
    """Columns without their room, made on request."""

    @classmethod
    def empty(cls, graph: Graph, stream: int, watched: frozenset[int], same: Mapping[int, int] | None = None) -> Table:
        layout, edges = TableLayout.of(graph, stream, watched, same or {}), len(graph.below[stream])
        indexes = {layout.stored_under[edge]: KeyIndex.with_room_for(0) for edge in graph.above[stream]}
        ints, pointers = np.empty((len(layout.names), 0), np.int64), np.empty((0, 2 * edges), np.int32)
        none, heads, soonest = np.empty(0, np.uint8), np.empty((edges, 0), np.int32), np.empty(0, np.int64)
        elements = ElementColumns(ints, pointers, none, none, heads, soonest, NO_POSITIONS, none)
        table = cls(layout, indexes, elements, elements[:], layout.blanks.copy())
        table._allocate(64)
        return table

    def __getitem__(self, name: str) -> Array:
        view = self.views.get(name)
        if view is None:
            self.views[name] = view = self.columns[self.layout.same.get(name, name)][: self.count]
        return view

    @property
    def component(self) -> Components:
        """Return the components, with their room."""
        return self.elements.component

    def index(self, edge: int) -> KeyIndex:
        """Return the index of the keys of an edge from parents."""
        return self.indexes[self.layout.stored_under[edge]]

    @property
    def stored_columns(self) -> tuple[str, ...]:
        """Return the columns from which the others can be derived."""
        return tuple(n for n in self.columns if not n.startswith(("child", "was", "noted", "low", "high", "number")))

    def _allocate(self, room: int) -> None:
        """Allocate room for `room` rows."""
        ints = _with_room(self.elements.ints, self.count, room + _PADDING)
        pointers = _with_room(self.elements.pointers.T, self.count, room).T.copy()
        component = _with_room(self.elements.component, self.count, room)
        was = _with_room(self.elements.was, self.count, room)
        soonest = np.full(room // BLOCK + 1, LEAST)
        asked, flags = np.empty(room, np.int32), np.zeros(room, np.uint8)
        self.elements = ElementColumns(ints, pointers, component, was, self.elements.heads, soonest, asked, flags)
        self.arrays = self.elements[:]  # the old columns are freed before more is allocated
        self.floors, self.views = {}, {}
        self.keys = {edge: ints[column] for edge, column in self.layout.key.items()}
        self.children = dict(zip(self.layout.below, pointers.T, strict=False))
        children = {f"child{edge}": column for edge, column in self.children.items()}
        columns = dict(zip(self.layout.names, ints, strict=True)) | children
        self.columns = columns | {"component": component, "was": was}
        self.rechain(self.chained_rows)

    def rechain(self, rows: int) -> None:
        """Rebuild the chains of the first rows."""
        size = len(self.component) if self.layout.is_chained else 0
        self.elements = self.elements._replace(heads=np.full((len(self.layout.below), size), -1, np.int32))
        self.arrays = self.elements[:]
        self.chained_rows = 0
        self.chain(rows)

    def chain(self, rows: int) -> None:
        """Add the first rows to the chains of their keys, by which children find their parents."""
        if self.chained_rows < rows and self.layout.below and self.layout.is_chained:
            columns, most = self.elements, self.layout.last_kept_component
            chained = (columns.heads, columns.ints, columns.pointers, columns.component)
            chain_rows(*chained, self.layout.keys, most, self.chained_rows, rows)
            self.chained_rows = rows

    def append(self, values: Mapping[str, Array | int], rows: int) -> None:
        """Append rows. Columns that are not given get their default values."""
        before = self._lengthen(rows)
        fill_defaults(self.elements, self.blanks, NUMBER, before, self.count)
        self.mark_for_sweep(before)
        for name, given in values.items():
            if name in self.columns:
                self.columns[name][before : self.count] = given
        ints = self.elements.ints
        ints[LOW : HIGH + 1, before : self.count] = ints[START : END + 1, before : self.count]
        self._index_rows(before)

    def append_arrivals(self, arrivals: StreamArrivals, seen: Sequence[int]) -> None:
        """Append new elements. `seen` has the arrivals of the child's stream for each edge to a child."""
        for edge, count in zip(self.layout.below.values(), seen, strict=True):
            self.blanks[edge.seen] = count
        before = self._lengthen(len(arrivals.start))
        passes = _ALL_PASS if arrivals.passes is None else arrivals.passes.view(np.uint8)
        given = (arrivals.start, arrivals.end, arrivals.number, arrivals.row, passes)
        write_arrivals(self.arrays, self.blanks, before, *given)
        for key in self.layout.stored_edges:
            self.keys[key][before : self.count] = arrivals.keys[key]
        self._index_rows(before)

    def _lengthen(self, rows: int) -> int:
        """Add rows; return the first one."""
        before, after = self.count, self.count + rows
        if after > len(self.component):
            self._allocate(1 << (after - 1).bit_length())
        self.views, self.count = {}, after
        return before

    def _index_rows(self, before: int) -> None:
        """Add new rows to the indexes."""
        self.repeats = False
        for edge, index in self.indexes.items():
            keys, number = self.keys[edge], self.columns["number"]
            if not index.has_room(self.count - before):
                self.indexes[edge] = index = KeyIndex.with_room_for(self.count)  # noqa: PLW2901 - the same index
                index.insert(keys, 0, before, self.component, number)
            if index.insert(keys, before, self.count, self.component, number):
                self.note_repeated(before)

    def note_repeated(self, first: int) -> None:
        """Record that some rows from `first` on have the key of another one."""
        self.repeats = True
        self.mark_for_sweep(first)

    def mark_for_sweep(self, first: int) -> None:
        """Mark rows from `first` on for the next sweep: some may not be kept, however long they are valid."""
        self.elements.soonest[first // BLOCK : self.count // BLOCK + 1] = LEAST

    def compact(self, *, always: bool) -> Positions | None:
        """Remove rows that are gone, if these are many; return the new position of each row, or -1.

        The result is None if no row moved.
        """
        if not always and 2 * (self.count - self.checked) < self.alive + _MOST_GONE:
            return None
        self.checked, self.alive = self.count, (alive := count_alive(self.component, self.count))
        if alive == self.count or (not always and self.count - alive <= alive + _MOST_GONE):
            return None
        self._record_removed()
        moved = pack_rows(self.elements, self.count)
        self.count, self.fresh, self.waiting = alive, alive, moved[self.waiting]
        self.checked, self.chained_rows = alive, alive
        if len(self.component) > 8 * (alive + _MOST_GONE):
            self._allocate(1 << (2 * alive + _MOST_GONE).bit_length())
        else:
            self.elements.soonest[:] = LEAST
            self.floors, self.views = {}, {}
            self.rechain(alive)
        for edge in self.indexes:
            self.indexes[edge] = index = KeyIndex.with_room_for(self.count)
            index.insert(self.columns[f"key{edge}"], 0, self.count, self.component, self.columns["number"])
        return moved

    def _record_removed(self) -> None:
        self.removed.append(take_removed_rows(self["component"], self["noted"], self["row"]))

    def take_changes(self, end: int) -> TableChanges:
        """Return the changes since the last call, and assign them to rows of the log from `end` on."""
        self._record_removed()
        rows, gone = (np.concatenate(parts) for parts in zip(*self.removed, strict=True))
        self.removed = []
        component, noted = self["component"], self["noted"]
        at = take_changed_positions(component, self["was"])
        for name in [n for n in self.columns if n.startswith("was ")]:
            now, before = self[name.removeprefix("was ")], self[name]
            at = np.union1d(at, np.flatnonzero((now != before) & (component < GONE)))
            before[:] = now
        before, never = noted[at], component[at] == NO
        noted[at] = np.arange(end, end + len(at))
        rows = np.concatenate([rows, self["row"][at[never & (before >= 0)]]])
        new = self["row"][at[(before < 0) & ~never]]
        return TableChanges(at, new, rows, np.concatenate([gone, before[before >= 0]]))


def _with_room(array: Array, count: int, room: int) -> Array:
    roomy = np.empty((*array.shape[:-1], room), array.dtype)
    roomy[..., :count] = array[..., :count]
    return roomy
