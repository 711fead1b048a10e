"""Sum the weight of elements in each of many closed boxes, in one or more dimensions, from an element number on."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.batch_sweep import weights_in
from tidegate.physical.subscriptions.kernels.boxes import Points
from tidegate.physical.subscriptions.kernels.sliding_model import FIRST, LAST, NumberedElements

_FEW = 512
"""Number of points in a key's range up to which sorting them does not pay."""


class Line(NamedTuple):
    """Points in the order of their key (0 without keys) and of their place in the dimension after it."""

    order: Ints
    key: Ints
    place: Ints
    below: Ints
    """Weight of all points before each one, and of all points."""


def line_of(points: Points, *, keyed: bool) -> Line:
    place = points.place[int(keyed)]
    order = np.lexsort((place, points.place[0])) if keyed else np.argsort(place, kind="stable")
    key = points.place[0][order] if keyed else np.zeros(len(order), np.int64)
    below = np.zeros(len(order) + 1, np.int64)
    np.cumsum(points.weight[order], out=below[1:])
    return Line(order, key, place[order], below)


def weights_by_parts(low: Ints, high: Ints, counted: NumberedElements, cuts: Ints, *, keyed: bool) -> Ints:
    """Return, by part and box, the weight of the elements from a cut to before the next one."""
    if len(low) > 1 + keyed:
        parts = [counted.part(begin, end).points for begin, end in pairwise(cuts.tolist())]
        return np.stack([weights_in_boxes(low, high, points, keyed=keyed) for points in parts])
    key = low[0] if keyed else np.zeros(low.shape[1], np.int64)
    line = line_of(counted.part(int(cuts[0]), int(cuts[-1])).points, keyed=keyed)
    return _weights_by_search(line, cuts - cuts[0], key, low[-1], high[-1])


def reduce_to_since(total: Ints, low: Ints, high: Ints, since: Ints, counted: NumberedElements, *, keyed: bool) -> Ints:
    """Reduce totals of all elements to those of the elements from number `since` on, in place."""
    if len(since) == 0 or len(counted.number) == 0 or since.max() <= counted.number[0]:
        return total
    young = np.flatnonzero(since > counted.number[0])
    total[young] = 0
    rows = young[since[young] <= counted.number[-1]]
    if len(rows):
        place = np.vstack([counted.points.place, counted.number])
        ends = np.vstack([low[:, rows], since[rows]]), np.vstack([high[:, rows], np.full(len(rows), LAST)])
        total[rows] = weights_in_boxes(*ends, Points(place, counted.points.weight), keyed=keyed)
    return total


def weights_in_boxes(low: Ints, high: Ints, points: Points, *, keyed: bool) -> Ints:
    """Return the weight of the points in each closed box; if few points of a key qualify, check each of them."""
    if not keyed:
        return _weights_in_closed(low, high, points)
    line = line_of(points, keyed=True)
    begin, end = _find_point_ranges(line, low[0], low[1], high[1])
    many, place = end - begin > _FEW, np.ascontiguousarray(points.place[2:, line.order])
    ends = np.ascontiguousarray(low[2:]), np.ascontiguousarray(high[2:])
    total = _sum_directly(*ends, Points(place, points.weight[line.order]), begin, np.where(many, begin, end))
    if many.any():
        own = np.isin(points.place[0], low[0, many])
        total[many] = _weights_in_closed(low[:, many], high[:, many], _select_points(points, own))
    return total


def _weights_in_closed(low: Ints, high: Ints, points: Points) -> Ints:
    """Return the weight of the points in each closed box; ends and places may be any integers."""
    extreme = ((points.place == FIRST) | (points.place == LAST)).any(axis=0)
    if not extreme.any():
        return weights_in(np.maximum(low, FIRST + 1), np.minimum(high, LAST - 1) + 1, points)
    # A half-open box cannot contain the last place, and no place lies beyond the extremes.
    plain, rare = _select_points(points, ~extreme), _select_points(points, extreme)
    none, all_rare = np.zeros(low.shape[1], np.int64), np.full(low.shape[1], len(rare.weight))
    least, most = np.ascontiguousarray(low), np.ascontiguousarray(high)
    return _weights_in_closed(low, high, plain) + _sum_directly(least, most, rare, none, all_rare)


def _select_points(points: Points, rows: Mask) -> Points:
    return Points(np.ascontiguousarray(points.place[:, rows]), points.weight[rows])


@compiled
def _sum_directly(low: Ints, high: Ints, points: Points, begin: Ints, end: Ints) -> Ints:
    """Return the weight in each box of the points from its `begin` to before its `end`."""
    total, place, weight = np.zeros(low.shape[1], np.int64), points.place, points.weight
    for box in range(len(total)):
        for each in range(begin[box], end[box]):
            inside = True
            for axis in range(len(low)):
                inside &= (low[axis, box] <= place[axis, each]) & (place[axis, each] <= high[axis, box])
            total[box] += weight[each] if inside else 0
    return total


@inlined
def _is_before(key: int, place: int, other_key: int, other_place: int) -> bool:
    return key < other_key or (key == other_key and place < other_place)


@compiled
def _find_point_ranges(line: Line, key: Ints, low: Ints, high: Ints) -> tuple[Ints, Ints]:
    """Return where in the line the points of each range begin and end."""
    keys, places = line.key, line.place
    begins, ends = np.empty(len(key), np.int64), np.empty(len(key), np.int64)
    for row in range(len(key)):
        begin, length = 0, len(keys)
        while length > 0:
            half = length >> 1
            if _is_before(keys[begin + half], places[begin + half], key[row], low[row]):
                begin += half + 1
                length -= half + 1
            else:
                length = half
        end, length = begin, len(keys) - begin
        while length > 0:
            half = length >> 1
            if _is_before(key[row], high[row], keys[end + half], places[end + half]):
                length = half
            else:
                end += half + 1
                length -= half + 1
        begins[row], ends[row] = begin, end
    return begins, ends


@compiled
def _weights_by_search(line: Line, cuts: Ints, key: Ints, low: Ints, high: Ints) -> Ints:
    """Return the weight of the points, by part and range."""
    begin, end = _find_point_ranges(line, key, low, high)
    total, below = np.empty((len(cuts) - 1, len(key)), np.int64), _below_by_parts(line, cuts)
    for row in range(len(key)):
        for part in range(len(total)):
            total[part, row] = below[end[row], part] - below[begin[row], part]
    return total


@inlined
def _below_by_parts(line: Line, cuts: Ints) -> Ints:
    """Return `below` of a line for each part of the elements."""
    order, below = line.order, np.zeros((len(line.order) + 1, len(cuts) - 1), np.int64)
    for at in range(len(order)):
        for part in range(len(cuts) - 1):
            here = cuts[part] <= order[at] < cuts[part + 1]
            weight = line.below[at + 1] - line.below[at]
            below[at + 1, part] = below[at, part] + (weight if here else 0)
    return below


@compiled
def weights_by_merge(line: Line, key: Ints, low: Ints, high: Ints, by_high: Ints) -> Ints:
    """Return the weight in each range; ranges are in the order of key and low, `by_high` in that of key and high."""
    total, keys, places, below = np.empty(len(key), np.int64), line.key, line.place, line.below
    at = 0
    for row in range(len(key)):
        while at < len(keys) and _is_before(keys[at], places[at], key[row], low[row]):
            at += 1
        total[row] = -below[at]
    at = 0
    for each in range(len(key)):
        row = by_high[each]
        while at < len(keys) and not _is_before(key[row], high[row], keys[at], places[at]):
            at += 1
        total[row] += below[at]
    return total


@compiled
def mark_covered(line: Line, key: Ints, low: Ints, high: Ints, by_high: Ints, answer: Mask) -> None:
    """Mark the points that lie in some range, in this dimension; ranges are ordered as in `weights_by_merge`.

    A point does if more ranges begin at or before it than end before it.
    """
    keys, places, order = line.key, line.place, line.order
    begun = ended = 0
    for at in range(len(keys)):
        end = len(key)
        while begun < end:
            middle = (begun + end) // 2
            if _is_before(keys[at], places[at], key[middle], low[middle]):
                end = middle
            else:
                begun = middle + 1
        end = len(key)
        while ended < end:
            middle = (ended + end) // 2
            if _is_before(key[by_high[middle]], high[by_high[middle]], keys[at], places[at]):
                ended = middle + 1
            else:
                end = middle
        answer[order[at]] |= begun > ended
