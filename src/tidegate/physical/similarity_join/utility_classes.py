"""Elements by what they are worth: the kinds by which a join that sheds tells them apart.

Where utilities are given for values of a type, each of these is a kind, and all others are one. Where the type is the
utility itself, kinds are 16 classes of it: none, 0, less than 0.03, from there to 30,000 in half decades, and more. In
a class, all count as its middle. What has no type, or a negative one, counts as is said for all others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.algebra.similarity_join import Utility
from tidegate.expressions.columns import nulls, numbers
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Expression, columns_of
from tidegate.physical.common.arrays import Floats, Ints, Mask
from tidegate.physical.similarity_join.kernels.model import Joint, Utilities
from tidegate.schema import Schema

_OTHERS, _NOTHING = 0, 1
"""The kinds of what has no utility, and of what is worth nothing, where the type is the utility."""

_STEPS = 10.0 ** np.arange(-1.5, 5.0, 0.5)
"""Where a class of utilities ends and the next begins."""


@dataclass(frozen=True, slots=True)
class Kinds:
    """The type of the elements of each side, where it has one, and what they are worth."""

    utility: Utility
    types: tuple[Expression | None, Expression | None]

    def utilities(self) -> Utilities:
        """What kinds are worth; a side without a type is worth what all others are."""
        utility = self.utility
        if utility.worth:
            by_kind = np.array([*(worth for _, worth in utility.worth), utility.otherwise], np.float64)
        else:
            middles = np.append(_STEPS, _STEPS[-1] * 10.0**0.5) * 10.0**-0.25
            by_kind = np.concatenate([[utility.otherwise, 0.0], middles])
        left, right = (
            by_kind if type_ is not None else np.full_like(by_kind, utility.otherwise) for type_ in self.types
        )
        return Utilities(left, right, Joint.AVERAGE if utility.average else Joint.MAXIMUM)

    def of(self, stream: int, columns: pa.RecordBatch, rows: int) -> Ints:
        """The kind of each row."""
        type_ = self.types[stream]
        if type_ is None:
            return np.zeros(rows, np.int64)
        found = evaluate(type_, columns, rows)
        unknown = nulls(found.values)
        if found.errors is not None:
            unknown = unknown | (found.errors != 0)
        return self._by_value(found.values, unknown) if self.utility.worth else _by_size(found.values, unknown)

    def _by_value(self, values: pa.Array, unknown: Mask) -> Ints:
        """The place of each value; where several are equal, the first."""
        kinds = np.full(len(values), len(self.utility.worth))
        for kind, (value, _) in reversed(list(enumerate(self.utility.worth))):
            kinds[_equal(values, value)] = kind
        kinds[unknown] = len(self.utility.worth)
        return kinds


def kinds_of(utility: Utility | None, left: Schema, right: Schema) -> Kinds | None:
    """The kinds of elements of both sides; each type belongs to the side whose columns it reads."""
    if utility is None:
        return None
    one, other = (
        next((type_ for type_ in utility.types if columns_of(type_) and columns_of(type_) <= set(side.names)), None)
        for side in (left, right)
    )
    return Kinds(utility, (one, other))


def _equal(values: pa.Array, value: object) -> Mask:
    try:
        constant = pa.scalar(value, values.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return np.zeros(len(values), np.bool_)  # the type has no such value
    if pa.types.is_integer(values.type) and constant.as_py() != value:
        return np.zeros(len(values), np.bool_)  # nor such a fraction
    return np.asarray(pc.equal(values, constant).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003 - Arrow's API


def _by_size(values: pa.Array, unknown: Mask) -> Ints:
    amounts: Floats = numbers(values).astype(np.float64)
    kinds = np.where(amounts > 0, _NOTHING + 1 + np.searchsorted(_STEPS, amounts, side="right"), _NOTHING)
    kinds[unknown | ~(amounts >= 0)] = _OTHERS
    return kinds
