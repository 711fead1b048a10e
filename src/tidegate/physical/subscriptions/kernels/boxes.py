"""Places: integers in the same order as values, so that every end of a range lies between two of them.

"Before y" is the integer of y and "after y" the next one: no double lies between them. So all ranges become half-open,
and every end is exact. Integer values are their own places.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.model import Subscriptions, Values, WeightedElements

_ALL_BUT_SIGN = 2**63 - 1

STRETCH = 256
"""Number of points that are checked together."""


class Boxes(NamedTuple):
    """Subscriptions as half-open boxes of places, with a row for each dimension, and what each still lacks."""

    id: Ints
    low: Ints
    high: Ints
    threshold: Ints
    missing: Ints


class Points(NamedTuple):
    """Elements as places, with a row for each dimension."""

    place: Ints
    weight: Ints


def places(value: Values) -> Ints:
    """Return the place of each value; -0.0 equals 0.0, and NaNs lie beyond the infinities, outside all ranges.

    Examples
    --------
    >>> places(np.array([0.0, -0.0, 5e-324, -5e-324])).tolist()
    [0, 0, 1, -2]
    """
    if value.dtype.kind == "i":
        return np.require(value, np.int64, ["C", "W"])  # kernels are compiled for writable arrays
    bits = (np.ascontiguousarray(value, np.float64) + 0.0).view(np.int64)
    place: Ints = np.where(bits < 0, bits ^ _ALL_BUT_SIGN, bits)
    return place


def points_of(elements: WeightedElements) -> Points:
    return Points(places(elements.value.T), np.require(elements.weight, np.int64, ["C", "W"]))


def slice_points(points: Points, begin: int, end: int | None = None) -> Points:
    return Points(np.ascontiguousarray(points.place[:, begin:end]), points.weight[begin:end])


def boxes_of(ranges: Subscriptions) -> Boxes:
    """Return the ranges as boxes; an empty range ends where it begins, in all dimensions."""
    low = places(ranges.low.T) + ranges.low_open.T
    high = places(ranges.high.T) + ~ranges.high_open.T
    high = np.where((low < high).all(axis=0), high, low)
    threshold = np.array(ranges.threshold, np.int64)
    return Boxes(np.array(ranges.id, np.int64), low, high, threshold, threshold.copy())


def ranges_of(boxes: Boxes) -> Subscriptions:
    """Return the boxes as ranges of places."""
    closed, opened = np.zeros(boxes.low.T.shape, np.bool_), np.ones(boxes.low.T.shape, np.bool_)
    return Subscriptions(boxes.id, boxes.low.T, boxes.high.T, closed, opened, boxes.threshold)


def no_boxes(dimensions: int) -> Boxes:
    none, no_ends = np.empty(0, np.int64), np.empty((dimensions, 0), np.int64)
    return Boxes(none, no_ends, no_ends, none, none)


def concat_boxes(parts: list[Boxes]) -> Boxes:
    return Boxes(*(np.concatenate(columns, axis=-1) for columns in zip(*parts, strict=True)))


def take_boxes(boxes: Boxes, rows: Ints | np.ndarray) -> Boxes:
    return Boxes(*(np.ascontiguousarray(column[..., rows]) for column in boxes))


def order_for_blocks(keys: Ints, size: int) -> Ints:
    """Return an order in which every `size` consecutive rows are similar in all keys.

    Rows are sliced by one key after the other.
    """
    rows = keys.shape[1]
    slices = math.ceil(max(1, rows / size) ** (1 / len(keys)))
    order, width = np.argsort(keys[0]), rows
    group = np.zeros(rows, np.int64)
    for key in keys[1:]:
        narrow = max(1, math.ceil(width / slices))
        group = group * slices + (np.arange(rows) - np.searchsorted(group, group)) // narrow
        rank = np.empty(rows, np.int64)
        rank[np.argsort(key[order])] = np.arange(rows)
        order, width = order[np.argsort(group * rows + rank)], narrow
    return order


@inlined
def count_up_to(ascending: Ints, place: int) -> int:
    """Return how many of the ascending values are not above the place."""
    begin, length = 0, len(ascending)
    while length > 0:
        half = length >> 1
        if ascending[begin + half] <= place:
            begin += half + 1
            length -= half + 1
        else:
            length = half
    return begin


@inlined
def weight_inside(low: Ints, high: Ints, box: int, points: Points, begin: int, end: int, scratch: Ints) -> int:
    """Return the weight of the points [begin, end) in a box, with one plain loop for each dimension."""
    for each in range(begin, end):
        scratch[each - begin] = points.weight[each]
    for axis in range(len(low)):
        bottom, top = low[axis, box], high[axis, box]
        for each in range(begin, end):
            place = points.place[axis, each]
            scratch[each - begin] = scratch[each - begin] if (bottom <= place) & (place < top) else 0
    total = 0
    for each in range(end - begin):
        total += scratch[each]
    return total


@inlined
def is_inside(low: Ints, high: Ints, box: int, points: Points, each: int) -> bool:
    inside = True
    for axis in range(len(low)):
        place = points.place[axis, each]
        inside &= (low[axis, box] <= place) & (place < high[axis, box])
    return inside


@compiled
def complete_boxes(boxes: Boxes, points: Points, position: Ints) -> tuple[Ints, Ints]:
    """Return the point from `position` on that completes each box, or -1, and the total then.

    `missing` is updated in place; it is meaningless for completed boxes.
    """
    rows, scratch = len(boxes.id), np.empty(STRETCH, np.int64)
    element, total = np.full(rows, -1, np.int64), np.zeros(rows, np.int64)
    for row in range(rows):
        missing, begin = boxes.missing[row], position[row]
        while begin < len(points.weight):
            end = min(begin + STRETCH, len(points.weight))
            here = weight_inside(boxes.low, boxes.high, row, points, begin, end, scratch)
            if here >= missing:
                break
            missing -= here
            begin = end
        boxes.missing[row] = missing
        for each in range(begin, len(points.weight)):
            if is_inside(boxes.low, boxes.high, row, points, each):
                missing -= points.weight[each]
                if missing <= 0:
                    element[row], total[row] = each, boxes.threshold[row] - missing
                    break
    return element, total


@compiled
def complete_repeating_boxes(boxes: Boxes, points: Points, position: Ints) -> tuple[Ints, Ints, Ints]:
    """Return every completion of boxes that repeat as box, point and total.

    `missing` is updated in place; it starts again at the threshold after a completion.
    """
    found, out, scratch = np.empty((3, 2 * len(boxes.id) + 16), np.int64), 0, np.empty(STRETCH, np.int64)
    for row in range(len(boxes.id)):
        missing = boxes.missing[row]
        for begin in range(position[row], len(points.weight), STRETCH):
            end = min(begin + STRETCH, len(points.weight))
            here = weight_inside(boxes.low, boxes.high, row, points, begin, end, scratch)
            if here < missing:
                missing -= here
                continue
            for each in range(begin, end):
                missing -= scratch[each - begin]
                if missing <= 0:
                    if out == found.shape[1]:
                        found = double_room(found)
                    found[0, out], found[1, out], found[2, out] = row, each, boxes.threshold[row] - missing
                    missing = boxes.threshold[row]
                    out += 1
        boxes.missing[row] = missing
    return found[0, :out].copy(), found[1, :out].copy(), found[2, :out].copy()


@inlined
def double_room(found: Ints) -> Ints:
    """Return the same rows with twice the room."""
    wider = np.empty((len(found), 2 * found.shape[1]), np.int64)
    wider[:, : found.shape[1]] = found
    return wider
