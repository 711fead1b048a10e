"""Intervals that contain all values of an expression, given intervals for its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce

import numpy as np

from tidegate.expressions.functions.signatures import FUNCTIONS, Nulls
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal, columns_of, walk
from tidegate.expressions.shape.intervals import (
    WHOLE,
    ZERO,
    Interval,
    Numbers,
    between,
    make_interval,
    next_down,
    next_up,
    point,
)
from tidegate.expressions.shape.smooth import SMOOTH, enclose_power
from tidegate.schema import Domain, Type
from tidegate.values import value

INTEGERS = {Type.INT: 2.0**31, Type.BIGINT: 2.0**63}
"""The smallest positive number that is too large for each integer type."""

_HALF_TURN = 3.1415926535897936  # slightly more than π
_DIGITS = 300
_SINGLE = float(np.finfo(np.float32).max)


@value
class Box:
    """An interval for each column, or one per box; `given` are the columns that are never NULL."""

    columns: Mapping[str, Interval]
    given: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Interval:
        return self.columns[name]

    def only(self, names: Iterable[str]) -> Box:
        """Return the box without other columns."""
        return Box({name: self.columns[name] for name in sorted(names)}, self.given)

    def with_column(self, name: str, values: Interval) -> Box:
        """Return the box with a column that is never NULL."""
        return Box({**self.columns, name: values}, self.given | {name})


NO_COLUMNS = Box({})


def box_of(expression: Expression, domains: Mapping[str, Domain]) -> Box:
    """Return the box of all possible values of the columns of an expression."""
    columns = {e.name: e.type for e in walk(expression) if isinstance(e, Column)}
    return Box(
        {name: _interval_of_domain(type_, domains.get(name, Domain())) for name, type_ in sorted(columns.items())}
    )


def _interval_of_domain(type_: Type, domain: Domain) -> Interval:
    match type_:
        case Type.INT | Type.BIGINT:
            limit = INTEGERS[type_]
            low, high = max(domain.low, -limit), min(domain.high, limit - 1)
            return between(float(np.ceil(low)), float(np.floor(high)))
        case Type.REAL:
            return between(max(domain.low, -_SINGLE), min(domain.high, _SINGLE))
        case Type.DOUBLE:
            return between(domain.low, domain.high)
        case Type.BOOLEAN:
            return between(0.0, 1.0)
    return WHOLE


@np.errstate(all="ignore")
def enclose(expression: Expression, box: Box) -> Interval:
    """Return an interval that contains all values of an expression, where it is defined."""
    return _enclose(expression, box)


def _enclose(expression: Expression, box: Box) -> Interval:
    match expression:
        case Literal(value=value, type=type_):
            return _enclose_constant(value, type_)
        case Column(name=name):
            return box[name]
        case Cast(argument=argument, type=type_):
            return _cast(argument.type, type_, _enclose(argument, box))
        case Case(branches=branches, otherwise=otherwise):
            return _enclose_any([value for _, value in branches] + [otherwise], box)
        case InList():
            return between(0.0, 1.0)
        case Call(user=user, type=type_) if user is not None or not (type_.is_numeric or type_ is Type.BOOLEAN):
            return WHOLE
        case Call(type=Type.BOOLEAN):
            return between(0.0, 1.0)
        case Call(function=name, arguments=arguments):
            return _enclose_call(name, arguments, box)


def _enclose_constant(value: object, type_: Type) -> Interval:
    match value:
        case bool():
            return point(float(value))
        case int() if int(float(value)) != value:
            return between(float(next_down(float(value))), float(next_up(float(value))))
        case int() | float() if np.isfinite(value):
            return point(float(np.float32(value)) if type_ is Type.REAL else float(value))
    return WHOLE


def is_null_literal(expression: Expression) -> bool:
    """Return whether the expression is the constant NULL."""
    return isinstance(expression, Literal) and expression.value is None


def constant_number(expression: Expression) -> float | None:
    """Return the value of an expression without columns, if it is exactly one number."""
    if columns_of(expression):
        return None
    value = enclose(expression, NO_COLUMNS)
    return float(value.low[0]) if value.low[0] == value.high[0] else None


def _enclose_call(name: str, arguments: tuple[Expression, ...], box: Box) -> Interval:
    if smooth := SMOOTH.get(name):
        return smooth.value(_enclose(arguments[0], box))
    if step := STEPS.get(name):
        of = _enclose(arguments[0], box)
        return step(of) if len(arguments) == 1 else _round_to_digits(of, constant_number(arguments[1]))
    match name, arguments:
        case "+", (a, b):
            return _enclose(a, box) + _enclose(b, box)
        case "-", (a, b):
            return ZERO if a == b else _enclose(a, box) - _enclose(b, box)
        case "*", (a, b):
            return _enclose(a, box).square() if a == b else _enclose(a, box) * _enclose(b, box)
        case "/", (a, b):
            return _enclose(a, box) / _enclose(b, box)
        case "negate", (a,):
            return -_enclose(a, box)
        case "abs", (a,):
            return _enclose(a, box).magnitude()
        case "power", (base, exponent):
            return _power(base, exponent, box)
        case "log", (base, value):
            natural = SMOOTH["ln"].value
            return natural(_enclose(value, box)) / natural(_enclose(base, box))
        case "atan2", (y, x):
            right = _enclose(x, box)
            angle = SMOOTH["atan"].value(_enclose(y, box) / right)
            return angle.where(right.low > 0, between(-_HALF_TURN, _HALF_TURN))
        case "greatest", _:
            return _greatest(arguments, box)
        case "least", _:
            return -_greatest(arguments, box, lambda i: -i)
        case "coalesce", _:
            return _enclose_any(arguments, box)
    return WHOLE


def _round_to_digits(of: Interval, digits: float | None) -> Interval:
    """Round to a number of digits: the result is at most half a unit of the last digit away."""
    if digits is None or abs(digits) > _DIGITS:
        return WHOLE
    half = 0.51 * 10.0**-digits
    return of + between(-half, half)


def _power(base: Expression, exponent: Expression, box: Box) -> Interval:
    if (constant := constant_number(exponent)) is not None:
        return enclose_power(_enclose(base, box), constant)
    of = _enclose(base, box)
    positive = SMOOTH["exp"].value(_enclose(exponent, box) * SMOOTH["ln"].value(of))
    return positive.where(of.low > 0, between(0.0, np.inf).where(of.low >= 0, WHOLE))


def _enclose_any(choices: Iterable[Expression], box: Box) -> Interval:
    values = [_enclose(c, box) for c in choices if not is_null_literal(c)]
    return reduce(Interval.hull, values) if values else WHOLE


def _greatest(
    arguments: tuple[Expression, ...], box: Box, seen: Callable[[Interval], Interval] = lambda i: i
) -> Interval:
    """Return the greatest argument that is not NULL; arguments that can be NULL give no lower bound."""
    given = [(seen(_enclose(a, box)), is_never_null(a, box)) for a in arguments if not is_null_literal(a)]
    if not given:
        return WHOLE
    low = reduce(np.minimum, [i.low for i, _ in given])
    low = reduce(np.maximum, [i.low for i, sure in given if sure], low)
    return make_interval(low, reduce(np.maximum, [i.high for i, _ in given]))


def is_never_null(expression: Expression, box: Box) -> bool:
    """Return whether an expression is never NULL, whatever the data."""
    match expression:
        case Column(name=name):
            return name in box.given
        case Literal(value=value):
            return value is not None
        case Call(function=name, arguments=arguments, user=None):
            return FUNCTIONS[name].nulls is Nulls.PROPAGATE and all(is_never_null(a, box) for a in arguments)
        case Cast(argument=argument):
            return is_never_null(argument, box)
    return False


def _cast(source: Type, target: Type, of: Interval) -> Interval:
    if source is Type.BOOLEAN:
        return between(0.0, 1.0)
    if not (source.is_numeric and target.is_numeric):
        return WHOLE
    if target.is_integer and source.is_floating:
        return Interval(np.trunc(of.low), np.trunc(of.high))
    if target is Type.REAL:
        return Interval(_round_to_single(of.low), _round_to_single(of.high))
    return of


def _round_to_single(value: Numbers) -> Numbers:
    return value.astype(np.float32).astype(np.float64)


def _round_half_away(value: Numbers) -> Numbers:
    """Round to the nearest integer, halves away from zero."""
    size = np.abs(value)
    whole = np.floor(size)
    return np.where(np.isinf(value), value, np.copysign(whole + (size - whole >= 0.5), value))


STEPS: dict[str, Callable[[Interval], Interval]] = {
    name: (lambda of, step=step: Interval(step(of.low), step(of.high)))  # type: ignore[misc]
    for name, step in (
        ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("sign", np.sign), ("round", _round_half_away)
    )
}  # fmt: skip
"""Functions that rise in steps."""
