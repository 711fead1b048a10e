"""Sort rows by time and break ties by values, so that the order of arrival does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.groups import sort_by_group_and_time
from tidegate.physical.common.kernels.order_codes import order_codes, presence


class TimeOrder(NamedTuple):
    """New elements: where each group begins in `order`, the rows by group and time, times by row."""

    bounds: Ints
    order: Ints
    times: Ints


def sort_in_time_order(groups: Ints, times: Ints, columns: Sequence[pa.Array], *, count: int) -> TimeOrder:
    """Sort rows by group and time; at one instant by their values, ascending, NULL last.

    Examples
    --------
    >>> of = pa.array([None, 2.0, 1.0, 0.0])
    >>> sort_in_time_order(np.array([0, 0, 0, 1]), np.array([5, 5, 5, 1]), [of], count=2).order.tolist()
    [2, 1, 0, 3]
    """
    bounds, order = sort_by_group_and_time(groups, times, count=count)
    owners, instants = groups[order], times[order]
    same = (owners[1:] == owners[:-1]) & (instants[1:] == instants[:-1])
    if same.any():
        tied = np.flatnonzero(np.append(same, values=False) | np.append([False], same))
        instant = np.cumsum(np.append([True], ~same))[tied]
        order[tied] = order[tied][_order_by_values(instant, [c.take(pa.array(order[tied])) for c in columns])]
    return TimeOrder(bounds, order, np.require(times, np.int64, ["C", "W"]))


def _order_by_values(instant: Ints, columns: Sequence[pa.Array]) -> Ints:
    keys: list[npt.NDArray[Any]] = []
    for column in reversed(columns):
        keys += [order_codes([column]).codes[0], 1 - presence(column)]
    return np.lexsort([*keys, instant])
