"""Aggregates defined by Python functions, over the values that are live in each slot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.expressions.functions.aggregates import Fold, SlotValues
from tidegate.expressions.user_calls import describe_error
from tidegate.physical.aggregate.kernels.slots import Spans
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.dead_letters import Reason


def fold_slots(fold: Fold, values: Sequence[tuple[Any, ...]], order: Ints, spans: Spans, count: int) -> SlotValues:
    """Return the aggregate of the values in each slot; a slot for which a function fails has none.

    In every slot, values are folded in the given order, so that the result does not depend on their order of arrival.
    """
    results: list[Any] = [None] * count
    details: list[str | None] = [None] * count
    for slot, rows in _live_rows_by_slot(order, spans, count):
        try:
            results[slot] = pa.scalar(_fold_values(fold, [values[row] for row in rows]), fold.type.arrow).as_py()
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            details[slot] = describe_error(error)
    made = pa.array(results, fold.type.arrow)
    return SlotValues(made, Reason.USER_FUNCTION.value, pa.array(details, pa.string()) if any(details) else None)


def _fold_values(fold: Fold, values: Sequence[tuple[Any, ...]]) -> Any:
    partial = fold.initial(*values[0])
    for value in values[1:]:
        partial = fold.merge(partial, *value)
    return fold.result(partial)


def _live_rows_by_slot(order: Ints, spans: Spans, count: int) -> Iterator[tuple[int, list[int]]]:
    """Yield each slot that has live rows, with these rows in the given order."""
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    begins, ends = _rows_by_slot(spans.first, count), _rows_by_slot(spans.last, count)
    live: set[int] = set()
    for slot in range(count):
        live.difference_update(places[ends[slot]].tolist())
        live.update(places[begins[slot]].tolist())
        if live:
            yield slot, order[sorted(live)].tolist()


def _rows_by_slot(slots: Ints, count: int) -> list[Ints]:
    order = np.argsort(slots, kind="stable")
    return np.split(order, np.searchsorted(slots[order], np.arange(1, count + 1)))
