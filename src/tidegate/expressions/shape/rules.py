"""The shape of an expression from the shapes of its parts.

The claim of a rule holds where all parts are defined. A rule needs only the intervals of the parts' values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, columns_of
from tidegate.expressions.shape.enclose import INTEGERS, STEPS, Box, enclose, exponent_of, is_null
from tidegate.expressions.shape.facts import (
    AFFINE,
    CONSTANT,
    CURVATURE,
    DIRECTION,
    NOTHING,
    ORDER,
    Fact,
    closed,
    composed,
    flipped,
    scaled,
)
from tidegate.expressions.shape.intervals import Interval, point
from tidegate.expressions.shape.jets import jet, widens
from tidegate.expressions.shape.smooth import SMOOTH, Smooth, of_power
from tidegate.schema import Type

_STEP = closed(Fact.RISING)


def facts_of(expression: Expression, variable: str, box: Box) -> Fact:
    """Return what the rules know about an expression as a function of a variable."""
    if variable not in columns_of(expression):
        return CONSTANT
    match expression:
        case Column():
            return closed(Fact.RISING | CURVATURE)
        case Cast(argument=argument, type=type_):
            return _cast(argument, type_, variable, box)
        case Case(branches=branches, otherwise=otherwise):
            if any(variable in columns_of(condition) for condition, _ in branches):
                return NOTHING
            return _all_of([value for _, value in branches] + [otherwise], variable, box)
        case Call(user=None, function=name, arguments=arguments):
            return _call(name, arguments, variable, box)
    return NOTHING


def _cast(argument: Expression, type_: Type, variable: str, box: Box) -> Fact:
    facts = facts_of(argument, variable, box)
    if widens(argument.type, type_):
        return facts
    rounds = argument.type.is_numeric and (type_ in INTEGERS or type_ is Type.REAL)
    return composed(_STEP, facts) if rounds else NOTHING


def _all_of(choices: Sequence[Expression], variable: str, box: Box) -> Fact:
    """Return the facts common to all choices: which choice applies does not depend on the variable."""
    return reduce(lambda a, b: a & b, [facts_of(c, variable, box) for c in choices if not is_null(c)], CONSTANT)


def _call(name: str, arguments: tuple[Expression, ...], variable: str, box: Box) -> Fact:
    if smooth := SMOOTH.get(name):
        return _smooth(smooth, arguments[0], variable, box)
    if name in STEPS:
        known = all(exponent_of(a) is not None for a in arguments[1:])
        return composed(_STEP, facts_of(arguments[0], variable, box)) if known else NOTHING
    match name, arguments:
        case "+", (a, b):
            return _sum(facts_of(a, variable, box), facts_of(b, variable, box))
        case "-", (a, b):
            return CONSTANT if a == b else _sum(facts_of(a, variable, box), flipped(facts_of(b, variable, box)))
        case "*", (a, b) if a == b:
            return _smooth(of_power(2.0), a, variable, box)
        case "*", (a, b):
            return _product(a, b, variable, box)
        case "/", (a, b):
            return _quotient(a, b, variable, box)
        case "negate", (a,):
            return flipped(facts_of(a, variable, box))
        case "abs", (a,):
            return composed(_magnitude(enclose(a, box)), facts_of(a, variable, box))
        case "power", (base, exponent):
            return _power(base, exponent, variable, box)
        case "log", (base, value):
            return _quotient(_natural(value), _natural(base), variable, box)
        case "atan2", (y, x) if (enclose(x, box).low > 0).all():
            return _smooth(SMOOTH["atan"], Call("/", (y, x), Type.DOUBLE, y.span), variable, box)
        case "greatest", _:
            kept = DIRECTION | Fact.CONVEX | Fact.QUASICONVEX
            return closed(_all_of(arguments, variable, box) & kept)
        case "least", _:
            kept = DIRECTION | Fact.CONCAVE | Fact.QUASICONCAVE
            return closed(_all_of(arguments, variable, box) & kept)
        case "coalesce", _:
            return _all_of(arguments, variable, box)
    return NOTHING


def _natural(argument: Expression) -> Expression:
    return Call("ln", (argument,), Type.DOUBLE, argument.span)


def _sum(a: Fact, b: Fact) -> Fact:
    if CONSTANT in (a, b):
        return a & b
    return closed(a & b & (DIRECTION | CURVATURE))


def _smooth(function: Smooth, argument: Expression, variable: str, box: Box) -> Fact:
    return composed(_facts_on(function, enclose(argument, box)), facts_of(argument, variable, box))


def _facts_on(function: Smooth, of: Interval) -> Fact:
    """Return the facts of a function on an interval, by the signs of its derivatives."""
    slope, bend = function.slope(of), function.bend(of)
    signs = (
        (slope.low >= 0, Fact.RISING),
        (slope.high <= 0, Fact.FALLING),
        (bend.low >= 0, Fact.CONVEX),
        (bend.high <= 0, Fact.CONCAVE),
    )
    return closed(reduce(lambda a, b: a | b, [fact for holds, fact in signs if holds.all()], NOTHING))


def _magnitude(of: Interval) -> Fact:
    if (of.low >= 0).all():
        return closed(Fact.RISING | CURVATURE)
    return closed(Fact.FALLING | CURVATURE) if (of.high <= 0).all() else closed(Fact.CONVEX)


def _power(base: Expression, exponent: Expression, variable: str, box: Box) -> Fact:
    if (constant := exponent_of(exponent)) is not None:
        return _smooth(of_power(constant), base, variable, box)
    inner = Call("*", (exponent, _natural(base)), Type.DOUBLE, base.span)
    return _smooth(SMOOTH["exp"], inner, variable, box)


def _product(a: Expression, b: Expression, variable: str, box: Box) -> Fact:
    first, second = facts_of(a, variable, box), facts_of(b, variable, box)
    if second == CONSTANT:
        return times(first, enclose(b, box))
    if first == CONSTANT:
        return times(second, enclose(a, box))
    one, other = enclose(a, box), enclose(b, box)
    negative = False
    if (one.high <= 0).all():
        first, one, negative = flipped(first), -one, not negative
    if (other.high <= 0).all():
        second, other, negative = flipped(second), -other, not negative
    if not ((one.low >= 0).all() and (other.low >= 0).all()):
        return NOTHING
    facts = _positive_product(first, second)
    return flipped(facts) if negative else facts


def _positive_product(a: Fact, b: Fact) -> Fact:
    """Return the facts of a product of functions that are never negative."""
    facts = a & b & DIRECTION
    if facts and Fact.CONVEX in a & b:
        facts |= Fact.CONVEX
    if Fact.CONCAVE in a & b:  # its logarithm is concave
        facts |= Fact.QUASICONCAVE
    return closed(facts)


def times(facts: Fact, factor: Interval) -> Fact:
    """Return the facts of a function times a factor that does not read the variable."""
    return scaled(facts, positive=bool((factor.low >= 0).all()), negative=bool((factor.high <= 0).all()))


def _quotient(a: Expression, b: Expression, variable: str, box: Box) -> Fact:
    match a:  # c · x / y is c · (x / y)
        case Call("*", (factor, rest)) if variable not in columns_of(factor):
            return times(_quotient(rest, b, variable, box), enclose(factor, box))
        case Call("*", (rest, factor)) if variable not in columns_of(factor):
            return times(_quotient(rest, b, variable, box), enclose(factor, box))
    above, below = facts_of(a, variable, box), facts_of(b, variable, box)
    top, bottom = enclose(a, box), enclose(b, box)
    if below == CONSTANT:  # values with a divisor of 0 do not count, so the sign is that of the remaining ones
        return times(above, bottom)
    if (bottom.high < 0).all():
        above, top, below, bottom = flipped(above), -top, flipped(below), -bottom
    if not (bottom.low > 0).all():
        return NOTHING
    if above == CONSTANT:
        return times(_reciprocal(below), top)
    facts = _ratio(above, top, below)
    if CURVATURE in above & below:
        facts |= AFFINE & ~CURVATURE | _direction_of_ratio(a, b, variable, box)
    return closed(facts)


def _reciprocal(positive: Fact) -> Fact:
    """Return the facts of 1 / x for a positive function x."""
    return closed(flipped(positive & ORDER) | (Fact.CONVEX if Fact.CONCAVE in positive else NOTHING))


def _ratio(above: Fact, top: Interval, below: Fact) -> Fact:
    """Return the facts of a ratio with a positive divisor: it is at most t where above - t · below is at most 0."""
    facts = NOTHING
    if (top.low >= 0).all():
        facts |= above & flipped(below) & DIRECTION
        facts |= _where(Fact.CONVEX in above & flipped(below), Fact.QUASICONVEX)
        facts |= _where(Fact.CONCAVE in above & flipped(below), Fact.QUASICONCAVE)
    if (top.high <= 0).all():
        facts |= above & below & DIRECTION
        facts |= _where(Fact.CONVEX in above & below, Fact.QUASICONVEX)
        facts |= _where(Fact.CONCAVE in above & below, Fact.QUASICONCAVE)
    if CURVATURE in below:
        facts |= _where(Fact.CONVEX in above, Fact.QUASICONVEX) | _where(Fact.CONCAVE in above, Fact.QUASICONCAVE)
    return facts


def _where(condition: bool, fact: Fact) -> Fact:  # noqa: FBT001 - the condition is the point
    return fact if condition else NOTHING


def _direction_of_ratio(a: Expression, b: Expression, variable: str, box: Box) -> Fact:
    """Return the direction of (p·x + q) / (r·x + s) without a pole: the sign of p·s - q·r, the same at any x."""
    own = box[variable]
    somewhere = point(float(np.clip(0.0, own.low, own.high)[0]))
    there = box.having(variable, somewhere)
    above, below = jet(a, variable, there), jet(b, variable, there)
    sign = above.slope * below.value - above.value * below.slope
    rises, falls = bool((sign.low >= 0).all()), bool((sign.high <= 0).all())
    return _where(rises, Fact.RISING) | _where(falls, Fact.FALLING)
