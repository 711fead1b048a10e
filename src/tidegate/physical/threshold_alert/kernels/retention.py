"""Keep the elements of one stream that are not bracketed, in time order, while new ones arrive in any order.

A new element affects only elements at most one bracket length away, and their other brackets reach one length further.
So the kernel merges and checks only the stretch from twice that length before the new elements to twice that length
after them. It is enough to check kept elements: whatever an omitted element brackets is also bracketed by the elements
that bracket it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.threshold_alert.kernels.brackets import Sides, mark_bracketed


class TaggedElements(NamedTuple):
    """Times, values, and a tag that the owner gives to each element."""

    time: Ints
    value: Floats
    tag: Ints


def allocate_elements(rows: int) -> TaggedElements:
    return TaggedElements(np.empty(rows, np.int64), np.empty(rows, np.float64), np.empty(rows, np.int64))


def take_elements(elements: TaggedElements, rows: Ints | slice) -> TaggedElements:
    return TaggedElements(elements.time[rows], elements.value[rows], elements.tag[rows])


@compiled
def absorb(kept: TaggedElements, begin: int, end: int, new: TaggedElements, sides: Sides) -> tuple[int, Ints]:
    """Merge new elements, in time order, into the kept ones in [begin, end); the arrays must have room after them.

    Return the new end, and the tags of all omitted elements, old and new. Of equal elements, the first one stays.
    """
    first = _first_from(kept.time, begin, end, new.time[0] - 2 * sides.span)
    last = _first_from(kept.time, first, end, new.time[-1] + 2 * sides.span + 1)
    merged = _merge_in_time(kept, first, last, new)
    omitted = _find_omissible(merged, sides)
    gone = 0
    for row in range(len(omitted)):
        gone += omitted[row]
    shift = len(new.time) - gone
    _move(kept, last, end, shift)
    tags, at, out = np.empty(gone, np.int64), first, 0
    for row in range(len(omitted)):
        if omitted[row]:
            tags[out] = merged.tag[row]
            out += 1
        else:
            kept.time[at], kept.value[at], kept.tag[at] = merged.time[row], merged.value[row], merged.tag[row]
            at += 1
    return end + shift, tags


@inlined
def _first_from(time: Ints, begin: int, end: int, limit: int) -> int:
    """Return the first position in [begin, end) whose time is not before the limit."""
    while begin < end:
        middle = (begin + end) // 2
        if time[middle] < limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@compiled
def _merge_in_time(kept: TaggedElements, first: int, last: int, new: TaggedElements) -> TaggedElements:
    rows = last - first + len(new.time)
    time, value, tag = np.empty(rows, np.int64), np.empty(rows, np.float64), np.empty(rows, np.int64)
    old, fresh = first, 0
    for row in range(rows):
        if old < last and (fresh == len(new.time) or kept.time[old] <= new.time[fresh]):
            time[row], value[row], tag[row] = kept.time[old], kept.value[old], kept.tag[old]
            old += 1
        else:
            time[row], value[row], tag[row] = new.time[fresh], new.value[fresh], new.tag[fresh]
            fresh += 1
    return TaggedElements(time, value, tag)


@compiled
def _find_omissible(merged: TaggedElements, sides: Sides) -> Mask:
    """Return which elements are bracketed or equal an earlier one."""
    time, value, rows = merged.time, merged.value, len(merged.time)
    stack = (np.empty(rows, np.int64), np.empty(rows, np.float64), np.empty(rows, np.int64))
    found = np.zeros(rows, np.bool_)
    other = np.zeros(rows if sides.above and sides.below else 0, np.bool_)
    mark_bracketed(time, value, 0, rows, sides, stack, found, other)
    # Few elements are left at one time: all but the greatest, the least and the non-finite ones are bracketed.
    left, count = stack[0], 0
    for row in range(rows):
        if row and time[row] != time[row - 1]:
            count = 0
        if found[row]:
            continue
        for i in range(count):
            found[row] |= _is_equal(value[left[i]], value[row])
        if not found[row]:
            left[count] = row
            count += 1
    return found


@inlined
def _is_equal(one: float, other: float) -> bool:
    return one == other or (np.isnan(one) and np.isnan(other))


@inlined
def _move(kept: TaggedElements, begin: int, end: int, shift: int) -> None:
    """Move the elements in [begin, end) by `shift` places; the old and new places may overlap."""
    if shift > 0:
        for row in range(end - 1, begin - 1, -1):
            at = row + shift
            kept.time[at], kept.value[at], kept.tag[at] = kept.time[row], kept.value[row], kept.tag[row]
    elif shift < 0:
        for row in range(begin, end):
            at = row + shift
            kept.time[at], kept.value[at], kept.tag[at] = kept.time[row], kept.value[row], kept.tag[row]


@compiled
def find_unsent_before(kept: TaggedElements, begin: int, end: int, limit: int, sent: int) -> tuple[Ints, int]:
    """Return the positions before the limit that are not tagged as sent, and the first such position after it."""
    stop = _first_from(kept.time, begin, end, limit)
    rows, count = np.empty(stop - begin, np.int64), 0
    for row in range(begin, stop):
        if kept.tag[row] != sent:
            rows[count] = row
            count += 1
    while stop < end and kept.tag[stop] == sent:
        stop += 1
    return rows[:count], stop
