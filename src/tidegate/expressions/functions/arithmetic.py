"""Arithmetic that detects overflow and division by zero, row by row.

Each kernel first tries Arrow's checked kernel on the whole column. Only if that refuses does it compute in NumPy,
with integers that wrap around, and find the rows that failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.expressions.columns import Kernel, Numbers, Outcome, Value, make_column, make_outcome, null_mask, numbers
from tidegate.expressions.failures import Failure, errors_where, merge
from tidegate.schema import Type

Checked = Callable[..., Any]
Wrapped = Callable[[Numbers, Numbers], Numbers]
Overflows = Callable[[Numbers, Numbers, Numbers], Mask]
"""A function that returns whether an operation on two numbers overflowed, given its result."""


def _binary_kernel(checked: Checked, wrapped: Wrapped, overflows: Overflows) -> Kernel:
    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        left, right = arguments
        try:
            return checked(left, right), None
        except pa.ArrowInvalid:
            a, b = numbers(left), numbers(right)
            with np.errstate(over="ignore"):
                result = wrapped(a, b)
            return make_outcome(result, null_mask(left, right), overflows(a, b, result), Failure.OVERFLOW, type_)

    return kernel


def _sum_overflows(a: Numbers, b: Numbers, result: Numbers) -> Mask:
    return ((a ^ result) & (b ^ result)) < 0


def _difference_overflows(a: Numbers, b: Numbers, result: Numbers) -> Mask:
    return ((a ^ b) & (a ^ result)) < 0


def _product_overflows(a: Numbers, b: Numbers, result: Numbers) -> Mask:
    if result.dtype == np.int32:
        return np.asarray(a.astype(np.int64) * b.astype(np.int64) != result)
    # The quotient shows whether the product wrapped around; but the least number divided by -1 itself overflows.
    least = np.iinfo(result.dtype).min
    some = np.where(a == 0, 1, a)
    with np.errstate(over="ignore"):
        return np.asarray(((a == -1) & (b == least)) | ((a != 0) & (result // some != b)))


def _unary_kernel(checked: Checked, wrapped: Callable[[Numbers], Numbers]) -> Kernel:
    """Make a kernel for negation or absolute value, which overflow for the least integer only."""

    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        (value,) = arguments
        if type_ is Type.INTERVAL:  # Arrow does not check the negation of an interval
            bits, errors = kernel([value.view(pa.int64())], Type.BIGINT)
            return bits.view(type_.arrow), errors
        try:
            return checked(value), None
        except pa.ArrowInvalid:
            a = numbers(value)
            with np.errstate(over="ignore"):
                result = wrapped(a)
            return make_outcome(result, null_mask(value), a == np.iinfo(a.dtype).min, Failure.OVERFLOW, type_)

    return kernel


def _divide(arguments: Sequence[Value], type_: Type) -> Outcome:
    left, right = arguments
    try:
        return pc.divide_checked(left, right), None
    except pa.ArrowInvalid:
        zero = numbers(right) == 0
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):  # as in IEEE 754
            quotient = numbers(left) / np.where(zero, 1.0, numbers(right))
        return make_outcome(
            quotient, null_mask(left, right), _broadcast_mask(zero, quotient), Failure.DIVISION_BY_ZERO, type_
        )


def _integer_divide(arguments: Sequence[Value], type_: Type) -> Outcome:
    left, right = arguments
    try:
        return pc.divide_checked(left, right), None
    except pa.ArrowInvalid:
        a, b = np.broadcast_arrays(numbers(left), numbers(right))
        missing, zero = null_mask(left, right), b == 0
        wide = (b == -1) & (a == np.iinfo(a.dtype).min) & ~missing
        quotient = pc.divide(pa.array(a), pa.array(np.where(zero | wide, a.dtype.type(1), b)))
        errors = merge(errors_where(zero & ~missing, Failure.DIVISION_BY_ZERO), errors_where(wide, Failure.OVERFLOW))
        return make_column(quotient.to_numpy(), missing | zero | wide, type_), errors


def _modulo(arguments: Sequence[Value], type_: Type) -> Outcome:
    left, right = arguments
    a, b = numbers(left), numbers(right)
    zero = b == 0
    with np.errstate(invalid="ignore"):  # infinity modulo a number is NaN
        rest = np.fmod(a, np.where(zero, b.dtype.type(1), b))
    return make_outcome(rest, null_mask(left, right), _broadcast_mask(zero, rest), Failure.DIVISION_BY_ZERO, type_)


def _broadcast_mask(mask: Mask, like: Numbers) -> Mask:
    return np.broadcast_to(mask, like.shape)


ARITHMETIC: dict[str, Kernel] = {
    "+": _binary_kernel(pc.add_checked, np.add, _sum_overflows),
    "-": _binary_kernel(pc.subtract_checked, np.subtract, _difference_overflows),
    "*": _binary_kernel(pc.multiply_checked, np.multiply, _product_overflows),
    "/": _divide,
    "div": _integer_divide,
    "%": _modulo,
    "negate": _unary_kernel(pc.negate_checked, np.negative),
    "abs": _unary_kernel(pc.abs_checked, np.abs),
}
