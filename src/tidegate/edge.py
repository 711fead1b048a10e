"""Omit readings that no threshold alert needs, on the device that makes them.

Works without Spark, Java and Arrow. A reading can be omitted if readings around it make it redundant.
So each reading is held for a while, and then sent or omitted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from operator import index
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tidegate.arrays import Floats, Ints
from tidegate.errors import DataError, QueryError, suggest_name
from tidegate.physical.threshold_alert.kernels.brackets import Sides, bracket_span, is_sorted
from tidegate.physical.threshold_alert.kernels.retention import (
    TaggedElements,
    absorb,
    allocate_elements,
    find_unsent_before,
    take_elements,
)
from tidegate.time import BEGINNING, EARLIEST, FOREVER, LATEST

Shape = Literal["quasiconvex", "rising", "falling"]
Boundary = Literal["closed", "open"]
Row = TypeVar("Row")

_SIDES = {"quasiconvex": (True, True), "rising": (True, False), "falling": (False, True)}
_BOUNDARIES = ("closed", "open")
_SENT = -1
_LONGEST = 2**60
_MAX_WAITING = 1024
"""Maximum number of elements that wait to be processed together."""


def sides(window: int, shape: Shape, boundary: Boundary) -> Sides:
    """Return the sides on which an element must be bracketed to be omitted."""
    if shape not in _SIDES:
        raise QueryError("Q304", f"unknown shape '{shape}'", hint=suggest_name(shape, _SIDES))
    if boundary not in _BOUNDARIES:
        raise QueryError("Q304", f"unknown boundary '{boundary}'", hint=suggest_name(boundary, _BOUNDARIES))
    if not 0 < window <= _LONGEST:
        message = f"a window cannot be {window} microseconds long"
        raise QueryError("Q304", message, hint=f"it must be at least 1 and at most {_LONGEST}")
    return Sides(bracket_span(window, strict=boundary == "open"), *_SIDES[shape])


class Brackets:
    """Set of exactly those elements of a stream that are not bracketed, in whatever order they arrive."""

    def __init__(self, wanted: Sides) -> None:
        self.sides = wanted
        self._begin, self._end, self._room = 0, 0, allocate_elements(64)

    @property
    def elements(self) -> TaggedElements:
        """The kept elements in time order; a view that is valid until the next `absorb`."""
        return take_elements(self._room, slice(self._begin, self._end))

    def absorb(self, new: TaggedElements) -> Ints:
        """Add elements; return the tags of all elements that can be omitted from now on."""
        if not len(new.time):
            return new.tag
        if not is_sorted(new.time):
            new = take_elements(new, np.argsort(new.time, kind="stable"))
        self._make_room(len(new.time))
        self._end, omitted = absorb(self._room, self._begin, self._end, new, self.sides)
        return omitted

    def send(self, before: int) -> tuple[TaggedElements, int]:
        """Return the unsent elements before a time and mark them as sent; return the time of the next one, too.

        Without a next one, the time is FOREVER.
        """
        rows, following = find_unsent_before(self._room, self._begin, self._end, before, _SENT)
        chosen = take_elements(self._room, rows)
        self._room.tag[rows] = _SENT
        return chosen, int(self._room.time[following]) if following < self._end else FOREVER

    def forget(self, before: int) -> None:
        """Drop the elements before a time."""
        self._begin += int(self._room.time[self._begin : self._end].searchsorted(before))

    def _make_room(self, rows: int) -> None:
        if self._end + rows <= len(self._room.time):
            return
        kept = self.elements
        self._room = allocate_elements(2 * (len(kept.time) + rows))
        for old, new in zip(kept, self._room, strict=True):
            new[: len(old)] = old
        self._begin, self._end = 0, len(kept.time)


class _Outcome(NamedTuple):
    """Elements to send now, and the tags of omitted elements."""

    send: TaggedElements
    omitted: Ints


_NOTHING = _Outcome(allocate_elements(0), np.empty(0, np.int64))


class _Holder:
    """Holder of the elements of one key, until they can be sent or omitted."""

    __slots__ = ("_brackets", "_due", "_hold", "_waiting", "heard", "latest")

    def __init__(self, wanted: Sides, hold: int) -> None:
        self._brackets, self._hold = Brackets(wanted), hold
        self._waiting: list[tuple[int, float, int]] = []
        self.latest, self._due = BEGINNING, FOREVER
        self.heard = BEGINNING
        """The largest time over all keys when the last element arrived."""

    def offer(self, time: int, value: float, tag: int) -> _Outcome:
        self._waiting.append((time, value, tag))
        self.latest = max(self.latest, time)
        self._due = min(self._due, time)
        # No element can be sent before the first one is due, so elements are collected and processed together.
        if self.latest - self._hold <= self._due and len(self._waiting) < _MAX_WAITING:
            return _NOTHING
        return self._process_elements(self._take_waiting())

    def offer_many(self, new: TaggedElements) -> _Outcome:
        if not len(new.time):
            return _NOTHING
        self.latest = max(self.latest, int(new.time.max()))
        waiting = self._take_waiting()
        if len(waiting.time):
            new = TaggedElements(*(np.concatenate(columns) for columns in zip(waiting, new, strict=True)))
        return self._process_elements(new)

    def flush(self) -> _Outcome:
        """Return all held elements to send; they still count as brackets of later ones."""
        omitted = self._brackets.absorb(self._take_waiting())
        send, self._due = self._brackets.send(FOREVER)
        return _Outcome(send, omitted)

    def _take_waiting(self) -> TaggedElements:
        time, value, tag = zip(*self._waiting, strict=True) if self._waiting else ((), (), ())
        self._waiting = []
        return TaggedElements(np.array(time, np.int64), np.array(value, np.float64), np.array(tag, np.int64))

    def _process_elements(self, new: TaggedElements) -> _Outcome:
        omitted = self._brackets.absorb(new)
        limit = self.latest - self._hold
        send, self._due = self._brackets.send(limit)
        self._brackets.forget(limit - self._brackets.sides.span)
        return _Outcome(send, omitted)


class ThresholdFilter:
    """Filter for the readings of one stream and one key that a threshold alert needs.

    `window` is the length of a bracket in microseconds: twice the WITHIN of an alert over two streams, the
    WITHIN itself for more streams. `shape` is the shape of the alert's function in this input. `boundary`
    says whether readings exactly WITHIN apart count. A reading is held until a reading arrives that is more
    than `hold` microseconds later (by default `window`). Then it is sent, unless it is bracketed.

    The filter sends everything that the alert needs. It sends as little as possible if readings arrive in
    time order and `hold` is at least `window`. If readings arrive late, increase `hold` by the delay. A
    reading that is later still is sent at once, perhaps unnecessarily.

    Examples
    --------
    >>> outbox = ThresholdFilter(2, shape="rising")
    >>> [outbox.offer(time, value) for time, value in [(1, 5.0), (2, 1.0), (3, 5.0), (9, 2.0)]]
    [[], [], [], [(1, 5.0), (3, 5.0)]]
    >>> outbox.flush()
    [(9, 2.0)]
    """

    def __init__(
        self, window: int, *, shape: Shape = "quasiconvex", boundary: Boundary = "closed", hold: int | None = None
    ) -> None:
        self._holder = _Holder(sides(window, shape, boundary), _hold_time(window, hold))

    def offer(self, time: int, value: float) -> list[tuple[int, float]]:
        """Add a reading; return the readings to send now."""
        return _pairs_to_send(self._holder.offer(_check_time(time), float(value), 0))

    def offer_many(self, times: npt.ArrayLike, values: npt.ArrayLike) -> tuple[Ints, Floats]:
        """Add readings; return the times and values to send now."""
        time, value = _to_microseconds(np.asarray(times)), np.asarray(values, np.float64)
        if time.ndim != 1 or time.shape != value.shape:
            raise DataError("D105", f"{time.size} times, {value.size} values", hint="give one value for each time")
        if len(time):
            _check_time(int(time.min()))
            _check_time(int(time.max()))
        send = self._holder.offer_many(TaggedElements(time, value, np.zeros(len(time), np.int64))).send
        return send.time, send.value

    def flush(self) -> list[tuple[int, float]]:
        """Return all held readings to send; call it at the end or before a pause."""
        return _pairs_to_send(self._holder.flush())


class KeyedThresholdFilter(Generic[Row]):
    """Threshold filter for each key, over rows of any kind.

    If a key has no rows while the time of the other keys advances by more than `hold`, its held rows are
    sent and the key is removed.
    """

    def __init__(
        self, window: int, *, shape: Shape = "quasiconvex", boundary: Boundary = "closed", hold: int | None = None
    ) -> None:
        self._sides, self._hold = sides(window, shape, boundary), _hold_time(window, hold)
        self._holders: OrderedDict[Hashable, _Holder] = OrderedDict()
        self._rows: dict[int, Row] = {}
        self._latest, self._number = BEGINNING, 0

    def offer(self, key: Hashable, time: int, value: float, row: Row) -> list[Row]:
        """Add a row; return the rows to send now."""
        time, number = _check_time(time), float(value)  # these may raise, so convert them before any change
        self._latest = max(self._latest, time)
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = _Holder(self._sides, self._hold)
        self._holders.move_to_end(key)
        holder.heard = self._latest
        self._number += 1
        self._rows[self._number] = row
        return self._pop_rows(holder.offer(time, number, self._number)) + self._flush_silent_keys()

    def flush(self) -> list[Row]:
        """Return all held rows to send; call it at the end or before a pause."""
        return [row for holder in self._holders.values() for row in self._pop_rows(holder.flush())]

    def _flush_silent_keys(self) -> list[Row]:
        sent: list[Row] = []
        while True:
            key, holder = next(iter(self._holders.items()))
            if self._latest - self._hold <= holder.heard:
                return sent
            sent += self._pop_rows(holder.flush())
            del self._holders[key]

    def _pop_rows(self, outcome: _Outcome) -> list[Row]:
        if outcome is _NOTHING:
            return []
        for tag in outcome.omitted.tolist():
            self._rows.pop(tag, None)  # rows that were sent have been removed already
        return [self._rows.pop(tag) for tag in outcome.send.tag.tolist()]


def _hold_time(window: int, hold: int | None) -> int:
    if hold is None:
        return window
    if not 0 <= hold <= 2 * _LONGEST:
        raise QueryError("Q304", f"readings cannot be held for {hold} microseconds", hint="remove it, or give 0")
    return hold


def _to_microseconds(times: npt.NDArray[Any]) -> Ints:
    match times.dtype.kind:
        case "i" | "u":
            return times.astype(np.int64, copy=False)
        case "M":
            return times.astype("datetime64[us]").astype(np.int64)
        case _ if not times.size:
            return times.astype(np.int64)
    raise DataError("D105", f"times of type {times.dtype}", hint="give integer microseconds, or datetime64")


def _check_time(time: int) -> int:
    time = index(time)
    if not EARLIEST < time < LATEST:
        raise DataError("D105", f"{time} is not a time", hint="times are microseconds since 1970")
    return time


def _pairs_to_send(outcome: _Outcome) -> list[tuple[int, float]]:
    if outcome is _NOTHING:
        return []
    return list(zip(outcome.send.time.tolist(), outcome.send.value.tolist(), strict=True))
