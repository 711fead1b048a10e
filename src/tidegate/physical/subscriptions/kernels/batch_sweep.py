"""Sum the weight that falls in each of many boxes, in two or more dimensions."""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.boxes import (
    STRETCH,
    Boxes,
    Points,
    complete_boxes,
    count_up_to,
    slice_points,
    take_boxes,
    weight_inside,
)

_FEW = 16
"""Number of boxes up to which sorting the points does not pay."""

_SHORT = 64
"""Number of points up to which sorting does not pay."""

_KEY_AND_PLANE = 3
"""Number of dimensions of boxes in a plane that have a key."""

_LEAF = 512
"""Number of points up to which halving them does not pay, in more than two dimensions."""

_HALF = 256
"""Number of points up to which they are not halved to find the one that completes a box."""


def weights_in(low: Ints, high: Ints, points: Points) -> Ints:
    """Return the weight of the points in each box; ends and places have a row for each dimension."""
    low, high = np.ascontiguousarray(low), np.ascontiguousarray(high)
    if low.shape[1] <= _FEW or len(points.weight) <= _SHORT:
        return _sum_directly(low, high, points)
    if len(low) == 2:
        return _sum_by_sweep(low, high, points)
    total, order = np.zeros(low.shape[1], np.int64), np.argsort(points.place[0])
    _add_by_halving(low, high, Points(points.place[:, order], points.weight[order]), np.arange(low.shape[1]), total)
    return total


def weights_by_key(low: Ints, high: Ints, points: Points) -> Ints:
    """Return the weight of the points in each box; the first dimension is a key, of which each box has exactly one.

    In two more dimensions, the points of each key are swept on their own.
    """
    if len(low) != _KEY_AND_PLANE or low.shape[1] <= _FEW or len(points.weight) <= _SHORT:
        return weights_in(low, high, points)
    box, point = np.argsort(low[0], kind="stable"), np.argsort(points.place[0], kind="stable")
    ends = np.ascontiguousarray(low[:, box]), np.ascontiguousarray(high[:, box])
    total = np.empty(len(box), np.int64)
    points = Points(np.ascontiguousarray(points.place[:, point]), points.weight[point])
    total[box] = _sum_by_key(*ends, points, _FEW, _SHORT)
    return total


def completing_points(boxes: Boxes, points: Points, *, keyed: bool = False) -> tuple[Ints, Ints]:
    """Return the point that completes each box, and the total then; the points must complete all boxes.

    Points are halved while there are many boxes and points: the first half either completes a box or not.
    """
    rows, half = len(boxes.id), len(points.weight) // 2
    if rows <= _FEW or len(points.weight) <= _HALF:
        return complete_boxes(boxes, points, np.zeros(rows, np.int64))
    weights = weights_by_key if keyed else weights_in
    early = weights(boxes.low, boxes.high, slice_points(points, 0, half))
    element, total = np.empty(rows, np.int64), np.empty(rows, np.int64)
    first, last = np.flatnonzero(early >= boxes.missing), np.flatnonzero(early < boxes.missing)
    element[first], total[first] = completing_points(
        take_boxes(boxes, first), slice_points(points, 0, half), keyed=keyed
    )
    rest = take_boxes(boxes._replace(missing=boxes.missing - early), last)
    element[last], total[last] = completing_points(rest, slice_points(points, half), keyed=keyed)
    element[last] += half
    return element, total


def _add_by_halving(low: Ints, high: Ints, points: Points, box: Ints, total: Ints) -> None:
    """Add the weight of points to the totals of these boxes; points are in the order of the first dimension.

    A box that contains all points in that dimension needs only the other dimensions. A box that contains some of them
    is checked with both halves.
    """
    least, most = points.place[0, 0], points.place[0, -1]
    box = box[(low[0, box] <= most) & (least < high[0, box])]
    whole = (low[0, box] <= least) & (most < high[0, box])
    if len(points.weight) <= _LEAF:
        total[box] += _sum_directly(
            np.ascontiguousarray(low[:, box]), np.ascontiguousarray(high[:, box]), _contiguous_points(points)
        )
        return
    wide, box = box[whole], box[~whole]
    if len(wide):
        total[wide] += weights_in(
            low[1:, wide], high[1:, wide], _contiguous_points(Points(points.place[1:], points.weight))
        )
    if len(box):
        half = len(points.weight) // 2
        _add_by_halving(low, high, Points(points.place[:, :half], points.weight[:half]), box, total)
        _add_by_halving(low, high, Points(points.place[:, half:], points.weight[half:]), box, total)


def _contiguous_points(points: Points) -> Points:
    return Points(np.ascontiguousarray(points.place), points.weight)


@compiled
def _sum_directly(low: Ints, high: Ints, points: Points) -> Ints:
    total, scratch = np.zeros(low.shape[1], np.int64), np.empty(STRETCH, np.int64)
    for begin in range(0, len(points.weight), STRETCH):
        end = min(begin + STRETCH, len(points.weight))
        for box in range(low.shape[1]):
            total[box] += weight_inside(low, high, box, points, begin, end, scratch)
    return total


@compiled
def _sum_by_key(low: Ints, high: Ints, points: Points, few: int, short: int) -> Ints:
    """Return the weight in each box of one key and two more dimensions; boxes and points are in the order of keys.

    Up to `few` boxes or `short` points of a key are not swept.
    """
    total, place, row, box = np.zeros(low.shape[1], np.int64), points.place, 0, 0
    while box < len(total):
        key, first = low[0, box], box
        while box < len(total) and low[0, box] == key:
            box += 1
        while row < place.shape[1] and place[0, row] < key:
            row += 1
        begin = row
        while row < place.shape[1] and place[0, row] == key:
            row += 1
        if begin == row:
            continue
        own = Points(np.ascontiguousarray(place[1:, begin:row]), points.weight[begin:row].copy())
        ends = np.ascontiguousarray(low[1:, first:box]), np.ascontiguousarray(high[1:, first:box])
        if box - first <= few or row - begin <= short:
            total[first:box] = _sum_directly(ends[0], ends[1], own)
        else:
            total[first:box] = _sum_by_sweep(ends[0], ends[1], own)
    return total


@compiled
def _sum_by_sweep(low: Ints, high: Ints, points: Points) -> Ints:
    """Return the weight in each box of two dimensions.

    Sweep over the points along the first dimension, with sums by the second dimension in a Fenwick tree. Each box
    subtracts the sum between its ends in the second dimension where it begins, and adds it where it ends.
    """
    boxes, rows = low.shape[1], len(points.weight)
    along, across = np.argsort(points.place[0]), np.argsort(points.place[1])
    rank = np.empty(rows, np.int64)
    for row in range(rows):
        rank[across[row]] = row
    begin, end = _find_point_ranges(points.place[0][along], low[0], high[0])
    bottom, top = _find_point_ranges(points.place[1][across], low[1], high[1])
    start, event = _box_events(begin, end, bottom, top, rows)
    total, tree = np.zeros(boxes, np.int64), np.zeros(rows + 1, np.int64)
    for row in range(rows + 1):
        for at in range(start[row], start[row + 1]):
            box = event[at] >> 1
            here = _sum_to(tree, top[box]) - _sum_to(tree, bottom[box])
            total[box] += here if event[at] & 1 else -here
        if row < rows:
            each = along[row]
            _add_to_tree(tree, rank[each] + 1, points.weight[each])
    return total


@inlined
def _find_point_ranges(ascending: Ints, low: Ints, high: Ints) -> tuple[Positions, Positions]:
    begin, end = np.empty(len(low), np.int32), np.empty(len(low), np.int32)
    for box in range(len(low)):
        begin[box] = count_up_to(ascending, low[box] - 1)
        end[box] = count_up_to(ascending, high[box] - 1)
    return begin, end


@inlined
def _box_events(begin: Positions, end: Positions, bottom: Positions, top: Positions, rows: int) -> tuple[Ints, Ints]:
    """Return the starts (even) and ends (odd) of the boxes that may have points, in the order of their places."""
    start = np.zeros(rows + 3, np.int64)
    for box in range(len(begin)):
        if begin[box] < end[box] and bottom[box] < top[box]:
            start[begin[box] + 2] += 1
            start[end[box] + 2] += 1
    for row in range(1, rows + 3):
        start[row] += start[row - 1]
    event = np.empty(start[rows + 2], np.int64)
    for box in range(len(begin)):
        if begin[box] < end[box] and bottom[box] < top[box]:
            event[start[begin[box] + 1]] = 2 * box
            start[begin[box] + 1] += 1
            event[start[end[box] + 1]] = 2 * box + 1
            start[end[box] + 1] += 1
    return start, event


@inlined
def _sum_to(tree: Ints, position: int) -> int:
    total = 0
    while position > 0:
        total += tree[position]
        position &= position - 1
    return total


@inlined
def _add_to_tree(tree: Ints, position: int, weight: int) -> None:
    while position < len(tree):
        tree[position] += weight
        position += position & -position
