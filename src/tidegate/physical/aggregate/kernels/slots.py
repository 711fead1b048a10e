"""Slots: time cut where elements of a group begin or end, so that nothing changes within a slot.

Each group has slots of its own, numbered group after group. An element is live in the slots [first, last). A question
about a group at an instant becomes a question about a slot, independent of groups and times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.groups import sort_by_group, sort_by_group_and_time

CARRIED = -(2**63)
"""Start of an element that is live from before the first slot."""


class Slots(NamedTuple):
    """Group and first instant of each slot; the slots of a group are [bounds[group], bounds[group + 1])."""

    bounds: Ints
    group: Ints
    time: Ints

    @property
    def total(self) -> int:
        """Return the number of slots."""
        return len(self.group)


class Spans(NamedTuple):
    """Slots [first, last) in which each element is live."""

    first: Ints
    last: Ints

    def take(self, rows: Ints | Mask) -> Spans:
        return Spans(self.first[rows], self.last[rows])


def cut_into_slots(
    groups: Ints, starts: Ints, ends: Ints, *, carried: Ints, count: int, until: int
) -> tuple[Slots, Spans]:
    """Cut time into slots, given the groups and validities of elements; `carried` groups get an initial slot.

    An element whose start is CARRIED is live from the first slot of its group on. An element that ends at or after
    `until` is live through the last slot.
    """
    new, ending = np.flatnonzero(starts > CARRIED), np.flatnonzero(ends < until)
    owners = np.concatenate([carried, groups[new], groups[ending]])
    times = np.concatenate([np.full(len(carried), CARRIED), starts[new], ends[ending]])
    bounds, order = sort_by_group_and_time(owners, times, count=count)
    slots, of_event = _number_slots(bounds, order, times)
    first, last = slots.bounds[groups], slots.bounds[groups + 1]
    first[new] = of_event[len(carried) : len(carried) + len(new)]
    last[ending] = of_event[len(carried) + len(new) :]
    return slots, Spans(first, last)


@compiled
def _number_slots(bounds: Ints, order: Ints, times: Ints) -> tuple[Slots, Ints]:
    """Make one slot for all events of a group at one time."""
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


class SlotEvents(NamedTuple):
    """Elements by the slot in which they start to be live, and by the first slot in which they are no longer."""

    start_bounds: Ints
    start_order: Ints
    end_bounds: Ints
    end_order: Ints


def events_by_slot(spans: Spans, count: int) -> SlotEvents:
    rows = np.arange(len(spans.first))
    return SlotEvents(*sort_by_group(spans.first, rows, count + 1), *sort_by_group(spans.last, rows, count + 1))


def live_counts(spans: Spans, count: int) -> Ints:
    """Return the number of live elements in each slot."""
    begun, ended = (np.bincount(each, minlength=count + 1) for each in spans)
    return np.cumsum(begun - ended)[:count]


@compiled
def first_live(order: Ints, spans: Spans, count: int) -> Ints:
    """Return the first live element in the order for each slot, or -1 if there is none.

    The elements claim, in this order, the slots that no earlier one has claimed. `after` leads from a slot to the next
    unclaimed one.
    """
    first, last = spans
    winner, after = np.full(count, -1), np.arange(count + 1)
    for element in order:
        slot = _next_unclaimed(after, first[element])
        while slot < last[element]:
            winner[slot] = element
            after[slot] = slot + 1
            slot = _next_unclaimed(after, slot + 1)
    return winner


@compiled
def _next_unclaimed(after: Ints, slot: int) -> int:
    while after[slot] != slot:
        after[slot] = after[after[slot]]  # path halving: shorten later searches
        slot = after[slot]
    return slot


@compiled
def merge_equal_codes(order: Ints, codes: Ints, spans: Spans) -> tuple[Ints, Spans]:
    """Return each code once in every slot: an element with it, and its slots; `order` is by code, then first slot."""
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
