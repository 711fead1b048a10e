"""Sweep: compute all aggregates of all groups as functions of time, in one pass over starts and ends.

Groups are swept one after the other. At each instant, all starts and ends of the group at that instant are applied; if
the result changes, the previous piece is closed. Between sweeps, a group keeps only its digits of exact sums, counters,
frontiers of best values, and the ends to come.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.aggregate.kernels import exact_sum, frontier
from tidegate.physical.aggregate.kernels.frontier import Frontiers
from tidegate.physical.common.arrays import Flags, Floats, Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.time import BEGINNING

COUNT_ALL, COUNT, SUM_INTEGER, SUM_DOUBLE, AVERAGE, BEST = range(6)
"""Operations of calls; the operand is the number of a counted column or, for BEST, of a frontier."""

VALUE, NULL, OVERFLOW = range(3)
"""Status of a result; only a VALUE has a meaningful number."""

INTEGER, DOUBLE = range(2)
"""Kinds of summed columns."""

_NEVER = 2**63 - 1


class SweepProgram(NamedTuple):
    """Calls to compute, and the places of a group's accumulators in its row of integers.

    `columns` has for each summed column: kind, place of the first digit, number of digits, lowest digit, place of the
    special counters, whether a double is wanted. `calls` has operation and operand. A row begins with the number of
    elements, then has the numbers of values of the counted columns, the summed ones first.
    """

    columns: Ints
    calls: Ints
    keeps_count: bool
    holds_back: bool
    early: bool


class Starts(NamedTuple):
    """Elements that become valid, in the order given by `order`; those of a group start at its bound."""

    bounds: Ints
    order: Ints
    time: Ints
    end: Ints
    values: Ints
    present: Flags
    codes: Ints
    coded: Flags


class Ends(NamedTuple):
    """Elements that cease to be valid; used only if elements are counted."""

    bounds: Ints
    order: Ints
    time: Ints
    values: Ints
    present: Flags


class SweepGroups(NamedTuple):
    """Per group: accumulators, the end of its last element (if none are counted), and since when it was not emitted."""

    sums: Ints
    until: Ints
    since: Ints


class Pieces(NamedTuple):
    """Results with their validities; `number` and `status` are by call, `fresh` if no part was emitted before."""

    group: Ints
    start: Ints
    end: Ints
    fresh: Flags
    number: Ints
    status: Flags


class SweepResult(NamedTuple):
    """Pieces, in the first `filled` places, which groups are alive, and which had an event."""

    pieces: Pieces
    filled: int
    alive: Flags
    touched: Flags


@compiled
def sweep(
    program: SweepProgram, starts: Starts, ends: Ends, groups: SweepGroups, frontiers: Frontiers, watermark: int
) -> SweepResult:
    """Advance all groups to just before the watermark, changing `groups` and `frontiers` in place.

    Emit every piece that is closed, and the part of the open piece before the watermark. If the program holds back,
    emit that part only if the piece began in this sweep and either is wanted early or has overflowed: an overflow is
    reported once, when it begins.
    """
    # Unpack the tuples before the loop: inside it, each access would count references.
    columns, calls, keeps_count, holds_back, early = program
    start_bounds, start_order, start_time, start_end, start_values, start_present, codes, coded = starts
    end_bounds, end_order, end_time, end_values, end_present = ends
    sums, until, since = groups
    head, tail, best_end, best_code = frontiers
    size = len(since)
    most = 2 * size + 2 * len(start_order) + len(end_order) + best_end.size
    pieces = _allocate_pieces(most, len(calls))
    piece_group, piece_start, piece_end, piece_fresh, piece_number, piece_status = pieces
    alive, touched = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
    number, status = np.zeros((2, len(calls)), np.int64), np.zeros((2, len(calls)), np.uint8)
    doubles = np.empty(len(columns), np.float64)
    scratch = np.empty(sums.shape[1] + 2, np.int64)
    filled, now = 0, 0
    for group in range(size):
        i, i_end, j, j_end = start_bounds[group], start_bounds[group + 1], end_bounds[group], end_bounds[group + 1]
        live = sums[group, 0] > 0 if keeps_count else until[group] > BEGINNING
        opened, fresh = since[group], 0
        if live and (i < i_end or j < j_end or not keeps_count or len(head) > 0 or not holds_back):
            _sums_as_doubles(columns, sums, group, doubles, scratch)
            _evaluate_sums(columns, calls, sums, group, doubles, number, status, now)
            _evaluate_best(calls, group, head, tail, best_code, number, status, now)
        while True:
            time = start_time[start_order[i]] if i < i_end else _NEVER
            if j < j_end:
                time = min(time, end_time[end_order[j]])
            if live and not keeps_count:
                time = min(time, until[group])
            time = _earliest_end(head, tail, best_end, group, time)
            if time >= watermark:
                break
            touched[group] = 1
            while i < i_end and start_time[start_order[i]] == time:
                row = start_order[i]
                if keeps_count:
                    _count_element(columns, sums, group, start_values, start_present, row, 1)
                else:
                    until[group] = max(until[group], start_end[row])
                for best in range(len(head)):
                    if coded[best, row]:
                        frontier.insert(head, tail, best_end, best_code, best, group, start_end[row], codes[best, row])
                i += 1
            while j < j_end and end_time[end_order[j]] == time:
                _count_element(columns, sums, group, end_values, end_present, end_order[j], -1)
                j += 1
            _remove_ended(head, tail, best_end, group, time)
            was_live = live
            live = sums[group, 0] > 0 if keeps_count else until[group] > time
            if live:
                _sums_as_doubles(columns, sums, group, doubles, scratch)
                _evaluate_sums(columns, calls, sums, group, doubles, number, status, 1 - now)
                _evaluate_best(calls, group, head, tail, best_code, number, status, 1 - now)
            if not (live and was_live and _has_same_results(number, status)):
                if was_live and opened < time:
                    piece_group[filled], piece_start[filled], piece_end[filled] = group, opened, time
                    piece_fresh[filled] = fresh
                    _copy_results(number, status, now, piece_number, piece_status, filled)
                    filled += 1
                opened, fresh, now = time, 1, 1 - now
        comes_out = not holds_back or (fresh and (early or _has_overflow(status, now)))
        if live and comes_out and opened < watermark:
            piece_group[filled], piece_start[filled], piece_end[filled] = group, opened, watermark
            piece_fresh[filled] = fresh
            _copy_results(number, status, now, piece_number, piece_status, filled)
            filled += 1
            opened = watermark
        alive[group], since[group] = live, opened
    return SweepResult(pieces, filled, alive, touched)


@compiled
def _allocate_pieces(most: int, calls: int) -> Pieces:
    """Return room for the largest possible number of pieces; memory pages that are never touched cost nothing."""
    group, start, end = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64)
    number, status = np.empty((calls, most), np.int64), np.empty((calls, most), np.uint8)
    return Pieces(group, start, end, np.empty(most, np.uint8), number, status)


@inlined
def _count_element(columns: Ints, sums: Ints, group: int, values: Ints, present: Flags, row: int, sign: int) -> None:
    """Add an element to the accumulators (sign 1), or remove it (sign -1)."""
    sums[group, 0] += sign
    for column in range(len(present)):
        if present[column, row]:
            sums[group, 1 + column] += sign
    for column in range(len(values)):
        if present[column, row]:
            at, low, specials = columns[column, 1], columns[column, 3], columns[column, 4]
            if columns[column, 0] == INTEGER:
                exact_sum.add_integer(sums, group, at, values[column, row], sign)
            else:
                exact_sum.add_double(sums, group, at, low, specials, values[column, row], sign)


@inlined
def _earliest_end(head: Ints, tail: Ints, ends: Ints, group: int, time: int) -> int:
    """Return the time, or the first end of a best value before it."""
    for best in range(len(head)):
        if head[best, group] < tail[best, group]:
            time = min(time, ends[best, head[best, group]])
    return time


@inlined
def _remove_ended(head: Ints, tail: Ints, ends: Ints, group: int, time: int) -> None:
    """Remove the best values that have ended at the time."""
    for best in range(len(head)):
        while head[best, group] < tail[best, group] and ends[best, head[best, group]] <= time:
            head[best, group] += 1


@inlined
def _sums_as_doubles(columns: Ints, sums: Ints, group: int, doubles: Floats, scratch: Ints) -> None:
    """Convert the sums of which a double is wanted."""
    for column in range(len(columns)):
        if columns[column, 5]:
            doubles[column] = _sum_as_double(columns, sums, group, column, scratch)


@inlined
def _evaluate_sums(
    columns: Ints, calls: Ints, sums: Ints, group: int, doubles: Floats, number: Ints, status: Flags, side: int
) -> None:
    """Write the results of all calls that count or add into the given side of `number` and `status`."""
    for call in range(len(calls)):
        operation, operand = calls[call, 0], calls[call, 1]
        result, kind = np.int64(0), VALUE
        if operation == BEST:
            continue
        if operation == COUNT_ALL:
            result = sums[group, 0]
        elif operation == COUNT:
            result = sums[group, 1 + operand]
        elif sums[group, 1 + operand] == 0:
            kind = NULL
        elif operation == SUM_INTEGER:
            whole, fits = exact_sum.integer_of(sums, group, columns[operand, 1])
            result, kind = (np.int64(whole), VALUE) if fits else (np.int64(0), OVERFLOW)
        elif operation == SUM_DOUBLE:
            result = _canonical_bits(doubles[operand])
        else:
            result = _canonical_bits(doubles[operand] / sums[group, 1 + operand])
        number[side, call], status[side, call] = result, kind


@inlined
def _evaluate_best(
    calls: Ints, group: int, head: Ints, tail: Ints, codes: Ints, number: Ints, status: Flags, side: int
) -> None:
    """Write the best values into the given side of `number` and `status`."""
    for call in range(len(calls)):
        if calls[call, 0] == BEST:
            best = calls[call, 1]
            first = head[best, group]
            if first < tail[best, group]:
                number[side, call], status[side, call] = codes[best, first], VALUE
            else:
                number[side, call], status[side, call] = 0, NULL


@inlined
def _sum_as_double(columns: Ints, sums: Ints, group: int, column: int, scratch: Ints) -> float:
    special, unit = 0.0, 0
    if columns[column, 0] == DOUBLE:
        special = exact_sum.special_of(sums, group, columns[column, 4])
        unit = 32 * columns[column, 3] + exact_sum.LOWEST_EXPONENT
    finite = exact_sum.double_of(sums, group, columns[column, 1], columns[column, 2], unit, scratch)
    return finite if special == 0.0 else special


@inlined
def _canonical_bits(double: float) -> np.int64:
    """Return the bits of a double, with one NaN and one zero, so that equal results have equal bits."""
    return np.float64(np.nan if double != double else double + 0.0).view(np.int64)  # noqa: PLR0124 - NaN


@inlined
def _has_same_results(number: Ints, status: Flags) -> bool:
    for call in range(number.shape[1]):
        if number[0, call] != number[1, call] or status[0, call] != status[1, call]:
            return False
    return True


@inlined
def _has_overflow(status: Flags, side: int) -> bool:
    found = False
    for call in range(status.shape[1]):
        found |= status[side, call] == OVERFLOW
    return found


@inlined
def _copy_results(number: Ints, status: Flags, side: int, piece_number: Ints, piece_status: Flags, at: int) -> None:
    for call in range(number.shape[1]):
        piece_number[call, at] = number[side, call]
        piece_status[call, at] = status[side, call]
