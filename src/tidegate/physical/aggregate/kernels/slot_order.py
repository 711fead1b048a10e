"""Compute what depends on the order of the live values in each slot: quantiles, and the first few elements.

Elements are given in order within their group. A Fenwick tree over their ranks counts the live ones, so the k-th is
found in logarithmic time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.aggregate.kernels import exact_sum, wide
from tidegate.physical.aggregate.kernels.slots import SlotEvents, Slots, Spans, events_by_slot
from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.groups import sort_by_group


class RankedGroups(NamedTuple):
    """Elements in their order: those of a group are `elements[bounds[group] : bounds[group + 1]]`.

    The slots of the group are [slot_bounds[group], slot_bounds[group + 1]).
    """

    bounds: Ints
    elements: Ints
    slot_bounds: Ints


def quantiles(
    numbers: Ints, order: Ints, slots: Slots, spans: Spans, *, is_double: bool, share: tuple[int, int]
) -> tuple[Floats, Mask]:
    """Return the value at a share (numerator, denominator) of the live values, and where there is none.

    The numbers are integers, or doubles by their bits. Between two of them, the result is interpolated exactly and
    rounded once.
    """
    return _quantiles(
        numbers, is_double, share, _ranked_groups(order, slots, spans), events_by_slot(spans, slots.total)
    )


def _ranked_groups(order: Ints, slots: Slots, spans: Spans) -> RankedGroups:
    bounds, elements = sort_by_group(slots.group[spans.first], order, len(slots.bounds) - 1)
    return RankedGroups(bounds, elements, slots.bounds)


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


@inlined
def _apply_events(events: SlotEvents, slot: int, is_first: bool, tree: Ints, base: int, size: int, rank: Ints) -> int:  # noqa: FBT001 - Numba takes it by position
    """Count the elements that start with a slot, and no longer those that end; return the change of the number."""
    change = events.start_bounds[slot + 1] - events.start_bounds[slot]
    for at in range(events.start_bounds[slot], events.start_bounds[slot + 1]):
        _update_count(tree, base, size, rank[events.start_order[at]], 1)
    if not is_first:  # elements that end with the last slot of the previous group have this slot as their end
        for at in range(events.end_bounds[slot], events.end_bounds[slot + 1]):
            _update_count(tree, base, size, rank[events.end_order[at]], -1)
        change -= events.end_bounds[slot + 1] - events.end_bounds[slot]
    return change


@compiled
def _ranks_in_groups(groups: RankedGroups) -> Ints:
    """Return the rank of each element in its group."""
    ranks = np.empty(len(groups.elements), np.int64)
    for group in range(len(groups.bounds) - 1):
        for at in range(groups.bounds[group], groups.bounds[group + 1]):
            ranks[groups.elements[at]] = at - groups.bounds[group]
    return ranks


@compiled
def _quantiles(
    numbers: Ints, is_double: bool, share: tuple[int, int], groups: RankedGroups, events: SlotEvents,  # noqa: FBT001 - Numba takes it by position
) -> tuple[Floats, Mask]:  # fmt: skip
    bounds, elements, slot_bounds = groups
    slots, (numerator, denominator) = len(events.start_bounds) - 2, share
    result, missing = np.zeros(slots, np.float64), np.zeros(slots, np.bool_)
    rank, tree = _ranks_in_groups(groups), np.zeros(len(elements), np.int64)
    row, scratch = np.zeros((1, 96), np.int64), np.zeros(98, np.int64)
    for group in range(len(bounds) - 1):
        base, size, live = bounds[group], bounds[group + 1] - bounds[group], 0
        for slot in range(slot_bounds[group], slot_bounds[group + 1]):
            live += _apply_events(events, slot, slot == slot_bounds[group], tree, base, size, rank)
            if live == 0:
                missing[slot] = True
            else:
                whole, part = divmod((live - 1) * numerator, denominator)
                below = numbers[elements[base + _select_rank(tree, base, size, whole)]]
                above = below if part == 0 else numbers[elements[base + _select_rank(tree, base, size, whole + 1)]]
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
    groups, events = _ranked_groups(order, slots, spans), events_by_slot(spans, slots.total)
    element, first, last = _first_few(groups, ties, events, offset, count)
    return element, Spans(first, last)


@compiled
def _first_few(
    groups: RankedGroups, ties: Ints, events: SlotEvents, offset: int, count: int
) -> tuple[Ints, Ints, Ints]:
    bounds, elements, slot_bounds = groups
    rank, tree = _ranks_in_groups(groups), np.zeros(len(elements), np.int64)
    piece = np.full(len(elements), -1)  # the latest piece of each element
    found, first, last = _allocate(2 * len(elements) + 16)
    filled = 0
    for group in range(len(bounds) - 1):
        base, size, live = bounds[group], bounds[group + 1] - bounds[group], 0
        for slot in range(slot_bounds[group], slot_bounds[group + 1]):
            live += _apply_events(events, slot, slot == slot_bounds[group], tree, base, size, rank)
            tie = -1
            for number in range(offset, live):
                element = elements[base + _select_rank(tree, base, size, number)]
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
