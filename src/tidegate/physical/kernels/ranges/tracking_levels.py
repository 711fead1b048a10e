"""The logarithmic method: what can only lose queries serves those that come, too.

A level holds up to twice as many queries as the one before it. New queries, together with all those of
the first levels, are built into the first level that has room for them; so a query is built into a level
once, and elements visit all levels. A level half of whose queries have left is built anew with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import ClassVar, NamedTuple, Protocol, Self

import numpy as np

from tidegate.physical.kernels.ranges.model import Columns, Elements, Ints, Mask, Matured, Ranges, in_order

SMALLEST = 64
"""How many queries the first level holds."""


class Complete(NamedTuple):
    """Rows of queries that are complete, the element that completed each, and what it lacks now: nothing, or less."""

    rows: Ints
    element: Ints
    left: Ints


class Index(Protocol):
    """Queries by their rows, of which some leave."""

    @classmethod
    def over(cls, ranges: Ranges, needed: Ints) -> Self:
        """An index that answers when these queries have got the weight that they need."""
        ...

    def copy(self) -> Self: ...

    def remove(self, rows: Ints) -> None: ...

    def absorb(self, elements: Elements, live: int, enough: int) -> tuple[int, Complete]:
        """Count elements until `enough` of the live queries are complete, and say how many were counted."""
        ...

    def lacking(self) -> Ints:
        """What each query lacks; of those that have left, anything."""
        ...


@dataclass(slots=True, eq=False)
class Level:
    """Queries in order of id; those that have left are in the rows, but not live."""

    ranges: Ranges
    columns: Columns
    live: Mask
    count: int
    index: Index

    @staticmethod
    def over(index: type[Index], ranges: Ranges, needed: Ints) -> Level:
        order = np.argsort(ranges.id)
        ranges = ranges.taken(order)
        live = np.ones(len(ranges), np.bool_)
        return Level(ranges, columns_of(ranges), live, len(ranges), index.over(ranges, needed[order]))

    def copy(self) -> Level:
        return Level(self.ranges, self.columns, self.live.copy(), self.count, self.index.copy())

    @property
    def spare(self) -> int:
        """How many may leave before the level is built anew."""
        return self.count - len(self.ranges) // 2

    def rest(self) -> tuple[Ranges, Ints]:
        """The live queries and what each of them lacks."""
        return self.ranges.taken(self.live), self.index.lacking()[self.live]

    def find(self, ids: Ints) -> tuple[Ints, Mask]:
        """The rows of ids, and which of them are live here."""
        rows = np.minimum(np.searchsorted(self.ranges.id, ids), len(self.ranges) - 1)
        return rows, (self.ranges.id[rows] == ids) & self.live[rows]

    def terminate(self, ids: Ints) -> Mask:
        """Forget distinct queries; the mask says which were live here."""
        rows, known = self.find(ids)
        if known.any():
            self.index.remove(rows[known])
            self._leave(rows[known])
        return known

    def absorb(self, elements: Elements) -> tuple[int, Matured]:
        """Count elements until half of the queries have left; how many were counted, and what is complete."""
        counted, (rows, element, left) = self.index.absorb(elements, self.count, self.spare)
        if len(rows):
            self._leave(rows)
        return counted, Matured(self.ranges.id[rows], element, self.ranges.threshold[rows] - left)

    def _leave(self, rows: Ints) -> None:
        self.live[rows] = False
        self.count -= len(rows)


class LevelTracker:
    """Queries in levels of a kind of index; it is changed in place."""

    index: ClassVar[type[Index]]

    def __init__(self, levels: Iterable[Level | None] = (), *, smallest: int = SMALLEST) -> None:
        self._levels = list(levels)
        self._smallest = smallest

    def __len__(self) -> int:
        return sum(level.count for level in self._levels if level)

    def copy(self) -> Self:
        return type(self)([level and level.copy() for level in self._levels], smallest=self._smallest)

    def register(self, ranges: Ranges) -> Self:
        """Build these, and those of the first levels, into the first level that has room for them."""
        if not len(ranges):
            return self
        to = self._with_room(len(ranges))
        parts = [level.rest() for level in self._levels[: to + 1] if level]
        self._levels[: to + 1] = [None] * (to + 1)
        self._levels[to] = _built(self.index, [*parts, (ranges, ranges.threshold)])
        return self

    def _with_room(self, wanted: int) -> int:
        for number in count():
            level = self._levels[number] if number < len(self._levels) else None
            wanted += level.count if level else 0
            if wanted <= self._smallest << number:
                return number
        raise AssertionError

    def known(self, ids: Ints) -> Mask:
        """Which of the ids are live."""
        known = np.zeros(len(ids), np.bool_)
        for level in self._levels:
            if level:
                known |= level.find(ids)[1]
        return known

    def terminate(self, ids: Ints) -> tuple[Self, Mask]:
        """Forget queries; an id that is there twice is known once."""
        known = np.zeros(len(ids), np.bool_)
        distinct, first = np.unique(ids, return_index=True)
        for number, level in enumerate(self._levels):
            if level:
                known[first] |= level.terminate(distinct)
                self._refresh(number, level)
        return self, known

    def absorb(self, elements: Elements) -> tuple[Self, Matured]:
        # Loops are compiled for arrays that can be written to; elements may come from where they cannot.
        elements = Elements(np.array(elements.value, order="C"), np.array(elements.weight))
        found = [matured for number in range(len(self._levels)) for matured in self._absorbed(number, elements)]
        if not found:
            nothing = np.empty(0, np.int64)
            return self, Matured(nothing, nothing, nothing)
        columns = ([m.id for m in found], [m.element for m in found], [m.total for m in found])
        return self, in_order(*(np.concatenate(parts) for parts in columns))

    def _absorbed(self, number: int, elements: Elements) -> Iterable[Matured]:
        """What elements complete in one level, which may be built anew on the way."""
        done = 0
        while done < len(elements) and (level := self._levels[number]):
            counted, matured = level.absorb(elements.taken(slice(done, None)) if done else elements)
            if len(matured):
                yield Matured(matured.id, matured.element + done, matured.total)
                self._refresh(number, level)
            done += counted

    def _refresh(self, number: int, level: Level) -> None:
        """Build a level anew if half of its queries have left."""
        if not level.count:
            self._levels[number] = None
        elif level.spare <= 0:
            self._levels[number] = Level.over(self.index, *level.rest())

    def to_columns(self) -> Mapping[str, Columns]:
        """For each level the queries, which stay the same until it is built anew, and how far they have come."""
        parts: dict[str, Columns] = {}
        for number, level in enumerate(self._levels):
            if level:
                parts[f"queries.{number}"] = level.columns
                parts[f"progress.{number}"] = {"live": level.live.copy(), "left": level.index.lacking()}
        return parts

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns], *, smallest: int = SMALLEST) -> Self:
        """Build the levels that there were, of the queries that are live."""
        numbers = sorted(int(name.removeprefix("queries.")) for name in parts if name.startswith("queries."))
        levels: list[Level | None] = [None] * (max(numbers, default=-1) + 1)
        for number in numbers:
            live = parts[f"progress.{number}"]["live"]
            ranges = ranges_of(parts[f"queries.{number}"]).taken(live)
            levels[number] = Level.over(cls.index, ranges, parts[f"progress.{number}"]["left"][live])
        return cls(levels, smallest=smallest)


def _built(index: type[Index], parts: Sequence[tuple[Ranges, Ints]]) -> Level:
    return Level.over(index, joined([ranges for ranges, _ in parts]), np.concatenate([needed for _, needed in parts]))


def joined(parts: Sequence[Ranges]) -> Ranges:
    """Queries one after the other."""
    return Ranges(
        np.concatenate([part.id for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.low_open for part in parts]),
        np.concatenate([part.high_open for part in parts]),
        np.concatenate([part.threshold for part in parts]),
    )


_ENDS = ("low", "high", "low_open", "high_open")


def columns_of(ranges: Ranges) -> Columns:
    """Queries as columns: ends have one for each dimension, with its number."""
    ends = {f"{end}{k}": getattr(ranges, end)[:, k].copy() for k in range(ranges.dimensions) for end in _ENDS}
    return {"id": ranges.id, "threshold": ranges.threshold, **ends}


def ranges_of(columns: Columns) -> Ranges:
    """The queries that had these columns."""
    dimensions = (len(columns) - 2) // len(_ENDS)
    low, high, low_open, high_open = (
        np.stack([columns[f"{end}{k}"] for k in range(dimensions)], axis=1) for end in _ENDS
    )
    return Ranges(columns["id"], low, high, low_open, high_open, columns["threshold"])
