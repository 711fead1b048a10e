"""Find the elements of a batch that complete subscriptions, while other elements expire.

A total can decrease again, so only a bound is known for a stretch of elements: the total at its start plus all that is
added in it. Stretches are split as long as that bound reaches the threshold.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.boxes import STRETCH
from tidegate.physical.subscriptions.kernels.sliding_model import NumberedElements, SlidingSettings, SubscriptionTotals
from tidegate.physical.subscriptions.kernels.sliding_weights import reduce_to_since, weights_by_parts

_PARTS = 8
"""Number of parts into which a long stretch is split."""

_FEW = 100_000
"""Number of checks of an element by a row up to which sorting costs more."""

CompletionColumns = tuple[Ints, Ints, Ints]
"""Rows, the elements that completed them, and the totals."""


class Stretch(NamedTuple):
    """Elements that are added, and those that expire before or among them."""

    added: NumberedElements
    expiring: NumberedElements
    expired_before: Ints
    """Number of elements that have expired when each element is added."""


class SlidingEvents(NamedTuple):
    """Additions and expirations in order: the change of each, and the element that is added."""

    place: Ints
    change: Ints
    number: Ints
    element: Ints


def events_of(stretch: Stretch) -> SlidingEvents:
    added, expiring, over = stretch
    last = len(over) + (int(over[-1]) if len(over) else 0)
    is_added = np.zeros(last, np.bool_)
    is_added[np.arange(len(over)) + over] = True
    source = np.where(is_added, np.cumsum(is_added) - 1, len(over) + np.cumsum(~is_added) - 1)
    place = np.concatenate([added.points.place, expiring.points.place], axis=1)[:, source]
    change = np.concatenate([added.points.weight, -expiring.points.weight])[source]
    return SlidingEvents(place, change, np.concatenate([added.number, expiring.number])[source], source)


class Search(NamedTuple):
    """Search of a batch; it changes totals and `since` of the subscriptions, and which are done, in place."""

    subscriptions: SubscriptionTotals
    done: Mask
    stretch: Stretch
    events: SlidingEvents
    repeats: bool
    keyed: bool
    settings: SlidingSettings

    def find_all(self) -> CompletionColumns:
        found: list[CompletionColumns] = []
        self._search_elements(np.arange(len(self.done)), 0, len(self.stretch.expired_before), 0, found)
        if not found:
            none = np.empty(0, np.int64)
            return none, none, none
        rows, element, total = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return rows, element, total

    def _search_elements(self, rows: Ints, begin: int, end: int, over: int, found: list[CompletionColumns]) -> None:
        """Process the elements [begin, end) for these rows; `over` elements have expired before."""
        first, last = begin + over, end + int(self.stretch.expired_before[end - 1])
        if end - begin <= self.settings.leaf or len(rows) * (last - first) <= _FEW:
            found.append(_walk_events(self.subscriptions, rows, self.events, first, last, self.done, self.repeats))
            return
        width = -(-(end - begin) // _PARTS)
        cuts = np.minimum(np.arange(begin, end + width, width), end)
        self._search_parts(rows, cuts, np.concatenate([[over], self.stretch.expired_before[cuts[1:] - 1]]), found)

    def _search_parts(self, rows: Ints, cuts: Ints, over: Ints, found: list[CompletionColumns]) -> None:
        """Count part by part; within a part, check only the rows that it may complete."""
        queries = self.subscriptions.take(rows)
        more = weights_by_parts(queries.low, queries.high, self.stretch.added, cuts, keyed=self.keyed)
        less = weights_by_parts(queries.low, queries.high, self.stretch.expiring, over, keyed=self.keyed)
        for part in range(len(cuts) - 1):
            total, since = self.subscriptions.total[rows], self.subscriptions.since[rows]
            own = partial(reduce_to_since, low=queries.low, high=queries.high, since=since, keyed=self.keyed)
            new = total + own(more[part], counted=self.stretch.added.part(cuts[part], cuts[part + 1]))
            open_rows = ~self.done[rows]
            may = open_rows & (new >= queries.threshold)
            new -= own(less[part], counted=self.stretch.expiring.part(over[part], over[part + 1]))
            rest = open_rows & ~may
            self.subscriptions.total[rows[rest]] = new[rest]
            if may.any():
                self._search_elements(rows[may], int(cuts[part]), int(cuts[part + 1]), int(over[part]), found)


@compiled
def _walk_events(
    queries: SubscriptionTotals,
    rows: Ints,
    events: SlidingEvents,
    first: int,
    last: int,
    done: Mask,
    repeats: bool,  # noqa: FBT001 - Numba takes it by position
) -> CompletionColumns:
    """Process the events [first, last) for each row."""
    number, scratch = events.number, np.empty(STRETCH, np.int64)
    found, out = np.empty((3, len(rows)), np.int64), 0
    for row in rows:
        total, since, threshold, at = queries.total[row], queries.since[row], queries.threshold[row], first
        while at < last:
            end = min(at + STRETCH, last)
            most, change = _sum_changes(queries.low, queries.high, row, since, events, at, end, scratch)
            begin, at = at, end
            if total + most < threshold:
                total += change
                continue
            for each in range(begin, end):
                total += scratch[each - begin]
                if total >= threshold:
                    if out == found.shape[1]:
                        found = _double_room(found)
                    found[0, out], found[1, out], found[2, out] = row, events.element[each], total
                    out += 1
                    total, since, at = 0, number[each] + 1, each + 1
                    done[row] = not repeats
                    break
            if done[row]:
                break
        queries.total[row], queries.since[row] = total, since
    return found[0, :out].copy(), found[1, :out].copy(), found[2, :out].copy()


@inlined
def _sum_changes(
    low: Ints, high: Ints, row: int, since: int, events: SlidingEvents, begin: int, end: int, scratch: Ints
) -> tuple[int, int]:
    """Return the weight that the events add to a box, and their total change, with one plain loop per dimension.

    `scratch` gets the change of each event.
    """
    number, change, place = events.number, events.change, events.place
    for each in range(begin, end):
        scratch[each - begin] = change[each] if since <= number[each] else 0
    for axis in range(len(low)):
        bottom, top = low[axis, row], high[axis, row]
        for each in range(begin, end):
            here = place[axis, each]
            scratch[each - begin] = scratch[each - begin] if (bottom <= here) & (here <= top) else 0
    added = total = 0
    for each in range(end - begin):
        added += max(scratch[each], 0)
        total += scratch[each]
    return added, total


@compiled
def _double_room(found: Ints) -> Ints:
    more = np.empty((3, 2 * found.shape[1]), np.int64)
    more[:, : found.shape[1]] = found
    return more
