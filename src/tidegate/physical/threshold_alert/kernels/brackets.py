"""Find elements that cannot be extreme in any window: those between greater ones, or between lesser ones.

An element is bracketed above if two elements near enough to each other have greater values, one of them not later and
one not earlier: any window that contains the element contains one of the two. The kernel finds both with a stack of
values that no later value has exceeded yet. An element is popped when its right end arrives; the entry below it on the
stack is its left end. Every element is pushed and popped at most once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.time import BEGINNING

_MOST_PAIRWISE = 16
"""Number of rows at one instant up to which they are compared pairwise; more rows are sorted."""


class Sides(NamedTuple):
    """Greatest distance between the ends of a bracket, and the sides on which an element must be bracketed."""

    span: int
    above: bool
    below: bool


def find_bracketed(
    group: Ints, time: Ints, value: Floats, *, window: int, strict: bool, above: bool, below: bool
) -> Mask:
    """Return whether each row is bracketed, on all requested sides, by rows of its group.

    Rows are in the order of group and time; rows of one time may be in any order. All bracketed rows can be omitted
    together. Equal values are neither above nor below each other. Values that are not finite are not bracketed and
    bracket no others.

    Examples
    --------
    >>> time, value = np.array([1, 2, 3, 9]), np.array([5.0, 1.0, 5.0, 2.0])
    >>> find_bracketed(np.zeros(4, np.int64), time, value, window=2, strict=False, above=True, below=False).tolist()
    [False, True, False, False]
    """
    return _find_bracketed(group, time, value, Sides(bracket_span(window, strict=strict), above, below))


def bracket_span(window: int, *, strict: bool) -> int:
    """Return how far apart the ends of a bracket can be, in whole microseconds."""
    return window - strict


@compiled
def _find_bracketed(group: Ints, time: Ints, value: Floats, sides: Sides) -> Mask:
    rows = len(time)
    stack = (np.empty(rows, np.int64), np.empty(rows, np.float64), np.empty(rows, np.int64))
    found = np.zeros(rows, np.bool_)
    other = np.zeros(rows if sides.above and sides.below else 0, np.bool_)
    begin = 0
    while begin < rows:
        end = begin + 1
        while end < rows and group[end] == group[begin]:
            end += 1
        mark_bracketed(time, value, begin, end, sides, stack, found, other)
        begin = end
    return found


@inlined
def mark_bracketed(
    time: Ints,
    value: Floats,
    begin: int,
    end: int,
    sides: Sides,
    stack: tuple[Ints, Floats, Ints],
    found: Mask,
    other: Mask,
) -> None:
    """Mark the rows [begin, end), all of one group, that are bracketed on all requested sides."""
    span, above, below = sides
    if above:
        _mark_one_side(time, value, begin, end, 1.0, span, stack, found)
    if below:
        _mark_one_side(time, value, begin, end, -1.0, span, stack, other if above else found)
    if above and below:
        for row in range(begin, end):
            found[row] &= other[row]


@compiled
def _mark_one_side(
    time: Ints,
    value: Floats,
    begin: int,
    end: int,
    sign: float,
    span: int,
    stack: tuple[Ints, Floats, Ints],
    found: Mask,
) -> None:
    """Mark the rows between two of greater value (`sign` 1) or lesser value (-1).

    The stack has rows, their values, and the times of the nearest greater ones before them.
    """
    rows, values, lefts = stack
    top, row = 0, begin
    while row < end:
        now, best, last = time[row], -np.inf, row
        while last < end and time[last] == now:
            here = sign * value[last]
            if here > best and np.isfinite(here):
                best = here
            last += 1
        left = BEGINNING
        while top > 0 and values[top - 1] < best:
            top -= 1
            found[rows[top]] = lefts[top] > BEGINNING and now - lefts[top] <= span
        if top > 0:
            left = lefts[top - 1] if values[top - 1] == best else time[rows[top - 1]]
        for each in range(row, last):
            here = sign * value[each]
            if here == best and best > -np.inf:
                rows[top], values[top], lefts[top] = each, here, left
                top += 1
            elif here > -np.inf and here < best:
                found[each] = span >= 0
        row = last


def find_duplicates(group: Ints, time: Ints, values: Sequence[Floats]) -> Mask:
    """Return whether an earlier row equals each row in group, time and all values.

    Rows are in the order of group and time. NaN equals itself, and -0.0 equals 0.0.

    Examples
    --------
    >>> same = np.zeros(3, np.int64)
    >>> find_duplicates(same, same, [np.array([1.0, np.nan, 1.0])]).tolist()
    [False, False, True]
    """
    if len(time) < 2 or not np.any((time[1:] == time[:-1]) & (group[1:] == group[:-1])):
        return np.zeros(len(time), np.bool_)
    codes = np.array([_comparable_codes(column) for column in values], np.int64).reshape(len(values), len(time))
    instant, found, crowded = _number_instants(group, time, codes)
    if not len(crowded):
        return found
    order = crowded[np.lexsort((*codes[:, crowded], instant[crowded]))]
    alike = (instant[order[1:]] == instant[order[:-1]]) & (codes[:, order[1:]] == codes[:, order[:-1]]).all(axis=0)
    found[order[1:][alike]] = True
    return found


def _comparable_codes(column: Floats) -> Ints:
    """Return integers that are equal where the numbers are."""
    numbers = column + 0.0
    numbers[np.isnan(numbers)] = np.nan
    return numbers.view(np.int64)


@compiled
def _number_instants(group: Ints, time: Ints, codes: Ints) -> tuple[Ints, Mask, Ints]:
    """Return the number of each row's instant, the duplicates in small instants, and the rows of larger ones."""
    rows = len(time)
    instant, found, crowded = np.empty(rows, np.int64), np.zeros(rows, np.bool_), np.empty(rows, np.int64)
    count, many, begin = 0, 0, 0
    while begin < rows:
        end = begin
        while end < rows and time[end] == time[begin] and group[end] == group[begin]:
            instant[end] = count
            end += 1
        if end - begin > _MOST_PAIRWISE:
            crowded[many : many + end - begin] = np.arange(begin, end)
            many += end - begin
        else:
            for row in range(begin + 1, end):
                for earlier in range(begin, row):
                    found[row] |= _is_same_row(codes, row, earlier)
        count, begin = count + 1, end
    return instant, found, crowded[:many]


@inlined
def _is_same_row(codes: Ints, one: int, other: int) -> bool:
    for column in range(len(codes)):  # noqa: SIM110 - Numba compiles no generators
        if codes[column, one] != codes[column, other]:
            return False
    return True


def order_by_group_and_time(group: Ints, time: Ints) -> Ints | None:
    """Return the stable order of rows by group and time, or None if they are already in this order.

    Examples
    --------
    >>> order_by_group_and_time(np.array([1, 0, 0]), np.array([5, 7, 6])).tolist()
    [2, 1, 0]
    """
    times_rise, both_rise, least, most = _sortedness(group, time)
    if both_rise:
        return None
    if least < 0 or most > 4 * len(group) + 1024:
        return np.lexsort((time, group))
    from tidegate.physical.common.kernels.groups import (
        sort_by_group,  # groups imports Arrow, which a device need not have
    )

    rows = np.arange(len(time)) if times_rise else np.argsort(time, kind="stable")
    return sort_by_group(group, rows, most + 1)[1]


@compiled
def _sortedness(group: Ints, time: Ints) -> tuple[bool, bool, int, int]:
    """Return whether times ascend, whether groups and times within them ascend, and the least and greatest group."""
    times_rise, both_rise = True, True
    least, most = (group[0], group[0]) if len(group) else (0, 0)
    for row in range(1, len(time)):
        later = time[row] >= time[row - 1]
        times_rise &= later
        both_rise &= group[row] > group[row - 1] or (group[row] == group[row - 1] and later)
        least, most = min(least, group[row]), max(most, group[row])
    return times_rise, both_rise, least, most


@compiled
def is_sorted(time: Ints) -> bool:
    """Return whether times never decrease."""
    for row in range(1, len(time)):  # noqa: SIM110 - Numba compiles no generators
        if time[row] < time[row - 1]:
            return False
    return True
