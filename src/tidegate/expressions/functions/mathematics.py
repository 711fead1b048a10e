"""Mathematical functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.expressions.columns import Kernel, Numbers, Outcome, Value, make_column, make_outcome, null_mask, numbers
from tidegate.expressions.failures import Failure
from tidegate.schema import Type

_HALF_AWAY_FROM_ZERO = {"round_mode": "half_towards_infinity"}  # "infinity" has the sign of the number
_LARGEST_POWER = 308


def _plain_kernel(function: Callable[..., Any]) -> Kernel:
    return lambda arguments, _: (function(*arguments), None)


def _partial_kernel(checked: Callable[[Any], Any], outside: Callable[[Numbers], Mask]) -> Kernel:
    """Make a kernel for a function that is undefined for some numbers."""

    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        (value,) = arguments
        try:
            return checked(value), None
        except pa.ArrowInvalid:
            missing, bad = null_mask(value), outside(numbers(value))
            fine = make_column(numbers(value), missing | bad, type_)
            return checked(fine), make_outcome(numbers(value), missing, bad, Failure.DOMAIN, type_)[1]

    return kernel


def _power(arguments: Sequence[Value], type_: Type) -> Outcome:
    base, exponent = numbers(arguments[0]), numbers(arguments[1])
    with np.errstate(all="ignore"):
        result = np.power(base, exponent)
    made_nan = np.isnan(result) & ~np.isnan(base) & ~np.isnan(exponent)
    bad = made_nan | ((base == 0) & (exponent < 0))
    return make_outcome(result, null_mask(*arguments), bad, Failure.DOMAIN, type_)


def _log(arguments: Sequence[Value], type_: Type) -> Outcome:
    base, value = numbers(arguments[0]), numbers(arguments[1])
    bad = (base <= 0) | (base == 1) | (value <= 0)
    with np.errstate(all="ignore"):
        result = np.log(value) / np.log(base)
    return make_outcome(result, null_mask(*arguments), bad, Failure.DOMAIN, type_)


def _sign(arguments: Sequence[Value], type_: Type) -> Outcome:
    return pc.sign(arguments[0]).cast(type_.arrow), None


def _rounding_kernel(function: Callable[[Any], Any]) -> Kernel:
    """Make a kernel for a kind of rounding, which leaves integers unchanged."""

    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        (value,) = arguments
        return (value if type_.is_integer else function(value)), None

    return kernel


def _round(arguments: Sequence[Value], type_: Type) -> Outcome:
    if len(arguments) == 1:
        return _rounding_kernel(lambda value: pc.round(value, **_HALF_AWAY_FROM_ZERO))(arguments, type_)
    value, digits = np.broadcast_arrays(numbers(arguments[0]), numbers(arguments[1]).astype(np.int64))
    missing = null_mask(*arguments)
    if type_.is_integer:
        return _round_integers(value, digits, missing, type_)
    return make_column(_round_floats(value.astype(np.float64), digits), missing, type_), None


def _round_floats(value: Numbers, digits: Numbers) -> Numbers:
    scale = 10.0 ** np.minimum(np.abs(digits), _LARGEST_POWER).astype(np.float64)
    with np.errstate(all="ignore"):
        scaled = np.where(digits >= 0, value * scale, value / scale)
        whole = pc.round(pa.array(scaled), **_HALF_AWAY_FROM_ZERO).to_numpy()
        result = np.where(digits >= 0, whole / scale, whole * scale)
    # A number that overflows when scaled has no such digits after the decimal point.
    unchanged = ~np.isfinite(value) | (digits > _LARGEST_POWER) | ((digits >= 0) & ~np.isfinite(scaled))
    return np.where(unchanged, value, np.where(digits < -_LARGEST_POWER, 0.0, result))


def _round_integers(value: Numbers, digits: Numbers, missing: Mask, type_: Type) -> Outcome:
    wide = value.astype(np.int64)
    step = 10 ** np.clip(-digits, 0, 18)
    rest = np.fmod(wide, step)
    up = np.sign(rest) * step * (np.abs(rest) >= step - np.abs(rest))
    with np.errstate(over="ignore"):
        result = wide - rest + up
    # Rounding away from zero may wrap around, which changes the sign.
    bounds = np.iinfo(value.dtype)
    bad = (result < bounds.min) | (result > bounds.max) | ((up != 0) & (np.sign(result) != np.sign(wide)))
    # 10^19 does not fit in 64 bits, but it is the nearest multiple for some integers.
    bad = np.where(digits < -18, (digits == -19) & ((wide >= 5 * 10**18) | (wide <= -5 * 10**18)), bad)
    return make_outcome(np.where(digits < -18, 0, result), missing, bad, Failure.OVERFLOW, type_)


MATHEMATICS: dict[str, Kernel] = {
    "sign": _sign,
    "round": _round,
    "floor": _rounding_kernel(pc.floor),
    "ceil": _rounding_kernel(pc.ceil),
    "trunc": _rounding_kernel(pc.trunc),
    "sqrt": _partial_kernel(pc.sqrt_checked, lambda x: x < 0),
    "ln": _partial_kernel(pc.ln_checked, lambda x: x <= 0),
    "log10": _partial_kernel(pc.log10_checked, lambda x: x <= 0),
    "log2": _partial_kernel(pc.log2_checked, lambda x: x <= 0),
    "sin": _partial_kernel(pc.sin_checked, np.isinf),
    "cos": _partial_kernel(pc.cos_checked, np.isinf),
    "tan": _partial_kernel(pc.tan_checked, np.isinf),
    "atan": _plain_kernel(pc.atan),
    "atan2": _plain_kernel(pc.atan2),
    "exp": _plain_kernel(pc.exp),
    "power": _power,
    "log": _log,
}
