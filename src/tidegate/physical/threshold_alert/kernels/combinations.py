"""Find combinations of elements of several streams that are near each other in time, one of them new.

One array holds the elements of all members, member after member, each by group and time. `bounds` has a row for each
member: where each of its groups begins, and where the last one ends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.shedding.kernels.random_choice import mix_bits

_ALL, _COUNTED, _CHOSEN = range(3)
"""Modes of the kernel: return all combinations, count them, or return a random choice of them."""


class Members(NamedTuple):
    """Elements of all members of an alert."""

    time: Ints
    is_new: Mask
    bounds: Ints


class Nearness(NamedTuple):
    """Limits of distance between the elements of a combination.

    `most` says how much later the element of one member can be than that of another. A combination also lies within one
    window [k * step, k * step + length).
    """

    most: Ints
    step: int
    length: int


class FoundCombinations(NamedTuple):
    """Combinations, one row each, with the positions of their elements by member; and the row at which to continue."""

    rows: Ints
    next: int


class SpreadCells(NamedTuple):
    """Equal cells of the spread of combinations, the time from their first to their last element, up to `span`."""

    many: int
    span: int

    @property
    def scale(self) -> float:
        """Return the number of cells per microsecond."""
        return self.many / (self.span + 1)

    def of(self, spread: Ints) -> Ints:
        """Return the cells of combinations with these spreads.

        Examples
        --------
        >>> SpreadCells(4, 7).of(np.array([0, 1, 2, 7])).tolist()
        [0, 0, 1, 3]
        """
        return np.minimum((spread * self.scale).astype(np.int64), self.many - 1)


class CombinationSample(NamedTuple):
    """Random choice of combinations: a number of each cell, the same for the same key.

    `left` counts the combinations of each cell that are still to come, `wanted` those of them that are still to be
    chosen. The kernel changes both.
    """

    cells: SpreadCells
    left: Ints
    wanted: Ints
    key: int


def find_combinations(
    members: Members, nearness: Nearness, *, start: int, enough: int, choice: CombinationSample | None = None
) -> FoundCombinations:
    """Find combinations with a new element at `start` or after, until there are `enough` or no more.

    A combination with several new elements is found once, from the last member that has one.
    """
    if is_impossible(members):
        return FoundCombinations(np.empty((0, len(nearness.most)), np.int64), len(members.time))
    if choice is None:
        return FoundCombinations(*_search_combinations(members, nearness, start, enough, _ALL, _NO_CELLS))
    cells = _CellCounts(choice.cells.scale, choice.left, choice.wanted, np.uint64(choice.key))
    return FoundCombinations(*_search_combinations(members, nearness, start, enough, _CHOSEN, cells))


def count_combinations(members: Members, nearness: Nearness, cells: SpreadCells) -> Ints:
    """Count the combinations with a new element in each cell."""
    many = np.zeros(cells.many, np.int64)
    if not is_impossible(members):
        counts = _NO_CELLS._replace(scale=cells.scale, left=many)
        _search_combinations(members, nearness, 0, 1, _COUNTED, counts)
    return many


class _CellCounts(NamedTuple):
    """Cells in which the kernel counts or chooses combinations; see `CombinationSample`."""

    scale: float
    left: Ints
    wanted: Ints
    key: np.uint64


_NO_CELLS = _CellCounts(0.0, np.empty(0, np.int64), np.empty(0, np.int64), np.uint64(0))


def is_impossible(members: Members) -> bool:
    """Return whether no combination is possible: a member has no elements, or no element is new."""
    return bool(np.diff(members.bounds[:, [0, -1]]).min() == 0 or not members.is_new.any())


@compiled
def _search_combinations(
    members: Members, nearness: Nearness, start: int, enough: int, outcome: int, cells: _CellCounts
) -> tuple[Ints, int]:
    # Unpack the tuples before the loop: inside it, each access would count references.
    time, is_new, bounds = members
    most, step, length = nearness
    scale, left, wanted, key = cells
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
                # Try the members other than the first in turn; depth counts those that have an element.
                place[first] = row
                depth = 0
                open_range(first, depth, group, time, bounds, most, place, until)
                while depth >= 0:
                    member = member_at_depth(first, depth)
                    if depth == many - 2:
                        earliest, latest = time_range(time, place, member)
                        for last in range(place[member], until[member]):
                            if member > first and is_new[last]:
                                continue
                            low, high = min(earliest, time[last]), max(latest, time[last])
                            if step > 1 and high >= low // step * step + length:
                                continue  # for sliding windows, the links imply this
                            if outcome == _COUNTED:
                                left[_cell_of_spread(high - low, scale, len(left))] += 1
                                continue
                            if outcome == _CHOSEN and not _is_chosen(high - low, scale, left, wanted, key):
                                continue
                            if filled == len(found):
                                found = _double_capacity(found)
                            _write_combination(found, filled, place, member, last)
                            filled += 1
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
    return found[:filled].copy(), len(time)


@inlined
def member_at_depth(first: int, depth: int) -> int:
    """Return the member that is tried at a depth: all but the first, in turn."""
    return depth if depth < first else depth + 1


@inlined
def open_range(
    first: int, depth: int, group: int, time: Ints, bounds: Ints, most: Ints, place: Ints, until: Ints
) -> None:  # fmt: skip
    """Find the elements of the member at a depth that are near enough to all that were chosen before."""
    member = member_at_depth(first, depth)
    low = time[place[first]] - most[first, member]
    high = time[place[first]] + most[member, first]
    for before in range(depth):
        other = member_at_depth(first, before)
        low = max(low, time[place[other]] - most[other, member])
        high = min(high, time[place[other]] + most[member, other])
    begin, end = bounds[member, group], bounds[member, group + 1]
    place[member] = begin + np.searchsorted(time[begin:end], low)
    until[member] = begin + np.searchsorted(time[begin:end], high, side="right")


@inlined
def time_range(time: Ints, place: Ints, but: int) -> tuple[int, int]:
    """Return the first and the last time of the chosen elements of all members but one."""
    some = place[0] if but else place[1]
    earliest, latest = time[some], time[some]
    for member in range(len(place)):
        if member != but:
            earliest, latest = min(earliest, time[place[member]]), max(latest, time[place[member]])
    return earliest, latest


@inlined
def _cell_of_spread(spread: int, scale: float, cells: int) -> int:
    return min(int(spread * scale), cells - 1)


@inlined
def _is_chosen(spread: int, scale: float, left: Ints, wanted: Ints, key: np.uint64) -> bool:
    """Return whether a combination is chosen; each of those left in its cell is equally likely."""
    cell = _cell_of_spread(spread, scale, len(left))
    among = left[cell]
    left[cell] -= 1
    if wanted[cell] < among:
        if wanted[cell] == 0:
            return False
        drawn = mix_bits(key ^ (np.uint64(cell) << np.uint64(56)) ^ np.uint64(among))
        if np.float64(drawn >> np.uint64(11)) * 2.0**-53 * among >= wanted[cell]:
            return False
    wanted[cell] -= 1
    return True


@inlined
def _write_combination(found: Ints, at: int, place: Ints, member: int, last: int) -> None:
    """Write the chosen elements, with `last` of one member."""
    for other in range(len(place)):
        found[at, other] = place[other]
    found[at, member] = last


@compiled
def _double_capacity(found: Ints) -> Ints:
    more = np.empty((2 * len(found), found.shape[1]), np.int64)
    more[: len(found)] = found
    return more
