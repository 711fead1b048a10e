"""Compare the function of an alert on one stream with its threshold; each side is computed once for each element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from tidegate.algebra.threshold_alert import Alert
from tidegate.expressions.evaluate import Evaluation, evaluate
from tidegate.expressions.failures import merge
from tidegate.expressions.nodes import Call, Cast, Column, Expression, columns_of, transform
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch


@dataclass(frozen=True, slots=True, eq=False)
class Crossing:
    """Whether elements raise an alarm, and what computes their values."""

    raised: Mask
    verdict: Evaluation
    columns: pa.RecordBatch
    value: Expression

    def values_of(self, rows: Ints) -> pa.Array:
        """Return the values of the alert's function for some elements."""
        # The comparison may succeed where computing the value fails; such an alarm has no value.
        return evaluate(self.value, self.columns.take(pa.array(rows)), len(rows)).values


def evaluate_crossing(alert: Alert, batch: Batch) -> Crossing:
    """Compare the function of each element with the threshold."""
    sides = {f"alert:side:{place}": each for place, each in enumerate(_computed_sides(alert.condition))}
    found = {name: evaluate(each, batch.columns, len(batch)) for name, each in sides.items()}
    names = [*batch.columns.schema.names, *found]
    arrays = [*batch.columns.columns, *(each.values for each in found.values())]
    columns = pa.RecordBatch.from_arrays(arrays, names)
    condition, value = (_read_sides(each, sides) for each in (alert.condition, alert.value))
    compared = evaluate(condition, columns, len(batch))
    every = [*found.values(), compared]
    errors = reduce(merge, (each.errors for each in every), None)
    texts = {row: text for each in reversed(every) for row, text in each.texts.items()}
    raised = np.asarray(compared.values.fill_null(False).to_numpy(zero_copy_only=False), np.bool_)  # noqa: FBT003 - Arrow's API
    raised = raised if errors is None else raised & (errors == 0)
    return Crossing(raised, Evaluation(compared.values, errors, texts), columns, value)


def _computed_sides(condition: Expression) -> list[Expression]:
    """Return the sides of a comparison that are more than a column or a constant, without casts around them."""
    assert isinstance(condition, Call)
    sides = dict.fromkeys(map(_without_casts, condition.arguments))
    return [side for side in sides if columns_of(side) and not isinstance(side, Column)]


def _without_casts(expression: Expression) -> Expression:
    while isinstance(expression, Cast):
        expression = expression.argument
    return expression


def _read_sides(expression: Expression, sides: Mapping[str, Expression]) -> Expression:
    """Return an expression that reads the sides from columns."""
    names = {side: name for name, side in sides.items()}
    return transform(expression, lambda e: Column(names[e], e.type) if e in names else e)
