"""Decomposition of products into factors that read an input, and factors that do not."""

from __future__ import annotations

from functools import reduce

from tidegate.expressions.nodes import Call, Expression, Literal, columns_of
from tidegate.schema import Type

_ONE, _MINUS_ONE = Literal(1.0, Type.DOUBLE), Literal(-1.0, Type.DOUBLE)

Factors = tuple[list[Expression], list[Expression]]
"""Factors above and below the fraction line."""


def split_factors(expression: Expression, variable: str) -> tuple[Expression, Expression] | None:
    """Split off the factor that does not read the variable; return it and the rest, or None if there is none."""
    above, below = _factors(expression)
    free = [[f for f in side if variable not in columns_of(f) and f != _ONE] for side in (above, below)]
    rest = [[f for f in side if variable in columns_of(f)] for side in (above, below)]
    if not (free[0] or free[1]):
        return None
    return _ratio(free[0], free[1]), _ratio(rest[0], rest[1])


def _factors(expression: Expression) -> Factors:
    match expression:
        case Call("*", (a, b), user=None):
            (top, bottom), (more, less) = _factors(a), _factors(b)
            return top + more, bottom + less
        case Call("/", (a, b), user=None):
            (top, bottom), (more, less) = _factors(a), _factors(b)
            return top + less, bottom + more
        case Call("negate", (a,), user=None):
            top, bottom = _factors(a)
            return [*top, _MINUS_ONE], bottom
    return [expression], []


def _ratio(above: list[Expression], below: list[Expression]) -> Expression:
    top = _product(above)
    return Call("/", (top, _product(below)), Type.DOUBLE) if below else top


def _product(factors: list[Expression]) -> Expression:
    return reduce(lambda a, b: Call("*", (a, b), Type.DOUBLE), factors) if factors else _ONE
