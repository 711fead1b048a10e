"""Find the elements at which the total weight of their group reaches a threshold, and update the groups' totals.

Groups are numbered from zero. Elements are sorted by group, within a group in the order in which they count. Times of a
group never decrease, also from one call to the next.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled, inlined

_MOST = 2**63 - 1


class GroupedElements(NamedTuple):
    """Elements sorted by group, then in the order in which they count."""

    group: Ints
    time: Ints
    weight: Ints


class Totals(NamedTuple):
    """State of each group: its total, and whether it is complete for good.

    With a window, `kept` has the elements that may still count: those after the last completion that were in the window
    when the last element of the group arrived.
    """

    total: Ints
    done: Mask
    kept: GroupedElements

    @classmethod
    def empty(cls, groups: int) -> Totals:
        """Return groups that have counted nothing."""
        nothing = np.empty(0, np.int64)
        kept = GroupedElements(nothing, nothing, nothing)
        return cls(np.zeros(groups, np.int64), np.zeros(groups, np.bool_), kept)


class Completions(NamedTuple):
    """Rows of elements that completed a total, ascending, and the totals with these elements."""

    row: Ints
    total: Ints


def add_up(
    known: Totals, elements: GroupedElements, threshold: int, *, within: int | None = None, repeats: bool = False
) -> tuple[Totals, Completions]:
    """Count the next elements; a group that repeats starts again from zero after an element that completed it.

    A total above the greatest integer is reported as that integer.
    """
    elements = GroupedElements(*(np.ascontiguousarray(column, np.int64) for column in elements))
    total, done = np.array(known.total, np.int64), np.array(known.done, np.bool_)
    if within is None:
        row, reached = _count_all(total, done, elements.group, elements.weight, threshold, repeats)
        return Totals(total, done, known.kept), Completions(row, reached)
    kept = GroupedElements(*(np.require(column, np.int64, ["C", "W"]) for column in known.kept))
    row, reached, oldest = _count_in_window(total, done, kept, elements, threshold, within, repeats)
    return Totals(total, done, _kept_elements(kept, elements, oldest)), Completions(row, reached)


def drop_expired(known: Totals, until: int) -> Totals:
    """Drop kept elements that are not later than `until`; no later element counts together with them."""
    over = known.kept.time <= until
    if not over.any():
        return known
    total = known.total.copy()
    np.subtract.at(total, known.kept.group[over], known.kept.weight[over])
    return Totals(total, known.done, GroupedElements(*(column[~over] for column in known.kept)))


def _kept_elements(kept: GroupedElements, elements: GroupedElements, oldest: Ints) -> GroupedElements:
    """Return the elements that are still kept: those of each group from its oldest one on."""
    old, new = np.arange(len(kept.group)), len(kept.group) + np.arange(len(elements.group))
    rows = np.concatenate([old[old >= oldest[kept.group]], new[new >= oldest[elements.group]]])
    both = [np.concatenate(columns)[rows] for columns in zip(kept, elements, strict=True)]
    order = np.argsort(both[0], kind="stable")
    return GroupedElements(*(column[order] for column in both))


@inlined
def _capped_sum(total: int, weight: int) -> int:
    return total + min(weight, _MOST - total)


@compiled
def _count_all(
    total: Ints,
    done: Mask,
    group: Ints,
    weight: Ints,
    threshold: int,
    repeats: bool,  # noqa: FBT001 - Numba takes it by position
) -> tuple[Ints, Ints]:
    rows, reached, out = np.empty(len(group), np.int64), np.empty(len(group), np.int64), 0
    for row in range(len(group)):
        each = group[row]
        if not done[each]:
            total[each] = _capped_sum(total[each], weight[row])
            if total[each] >= threshold:
                rows[out], reached[out] = row, total[each]
                out += 1
                total[each] = 0
                done[each] = not repeats
    return rows[:out].copy(), reached[:out].copy()


@compiled
def _count_in_window(
    total: Ints,
    done: Mask,
    kept: GroupedElements,
    elements: GroupedElements,
    threshold: int,
    within: int,
    repeats: bool,  # noqa: FBT001 - Numba takes it by position
) -> tuple[Ints, Ints, Ints]:
    """Return completions, and the oldest element that counts in each group; new elements come after kept ones."""
    past, new = len(kept.group), len(elements.group)
    group, time, kept_group, kept_time = elements.group, elements.time, kept.group, kept.time
    rows, reached, out = np.empty(new, np.int64), np.empty(new, np.int64), 0
    oldest, first, last, begin, at = np.zeros(len(total), np.int64), 0, 0, 0, past
    for row in range(new):
        each = group[row]
        if row == 0 or each != group[row - 1]:
            first = last
            while first < past and kept_group[first] < each:
                first += 1
            last = first
            while last < past and kept_group[last] == each:
                last += 1
            begin, at = row, first if first < last else past + row
        while at != past + row and time[row] - (kept_time[at] if at < past else time[at - past]) >= within:
            total[each] -= kept.weight[at] if at < past else elements.weight[at - past]
            at = past + begin if at + 1 == last else at + 1
        if done[each]:
            at = past + row + 1
        else:
            total[each] = _capped_sum(total[each], elements.weight[row])
        if total[each] >= threshold:
            rows[out], reached[out] = row, total[each]
            out += 1
            total[each], at = 0, past + row + 1
            done[each] = not repeats
        oldest[each] = at
    return rows[:out].copy(), reached[:out].copy(), oldest
