"""Comparisons in which NaN equals NaN and is greater than every number, and functions based on them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.collection_entries import identity_bytes, is_collection
from tidegate.expressions.columns import Kernel, Outcome, Value, is_constant
from tidegate.schema import Type

Comparison = Callable[[Value, Value], Any]


def _has_nan(value: Value) -> bool:
    if not pa.types.is_floating(value.type):
        return False
    found = pc.is_nan(value) if is_constant(value) else pc.any(pc.is_nan(value))
    return bool(found.as_py())


def _comparable(value: Value) -> Value:
    """Convert arrays and maps to bytes, which Arrow can compare."""
    if not is_collection(value.type):
        return value
    return identity_bytes(pa.repeat(value, 1))[0] if is_constant(value) else identity_bytes(value)


def equal(left: Value, right: Value) -> Value:
    left, right = _comparable(left), _comparable(right)
    same = pc.equal(left, right)
    # Check the constant first: if it is not NaN, the column need not be searched.
    if all(_has_nan(side) for side in sorted((left, right), key=is_constant, reverse=True)):
        return pc.or_(same, pc.and_(pc.is_nan(left), pc.is_nan(right)))
    return same


def less(left: Value, right: Value) -> Value:
    if is_constant(left) and pa.types.is_floating(left.type) and not _has_nan(left):
        return pc.invert(pc.greater_equal(left, right))  # also true where the right is NaN
    if not _has_nan(right):
        return pc.less(left, right)  # a NaN on the left is less than nothing
    below = pc.invert(pc.greater_equal(left, right))
    return pc.and_(below, pc.invert(pc.is_nan(left)))


def greater(left: Value, right: Value) -> Value:
    return less(right, left)


def _comparison_kernel(compare: Comparison) -> Kernel:
    return lambda arguments, _: (compare(*arguments), None)


def _extreme_kernel(better: Comparison) -> Kernel:
    """Make a kernel for the greatest or least of the arguments that are not NULL."""

    def choose(best: Value, other: Value) -> Value:
        # Where one side is NULL, so is the comparison; coalesce then takes the other side.
        return pc.coalesce(pc.if_else(better(other, best), other, best), best, other)

    return lambda arguments, _: (reduce(choose, arguments), None)


def _null_if(arguments: Sequence[Value], type_: Type) -> Outcome:
    value, other = arguments
    same = pc.fill_null(equal(value, other), False)  # noqa: FBT003 - Arrow's API
    return pc.if_else(same, pa.scalar(None, type_.arrow), value), None


def is_in(value: pa.Array, options: Sequence[Any], type_: Type) -> pa.Array:
    """Return whether the value is one of the options, in SQL's three-valued logic."""
    known = [o for o in options if o is not None]
    if type_.is_floating:
        known += [-o for o in known if o == 0]  # Arrow's set distinguishes the two zeros, and NaNs by their bits
    found = pc.is_in(value, value_set=pa.array(known, type_.arrow))
    if type_.is_floating and any(map(math.isnan, known)):
        found = pc.or_(found, pc.fill_null(pc.is_nan(value), False))  # noqa: FBT003
    unknown = pa.scalar(None, pa.bool_())
    if None in options:
        found = pc.if_else(found, found, unknown)
    return pc.if_else(pc.is_valid(value), found, unknown)


COMPARISONS: dict[str, Kernel] = {
    "=": _comparison_kernel(equal),
    "<>": _comparison_kernel(lambda a, b: pc.invert(equal(a, b))),
    "<": _comparison_kernel(less),
    ">": _comparison_kernel(greater),
    "<=": _comparison_kernel(lambda a, b: pc.invert(greater(a, b))),
    ">=": _comparison_kernel(lambda a, b: pc.invert(less(a, b))),
    "not": lambda arguments, _: (pc.invert(arguments[0]), None),
    "is_null": lambda arguments, _: (pc.is_null(arguments[0]), None),
    "is_true": lambda arguments, _: (pc.fill_null(arguments[0], False), None),  # noqa: FBT003
    "is_false": lambda arguments, _: (pc.fill_null(pc.invert(arguments[0]), False), None),  # noqa: FBT003
    "greatest": _extreme_kernel(greater),
    "least": _extreme_kernel(less),
    "nullif": _null_if,
}
