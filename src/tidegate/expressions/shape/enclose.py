"""Intervals that contain all values of an expression, given intervals for its columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tidegate.expressions.functions.signatures import FUNCTIONS, Nulls
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal, columns_of, walk
from tidegate.expressions.shape.intervals import WHOLE, ZERO, Interval, Numbers, between, down, made, point, up
from tidegate.expressions.shape.smooth import SMOOTH, power
from tidegate.schema import Domain, Type

INTEGERS = {Type.INT: 2.0**31, Type.BIGINT: 2.0**63}
"""The smallest positive number that is too large for each integer type."""

_HALF_TURN = 3.1415926535897936  # slightly more than π
_DIGITS = 300
_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class Box:
    """An interval for each column, or one per box; `given` are the columns that are never NULL."""

    columns: Mapping[str, Interval]
    given: frozenset[str] = frozenset()

    def __getitem__(self, name: str) -> Interval:
        return self.columns[name]

    def only(self, names: Iterable[str]) -> Box:
        """Return the box without other columns."""
        return Box({name: self.columns[name] for name in sorted(names)}, self.given)

    def having(self, name: str, values: Interval) -> Box:
        """Return the box with a column that is never NULL."""
        return Box({**self.columns, name: values}, self.given | {name})


NO_COLUMNS = Box({})


def box_of(expression: Expression, domains: Mapping[str, Domain]) -> Box:
    """Return the box of all possible values of the columns of an expression."""
    columns = {e.name: e.type for e in walk(expression) if isinstance(e, Column)}
    return Box({name: _domain(type_, domains.get(name, Domain())) for name, type_ in sorted(columns.items())})


def _domain(type_: Type, domain: Domain) -> Interval:
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
    return _values(expression, box)


def _values(expression: Expression, box: Box) -> Interval:
    match expression:
        case Literal(value=value, type=type_):
            return _constant(value, type_)
        case Column(name=name):
            return box[name]
        case Cast(argument=argument, type=type_):
            return _cast(argument.type, type_, _values(argument, box))
        case Case(branches=branches, otherwise=otherwise):
            return _any_of([value for _, value in branches] + [otherwise], box)
        case InList():
            return between(0.0, 1.0)
        case Call(user=user, type=type_) if user is not None or not (type_.is_numeric or type_ is Type.BOOLEAN):
            return WHOLE
        case Call(type=Type.BOOLEAN):
            return between(0.0, 1.0)
        case Call(function=name, arguments=arguments):
            return _call(name, arguments, box)


def _constant(value: object, type_: Type) -> Interval:
    match value:
        case bool():
            return point(float(value))
        case int() if int(float(value)) != value:
            return between(float(down(float(value))), float(up(float(value))))
        case int() | float() if np.isfinite(value):
            return point(float(np.float32(value)) if type_ is Type.REAL else float(value))
    return WHOLE


def is_null(expression: Expression) -> bool:
    """Return whether the expression is the constant NULL."""
    return isinstance(expression, Literal) and expression.value is None


def exponent_of(expression: Expression) -> float | None:
    """Return the value of an expression without columns, if it is exactly one number."""
    if columns_of(expression):
        return None
    value = enclose(expression, NO_COLUMNS)
    return float(value.low[0]) if value.low[0] == value.high[0] else None


def _call(name: str, arguments: tuple[Expression, ...], box: Box) -> Interval:
    if smooth := SMOOTH.get(name):
        return smooth.value(_values(arguments[0], box))
    if step := STEPS.get(name):
        of = _values(arguments[0], box)
        return step(of) if len(arguments) == 1 else _to_digits(of, exponent_of(arguments[1]))
    match name, arguments:
        case "+", (a, b):
            return _values(a, box) + _values(b, box)
        case "-", (a, b):
            return ZERO if a == b else _values(a, box) - _values(b, box)
        case "*", (a, b):
            return _values(a, box).square() if a == b else _values(a, box) * _values(b, box)
        case "/", (a, b):
            return _values(a, box) / _values(b, box)
        case "negate", (a,):
            return -_values(a, box)
        case "abs", (a,):
            return _values(a, box).magnitude()
        case "power", (base, exponent):
            return _power(base, exponent, box)
        case "log", (base, value):
            natural = SMOOTH["ln"].value
            return natural(_values(value, box)) / natural(_values(base, box))
        case "atan2", (y, x):
            right = _values(x, box)
            angle = SMOOTH["atan"].value(_values(y, box) / right)
            return angle.where(right.low > 0, between(-_HALF_TURN, _HALF_TURN))
        case "greatest", _:
            return _greatest(arguments, box)
        case "least", _:
            return -_greatest(arguments, box, lambda i: -i)
        case "coalesce", _:
            return _any_of(arguments, box)
    return WHOLE


def _to_digits(of: Interval, digits: float | None) -> Interval:
    """Round to a number of digits: the result is at most half a unit of the last digit away."""
    if digits is None or abs(digits) > _DIGITS:
        return WHOLE
    half = 0.51 * 10.0**-digits
    return of + between(-half, half)


def _power(base: Expression, exponent: Expression, box: Box) -> Interval:
    if (constant := exponent_of(exponent)) is not None:
        return power(_values(base, box), constant)
    of = _values(base, box)
    positive = SMOOTH["exp"].value(_values(exponent, box) * SMOOTH["ln"].value(of))
    return positive.where(of.low > 0, between(0.0, np.inf).where(of.low >= 0, WHOLE))


def _any_of(choices: Iterable[Expression], box: Box) -> Interval:
    values = [_values(c, box) for c in choices if not is_null(c)]
    return reduce(Interval.hull, values) if values else WHOLE


def _greatest(
    arguments: tuple[Expression, ...], box: Box, seen: Callable[[Interval], Interval] = lambda i: i
) -> Interval:
    """Return the greatest argument that is not NULL; arguments that can be NULL give no lower bound."""
    given = [(seen(_values(a, box)), never_null(a, box)) for a in arguments if not is_null(a)]
    if not given:
        return WHOLE
    low = reduce(np.minimum, [i.low for i, _ in given])
    low = reduce(np.maximum, [i.low for i, sure in given if sure], low)
    return made(low, reduce(np.maximum, [i.high for i, _ in given]))


def never_null(expression: Expression, box: Box) -> bool:
    """Return whether an expression is never NULL, whatever the data."""
    match expression:
        case Column(name=name):
            return name in box.given
        case Literal(value=value):
            return value is not None
        case Call(function=name, arguments=arguments, user=None):
            return FUNCTIONS[name].nulls is Nulls.PROPAGATE and all(never_null(a, box) for a in arguments)
        case Cast(argument=argument):
            return never_null(argument, box)
    return False


def _cast(source: Type, target: Type, of: Interval) -> Interval:
    if source is Type.BOOLEAN:
        return between(0.0, 1.0)
    if not (source.is_numeric and target.is_numeric):
        return WHOLE
    if target.is_integer and source.is_floating:
        return Interval(np.trunc(of.low), np.trunc(of.high))
    if target is Type.REAL:
        return Interval(_single(of.low), _single(of.high))
    return of


def _single(value: Numbers) -> Numbers:
    return value.astype(np.float32).astype(np.float64)


def _rounded(value: Numbers) -> Numbers:
    """Round to the nearest integer, halves away from zero."""
    size = np.abs(value)
    whole = np.floor(size)
    return np.where(np.isinf(value), value, np.copysign(whole + (size - whole >= 0.5), value))


STEPS: dict[str, Callable[[Interval], Interval]] = {
    name: (lambda of, step=step: Interval(step(of.low), step(of.high)))  # type: ignore[misc]
    for name, step in (
        ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("sign", np.sign), ("round", _rounded)
    )
}  # fmt: skip
"""Functions that rise in steps."""
