"""Combinations of elements of several streams that are near each other in time, one of them new.

The elements of all members stand in one array, member after member, each by group and time. `bounds`
has a row for each member: where each group of it begins, and where the last one ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.kernels.compiled import compiled, inlined

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Members(NamedTuple):
    """The elements of all members of an alert."""

    time: Ints
    is_new: Mask
    bounds: Ints


class Nearness(NamedTuple):
    """How much later, at most, the element of a member can be than that of another, and the windows that hold all.

    A combination lies within one window [k * step, k * step + length).
    """

    most: Ints
    step: int
    length: int


class Found(NamedTuple):
    """Combinations, a row each, the positions of their elements by member; and where to go on."""

    rows: Ints
    next: int


def combinations(members: Members, nearness: Nearness, *, start: int, enough: int) -> Found:
    """Combinations with a new element at `start` or after; stops when there are enough, and at the end.

    A combination with several new elements is found once: from the last member that has one.
    """
    many = len(nearness.most)
    if np.diff(members.bounds[:, [0, -1]]).min() == 0 or not members.is_new.any():
        return Found(np.empty((0, many), np.int64), len(members.time))
    return Found(*_combinations(*members, *nearness, start, enough))


@compiled
def _combinations(
    time: Ints, is_new: Mask, bounds: Ints, most: Ints, step: int, length: int, start: int, enough: int
) -> tuple[Ints, int]:
    many, groups = bounds.shape[0], bounds.shape[1] - 1
    found, filled = np.empty((1024, many), np.int64), 0
    place, until = np.empty(many, np.int64), np.empty(many, np.int64)
    for first in range(many):
        for group in range(groups):
            for row in range(max(start, bounds[first, group]), bounds[first, group + 1]):
                if not is_new[row]:
                    continue
                if filled >= enough:
                    return found[:filled].copy(), row
                # Members other than the first are tried in turn; depth counts those that have an element.
                place[first] = row
                depth = 0
                _open(first, depth, group, time, bounds, most, place, until)
                while depth >= 0:
                    member = _member(first, depth)
                    if depth == many - 1:
                        if _in_one_window(time, place, step, length):
                            if filled == len(found):
                                found = _grown(found)
                            found[filled] = place
                            filled += 1
                        depth -= 1
                        if depth >= 0:
                            place[_member(first, depth)] += 1
                    elif place[member] >= until[member]:
                        depth -= 1
                        if depth >= 0:
                            place[_member(first, depth)] += 1
                    elif member > first and is_new[place[member]]:
                        place[member] += 1
                    else:
                        depth += 1
                        if depth < many - 1:
                            _open(first, depth, group, time, bounds, most, place, until)
    return found[:filled].copy(), len(time)


@inlined
def _member(first: int, depth: int) -> int:
    """The member that is tried at a depth: all but the first, in turn."""
    return depth if depth < first else depth + 1


@inlined
def _open(
    first: int, depth: int, group: int, time: Ints, bounds: Ints, most: Ints, place: Ints, until: Ints
) -> None:  # fmt: skip
    """Find the elements of the member at a depth that are near enough to all that were chosen before."""
    member = _member(first, depth)
    low = time[place[first]] - most[first, member]
    high = time[place[first]] + most[member, first]
    for before in range(depth):
        other = _member(first, before)
        low = max(low, time[place[other]] - most[other, member])
        high = min(high, time[place[other]] + most[member, other])
    begin, end = bounds[member, group], bounds[member, group + 1]
    place[member] = begin + np.searchsorted(time[begin:end], low)
    until[member] = begin + np.searchsorted(time[begin:end], high, side="right")


@inlined
def _in_one_window(time: Ints, place: Ints, step: int, length: int) -> bool:
    if step == 1:
        return True  # the links say as much
    earliest, latest = time[place[0]], time[place[0]]
    for row in place[1:]:
        earliest, latest = min(earliest, time[row]), max(latest, time[row])
    return latest < earliest // step * step + length


@compiled
def _grown(found: Ints) -> Ints:
    more = np.empty((2 * len(found), found.shape[1]), np.int64)
    more[: len(found)] = found
    return more
