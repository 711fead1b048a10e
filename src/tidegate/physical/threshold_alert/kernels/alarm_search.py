"""Find the combinations of elements near each other in time for which a condition is true, or fails.

The condition is a program that decides blocks of combinations, so that only those that count are ever written. The
elements of all members but the last one that is tried are fixed in turn; the elements of the last one that are near
enough to them lie next to each other and form a segment of a block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Int, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.condition_codes import SEGMENTS
from tidegate.physical.common.kernels.condition_masks import LANES
from tidegate.physical.common.kernels.condition_search import (
    ConditionInputs,
    Workspace,
    add_range,
    allocate_workspace,
    judge_stretches,
)
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


def find_alarms(
    members: Members, nearness: Nearness, condition: ConditionInputs, *, start: int, enough: int
) -> FoundAlarms:
    """Find alarms with a new element at `start` or after, until there are `enough` or no more."""
    many = len(nearness.most)
    if is_impossible(members):
        return FoundAlarms(np.empty((0, many), np.int64), np.empty(0, np.uint8), len(members.time))
    work = allocate_workspace(condition, many)
    return FoundAlarms(*_find_alarms(members, nearness, condition, work, start, enough))


@compiled
def _find_alarms(
    members: Members, nearness: Nearness, condition: ConditionInputs, work: Workspace, start: int, enough: int
) -> tuple[Ints, Bytes, int]:
    # Unpack the tuples before the loop: inside it, each access would count references.
    time, is_new, bounds = members
    most, step, length = nearness
    stretches, ranges = work.stretches, work.ranges
    many, groups = bounds.shape[0], bounds.shape[1] - 1
    found, failures, filled = np.empty((1024, many), np.int64), np.empty(1024, np.uint8), 0
    place, until, same = np.empty(many, np.int64), np.empty(many, np.int64), _ends_of_same(is_new)
    zero: Int = np.int64(0)
    segments, lanes = 0, zero
    for first in range(many):
        last = many - 1 if first < many - 1 else many - 2
        for group in range(groups):
            for row in range(max(start, bounds[first, group]), bounds[first, group + 1]):
                if not is_new[row]:
                    continue
                if filled >= enough:
                    if segments:
                        found, failures, filled = judge_stretches(
                            condition, work, segments, last, found, failures, filled
                        )
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
                            base = bounds[member, 0]
                            for other in range(many):
                                stretches.rows[segments, other] = place[other] - bounds[other, 0]
                            end, lanes = add_range(stretches, ranges, segments, lanes, member, at - base, end - base)
                            segments += 1
                            at = base + end
                            if lanes == LANES or segments == SEGMENTS:
                                found, failures, filled = judge_stretches(
                                    condition, work, segments, last, found, failures, filled
                                )
                                segments, lanes = 0, zero
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
            found, failures, filled = judge_stretches(condition, work, segments, last, found, failures, filled)
            segments, lanes = 0, zero
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
