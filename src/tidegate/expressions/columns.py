"""Conversion of Arrow columns to NumPy arrays and back, for operations that Arrow's kernels lack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.expressions.failures import Errors, Failure, errors_where
from tidegate.schema import Type

Value = Any
"""An Arrow array, or an Arrow scalar for all rows (pyarrow is not typed)."""

Outcome = tuple[Value, Errors | None]
"""Values, which are NULL where a row fails, and the errors."""

Kernel = Callable[[Sequence[Value], Type], Outcome]
"""A function from arguments, of which at least one is an array, to an outcome of the given type."""

Numbers = npt.NDArray[Any]


def is_constant(value: Value) -> bool:
    return isinstance(value, pa.Scalar)


def constant_value(value: Value) -> Any:
    """Return the value of an argument that is the same in all rows, as a Python object."""
    return (value if is_constant(value) else value[0]).as_py()


def as_array(value: Value, rows: int) -> pa.Array:
    """Return the value as an array."""
    if not is_constant(value):
        return value
    # Arrow cannot repeat an array or map zero times.
    return pa.repeat(value, rows) if rows else pa.array([], value.type)


def numbers(value: Value) -> Numbers:
    """Return numbers, 0 where NULL; times and intervals in microseconds; an array without axes for a constant."""
    if is_constant(value):
        return np.asarray(numbers(pa.repeat(value, 1))[0])
    if pa.types.is_temporal(value.type):
        value = value.view(pa.int64())
    filled = value.fill_null(pa.scalar(0, value.type)) if value.null_count else value
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def null_mask(*values: Value) -> Mask:
    """Return the mask of rows in which any of the values is NULL."""
    missing = [np.asarray(not v.is_valid) if is_constant(v) else _array_null_mask(v) for v in values]
    return np.asarray(np.logical_or.reduce(np.broadcast_arrays(*missing)))


def _array_null_mask(array: pa.Array) -> Mask:
    if not array.null_count:
        return np.zeros(len(array), np.bool_)
    return np.asarray(array.is_null().to_numpy(zero_copy_only=False))


def true_mask(condition: Value, rows: int) -> Mask:
    """Return the mask of rows in which the condition is true: not false, not NULL."""
    if is_constant(condition):
        return np.full(rows, condition.as_py() is True)
    return np.asarray(condition.fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003 - Arrow's API


def make_column(values: Numbers, missing: Mask, type_: Type) -> pa.Array:
    """Return an Arrow array of the type, NULL in the rows of the mask."""
    stored = pa.int64() if pa.types.is_temporal(type_.arrow) else type_.arrow
    made = pa.array(values, mask=missing if missing.any() else None, from_pandas=False)
    made = made if made.type == stored else made.cast(stored, safe=False)
    return made if stored == type_.arrow else made.view(type_.arrow)


def make_outcome(values: Numbers, missing: Mask, bad: Mask, failure: Failure, type_: Type) -> Outcome:
    """Return values of which some rows are NULL and some fail; a NULL row does not fail."""
    errors = errors_where(bad & ~missing, failure)
    return make_column(values, missing | bad, type_), errors


def null_where(value: Value, rows: Mask) -> pa.Array:
    """Return the value, NULL in the given rows."""
    array = as_array(value, len(rows))
    return pc.if_else(pa.array(rows), pa.scalar(None, array.type), array)
