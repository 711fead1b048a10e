"""Elements of one stream that are not bracketed, kept in order of time while others come in any order.

A new element changes something for elements at most as far away as a bracket is long; their other
brackets reach as far again. So only the stretch from twice as far before the new elements to twice as
far after them is merged with them, looked at and put back. It is enough to look at what was kept:
whatever an omitted element brackets, those that bracket it bracket too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.threshold_alert.kernels.brackets import both_sides


class Elements(NamedTuple):
    """Times, values, and a number of the owner's for each element."""

    time: Ints
    value: Floats
    tag: Ints


class Sides(NamedTuple):
    """How far apart the ends of a bracket can be, and on which sides an element must be bracketed."""

    span: int
    above: bool
    below: bool


def room_for(rows: int) -> Elements:
    return Elements(np.empty(rows, np.int64), np.empty(rows, np.float64), np.empty(rows, np.int64))


def taken(elements: Elements, rows: Ints | slice) -> Elements:
    return Elements(elements.time[rows], elements.value[rows], elements.tag[rows])


@compiled
def absorb(kept: Elements, begin: int, end: int, new: Elements, sides: Sides) -> tuple[int, Ints]:
    """Take new elements, in order of time, among the kept ones in [begin, end), behind which there is room.

    Returns the new end, and the tags of all that are omitted, old and new. Of equal elements the
    first one stays.
    """
    first = _first_from(kept.time, begin, end, new.time[0] - 2 * sides.span)
    last = _first_from(kept.time, first, end, new.time[-1] + 2 * sides.span + 1)
    merged = _merged(kept, first, last, new)
    omitted = _omitted(merged, sides)
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
    """The first position in [begin, end) whose time is not before the limit."""
    while begin < end:
        middle = (begin + end) // 2
        if time[middle] < limit:
            begin = middle + 1
        else:
            end = middle
    return begin


@compiled
def _merged(kept: Elements, first: int, last: int, new: Elements) -> Elements:
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
    return Elements(time, value, tag)


@compiled
def _omitted(merged: Elements, sides: Sides) -> Mask:
    """Which elements are bracketed or equal an earlier one."""
    time, value, rows = merged.time, merged.value, len(merged.time)
    stack = (np.empty(rows, np.int64), np.empty(rows, np.float64), np.empty(rows, np.int64))
    found = np.zeros(rows, np.bool_)
    other = np.zeros(rows if sides.above and sides.below else 0, np.bool_)
    both_sides(time, value, 0, rows, sides.span, sides.above, sides.below, stack, found, other)
    # Few are left at one time: all that are neither the greatest, the least nor infinite are bracketed.
    left, count = stack[0], 0
    for row in range(rows):
        if row and time[row] != time[row - 1]:
            count = 0
        if found[row]:
            continue
        for i in range(count):
            found[row] |= _equal(value[left[i]], value[row])
        if not found[row]:
            left[count] = row
            count += 1
    return found


@inlined
def _equal(one: float, other: float) -> bool:
    return one == other or (np.isnan(one) and np.isnan(other))


@inlined
def _move(kept: Elements, begin: int, end: int, shift: int) -> None:
    """Move the elements in [begin, end) by some places, which may overlap with where they are."""
    if shift > 0:
        for row in range(end - 1, begin - 1, -1):
            at = row + shift
            kept.time[at], kept.value[at], kept.tag[at] = kept.time[row], kept.value[row], kept.tag[row]
    elif shift < 0:
        for row in range(begin, end):
            at = row + shift
            kept.time[at], kept.value[at], kept.tag[at] = kept.time[row], kept.value[row], kept.tag[row]


@compiled
def due(kept: Elements, begin: int, end: int, limit: int, sent: int) -> tuple[Ints, int]:
    """Positions of the elements before the limit that are not tagged as sent, and of the first such after it."""
    stop = _first_from(kept.time, begin, end, limit)
    rows, count = np.empty(stop - begin, np.int64), 0
    for row in range(begin, stop):
        if kept.tag[row] != sent:
            rows[count] = row
            count += 1
    while stop < end and kept.tag[stop] == sent:
        stop += 1
    return rows[:count], stop
