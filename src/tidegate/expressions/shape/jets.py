"""Value, slope and bend (first and second derivative by one input) of an expression, on boxes.

All three enclose the values of the expression anywhere in a box, and on its border from any side. At an edge, the
slope encloses the slopes of both sides. At a jump, or if nothing is known, slope and bend are the whole line.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, Literal, columns_of
from tidegate.expressions.shape.enclose import Box, constant_number, enclose, is_never_null, is_null_literal
from tidegate.expressions.shape.intervals import ONE, WHOLE, ZERO, Interval, between, point
from tidegate.expressions.shape.smooth import SMOOTH, Smooth, power_function
from tidegate.schema import Type
from tidegate.values import value

_TWO, _SIGNS = point(2.0), between(-1.0, 1.0)


@value
class Jet:
    value: Interval
    slope: Interval
    bend: Interval

    @property
    def is_constant(self) -> bool:
        """True if it is known not to depend on the input, as for most parts of large formulas."""
        return self.slope is ZERO and self.bend is ZERO

    def __neg__(self) -> Jet:
        if self.is_constant:
            return Jet(-self.value, ZERO, ZERO)
        return Jet(-self.value, -self.slope, -self.bend)

    def __add__(self, other: Jet) -> Jet:
        if self.is_constant or other.is_constant:
            moving = other if self.is_constant else self
            return Jet(self.value + other.value, moving.slope, moving.bend)
        return Jet(self.value + other.value, self.slope + other.slope, self.bend + other.bend)

    def __mul__(self, other: Jet) -> Jet:
        a, b = (self, other) if other.is_constant else (other, self)
        if b.is_constant and a.is_constant:
            return Jet(a.value * b.value, ZERO, ZERO)
        if b.is_constant:
            return Jet(a.value * b.value, a.slope * b.value, a.bend * b.value)
        slope = a.slope * b.value + a.value * b.slope
        bend = a.bend * b.value + _TWO * (a.slope * b.slope) + a.value * b.bend
        return Jet(a.value * b.value, slope, bend)

    def __truediv__(self, other: Jet) -> Jet:
        a, b = self, other
        inverse = b.value.reciprocal()
        value = a.value * inverse
        if a.is_constant and b.is_constant:
            return Jet(value, ZERO, ZERO)
        slope = (a.slope - value * b.slope) * inverse
        slope = slope.intersect((a.slope * b.value - a.value * b.slope) * inverse.square())
        bend = (a.bend - _TWO * slope * b.slope - value * b.bend) * inverse
        # With a pole inside, nothing is known on either side of it.
        pole = b.value.has_zero
        return Jet(value, WHOLE.where(pole, slope), WHOLE.where(pole, bend))

    def apply(self, function: Smooth) -> Jet:
        """Return the jet of the function of this."""
        slope = function.slope(self.value)
        bend = function.bend(self.value) * self.slope.square() + slope * self.bend
        return Jet(function.value(self.value), slope * self.slope, bend)

    def hull(self, other: Jet) -> Jet:
        return Jet(self.value.hull(other.value), self.slope.hull(other.slope), self.bend.hull(other.bend))


def jet_of(expression: Expression, variable: str, box: Box) -> Jet:
    """Return the jet of an expression by a variable."""
    match expression:
        case Literal():
            return Jet(enclose(expression, box), ZERO, ZERO)
        case Column(name=name):
            return Jet(enclose(expression, box), ONE if name == variable else ZERO, ZERO)
        case Call("+", (a, b), user=None):
            return jet_of(a, variable, box) + jet_of(b, variable, box)
        case Call("-", (a, b), user=None) if a != b:
            return jet_of(a, variable, box) + -jet_of(b, variable, box)
        case Call("*", (a, b), user=None) if a != b:
            return jet_of(a, variable, box) * jet_of(b, variable, box)
        case Call("/", (a, b), user=None):
            return jet_of(a, variable, box) / jet_of(b, variable, box)
    # This check comes after the cases above, so that a long sum makes it only for its terms.
    if variable not in columns_of(expression):
        return Jet(enclose(expression, box), ZERO, ZERO)
    match expression:
        case Cast(argument=argument, type=type_) if is_lossless_cast(argument.type, type_):
            return jet_of(argument, variable, box)
        case Case(branches=branches, otherwise=otherwise):
            if any(variable in columns_of(condition) for condition, _ in branches):
                return _unknown_jet(expression, box)
            return _hull_of_choices([value for _, value in branches] + [otherwise], variable, box)
        case Call(user=None, function=name, arguments=arguments):
            return _jet_of_call(expression, name, arguments, variable, box)
    return _unknown_jet(expression, box)


def is_lossless_cast(source: Type, target: Type) -> bool:
    """Return whether a cast keeps numbers unchanged."""
    return source.is_numeric and (target is Type.DOUBLE or (source.is_integer and target.is_integer))


def _unknown_jet(expression: Expression, box: Box) -> Jet:
    return Jet(enclose(expression, box), WHOLE, WHOLE)


def _jet_of_call(call: Call, name: str, arguments: tuple[Expression, ...], variable: str, box: Box) -> Jet:
    if smooth := SMOOTH.get(name):
        return jet_of(arguments[0], variable, box).apply(smooth)
    match name, arguments:
        case "-", _:  # equal operands
            return Jet(ZERO, ZERO, ZERO)
        case "*", (a, _):  # equal operands
            return jet_of(a, variable, box).apply(power_function(2.0))
        case "negate", (a,):
            return -jet_of(a, variable, box)
        case "abs", (a,):
            return _magnitude(jet_of(a, variable, box))
        case "power", (base, exponent):
            return _power(base, exponent, variable, box)
        case "log", (base, value):
            natural = SMOOTH["ln"]
            return jet_of(value, variable, box).apply(natural) / jet_of(base, variable, box).apply(natural)
        case "atan2", (y, x) if (enclose(x, box).low > 0).all():
            return (jet_of(y, variable, box) / jet_of(x, variable, box)).apply(SMOOTH["atan"])
        case "greatest", _:
            return _greatest(call, [jet_of(a, variable, box) for a in arguments], enclose(call, box), box)
        case "least", _:
            return -_greatest(call, [-jet_of(a, variable, box) for a in arguments], -enclose(call, box), box)
        case "coalesce", _:
            return _hull_of_choices(list(arguments), variable, box)
    return _unknown_jet(call, box)


def _hull_of_choices(choices: list[Expression], variable: str, box: Box) -> Jet:
    jets = [jet_of(c, variable, box) for c in choices if not is_null_literal(c)]
    return reduce(Jet.hull, jets) if jets else Jet(WHOLE, WHOLE, WHOLE)


def _magnitude(of: Jet) -> Jet:
    # There is an edge at 0, even for a box that only touches it.
    up, down = of.value.low > 0, of.value.high < 0
    slope = ONE.where(up, (-ONE).where(down, _SIGNS)) * of.slope
    return Jet(of.value.magnitude(), slope, of.bend.where(up, (-of.bend).where(down, WHOLE)))


def _power(base: Expression, exponent: Expression, variable: str, box: Box) -> Jet:
    of = jet_of(base, variable, box)
    if (constant := constant_number(exponent)) is not None:
        return of.apply(power_function(constant))
    return (jet_of(exponent, variable, box) * of.apply(SMOOTH["ln"])).apply(SMOOTH["exp"])


def _greatest(call: Call, jets: list[Jet], value: Interval, box: Box) -> Jet:
    """Return the hull of the jets that can be the greatest; with more than one there may be an edge."""
    given = [(a, j) for a, j in zip(call.arguments, jets, strict=True) if not is_null_literal(a)]
    sure = reduce(np.maximum, [j.value.low for a, j in given if is_never_null(a, box)], np.array([-np.inf]))
    empty = between(np.inf, -np.inf)
    slope = bend = empty
    many = np.zeros(1, np.int64)
    for _, each in given:
        chosen = each.value.high >= sure
        many = many + chosen
        slope = slope.hull(each.slope.where(chosen, empty))
        bend = bend.hull(each.bend.where(chosen, empty))
    return Jet(value, slope, bend.where(many == 1, WHOLE))
