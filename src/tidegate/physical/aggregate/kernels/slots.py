"""Slots: time cut where the elements of a group begin or end, so that nothing changes within a slot.

All groups have slots of their own, numbered one group after the other. An element is live in the slots
[first, last); what is asked of a group at an instant is then asked of a slot, and neither groups nor
times matter any more.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.groups import by_group, distribute

Flags = npt.NDArray[np.uint8]

CARRIED = -(2**63)
"""The time of what was already so when the slots begin."""


class Slots(NamedTuple):
    """The group and first instant of each slot; a group's are [bounds[group], bounds[group + 1])."""

    bounds: Ints
    group: Ints
    time: Ints

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.group)


class Spans(NamedTuple):
    """Elements by the slots in which they are live: [first, last) of each."""

    first: Ints
    last: Ints

    def take(self, rows: Ints | Mask) -> Spans:
        return Spans(self.first[rows], self.last[rows])


def cut(groups: Ints, starts: Ints, ends: Ints, *, carried: Ints, count: int, until: int) -> tuple[Slots, Spans]:
    """Slots for elements by their group and validity; groups that are carried over begin with a slot for that.

    An element whose start is CARRIED is live from the first slot of its group on; ends at or after
    `until` are those of the last slot.
    """
    new, ending = np.flatnonzero(starts > CARRIED), np.flatnonzero(ends < until)
    owners = np.concatenate([carried, groups[new], groups[ending]])
    times = np.concatenate([np.full(len(carried), CARRIED), starts[new], ends[ending]])
    bounds, order = by_group(owners, times, count=count)
    slots, of_event = _numbered(bounds, order, times)
    first, last = slots.bounds[groups], slots.bounds[groups + 1]
    first[new] = of_event[len(carried) : len(carried) + len(new)]
    last[ending] = of_event[len(carried) + len(new) :]
    return slots, Spans(first, last)


@compiled
def _numbered(bounds: Ints, order: Ints, times: Ints) -> tuple[Slots, Ints]:
    """One slot for all events of a group at one time."""
    starts, of_event = np.empty(len(bounds), np.int64), np.empty(len(order), np.int64)
    group, time = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    filled = 0
    for each in range(len(bounds) - 1):
        starts[each] = filled
        for at in range(bounds[each], bounds[each + 1]):
            event = order[at]
            if at == bounds[each] or times[event] != time[filled - 1]:
                group[filled], time[filled] = each, times[event]
                filled += 1
            of_event[event] = filled - 1
    starts[len(bounds) - 1] = filled
    return Slots(starts, group[:filled].copy(), time[:filled].copy()), of_event


class Events(NamedTuple):
    """Elements by the slot in which they begin to be live, and by the slot in which they no longer are."""

    start_bounds: Ints
    start_order: Ints
    end_bounds: Ints
    end_order: Ints


def events(spans: Spans, count: int) -> Events:
    rows = np.arange(len(spans.first))
    return Events(*distribute(spans.first, rows, count + 1), *distribute(spans.last, rows, count + 1))


def counts(spans: Spans, count: int) -> Ints:
    """How many elements are live in each slot."""
    begun, ended = (np.bincount(each, minlength=count + 1) for each in spans)
    return np.cumsum(begun - ended)[:count]


@compiled
def first_of(order: Ints, spans: Spans, count: int) -> Ints:
    """Of the elements that are live in each slot, the first one in the order; -1 where there is none.

    Elements are painted in this order over the slots that have no colour yet. `after` leads from a
    slot to the next one without a colour.
    """
    first, last = spans
    winner, after = np.full(count, -1), np.arange(count + 1)
    for element in order:
        slot = _next(after, first[element])
        while slot < last[element]:
            winner[slot] = element
            after[slot] = slot + 1
            slot = _next(after, slot + 1)
    return winner


@compiled
def _next(after: Ints, slot: int) -> int:
    while after[slot] != slot:
        after[slot] = after[after[slot]]  # halve the way for those who come later
        slot = after[slot]
    return slot


@compiled
def merged(order: Ints, codes: Ints, spans: Spans) -> tuple[Ints, Spans]:
    """Each code once in every slot: an element for it, and its slots. The order is by code, then first slot."""
    first, last = spans
    kept, begins, ends = np.empty(len(order), np.int64), np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    filled = 0
    for element in order:
        joins = filled > 0 and codes[kept[filled - 1]] == codes[element] and first[element] <= ends[filled - 1]
        if joins:
            ends[filled - 1] = max(ends[filled - 1], last[element])
        else:
            kept[filled], begins[filled], ends[filled] = element, first[element], last[element]
            filled += 1
    return kept[:filled].copy(), Spans(begins[:filled].copy(), ends[:filled].copy())
