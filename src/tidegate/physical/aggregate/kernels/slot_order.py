"""Compute what depends on the order of the live values in each slot: quantiles, and the first few elements.

Elements are given in order within their group. A Fenwick tree over their ranks counts the live ones, so the k-th is
found in logarithmic time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate.physical.aggregate.kernels import exact_sum, wide
from tidegate.physical.aggregate.kernels.slots import Slots, Spans, events_by_slot
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.groups import sort_by_group

Doubles = npt.NDArray[np.float64]


def quantiles(
    numbers: Ints, order: Ints, slots: Slots, spans: Spans, *, is_double: bool, share: tuple[int, int]
) -> tuple[Doubles, Mask]:
    """Return the value at a share (numerator, denominator) of the live values, and where there is none.

    The numbers are integers, or doubles by their bits. Between two of them, the result is interpolated exactly and
    rounded once.
    """
    bounds, ranks = sort_by_group(slots.group[spans.first], order, len(slots.bounds) - 1)
    return _quantiles(numbers, is_double, *share, bounds, ranks, *events_by_slot(spans, slots.total), slots.bounds)


@inlined
def _update_count(tree: Ints, base: int, size: int, rank: int, sign: int) -> None:
    """Add an element to the count (sign 1), or remove it (sign -1)."""
    at = rank + 1
    while at <= size:
        tree[base + at - 1] += sign
        at += at & -at


@inlined
def _select_rank(tree: Ints, base: int, size: int, number: int) -> int:
    """Return the rank of the live element with this number, counted from 0."""
    step = 1
    while 2 * step <= size:
        step *= 2
    at, left = 0, number + 1
    while step > 0:
        if at + step <= size and tree[base + at + step - 1] < left:
            at += step
            left -= tree[base + at - 1]
        step //= 2
    return at


@compiled
def _quantiles(
    numbers: Ints, is_double: bool, numerator: int, denominator: int,  # noqa: FBT001 - Numba takes it by position
    bounds: Ints, ranks: Ints, start_bounds: Ints, start_order: Ints, end_bounds: Ints, end_order: Ints,
    slot_bounds: Ints,
) -> tuple[Doubles, Mask]:  # fmt: skip
    slots = len(start_bounds) - 2
    result, missing = np.zeros(slots, np.float64), np.zeros(slots, np.bool_)
    rank, tree = np.empty(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    row, scratch = np.zeros((1, 96), np.int64), np.zeros(98, np.int64)
    for group in range(len(bounds) - 1):
        base, size = bounds[group], bounds[group + 1] - bounds[group]
        for at in range(size):
            rank[ranks[base + at]] = at
        count = 0
        for slot in range(slot_bounds[group], slot_bounds[group + 1]):
            for at in range(start_bounds[slot], start_bounds[slot + 1]):
                _update_count(tree, base, size, rank[start_order[at]], 1)
                count += 1
            # Elements that end with the last slot of the previous group have this slot as their end; skip them.
            for at in range(end_bounds[slot], end_bounds[slot + 1]):
                if slot > slot_bounds[group]:
                    _update_count(tree, base, size, rank[end_order[at]], -1)
                    count -= 1
            if count == 0:
                missing[slot] = True
            else:
                whole, part = divmod((count - 1) * numerator, denominator)
                below = numbers[ranks[base + _select_rank(tree, base, size, whole)]]
                above = below if part == 0 else numbers[ranks[base + _select_rank(tree, base, size, whole + 1)]]
                result[slot] = _value_between(below, above, is_double, part, denominator, row, scratch)
    return result, missing


@inlined
def _value_between(
    below: int, above: int, is_double: bool, part: int, denominator: int, row: Ints, scratch: Ints,  # noqa: FBT001
) -> float:  # fmt: skip
    """Return the value part / denominator of the way from one number to another."""
    result = np.int64(below).view(np.float64) if is_double else float(below)
    if part != 0 and below != above:
        if is_double and not (wide.is_finite(below) and wide.is_finite(above)):
            lower = 0.0 if wide.is_finite(below) else np.int64(below).view(np.float64)
            result = lower + (0.0 if wide.is_finite(above) else np.int64(above).view(np.float64))
        else:
            result = _interpolate(below, above, is_double, part, denominator, row, scratch)
    return result


@compiled
def _interpolate(
    below: int, above: int, is_double: bool, part: int, denominator: int, row: Ints, scratch: Ints,  # noqa: FBT001
) -> float:  # fmt: skip
    first, first_place, first_sign = wide.split_number(below, is_double)
    second, second_place, second_sign = wide.split_number(above, is_double)
    lowest = second_place if first == 0 else first_place if second == 0 else min(first_place, second_place)
    low = lowest >> 5
    size = (max(first_place, second_place) >> 5) - low + 5
    row[:] = 0
    wide.add_product(row[0], low, first, first_place, first_sign, denominator - part)
    wide.add_product(row[0], low, second, second_place, second_sign, part)
    negative = exact_sum.write_magnitude(row, 0, 0, size, scratch)
    row[0, : size + 2] = scratch[: size + 2]
    unit = 32 * low + exact_sum.LOWEST_EXPONENT if is_double else 0
    value = wide.quotient(row, size + 2, denominator, 1, unit, scratch)
    return -value if negative else value


def first_few(
    order: Ints, ties: Ints, slots: Slots, spans: Spans, *, offset: int, count: int
) -> tuple[Ints, Spans]:  # fmt: skip
    """Return the first `count` elements in the order, after the offset, and the slots in which they are among these.

    Elements with the same number in `ties` as the last of them are returned as well. An element occurs once for every
    unbroken sequence of slots.
    """
    bounds, ranks = sort_by_group(slots.group[spans.first], order, len(slots.bounds) - 1)
    element, first, last = _first_few(
        bounds, ranks, ties, *events_by_slot(spans, slots.total), slots.bounds, offset, count
    )
    return element, Spans(first, last)


@compiled
def _first_few(
    bounds: Ints, ranks: Ints, ties: Ints, start_bounds: Ints, start_order: Ints, end_bounds: Ints, end_order: Ints,
    slot_bounds: Ints, offset: int, count: int,
) -> tuple[Ints, Ints, Ints]:  # fmt: skip
    rank, tree = np.empty(len(ranks), np.int64), np.zeros(len(ranks), np.int64)
    piece = np.full(len(ranks), -1)  # the latest piece of each element
    found, first, last = _allocate(2 * len(ranks) + 16)
    filled = 0
    for group in range(len(bounds) - 1):
        base, size = bounds[group], bounds[group + 1] - bounds[group]
        for at in range(size):
            rank[ranks[base + at]] = at
        live = 0
        for slot in range(slot_bounds[group], slot_bounds[group + 1]):
            for at in range(start_bounds[slot], start_bounds[slot + 1]):
                _update_count(tree, base, size, rank[start_order[at]], 1)
                live += 1
            for at in range(end_bounds[slot], end_bounds[slot + 1]):
                if slot > slot_bounds[group]:
                    _update_count(tree, base, size, rank[end_order[at]], -1)
                    live -= 1
            tie = -1
            for number in range(offset, live):
                element = ranks[base + _select_rank(tree, base, size, number)]
                if number >= offset + count and ties[element] != tie:
                    break
                tie = ties[element]
                if filled == len(found):
                    found, first, last = _double_room(found, first, last)
                if piece[element] >= 0 and last[piece[element]] == slot:
                    last[piece[element]] = slot + 1
                else:
                    found[filled], first[filled], last[filled] = element, slot, slot + 1
                    piece[element] = filled
                    filled += 1
    return found[:filled].copy(), first[:filled].copy(), last[:filled].copy()


@inlined
def _allocate(size: int) -> tuple[Ints, Ints, Ints]:
    return np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.int64)


@compiled
def _double_room(found: Ints, first: Ints, last: Ints) -> tuple[Ints, Ints, Ints]:
    size = len(found)
    new_found, new_first, new_last = _allocate(2 * size)
    new_found[:size], new_first[:size], new_last[:size] = found, first, last
    return new_found, new_first, new_last
