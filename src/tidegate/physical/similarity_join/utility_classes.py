"""Utility classes: the kinds of elements that a join distinguishes when it sheds.

If utilities are given for values of a type, each of these values is a kind, and all others are one. If the type is the
utility itself, the kinds are 16 classes: none, 0, less than 0.03, from there to 30,000 in half decades, and more. All
elements of a class count as its middle. Elements without a type, or with a negative one, have the utility given for all
others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.algebra.similarity_join import Utility
from tidegate.expressions.columns import null_mask, numbers
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Expression, columns_of
from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.similarity_join.kernels.model import PairUtility, Utilities
from tidegate.schema import Schema

_OTHERS, _NOTHING = 0, 1
"""Kinds of elements without a utility, and with utility 0, if the type is the utility."""

_STEPS = 10.0 ** np.arange(-1.5, 5.0, 0.5)
"""Boundaries of the utility classes."""


@dataclass(frozen=True, slots=True)
class UtilityClasses:
    """Type of the elements of each side, if it has one, and the utility of types."""

    utility: Utility
    types: tuple[Expression | None, Expression | None]

    def utilities(self) -> Utilities:
        """Return the utility of kinds. A side without a type has the utility of all others."""
        utility = self.utility
        if utility.by_value:
            by_kind = np.array([*(worth for _, worth in utility.by_value), utility.otherwise], np.float64)
        else:
            middles = np.append(_STEPS, _STEPS[-1] * 10.0**0.5) * 10.0**-0.25
            by_kind = np.concatenate([[utility.otherwise, 0.0], middles])
        left, right = (
            by_kind if type_ is not None else np.full_like(by_kind, utility.otherwise) for type_ in self.types
        )
        return Utilities(left, right, PairUtility.AVERAGE if utility.average else PairUtility.MAXIMUM)

    def kinds_of_rows(self, stream: int, columns: pa.RecordBatch, rows: int) -> Ints:
        """Return the kind of each row."""
        type_ = self.types[stream]
        if type_ is None:
            return np.zeros(rows, np.int64)
        found = evaluate(type_, columns, rows)
        unknown = null_mask(found.values)
        if found.errors is not None:
            unknown = unknown | (found.errors != 0)
        return (
            self._kinds_by_value(found.values, unknown)
            if self.utility.by_value
            else _kinds_by_size(found.values, unknown)
        )

    def _kinds_by_value(self, values: pa.Array, unknown: Mask) -> Ints:
        """Return the position of each value in the list of utilities; of equal ones, the first."""
        kinds = np.full(len(values), len(self.utility.by_value))
        for kind, (value, _) in reversed(list(enumerate(self.utility.by_value))):
            kinds[_rows_equal_to(values, value)] = kind
        kinds[unknown] = len(self.utility.by_value)
        return kinds


def utility_classes_of(utility: Utility | None, left: Schema, right: Schema) -> UtilityClasses | None:
    """Return the kinds of elements of both sides. Each type belongs to the side whose columns it reads."""
    if utility is None:
        return None
    one, other = (
        next((type_ for type_ in utility.types if columns_of(type_) and columns_of(type_) <= set(side.names)), None)
        for side in (left, right)
    )
    return UtilityClasses(utility, (one, other))


def _rows_equal_to(values: pa.Array, value: object) -> Mask:
    try:
        constant = pa.scalar(value, values.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return np.zeros(len(values), np.bool_)  # the type has no such value
    if pa.types.is_integer(values.type) and constant.as_py() != value:
        return np.zeros(len(values), np.bool_)  # an integer is never a fraction
    return np.asarray(pc.equal(values, constant).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003 - Arrow's API


def _kinds_by_size(values: pa.Array, unknown: Mask) -> Ints:
    amounts: Floats = numbers(values).astype(np.float64)
    kinds = np.where(amounts > 0, _NOTHING + 1 + np.searchsorted(_STEPS, amounts, side="right"), _NOTHING)
    kinds[unknown | ~(amounts >= 0)] = _OTHERS
    return kinds
