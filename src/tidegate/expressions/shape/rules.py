"""The shape of an expression from the shapes of its parts.

The claim of a rule holds where all parts are defined. A rule needs only the intervals of the parts' values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, columns_of
from tidegate.expressions.shape.enclose import INTEGERS, STEPS, Box, constant_number, enclose, is_null_literal
from tidegate.expressions.shape.facts import (
    AFFINE,
    CONSTANT,
    CURVATURE,
    DIRECTION,
    NOTHING,
    ORDER,
    Fact,
    add_implied,
    compose_facts,
    negate_facts,
    scale_facts,
)
from tidegate.expressions.shape.intervals import Interval, point
from tidegate.expressions.shape.jets import is_lossless_cast, jet_of
from tidegate.expressions.shape.smooth import SMOOTH, Smooth, power_function
from tidegate.schema import Type

_STEP = add_implied(Fact.RISING)


def facts_of(expression: Expression, variable: str, box: Box) -> Fact:
    """Return what the rules know about an expression as a function of a variable."""
    if variable not in columns_of(expression):
        return CONSTANT
    match expression:
        case Column():
            return add_implied(Fact.RISING | CURVATURE)
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
    if is_lossless_cast(argument.type, type_):
        return facts
    rounds = argument.type.is_numeric and (type_ in INTEGERS or type_ is Type.REAL)
    return compose_facts(_STEP, facts) if rounds else NOTHING


def _all_of(choices: Sequence[Expression], variable: str, box: Box) -> Fact:
    """Return the facts common to all choices: which choice applies does not depend on the variable."""
    return reduce(lambda a, b: a & b, [facts_of(c, variable, box) for c in choices if not is_null_literal(c)], CONSTANT)


def _call(name: str, arguments: tuple[Expression, ...], variable: str, box: Box) -> Fact:
    if smooth := SMOOTH.get(name):
        return _compose_smooth(smooth, arguments[0], variable, box)
    if name in STEPS:
        known = all(constant_number(a) is not None for a in arguments[1:])
        return compose_facts(_STEP, facts_of(arguments[0], variable, box)) if known else NOTHING
    match name, arguments:
        case "+", (a, b):
            return _sum(facts_of(a, variable, box), facts_of(b, variable, box))
        case "-", (a, b):
            return CONSTANT if a == b else _sum(facts_of(a, variable, box), negate_facts(facts_of(b, variable, box)))
        case "*", (a, b) if a == b:
            return _compose_smooth(power_function(2.0), a, variable, box)
        case "*", (a, b):
            return _product(a, b, variable, box)
        case "/", (a, b):
            return _quotient(a, b, variable, box)
        case "negate", (a,):
            return negate_facts(facts_of(a, variable, box))
        case "abs", (a,):
            return compose_facts(_magnitude(enclose(a, box)), facts_of(a, variable, box))
        case "power", (base, exponent):
            return _power(base, exponent, variable, box)
        case "log", (base, value):
            return _quotient(_natural_log(value), _natural_log(base), variable, box)
        case "atan2", (y, x) if (enclose(x, box).low > 0).all():
            return _compose_smooth(SMOOTH["atan"], Call("/", (y, x), Type.DOUBLE, y.span), variable, box)
        case "greatest", _:
            kept = DIRECTION | Fact.CONVEX | Fact.QUASICONVEX
            return add_implied(_all_of(arguments, variable, box) & kept)
        case "least", _:
            kept = DIRECTION | Fact.CONCAVE | Fact.QUASICONCAVE
            return add_implied(_all_of(arguments, variable, box) & kept)
        case "coalesce", _:
            return _all_of(arguments, variable, box)
    return NOTHING


def _natural_log(argument: Expression) -> Expression:
    return Call("ln", (argument,), Type.DOUBLE, argument.span)


def _sum(a: Fact, b: Fact) -> Fact:
    if CONSTANT in (a, b):
        return a & b
    return add_implied(a & b & (DIRECTION | CURVATURE))


def _compose_smooth(function: Smooth, argument: Expression, variable: str, box: Box) -> Fact:
    return compose_facts(_facts_on(function, enclose(argument, box)), facts_of(argument, variable, box))


def _facts_on(function: Smooth, of: Interval) -> Fact:
    """Return the facts of a function on an interval, by the signs of its derivatives."""
    slope, bend = function.slope(of), function.bend(of)
    signs = (
        (slope.low >= 0, Fact.RISING),
        (slope.high <= 0, Fact.FALLING),
        (bend.low >= 0, Fact.CONVEX),
        (bend.high <= 0, Fact.CONCAVE),
    )
    return add_implied(reduce(lambda a, b: a | b, [fact for holds, fact in signs if holds.all()], NOTHING))


def _magnitude(of: Interval) -> Fact:
    if (of.low >= 0).all():
        return add_implied(Fact.RISING | CURVATURE)
    return add_implied(Fact.FALLING | CURVATURE) if (of.high <= 0).all() else add_implied(Fact.CONVEX)


def _power(base: Expression, exponent: Expression, variable: str, box: Box) -> Fact:
    if (constant := constant_number(exponent)) is not None:
        return _compose_smooth(power_function(constant), base, variable, box)
    inner = Call("*", (exponent, _natural_log(base)), Type.DOUBLE, base.span)
    return _compose_smooth(SMOOTH["exp"], inner, variable, box)


def _product(a: Expression, b: Expression, variable: str, box: Box) -> Fact:
    first, second = facts_of(a, variable, box), facts_of(b, variable, box)
    if second == CONSTANT:
        return scale_by_interval(first, enclose(b, box))
    if first == CONSTANT:
        return scale_by_interval(second, enclose(a, box))
    one, other = enclose(a, box), enclose(b, box)
    negative = False
    if (one.high <= 0).all():
        first, one, negative = negate_facts(first), -one, not negative
    if (other.high <= 0).all():
        second, other, negative = negate_facts(second), -other, not negative
    if not ((one.low >= 0).all() and (other.low >= 0).all()):
        return NOTHING
    facts = _positive_product(first, second)
    return negate_facts(facts) if negative else facts


def _positive_product(a: Fact, b: Fact) -> Fact:
    """Return the facts of a product of functions that are never negative."""
    facts = a & b & DIRECTION
    if facts and Fact.CONVEX in a & b:
        facts |= Fact.CONVEX
    if Fact.CONCAVE in a & b:  # its logarithm is concave
        facts |= Fact.QUASICONCAVE
    return add_implied(facts)


def scale_by_interval(facts: Fact, factor: Interval) -> Fact:
    """Return the facts of a function times a factor that does not read the variable."""
    return scale_facts(facts, positive=bool((factor.low >= 0).all()), negative=bool((factor.high <= 0).all()))


def _quotient(a: Expression, b: Expression, variable: str, box: Box) -> Fact:
    match a:  # c · x / y is c · (x / y)
        case Call("*", (factor, rest)) if variable not in columns_of(factor):
            return scale_by_interval(_quotient(rest, b, variable, box), enclose(factor, box))
        case Call("*", (rest, factor)) if variable not in columns_of(factor):
            return scale_by_interval(_quotient(rest, b, variable, box), enclose(factor, box))
    above, below = facts_of(a, variable, box), facts_of(b, variable, box)
    top, bottom = enclose(a, box), enclose(b, box)
    if below == CONSTANT:  # values with a divisor of 0 do not count, so the sign is that of the remaining ones
        return scale_by_interval(above, bottom)
    if (bottom.high < 0).all():
        above, top, below, bottom = negate_facts(above), -top, negate_facts(below), -bottom
    if not (bottom.low > 0).all():
        return NOTHING
    if above == CONSTANT:
        return scale_by_interval(_reciprocal(below), top)
    facts = _ratio(above, top, below)
    if CURVATURE in above & below:
        facts |= AFFINE & ~CURVATURE | _direction_of_ratio(a, b, variable, box)
    return add_implied(facts)


def _reciprocal(positive: Fact) -> Fact:
    """Return the facts of 1 / x for a positive function x."""
    return add_implied(negate_facts(positive & ORDER) | (Fact.CONVEX if Fact.CONCAVE in positive else NOTHING))


def _ratio(above: Fact, top: Interval, below: Fact) -> Fact:
    """Return the facts of a ratio with a positive divisor: it is at most t where above - t · below is at most 0."""
    facts = NOTHING
    if (top.low >= 0).all():
        facts |= above & negate_facts(below) & DIRECTION
        facts |= _fact_if(Fact.CONVEX in above & negate_facts(below), Fact.QUASICONVEX)
        facts |= _fact_if(Fact.CONCAVE in above & negate_facts(below), Fact.QUASICONCAVE)
    if (top.high <= 0).all():
        facts |= above & below & DIRECTION
        facts |= _fact_if(Fact.CONVEX in above & below, Fact.QUASICONVEX)
        facts |= _fact_if(Fact.CONCAVE in above & below, Fact.QUASICONCAVE)
    if CURVATURE in below:
        facts |= _fact_if(Fact.CONVEX in above, Fact.QUASICONVEX) | _fact_if(Fact.CONCAVE in above, Fact.QUASICONCAVE)
    return facts


def _fact_if(condition: bool, fact: Fact) -> Fact:  # noqa: FBT001 - the condition is the point
    return fact if condition else NOTHING


def _direction_of_ratio(a: Expression, b: Expression, variable: str, box: Box) -> Fact:
    """Return the direction of (p·x + q) / (r·x + s) without a pole: the sign of p·s - q·r, the same at any x."""
    own = box[variable]
    somewhere = point(float(np.clip(0.0, own.low, own.high)[0]))
    there = box.with_column(variable, somewhere)
    above, below = jet_of(a, variable, there), jet_of(b, variable, there)
    sign = above.slope * below.value - above.value * below.slope
    rises, falls = bool((sign.low >= 0).all()), bool((sign.high <= 0).all())
    return _fact_if(rises, Fact.RISING) | _fact_if(falls, Fact.FALLING)
