"""Divide a budget of comparisons between cells."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Floats, Ints


class Shares(NamedTuple):
    """For each cell, the share of its volume that is chosen, and the share explored in addition."""

    chosen: Floats
    explored: Floats
    price: float
    """Value of the last unit that was chosen; 0 if everything is."""

    @property
    def total(self) -> Floats:
        return self.chosen + self.explored


def divide_budget(value: Floats, volume: Floats, lag: Ints, budget: float, explore: float) -> Shares:
    """Spend most of a budget on the best cells, and the rest evenly on cells that are not complete.

    `value` is the value of a unit of a cell's volume. Of equal cells, the newest is the best.
    """
    none = np.zeros(len(volume))
    if not len(volume) or float(np.cumsum(volume)[-1]) <= budget:
        return Shares(none + 1.0, none, 0.0)
    order = best_first(value, lag)
    chosen = knapsack(volume, order, (1.0 - explore) * budget)
    rest = (1.0 - chosen) * volume
    explored = np.divide(spread_evenly(rest, explore * budget), volume, out=none, where=volume > 0)
    taken = order[chosen[order] > 0]
    return Shares(chosen, explored, float(value[taken[-1]]) if len(taken) else 0.0)


def best_first(value: Floats, lag: Ints) -> Ints:
    """Return the cells by descending value. Of equal ones, the newest is first.

    Values count as equal if they differ by no more than the rounding of sums.
    """
    return np.lexsort((lag, np.abs(lag), -value.astype(np.float32)))


def knapsack(volume: Floats, order: Ints, budget: float) -> Floats:
    """Return the share of each cell if cells are filled in this order until the budget is spent.

    Examples
    --------
    >>> import numpy as np
    >>> knapsack(np.array([4.0, 2.0, 6.0]), np.array([2, 0, 1]), 8.0).tolist()
    [0.5, 0.0, 1.0]
    """
    ordered = volume[order]
    before = np.cumsum(ordered) - ordered
    part = np.clip(np.divide(budget - before, ordered, out=np.ones(len(ordered)), where=ordered > 0), 0.0, 1.0)
    chosen = np.empty(len(volume))
    chosen[order] = part
    return chosen


def spread_evenly(room: Floats, budget: float) -> Floats:
    """Divide a budget into equal parts, none greater than its room.

    Examples
    --------
    >>> import numpy as np
    >>> spread_evenly(np.array([1.0, 9.0, 0.0, 9.0]), 7.0).tolist()
    [1.0, 3.0, 0.0, 3.0]
    """
    given, left = np.zeros(len(room)), budget
    order = np.argsort(room, kind="stable")
    for place, cell in enumerate(order.tolist()):
        given[cell] = min(float(room[cell]), left / (len(order) - place))
        left -= given[cell]
    return given
