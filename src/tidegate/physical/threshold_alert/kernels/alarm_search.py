"""Find the combinations of elements near each other in time for which a condition is true, or fails.

The condition is a program that decides blocks of combinations, so that only those that count are ever written. The
elements of all members but the last one that is tried are fixed in turn; the elements of the last one that are near
enough to them lie next to each other and form a segment of a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_bounds import (
    STRETCH,
    Bounds,
    allocate_bounds,
    borrow_bounds,
    run_bounds,
    write_constant_bounds,
)
from tidegate.physical.common.kernels.condition_codes import (
    FAILURE,
    SEGMENTS,
    TRUE,
    Block,
    Program,
    allocate_block,
    borrow_block,
)
from tidegate.physical.common.kernels.condition_masks import LANES, Registers, allocate_registers, borrow_registers, fill_bytes
from tidegate.physical.common.kernels.condition_program import run_program, write_constants
from tidegate.physical.threshold_alert.kernels.combinations import (
    Members,
    Nearness,
    is_impossible,
    member_at_depth,
    open_range,
    time_range,
)


class FoundAlarms(NamedTuple):
    """Combinations, as in `FoundCombinations`; the failure of each (0: the condition is true); the row to continue."""

    rows: Ints
    failures: Bytes
    next: int


class ConditionInputs(NamedTuple):
    """Program of a condition, and the addresses of the columns of each member and of their bounds.

    Columns begin with the first element of their member. Without bounds, `stretches` is empty.
    """

    program: Program
    addresses: Ints
    stretches: Ints


class _Workspace(NamedTuple):
    """Memory of a search: combinations that wait for their decision, and stretches that wait for that by bounds."""

    registers: Registers
    block: Block
    bounds: Bounds
    stretches: Block
    ranges: Ints  # by segment of stretches: its first row, and where it ends


def find_alarms(
    members: Members, nearness: Nearness, condition: ConditionInputs, *, start: int, enough: int
) -> FoundAlarms:
    """Find alarms with a new element at `start` or after, until there are `enough` or no more."""
    many = len(nearness.most)
    if is_impossible(members):
        return FoundAlarms(np.empty((0, many), np.int64), np.empty(0, np.uint8), len(members.time))
    instructions = len(condition.program.code)
    work = _Workspace(
        allocate_registers(instructions),
        allocate_block(many),
        allocate_bounds(instructions),
        allocate_block(many),
        np.empty((SEGMENTS, 2), np.int64),
    )
    return FoundAlarms(*_find_alarms(members, nearness, condition, work, start, enough))


@compiled
def _find_alarms(
    members: Members, nearness: Nearness, condition: ConditionInputs, work: _Workspace, start: int, enough: int
) -> tuple[Ints, Bytes, int]:
    # Unpack the tuples before the loop: inside it, each access would count references.
    time, is_new, bounds = members
    most, step, length = nearness
    stretches, ranges = work.stretches, work.ranges
    write_constants(condition.program, work.registers)
    write_constant_bounds(condition.program, work.bounds)
    many, groups = bounds.shape[0], bounds.shape[1] - 1
    found, failures, filled = np.empty((1024, many), np.int64), np.empty(1024, np.uint8), 0
    place, until, same = np.empty(many, np.int64), np.empty(many, np.int64), _ends_of_same(is_new)
    segments, lanes = 0, 0
    for first in range(many):
        last = many - 1 if first < many - 1 else many - 2
        for group in range(groups):
            for row in range(max(start, bounds[first, group]), bounds[first, group + 1]):
                if not is_new[row]:
                    continue
                if filled >= enough:
                    if segments:
                        found, failures, filled = _judge(condition, work, segments, last, found, failures, filled)
                    return _as_positions(found, bounds, filled), failures[:filled].copy(), row
                # Try the members other than the first in turn; depth counts those that have an element.
                place[first] = row
                depth = 0
                open_range(first, depth, group, time, bounds, most, place, until)
                while depth >= 0:
                    member = member_at_depth(first, depth)
                    if depth == many - 2:
                        at, stop = _limit_to_window(time, place, until, member, step, length)
                        while at < stop:
                            if member > first and is_new[at]:
                                at = same[at]
                                continue
                            end = min(stop, same[at]) if member > first else stop
                            begin, base = at - bounds[member, 0], bounds[member, 0]
                            # A segment has at most so many stretches as a block has lanes left.
                            stretch = begin // STRETCH
                            end = min(end, base + (stretch + LANES - lanes) * STRETCH)
                            for other in range(many):
                                stretches.rows[segments, other] = place[other] - bounds[other, 0]
                            stretches.rows[segments, member] = stretch
                            ranges[segments, 0], ranges[segments, 1] = begin, end - base
                            lanes += (end - base - 1) // STRETCH - stretch + 1
                            stretches.ends[segments] = lanes
                            segments += 1
                            at = end
                            if lanes == LANES or segments == SEGMENTS:
                                found, failures, filled = _judge(
                                    condition, work, segments, last, found, failures, filled
                                )
                                segments, lanes = 0, 0
                        place[member] = until[member]
                    if place[member] >= until[member]:
                        depth -= 1
                        if depth >= 0:
                            place[member_at_depth(first, depth)] += 1
                    elif member > first and is_new[place[member]]:
                        place[member] += 1
                    else:
                        depth += 1
                        open_range(first, depth, group, time, bounds, most, place, until)
        if segments:
            found, failures, filled = _judge(condition, work, segments, last, found, failures, filled)
            segments, lanes = 0, 0
    return _as_positions(found, bounds, filled), failures[:filled].copy(), len(time)


@compiled
def _as_positions(found: Ints, bounds: Ints, filled: int) -> Ints:
    """Return found combinations by position among the elements of all members."""
    rows = np.empty((filled, found.shape[1]), np.int64)
    for i in range(filled):
        for member in range(found.shape[1]):
            rows[i, member] = found[i, member] + bounds[member, 0]
    return rows


@compiled
def _ends_of_same(is_new: Mask) -> Ints:
    """Return, for each element, where the elements end that follow it and are new, or not new, like it."""
    ends = np.empty(len(is_new), np.int64)
    end = len(is_new)
    for row in range(len(is_new) - 1, -1, -1):
        if row + 1 < len(is_new) and is_new[row] != is_new[row + 1]:
            end = row + 1
        ends[row] = end
    return ends


@inlined
def _limit_to_window(time: Ints, place: Ints, until: Ints, member: int, step: int, length: int) -> tuple[int, int]:
    """Return the part of a range of elements that lies in one window with the chosen elements of all other members."""
    begin, end = place[member], until[member]
    if step == 1:
        return begin, end  # for sliding windows, the links imply this
    earliest, latest = time_range(time, place, member)
    close = earliest // step * step + length
    if latest >= close:
        return begin, begin
    first = ((latest - length) // step + 1) * step
    times = time[begin:end]
    return begin + np.searchsorted(times, min(first, earliest)), begin + np.searchsorted(times, close)


@compiled
def _judge(
    condition: ConditionInputs, work: _Workspace, segments: int, last: int, found: Ints, failures: Bytes, filled: int
) -> tuple[Ints, Bytes, int]:
    """Decide the combinations of all stretches that bounds do not exclude; append those that count."""
    code, addresses, stretches = condition.program.code, condition.addresses, condition.stretches
    registers, block = borrow_registers(work.registers), borrow_block(work.block)
    bounds, outer, ranges = borrow_bounds(work.bounds), borrow_block(work.stretches), work.ranges
    if len(stretches):
        run_bounds(code, addresses, stretches, outer, segments, last, bounds)
    outcomes = bounds.outcomes[len(code) - 1]
    many, begin, pending, lanes = outer.rows.shape[1], 0, 0, 0
    for segment in range(segments):
        stop, base = outer.ends[segment], outer.rows[segment, last] - begin
        lane = begin
        while lane < stop:
            ahead = stop
            if len(stretches):
                while lane < stop and not outcomes[lane] & (TRUE | FAILURE):
                    lane += 1
                ahead = lane
                while ahead < stop and outcomes[ahead] & (TRUE | FAILURE):
                    ahead += 1
            row = max(ranges[segment, 0], (base + lane) * STRETCH)
            end = min(ranges[segment, 1], (base + ahead) * STRETCH)
            while row < end:
                size = min(end - row, LANES - lanes)
                for member in range(many):
                    block.rows[pending, member] = outer.rows[segment, member]
                block.rows[pending, last] = row
                lanes += size
                block.ends[pending] = lanes
                pending += 1
                row += size
                if lanes == LANES or pending == SEGMENTS:
                    found, failures, filled = _decide(
                        code, addresses, block, pending, last, registers, found, failures, filled
                    )
                    pending, lanes = 0, 0
            lane = ahead
        begin = stop
    if pending:
        return _decide(code, addresses, block, pending, last, registers, found, failures, filled)
    return found, failures, filled


@compiled
def _decide(
    code: Ints,
    addresses: Ints,
    block: Block,
    segments: int,
    last: int,
    registers: Registers,
    found: Ints,
    failures: Bytes,
    filled: int,
) -> tuple[Ints, Bytes, int]:
    """Decide a block and append the combinations that count; return the found ones, their failures and number."""
    run_program(code, addresses, block, segments, last, registers)
    true, errors, lanes = registers.true[len(code) - 1], registers.errors[len(code) - 1], block.ends[segments - 1]
    if registers.flags[len(code) - 1, 1]:
        for i in range(lanes):
            true[i] |= errors[i]
    else:
        fill_bytes(errors, 0, lanes)
    count = 0
    for i in range(lanes):
        count += true[i] != 0
    if not count:
        return found, failures, filled
    while filled + count > len(found):
        found, failures = _double_capacity(found, failures)
    begin = 0
    for segment in range(segments):
        end = block.ends[segment]
        for i in range(begin, end):
            if true[i]:
                for member in range(found.shape[1]):
                    found[filled, member] = block.rows[segment, member]
                found[filled, last] += i - begin
                failures[filled] = errors[i]
                filled += 1
        begin = end
    return found, failures, filled


@compiled
def _double_capacity(found: Ints, failures: Bytes) -> tuple[Ints, Bytes]:
    more, longer = np.empty((2 * len(found), found.shape[1]), np.int64), np.empty(2 * len(found), np.uint8)
    more[: len(found)], longer[: len(found)] = found, failures
    return more, longer
