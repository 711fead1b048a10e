"""The logarithmic method: what can only lose queries serves those that come, too.

A level holds up to twice as many queries as the one before it. New queries, together with all those of
the first levels, are built into the first level that has room for them; so a query is built into a level
once, and elements visit all levels. A level half of whose queries have left is built anew with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import ClassVar, Protocol, Self

import numpy as np

from benchmarks.baselines.tracking_columns import in_places, joined, no_ranges
from benchmarks.baselines.tracking_level import Index, Level
from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.journal import Journal, journal_from, reuse_if_equal
from tidegate.physical.subscriptions.kernels.boxes import places
from tidegate.physical.subscriptions.kernels.model import (
    CompletedSubscriptions,
    Subscriptions,
    WeightedElements,
    merge_completions,
)

SMALLEST = 64
"""How many queries the first level holds."""


@dataclass(kw_only=True, eq=False)
class LevelTracker:
    """Queries in levels of a kind of index; it is changed in place."""

    index: ClassVar[type[Index]]

    repeats: bool = False
    smallest: int = SMALLEST
    levels: list[Level | None] = field(default_factory=list)
    log: Journal = field(default_factory=lambda: Journal(("weight",)))
    """Elements that came since the progress of some level was written."""
    written: dict[str, Columns] = field(default_factory=dict)
    """Small parts as they were written the last time."""

    def __len__(self) -> int:
        return sum(level.count for level in self._filled())

    def _filled(self) -> list[Level]:
        return [level for level in self.levels if level]

    def copy(self) -> Self:
        levels, log = [level and level.copy() for level in self.levels], self.log.copy()
        return replace(self, levels=levels, log=log, written=dict(self.written))

    def register(self, ranges: Subscriptions) -> Self:
        return self.resume(ranges, ranges.threshold)

    def resume(self, ranges: Subscriptions, missing: Ints) -> Self:
        """Build these, and those of the first levels, into the first level that has room for them."""
        if not len(ranges):
            return self
        to = self._with_room(len(ranges))
        parts = [level.rest() for level in self.levels[: to + 1] if level]
        parts.append((in_places(ranges), np.array(missing, np.int64)))
        self.levels[: to + 1] = [None] * (to + 1)
        self.levels[to] = self._built(*_together(parts))
        self.log.names = _log_names(ranges.dimensions)
        return self

    def _built(self, ranges: Subscriptions, missing: Ints) -> Level:
        return Level.over(self.index, ranges, missing, repeats=self.repeats)

    def _with_room(self, wanted: int) -> int:
        for number in count():
            level = self.levels[number] if number < len(self.levels) else None
            wanted += level.count if level else 0
            if wanted <= self.smallest << number:
                return number
        raise AssertionError

    def live_subscriptions(self) -> tuple[Subscriptions, Ints]:
        """The live queries, with ends as places, and what they lack: what another tracker can resume."""
        parts = [level.rest() for level in self._filled()]
        return _together(parts) if parts else (no_ranges(), np.empty(0, np.int64))

    def are_live(self, ids: Ints) -> Mask:
        """Which of the ids are live."""
        known = np.zeros(len(ids), np.bool_)
        for level in self._filled():
            known |= level.find(ids)[1]
        return known

    def terminate(self, ids: Ints) -> tuple[Self, Mask]:
        """Forget queries; of an id that is given twice, only the first one was known."""
        known = np.zeros(len(ids), np.bool_)
        distinct, first = np.unique(ids, return_index=True)
        for number, level in enumerate(self.levels):
            if level:
                known[first] |= level.terminate(distinct)
                self._refresh(number, level)
        return self, known

    def absorb(self, elements: WeightedElements) -> tuple[Self, CompletedSubscriptions]:
        # Loops are compiled for arrays that can be written to; elements may come from where they cannot.
        weight = np.require(elements.weight, np.int64, ["C", "W"])
        elements = WeightedElements(places(elements.value), weight)
        if any(level.progress for level in self._filled()):
            self.log.append(*elements.value.T, weight)
        else:
            self.log.skip(len(weight))
        found = [matured for number in range(len(self.levels)) for matured in self._absorbed(number, elements)]
        for level in self._filled():
            level.wait(self.log.end)
        self._forget_unused()
        return self, merge_completions(found)

    def _absorbed(self, number: int, elements: WeightedElements) -> Iterable[CompletedSubscriptions]:
        """What elements complete in one level, which may be built anew on the way."""
        done = 0
        while done < len(elements) and (level := self.levels[number]):
            counted, matured = level.absorb(elements.take(slice(done, None)) if done else elements)
            if len(matured):
                yield CompletedSubscriptions(matured.id, matured.element + done, matured.total)
                self._refresh(number, level)
            done += counted

    def absorb_with(
        self, elements: WeightedElements, ranges: Subscriptions, position: Ints
    ) -> tuple[Self, CompletedSubscriptions]:
        """Count the next elements, and register ranges among them: each before the element at its position."""
        return self, absorbed_in_cuts(self, elements, ranges, position)

    def _refresh(self, number: int, level: Level) -> None:
        """Build a level anew if half of its queries have left."""
        if not level.count:
            self.levels[number] = None
        elif level.spare <= 0:
            self.levels[number] = self._built(*level.rest())

    def _forget_unused(self) -> None:
        needed = [level.start for level in self._filled() if level.progress]
        self.log.drop(min(needed, default=self.log.end))

    def to_columns(self) -> Mapping[str, Columns]:
        """The state in named parts that never change; one that is as it was the last time is the same object."""
        parts: dict[str, Columns] = {}
        for number, level in enumerate(self.levels):
            parts |= level.to_columns(number, self.log.end) if level else {}
        self._forget_unused()
        start = [level.start if level else -1 for level in self.levels]
        small = {"tracker": {"seen": np.array([self.log.end])}, "levels": {"start": np.array(start, np.int64)}}
        self.written = {name: reuse_if_equal(self.written.get(name), columns) for name, columns in small.items()}
        return {**self.written, **parts, **self.log.to_columns("log")}

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns], *, repeats: bool = False, smallest: int = SMALLEST) -> Self:
        """The tracker that had these parts."""
        end = int(parts["tracker"]["seen"][0])
        dimensions = max(sum(key.startswith("low_open") for key in part) for part in parts.values())
        log = journal_from("log", _log_names(dimensions), parts, end)
        levels: list[Level | None] = []
        for number, start in enumerate(parts["levels"]["start"].tolist()):
            level = None
            if start >= 0:
                *axes, weight = log.columns_since(start)
                since = WeightedElements(np.stack(axes, axis=1), np.array(weight))
                level = Level.from_columns(cls.index, number, parts, start, since, repeats=repeats)
            levels.append(level)
        written = {name: parts[name] for name in ("tracker", "levels")}
        return cls(repeats=repeats, smallest=smallest, levels=levels, log=log, written=written)


class _Registering(Protocol):
    """What absorbs elements and registers ranges in place."""

    def register(self, ranges: Subscriptions) -> object: ...

    def absorb(self, elements: WeightedElements) -> tuple[object, CompletedSubscriptions]: ...


def absorbed_in_cuts(
    tracker: _Registering, elements: WeightedElements, ranges: Subscriptions, position: Ints
) -> CompletedSubscriptions:
    """Cut the elements where ranges are to be registered."""
    cuts = np.unique(np.append(position, [0, len(elements)]))
    found = []
    for number, begin in enumerate(cuts.tolist()):
        first, last = np.searchsorted(position, [begin, begin + 1])
        tracker.register(ranges.take(slice(first, last)))
        if begin < len(elements):
            _, matured = tracker.absorb(elements.take(slice(begin, cuts[number + 1])))
            found.append(CompletedSubscriptions(matured.id, matured.element + begin, matured.total))
    return merge_completions(found)


def _together(parts: list[tuple[Subscriptions, Ints]]) -> tuple[Subscriptions, Ints]:
    return joined([ranges for ranges, _ in parts]), np.concatenate([missing for _, missing in parts])


def _log_names(dimensions: int) -> tuple[str, ...]:
    return (*(f"place{axis}" for axis in range(dimensions)), "weight")
