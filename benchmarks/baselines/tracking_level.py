"""Queries in one index that they can only leave, and what is written of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from benchmarks.baselines.tracking_columns import columns_of, ranges_of
from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.journal import Journal, journal_from
from tidegate.physical.subscriptions.kernels.model import CompletedSubscriptions, Subscriptions, WeightedElements

_ROOM = 65_536
"""Answers of queries that repeat which are collected before they are handed out."""

_REPLAYED = 64
"""Queries for each element that may be counted again when a level comes back from its columns."""


class Complete(NamedTuple):
    """Rows of queries that are complete, the element that completed each, and the total then."""

    rows: Ints
    element: Ints
    total: Ints


class Index(Protocol):
    """Queries by their rows, of which some leave."""

    @classmethod
    def over(cls, ranges: Subscriptions, needed: Ints, *, repeats: bool) -> Self:
        """An index that answers when these queries have got the weight that they need; they may repeat."""
        ...

    def copy(self) -> Self: ...

    def remove(self, rows: Ints) -> None: ...

    def absorb(self, elements: WeightedElements, live: int, enough: int) -> tuple[int, Complete]:
        """Count elements until `enough` of the live queries are complete, and say how many were counted."""
        ...

    def lacking(self) -> Ints:
        """What each query lacks; of those that have left, anything."""
        ...


def _no_leaving() -> Journal:
    return Journal(("row",))


@dataclass(slots=True, eq=False)
class Level:
    """Queries in order of id; those that have left are in the rows, but not live."""

    ranges: Subscriptions
    columns: Columns
    live: Mask
    count: int
    index: Index
    repeats: bool
    start: int = 0
    """Where in the log the elements begin that are not in what is written."""
    progress: Columns | None = None
    """How far queries had come at the start, if that is written."""
    terminated: Journal = field(default_factory=_no_leaving)
    """Rows that were terminated since then."""

    @staticmethod
    def over(index: type[Index], ranges: Subscriptions, needed: Ints, *, repeats: bool) -> Level:
        order = np.argsort(ranges.id)
        ranges = ranges.take(order)
        live, built = np.ones(len(ranges), np.bool_), index.over(ranges, needed[order], repeats=repeats)
        return Level(ranges, columns_of(ranges), live, len(ranges), built, repeats)

    def copy(self) -> Level:
        return replace(self, live=self.live.copy(), index=self.index.copy(), terminated=self.terminated.copy())

    @property
    def spare(self) -> int:
        """How many may leave before the level is built anew."""
        return self.count - len(self.ranges) // 2

    def rest(self) -> tuple[Subscriptions, Ints]:
        """The live queries and what each of them lacks."""
        return self.ranges.take(self.live), self.index.lacking()[self.live]

    def find(self, ids: Ints) -> tuple[Ints, Mask]:
        """The rows of ids, and which of them are live here."""
        rows = np.minimum(np.searchsorted(self.ranges.id, ids), len(self.ranges) - 1)
        return rows, (self.ranges.id[rows] == ids) & self.live[rows]

    def terminate(self, ids: Ints) -> Mask:
        """Forget distinct queries; the mask says which were live here."""
        rows, known = self.find(ids)
        if known.any():
            self._remove(rows[known])
            self.terminated.append(rows[known])
        return known

    def absorb(self, elements: WeightedElements) -> tuple[int, CompletedSubscriptions]:
        """Count elements until half of the queries have left; how many were counted, and what is complete."""
        enough = _ROOM if self.repeats else self.spare
        counted, (rows, element, total) = self.index.absorb(elements, self.count, enough)
        if len(rows) and not self.repeats:
            self._leave(rows)
        return counted, CompletedSubscriptions(self.ranges.id[rows], element, total)

    def _remove(self, rows: Ints) -> None:
        self.index.remove(rows)
        self._leave(rows)

    def _leave(self, rows: Ints) -> None:
        self.live[rows] = False
        self.count -= len(rows)

    def wait(self, end: int) -> None:
        """Let the progress be written again when there are many elements to count again."""
        if _REPLAYED * (end - self.start) > len(self.ranges):
            self.progress = None

    def to_columns(self, number: int, end: int) -> dict[str, Columns]:
        """The queries, which stay the same, how far they had come, and which were terminated since then."""
        if self.progress is None:
            self.progress = {"live": self.live.copy(), "left": self.index.lacking()}
            self.start, self.terminated = end, _no_leaving()
        parts = {f"queries.{number}": self.columns, f"progress.{number}": self.progress}
        return {**parts, **self.terminated.to_columns(f"terminated.{number}")}

    @staticmethod
    def from_columns(
        index: type[Index],
        number: int,
        parts: Mapping[str, Columns],
        start: int,
        since: WeightedElements,
        *,
        repeats: bool,
    ) -> Level:
        """Build the level that there was, and count elements since then again."""
        columns, progress = parts[f"queries.{number}"], parts[f"progress.{number}"]
        live, left = np.array(progress["live"], np.bool_), progress["left"]
        built = Level.over(index, ranges_of(columns), np.where(live, left, 1), repeats=repeats)
        built.columns, built.progress, built.start = columns, progress, start
        built.terminated = journal_from(f"terminated.{number}", ("row",), parts)
        built._remove(np.flatnonzero(~live))  # noqa: SLF001 - of its own
        built._count_again(since)  # noqa: SLF001 - of its own
        return built

    def _count_again(self, elements: WeightedElements) -> None:
        """Count elements that have been counted; what they complete has been told, and a termination may be earlier."""
        done = 0
        while done < len(elements) and self.count:
            counted, (rows, _, _) = self.index.absorb(elements.take(slice(done, None)), self.count, _ROOM)
            if not self.repeats:
                self._leave(rows)
            done += counted
        rows = np.unique(self.terminated.columns_since(0)[0])
        self._remove(rows[self.live[rows]])
