"""Observe how long after a greater value a value arrives.

The state has the *steps* at which the running maximum grew. The first step above a value is the first greater value.
Beyond the limit, only the last step is kept. A value below it is farther away than the limit, and counts as the limit
plus one.

Values are integers in the order of the values they encode. A part of a stream measures against the values that it has
seen itself. These are the greatest of all if the steps of all parts are merged after each batch, and places are the
numbers at the ends of batches.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Array, Columns, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.hashing import read_only
from tidegate.physical.keyed_join.kernels.monitor import Limits, Observations, ObserverState, filter_rows


class OrderedArrivals(NamedTuple):
    """Arrivals of one stream: values that are not NULL, places, and the least place of later arrivals."""

    value: Ints
    at: Ints
    watermark: int


def _no_rows() -> Columns:
    return _value_columns([], [])


@dataclass(frozen=True, slots=True, eq=False)
class OrdersSeen(ObserverState):
    """Steps of the running maximum, and arrivals that wait for the watermark because earlier ones may still arrive."""

    steps: Columns = field(default_factory=_no_rows)
    pending: Columns = field(default_factory=_no_rows)


def observe_orders(seen: OrdersSeen, arrivals: OrderedArrivals, limits: Limits) -> tuple[OrdersSeen, Observations]:
    """Measure how far values that the watermark has passed are from the first greater one. No keys are sampled."""
    settled, pending = _split_at_watermark(seen.pending, arrivals)
    steps, distance = seen.steps, np.empty(0, np.int64)
    if len(settled["at"]):
        columns = (steps["value"], steps["at"], settled["value"], settled["at"])
        value, at, distance = _measure_inversions(*columns, limits.kept)
        if len(at) > len(steps["at"]):
            steps = _value_columns(value, at)
    return OrdersSeen(_steps_within_limit(steps, arrivals.watermark, limits.kept), pending), Observations.of(distance)


def _split_at_watermark(pending: Columns, arrivals: OrderedArrivals) -> tuple[Columns, Columns]:
    """Return the arrivals before the watermark, by place and value, and the rest."""
    value, at = arrivals.value, arrivals.at
    if len(pending["at"]):
        value, at = np.concatenate([pending["value"], value]), np.concatenate([pending["at"], at])
    if (at[1:] <= at[:-1]).any():
        order = np.lexsort((value, at))
        value, at = value[order], at[order]
    count = int(np.searchsorted(at, arrivals.watermark))
    unchanged = (count == 0 and not len(arrivals.at)) or (count == len(at) and not len(pending["at"]))
    return _value_columns(value[:count], at[:count]), pending if unchanged else _value_columns(
        value[count:], at[count:]
    )


def _steps_within_limit(steps: Columns, watermark: int, kept: int) -> Columns:
    """Return the steps that are within the limit of later arrivals, and the last one before them."""
    far = np.count_nonzero(steps["at"] + kept < watermark)
    return filter_rows(steps, np.arange(len(steps["at"])) >= far - 1)


def _value_columns(value: npt.ArrayLike, at: npt.ArrayLike) -> dict[str, Array]:
    columns = {"value": value, "at": at}
    return {name: read_only(np.ascontiguousarray(column, np.int64)) for name, column in columns.items()}


@compiled
def _measure_inversions(step_value: Ints, step_at: Ints, value: Ints, at: Ints, kept: int) -> tuple[Ints, Ints, Ints]:
    """Return the steps after the arrivals, which are sorted by place and value, and the distances of all arrivals."""
    count = len(step_at)
    values, places = np.empty(count + len(at), np.int64), np.empty(count + len(at), np.int64)
    values[:count], places[:count] = step_value, step_at
    distance = np.zeros(len(at), np.int64)
    for i in range(len(at)):
        if count and value[i] < values[count - 1]:
            first = np.searchsorted(values[:count], value[i], side="right")
            apart = at[i] - places[first]
            distance[i] = apart if apart <= kept else kept + 1
        elif not count or value[i] > values[count - 1]:
            values[count], places[count] = value[i], at[i]
            count += 1
    return values[:count], places[:count], distance
