"""Rows of a batch that a filter selects, by an order of values that many filters of a step share.

Of a thousand live queries, many compare the same expression with other constants. The first few filters of a step each
look at all rows. Then the values are sorted, once, and every later filter finds its rows by binary search: its cost
grows with the rows that it selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Call, Expression, Literal, conjuncts
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.values import value

SORT_FROM = 16
"""Number of filters over one expression and batch from which on its values are sorted: that takes about as long."""
LARGEST_PART = 0.25
"""A filter that selects more than this part of the rows looks at all of them instead."""

_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}


@value
class ConstantComparison:
    """A comparison of an expression with a constant."""

    expression: Expression
    function: str
    constant: int | float


@dataclass(slots=True)
class SortedValues:
    """Values of an expression for the rows of a batch in ascending order; rows with NULL are left out.

    `rows` is None while too few filters have asked, and if the expression fails for a row.
    """

    asked: int = 0
    rows: Ints | None = None
    values: npt.NDArray[Any] | None = None

    def sort(self, expression: Expression, batch: Batch) -> None:
        found = evaluate(expression, batch.columns, len(batch))
        if found.errors is not None:
            return
        rows = np.flatnonzero(found.values.is_valid().to_numpy(zero_copy_only=False))
        values = found.values.drop_null().to_numpy(zero_copy_only=False)
        order = np.argsort(values)  # NaN comes last: it is greater than every number
        self.rows, self.values = rows[order], values[order]

    def extent(self, comparison: ConstantComparison) -> tuple[int, int]:
        """Return where the rows for which a comparison is true begin and end in the order."""
        assert self.values is not None
        constant = np.asarray(comparison.constant, self.values.dtype)
        first = int(np.searchsorted(self.values, constant, "left"))
        last = int(np.searchsorted(self.values, constant, "right"))
        match comparison.function:
            case "<":
                return 0, first
            case "<=":
                return 0, last
            case ">":
                return last, len(self.values)
            case ">=":
                return first, len(self.values)
            case _:
                return first, last


def select_candidates(predicate: Expression, batch: Batch) -> Ints | None:
    """Return rows, in their order, among which are all for which the predicate is true; None if that is not known.

    For no other row does the predicate fail.
    """
    least: tuple[int, int] | None = None
    rows: Ints | None = None
    for comparison in constant_comparisons(predicate):
        known = batch.memo.setdefault(comparison.expression, SortedValues())
        known.asked += 1
        if known.asked == SORT_FROM:
            known.sort(comparison.expression, batch)
        if known.rows is None:
            continue
        begin, end = known.extent(comparison)
        if least is None or end - begin < least[1] - least[0]:
            least, rows = (begin, end), known.rows
    if least is None or rows is None or least[1] - least[0] > LARGEST_PART * len(batch):
        return None
    return np.sort(rows[slice(*least)])


def is_one_comparison(predicate: Expression) -> bool:
    """Return whether the predicate is a comparison with a constant and nothing else."""
    return len(conjuncts(predicate)) == 1 and len(constant_comparisons(predicate)) == 1


@lru_cache(maxsize=8192)
def constant_comparisons(predicate: Expression) -> tuple[ConstantComparison, ...]:
    """Return the comparisons with constants of which all must be true; none if another part of the predicate can fail.

    Where one of them is not true, the others decide nothing, except that they could fail.
    """
    parts = conjuncts(predicate)
    found = {part: _as_comparison(part) for part in parts}
    if len(parts) > 1 and can_fail(predicate):
        return ()
    return tuple(each for each in found.values() if each is not None)


def _as_comparison(part: Expression) -> ConstantComparison | None:
    match part:
        case Call(function, (Literal() as constant, expression)) if function in _MIRRORED:
            return _make_comparison(expression, _MIRRORED[function], constant)
        case Call(function, (expression, Literal() as constant)) if function in _MIRRORED:
            return _make_comparison(expression, function, constant)
    return None


def _make_comparison(expression: Expression, function: str, constant: Literal) -> ConstantComparison | None:
    number, type_ = constant.value, expression.type.arrow
    if isinstance(number, bool) or not isinstance(number, int | float) or constant.type != expression.type:
        return None
    if not (pa.types.is_integer(type_) or pa.types.is_floating(type_)) or isnan(number):
        return None
    return ConstantComparison(expression, function, number)
