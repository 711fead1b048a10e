"""Leave out, where readings are made, those that no threshold alert needs.

Works without Spark, Java and Arrow. A reading can be left out once there are others around it that
say as much: so each is held for a while, and then either sent or known to be needless.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from operator import index
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from tidegate.errors import DataError, QueryError, nearest
from tidegate.physical.threshold_alert.kernels.brackets import is_sorted, reach
from tidegate.physical.threshold_alert.kernels.retention import Elements, Sides, absorb, due, room_for, taken
from tidegate.time import BEGINNING, EARLIEST, FOREVER, LATEST

Shape = Literal["quasiconvex", "rising", "falling"]
Boundary = Literal["closed", "open"]
Times = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]
Row = TypeVar("Row")

_SIDES = {"quasiconvex": (True, True), "rising": (True, False), "falling": (False, True)}
_BOUNDARIES = ("closed", "open")
_SENT = -1
_LONGEST = 2**60
_PATIENCE = 1024
"""How many elements wait at most to be looked at together."""


def sides(window: int, shape: Shape, boundary: Boundary) -> Sides:
    """What an element must be between, to be left out."""
    if shape not in _SIDES:
        raise QueryError("Q304", f"'{shape}' is no shape of a function", hint=nearest(shape, _SIDES))
    if boundary not in _BOUNDARIES:
        raise QueryError("Q304", f"'{boundary}' is no kind of boundary", hint=nearest(boundary, _BOUNDARIES))
    if not 0 < window <= _LONGEST:
        message = f"a window cannot be {window} microseconds long"
        raise QueryError("Q304", message, hint=f"it is at least 1 and at most {_LONGEST}")
    return Sides(reach(window, strict=boundary == "open"), *_SIDES[shape])


class Brackets:
    """The elements of a stream that are not bracketed, whatever order they come in: no more, no less."""

    def __init__(self, wanted: Sides) -> None:
        self.sides = wanted
        self._begin, self._end, self._room = 0, 0, room_for(64)

    @property
    def elements(self) -> Elements:
        """What is kept, in order of time; valid until more is absorbed."""
        return taken(self._room, slice(self._begin, self._end))

    def absorb(self, new: Elements) -> Times:
        """Take elements in, and answer the tags of all that can be omitted from now on."""
        if not len(new.time):
            return new.tag
        if not is_sorted(new.time):
            new = taken(new, np.argsort(new.time, kind="stable"))
        self._make_room(len(new.time))
        self._end, omitted = absorb(self._room, self._begin, self._end, new, self.sides)
        return omitted

    def send(self, before: int) -> tuple[Elements, int]:
        """The elements before an instant that were not sent so far, and the time of the next one, or forever."""
        rows, following = due(self._room, self._begin, self._end, before, _SENT)
        chosen = taken(self._room, rows)
        self._room.tag[rows] = _SENT
        return chosen, int(self._room.time[following]) if following < self._end else FOREVER

    def forget(self, before: int) -> None:
        """Drop the elements before an instant."""
        self._begin += int(self._room.time[self._begin : self._end].searchsorted(before))

    def _make_room(self, rows: int) -> None:
        if self._end + rows <= len(self._room.time):
            return
        kept = self.elements
        self._room = room_for(2 * (len(kept.time) + rows))
        for old, new in zip(kept, self._room, strict=True):
            new[: len(old)] = old
        self._begin, self._end = 0, len(kept.time)


class _Outcome(NamedTuple):
    """What is to be sent now, and the tags of what will never be."""

    send: Elements
    omitted: Times


_NOTHING = _Outcome(room_for(0), np.empty(0, np.int64))


class _Holder:
    """Holds the elements of one key until it is known whether they can be left out."""

    __slots__ = ("_brackets", "_due", "_hold", "_waiting", "heard", "latest")

    def __init__(self, wanted: Sides, hold: int) -> None:
        self._brackets, self._hold = Brackets(wanted), hold
        self._waiting: list[tuple[int, float, int]] = []
        self.latest, self._due = BEGINNING, FOREVER
        self.heard = BEGINNING
        """How far time had come, over all keys, when the last element came."""

    def offer(self, time: int, value: float, tag: int) -> _Outcome:
        self._waiting.append((time, value, tag))
        self.latest = max(self.latest, time)
        self._due = min(self._due, time)
        # Nothing can leave before the first one is due, so the others are looked at together then.
        if self.latest - self._hold <= self._due and len(self._waiting) < _PATIENCE:
            return _NOTHING
        return self._settle(self._take_waiting())

    def offer_many(self, new: Elements) -> _Outcome:
        if not len(new.time):
            return _NOTHING
        self.latest = max(self.latest, int(new.time.max()))
        waiting = self._take_waiting()
        if len(waiting.time):
            new = Elements(*(np.concatenate(columns) for columns in zip(waiting, new, strict=True)))
        return self._settle(new)

    def flush(self) -> _Outcome:
        """Send all that is held; it still serves to leave out others."""
        omitted = self._brackets.absorb(self._take_waiting())
        send, self._due = self._brackets.send(FOREVER)
        return _Outcome(send, omitted)

    def _take_waiting(self) -> Elements:
        time, value, tag = zip(*self._waiting, strict=True) if self._waiting else ((), (), ())
        self._waiting = []
        return Elements(np.array(time, np.int64), np.array(value, np.float64), np.array(tag, np.int64))

    def _settle(self, new: Elements) -> _Outcome:
        omitted = self._brackets.absorb(new)
        limit = self.latest - self._hold
        send, self._due = self._brackets.send(limit)
        self._brackets.forget(limit - self._brackets.sides.span)
        return _Outcome(send, omitted)


class ThresholdFilter:
    """Says which readings of one stream, and of one key, an alert needs.

    `window` is the length of a bracket in microseconds: twice the distance of an alert over two
    streams, the distance itself over more. `shape` is that of the alert's function in this input, and
    `boundary` says whether readings exactly at the distance count. A reading is held until a later one
    is more than `hold` after it (unless given: `window`), and is then sent unless it is bracketed.

    What is sent is all that an alert needs. It is as little as possible if readings come in order and
    `hold` is not less than `window`; if they come late, `hold` should be longer by as much. Whatever
    comes later than that may be sent without need, at once.

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
        self._holder = _Holder(sides(window, shape, boundary), _hold(window, hold))

    def offer(self, time: int, value: float) -> list[tuple[int, float]]:
        """Take one reading, and answer what to send now."""
        return _pairs(self._holder.offer(_checked(time), float(value), 0))

    def offer_many(self, times: npt.ArrayLike, values: npt.ArrayLike) -> tuple[Times, Values]:
        """Take readings, and answer the times and values to send now."""
        time, value = _microseconds(np.asarray(times)), np.asarray(values, np.float64)
        if time.ndim != 1 or time.shape != value.shape:
            raise DataError("D105", f"{time.size} times, {value.size} values", hint="one value for each time")
        if len(time):
            _checked(int(time.min()))
            _checked(int(time.max()))
        send = self._holder.offer_many(Elements(time, value, np.zeros(len(time), np.int64))).send
        return send.time, send.value

    def flush(self) -> list[tuple[int, float]]:
        """Send all that is held, at the end or before a pause."""
        return _pairs(self._holder.flush())


class KeyedThresholdFilter(Generic[Row]):
    """A threshold filter for each key, over rows of any kind.

    A key that says nothing while the others go on for longer than `hold` is not waited for: what is
    held of it is sent, and the key forgotten.
    """

    def __init__(
        self, window: int, *, shape: Shape = "quasiconvex", boundary: Boundary = "closed", hold: int | None = None
    ) -> None:
        self._sides, self._hold = sides(window, shape, boundary), _hold(window, hold)
        self._holders: OrderedDict[Hashable, _Holder] = OrderedDict()
        self._rows: dict[int, Row] = {}
        self._latest, self._number = BEGINNING, 0

    def offer(self, key: Hashable, time: int, value: float, row: Row) -> list[Row]:
        """Take one row, and answer what to send now."""
        time, number = _checked(time), float(value)  # before anything changes, for they may be refused
        self._latest = max(self._latest, time)
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = _Holder(self._sides, self._hold)
        self._holders.move_to_end(key)
        holder.heard = self._latest
        self._number += 1
        self._rows[self._number] = row
        return self._sent(holder.offer(time, number, self._number)) + self._of_silent_keys()

    def flush(self) -> list[Row]:
        """Send all that is held, at the end or before a pause."""
        return [row for holder in self._holders.values() for row in self._sent(holder.flush())]

    def _of_silent_keys(self) -> list[Row]:
        sent: list[Row] = []
        while True:
            key, holder = next(iter(self._holders.items()))
            if self._latest - self._hold <= holder.heard:
                return sent
            sent += self._sent(holder.flush())
            del self._holders[key]

    def _sent(self, outcome: _Outcome) -> list[Row]:
        if outcome is _NOTHING:
            return []
        for tag in outcome.omitted.tolist():
            self._rows.pop(tag, None)  # those that were sent are no longer there
        return [self._rows.pop(tag) for tag in outcome.send.tag.tolist()]


def _hold(window: int, hold: int | None) -> int:
    if hold is None:
        return window
    if not 0 <= hold <= 2 * _LONGEST:
        raise QueryError("Q304", f"readings cannot be held for {hold} microseconds", hint="leave it out, or give 0")
    return hold


def _microseconds(times: npt.NDArray[Any]) -> Times:
    match times.dtype.kind:
        case "i" | "u":
            return times.astype(np.int64, copy=False)
        case "M":
            return times.astype("datetime64[us]").astype(np.int64)
        case _ if not times.size:
            return times.astype(np.int64)
    raise DataError("D105", f"times of type {times.dtype}", hint="give integer microseconds, or datetime64")


def _checked(time: int) -> int:
    time = index(time)
    if not EARLIEST < time < LATEST:
        raise DataError("D105", f"{time} is no time", hint="times are microseconds since 1970")
    return time


def _pairs(outcome: _Outcome) -> list[tuple[int, float]]:
    if outcome is _NOTHING:
        return []
    return list(zip(outcome.send.time.tolist(), outcome.send.value.tolist(), strict=True))
