"""Compute the validities of elements in count windows (PIPES, formulas 8.18, 8.19 and 17.2).

Elements of a group are numbered from 1 in time order. With slide A, the content changes with the elements A, 2A, …:
element i enters with element ⌈i/A⌉·A, and leaves a window of N with ⌈(i+N)/A⌉·A.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.time_order import TimeOrder
from tidegate.time import FOREVER

ALL = -1
"""Value of `rows` for an unbounded window: elements never leave."""


class GroupCounts(NamedTuple):
    """State of each group: the number of elements so far, and how many of the last ones are kept.

    `since` is, for each kept element, group after group, the time from which it was not emitted yet.
    """

    counts: Ints
    sizes: Ints
    since: Ints


class CountWindowResult(NamedTuple):
    """Emitted and kept elements; rows number the elements kept before, then the new ones."""

    rows: Ints
    start: Ints
    end: Ints
    kept: Ints
    since: Ints
    sizes: Ints


@compiled
def count_windows(
    remembered: GroupCounts, arrived: TimeOrder, rows: int, slide: int, watermark: int,
    cut: bool, early: bool,  # noqa: FBT001
) -> CountWindowResult:  # fmt: skip
    """Number the new elements and emit validities up to the watermark.

    An open element is emitted up to the watermark in every step with `cut`, and when it enters with `early`; its rest
    is emitted when it leaves. At the end of time, all open elements are endless.
    """
    old, room = len(remembered.since), len(remembered.since) + len(arrived.order)
    emitted, start, end = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    kept, since, sizes = np.empty(room, np.int64), np.empty(room, np.int64), np.zeros_like(remembered.counts)
    pieces, stays, base = 0, 0, 0
    for group in range(len(remembered.counts)):
        before, there, first = remembered.counts[group], remembered.sizes[group], arrived.bounds[group]
        total = before + arrived.bounds[group + 1] - first
        for number in range(before - there + 1, total + 1):
            row = base + there + number - before - 1
            if number > before:
                row = old + arrived.order[first + number - before - 1]
            enter, leave = _next_multiple(number, slide), _next_multiple(number + rows, slide)
            begin, until, not_emitted = FOREVER, FOREVER, FOREVER  # until it enters
            stays_open = enter > total or (rows != ALL and leave > total and watermark != FOREVER)
            if enter <= before:
                begin = remembered.since[row]
            elif enter <= total:
                begin = arrived.times[arrived.order[first + enter - before - 1]]
            if rows != ALL and leave <= total:
                until = arrived.times[arrived.order[first + leave - before - 1]]
            elif stays_open and enter <= total:
                until = watermark if cut or (early and enter > before) else begin
                not_emitted = until
            if begin < until:
                emitted[pieces], start[pieces], end[pieces] = row, begin, until
                pieces += 1
            if stays_open:
                kept[stays], since[stays] = row, not_emitted
                stays, sizes[group] = stays + 1, sizes[group] + 1
        base += there
    return CountWindowResult(emitted[:pieces], start[:pieces], end[:pieces], kept[:stays], since[:stays], sizes)


class VaryingResult(NamedTuple):
    """Emitted and kept elements, as in `CountWindowResult`; kept ones end with the elements of the numbers `leaves`."""

    rows: Ints
    start: Ints
    end: Ints
    kept: Ints
    since: Ints
    leaves: Ints
    sizes: Ints


def leaves_of_fixed_window(counts: Ints, sizes: Ints, rows: int) -> Ints:
    """Return the numbers of the elements with which the kept elements of a window of fixed size end.

    Examples
    --------
    >>> leaves_of_fixed_window(np.array([5, 1]), np.array([2, 1]), 2).tolist()
    [6, 7, 3]
    """
    ends = np.cumsum(sizes)
    place = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - sizes, sizes)
    return np.repeat(counts - sizes, sizes) + place + 1 + rows


@compiled
def count_varying_windows(
    remembered: GroupCounts, leaves: Ints, arrived: TimeOrder, windows: Ints, watermark: int,
    cut: bool, early: bool,  # noqa: FBT001
) -> VaryingResult:  # fmt: skip
    """Number the new elements, each with a window of its own size, and emit validities up to the watermark.

    An element may leave before an earlier one. `leaves` are those of the kept elements, `windows` the sizes of the new
    ones. Otherwise as `count_windows` with slide 1: an element enters with itself.
    """
    old, room = len(remembered.since), len(remembered.since) + len(arrived.order)
    emitted, start, end = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    kept, since, until_number = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    sizes = np.zeros_like(remembered.counts)
    pieces, stays, base = 0, 0, 0
    for group in range(len(remembered.counts)):
        before, there, first = remembered.counts[group], remembered.sizes[group], arrived.bounds[group]
        total = before + arrived.bounds[group + 1] - first
        for place in range(there + total - before):
            is_new = place >= there
            if is_new:
                index = arrived.order[first + place - there]
                row, begin = old + index, arrived.times[index]
                leave = before + place - there + 1 + windows[index]
            else:
                row, begin, leave = base + place, remembered.since[base + place], leaves[base + place]
            until, not_emitted = FOREVER, FOREVER
            stays_open = leave > total and watermark != FOREVER
            if leave <= total:
                until = arrived.times[arrived.order[first + leave - before - 1]]
            elif stays_open:
                until = watermark if cut or (early and is_new) else begin
                not_emitted = until
            if begin < until:
                emitted[pieces], start[pieces], end[pieces] = row, begin, until
                pieces += 1
            if stays_open:
                kept[stays], since[stays], until_number[stays] = row, not_emitted, leave
                stays, sizes[group] = stays + 1, sizes[group] + 1
        base += there
    return VaryingResult(
        emitted[:pieces], start[:pieces], end[:pieces], kept[:stays], since[:stays], until_number[:stays], sizes
    )


@inlined
def _next_multiple(number: Any, slide: Any) -> Any:
    """Return the first multiple of the slide at or after a number."""
    return (number + slide - 1) // slide * slide
