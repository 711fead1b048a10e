"""Loops of the batch method in one dimension: add weights to cells, and find the subscriptions to check."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.subscriptions.kernels.batch_keys import Keys, cells_by_key
from tidegate.physical.subscriptions.kernels.batch_model import GONE
from tidegate.physical.subscriptions.kernels.batch_search import Levels, completing_element
from tidegate.physical.subscriptions.kernels.boxes import count_up_to, double_room

GROUP = 32
"""Number of cells that are summed one by one; a power of two."""


class SubscriptionCells(NamedTuple):
    """Subscriptions; each has the cells from `first` to before `last`."""

    id: Ints
    first: Positions
    last: Positions
    threshold: Ints


class CellWeights(NamedTuple):
    """Cells; cell c has the places from boundary c - 1 to before boundary c."""

    boundary: Ints
    weight: Ints
    group: Ints
    """Weight of each group of cells."""
    before: Ints
    """Weight of all groups before each one, as of the last check of the subscriptions."""


class DueWeights(NamedTuple):
    """Due weights: each says at which weight of its block's cover to check a subscription."""

    target: Ints
    """Weight of its cells that completes each subscription."""
    due: Ints
    least: Ints
    """Least due weight of each block."""
    first: Ints
    """First group of the cells that cover each block; they end before `last`."""
    last: Ints
    live_and_slack: Ints
    """Number of live subscriptions, and the weight that can arrive before any of them is due."""


@compiled
def count_points(cells: CellWeights, place: Ints, weight: Ints, rest: Ints) -> Ints:
    """Add the weights to the cells of the elements, and return these cells."""
    cell = _cells_of(cells.boundary, place)
    _add_weights(cells, cell, weight, rest)
    return cell


@compiled
def count_points_by_key(cells: CellWeights, keys: Keys, key: Ints, place: Ints, weight: Ints, rest: Ints) -> Ints:
    """Add the weights to the cells of elements with keys, and return these cells."""
    cell = cells_by_key(keys, cells.boundary, key, place)
    _add_weights(cells, cell, weight, rest)
    return cell


@inlined
def _add_weights(cells: CellWeights, cell: Ints, weight: Ints, rest: Ints) -> None:
    for row in range(len(cell)):
        cells.weight[cell[row]] += weight[row]
        cells.group[cell[row] // GROUP] += weight[row]
        rest[1] -= weight[row]


@inlined
def _cells_of(boundary: Ints, place: Ints) -> Ints:
    """Return how many boundaries are not above each place.

    All places are searched in step, so that the processor can read memory ahead.
    """
    cell, length = np.zeros(len(place), np.int64), len(boundary)
    while length > 0:
        half = (length + 1) >> 1
        for row in range(len(place)):
            cell[row] += half if boundary[cell[row] + half - 1] <= place[row] else 0
        length -= half
    return cell


@compiled
def check_due_rows(queries: SubscriptionCells, cells: CellWeights, dues: DueWeights, block: int) -> Ints:
    """Check the subscriptions that are due, and return those that are complete; their due weight becomes GONE."""
    update_group_sums(cells)
    found, out, rest = np.empty(len(queries.id), np.int64), 0, GONE
    for number in range(len(dues.least)):
        cover = _cover_weight(cells, dues, number)
        if cover >= dues.least[number]:
            least = GONE
            for row in range(number * block, min((number + 1) * block, len(queries.id))):
                if dues.due[row] <= cover:
                    missing = dues.target[row] - total_of(cells, queries.first[row], queries.last[row])
                    if missing <= 0:
                        found[out] = row
                        out += 1
                        dues.due[row] = GONE
                    else:
                        dues.due[row] = cover + min(missing, GONE - 1 - cover)
                least = min(least, dues.due[row])
            dues.least[number] = least
        rest = min(rest, dues.least[number] - cover)
    dues.live_and_slack[0] -= out
    dues.live_and_slack[1] = rest
    return found[:out].copy()


@inlined
def _cover_weight(cells: CellWeights, dues: DueWeights, number: int) -> int:
    return cells.before[dues.last[number]] - cells.before[dues.first[number]]


@compiled
def update_group_sums(cells: CellWeights) -> None:
    """Update the sums of groups."""
    total = 0
    for group in range(len(cells.group)):
        cells.before[group] = total
        total += cells.group[group]
    cells.before[len(cells.group)] = total


@inlined
def _sum_before(cells: CellWeights, cell: int) -> int:
    group = cell // GROUP
    total = cells.before[group]
    for each in range(group * GROUP, cell):
        total += cells.weight[each]
    return total


@inlined
def total_of(cells: CellWeights, first: int, last: int) -> int:
    return _sum_before(cells, last) - _sum_before(cells, first)


@compiled
def totals_of(cells: CellWeights, first: Positions, last: Positions) -> Ints:
    total = np.empty(len(first), np.int64)
    for row in range(len(first)):
        total[row] = total_of(cells, first[row], last[row])
    return total


@compiled
def search_backwards(
    queries: SubscriptionCells, cells: CellWeights, target: Ints, rows: Ints, cell: Ints, weight: Ints
) -> tuple[Ints, Ints]:
    """Find the completing element and the total of each complete subscription, going back from the end of the batch."""
    element, total = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for out in range(len(rows)):
        row = rows[out]
        first, last = queries.first[row], queries.last[row]
        surplus = total_of(cells, first, last) - target[row]
        each = len(cell) - 1
        while True:
            if first <= cell[each] < last:
                if weight[each] > surplus:
                    break
                surplus -= weight[each]
            each -= 1
        element[out], total[out] = each, queries.threshold[row] + surplus
    return element, total


@compiled
def search_levels(
    queries: SubscriptionCells, cells: CellWeights, target: Ints, rows: Ints, levels: Levels, weight: Ints
) -> tuple[Ints, Ints]:
    """Find the completing elements and the totals of many complete subscriptions, level by level."""
    element, total = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    for out in range(len(rows)):
        row = rows[out]
        first, last = queries.first[row], queries.last[row]
        begin, end = count_up_to(levels.cell, first - 1), count_up_to(levels.cell, last - 1)
        new = levels.below[end] - levels.below[begin]
        lacking = target[row] - total_of(cells, first, last) + new
        each, brought = completing_element(levels, begin, end, lacking)
        element[out], total[out] = each, queries.threshold[row] + weight[each] - brought
    return element, total


@compiled
def search_repeating(
    queries: SubscriptionCells,
    cells: CellWeights,
    dues: DueWeights,
    block: int,
    rows: Ints,
    levels: Levels,
    weight: Ints,
) -> tuple[Ints, Ints, Ints]:
    """Return every completion of these repeating subscriptions as row, element and total; all stay live.

    Each subscription starts again from zero after a completion.
    """
    found, out = np.empty((3, 2 * len(rows) + 16), np.int64), 0
    for row in rows:
        first, last = queries.first[row], queries.last[row]
        begin, end = count_up_to(levels.cell, first - 1), count_up_to(levels.cell, last - 1)
        new, now = levels.below[end] - levels.below[begin], total_of(cells, first, last)
        lacking = dues.target[row] - now + new
        while lacking <= new:
            each, brought = completing_element(levels, begin, end, lacking)
            if out == found.shape[1]:
                found = double_room(found)
            surplus = weight[each] - brought
            found[0, out], found[1, out], found[2, out] = row, each, queries.threshold[row] + surplus
            out += 1
            lacking += surplus + min(queries.threshold[row], GONE - 1 - now - surplus)
        missing = lacking - new
        dues.target[row] = now + missing
        number = row // block
        cover = _cover_weight(cells, dues, number)
        dues.due[row] = cover + min(missing, GONE - 1 - cover)
        dues.least[number] = min(dues.least[number], dues.due[row])
        dues.live_and_slack[1] = min(dues.live_and_slack[1], dues.due[row] - cover)
    dues.live_and_slack[0] += len(rows)
    return found[0, :out].copy(), found[1, :out].copy(), found[2, :out].copy()
