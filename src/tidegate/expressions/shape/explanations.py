"""Explanations of the shapes that the rules found."""

from __future__ import annotations

import math

from tidegate.expressions.nodes import Call, Column, Expression, columns_of
from tidegate.expressions.shape.enclose import Box
from tidegate.expressions.shape.facts import CURVATURE, DIRECTION, Fact
from tidegate.expressions.sql_text import to_sql


def explain_by_rules(expression: Expression, variable: str, box: Box, facts: Fact) -> str:
    """Explain why an expression has the shape that the rules found."""
    terms = _terms(expression, positive=True)
    reading = [t for t in terms if variable in columns_of(t)]
    rest = f"; the other terms do not read {variable}" if len(reading) < len(terms) else ""
    place = f"for {domain_text(variable, box)}"
    if len(reading) > 1:
        return f"a sum of {_shape_adjective(facts, of_sum=True)} terms {place}{rest}"
    return f"{_explain_term(reading[0], facts, place)}{rest}"


def _explain_term(term: Expression, facts: Fact, place: str) -> str:
    written = to_sql(term)
    if not facts & DIRECTION and Fact.MONOTONE in facts:
        kind = "linear" if CURVATURE in facts else "monotone"
        return f"{written} is {kind} {place}, in a direction that depends on the other inputs"
    match term:
        case Call("greatest", _) if not facts & DIRECTION:
            return f"{written} is the greatest of quasiconvex terms {place}"
    return f"{written} is {_shape_adjective(facts, of_sum=False)} {place}"


def _shape_adjective(facts: Fact, *, of_sum: bool) -> str:
    if DIRECTION in facts:
        return "constant"
    for fact in (Fact.RISING, Fact.FALLING):
        if fact in facts:
            return fact.name.lower() if fact.name else ""
    if CURVATURE in facts:
        return "linear"
    return "convex" if of_sum or Fact.CONVEX in facts else "quasiconvex"


def domain_text(variable: str, box: Box) -> str:
    """Describe the domain of a variable."""
    low, high = float(box[variable].low[0]), float(box[variable].high[0])
    if math.isinf(low) and math.isinf(high):
        return f"all {variable}"
    return (
        f"{variable} in {interval_text(low, high)}"
        if math.isfinite(high - low)
        else f"{variable} {interval_text(low, high)}"
    )


def interval_text(low: float, high: float) -> str:
    """Describe an interval, without infinities."""
    match math.isinf(low), math.isinf(high):
        case True, True:
            return "anything"
        case True, False:
            return f"up to {high:.6g}"
        case False, True:
            return f"from {low:.6g} on"
    return f"[{low:.6g}, {high:.6g}]"


def explain_through(
    outer: Expression, inner: Expression, how: tuple[str, str], why: str, names: tuple[str, str]
) -> str:
    """Explain why a function of a part of an expression has a shape."""
    hole, variable = names
    terms = _terms(outer, positive=True)
    if any(isinstance(t, Column) and t.name == hole for t in terms):
        return f"{why}; the other terms do not read {variable}"
    above, below = how
    return f"it is {above} in {to_sql(inner)}, which is {below} in {variable}: {why}"


def _terms(expression: Expression, *, positive: bool) -> list[Expression]:
    """Return the terms of a sum, with their signs."""
    match expression:
        case Call("+", (a, b), user=None):
            return _terms(a, positive=positive) + _terms(b, positive=positive)
        case Call("-", (a, b), user=None):
            return _terms(a, positive=positive) + _terms(b, positive=not positive)
        case Call("negate", (a,), user=None):
            return _terms(a, positive=not positive)
    return [expression if positive else Call("negate", (expression,), expression.type, expression.span)]
