"""Conditions of joins that say that something of one side equals something of the other: these are found by hash."""

from __future__ import annotations

from tidegate.algebra.plan import Join, SemiJoin
from tidegate.expressions.nodes import Call, Expression, columns_of, conjuncts


def equalities(join: Join | SemiJoin) -> tuple[list[tuple[Expression, Expression]], tuple[Expression, ...]]:
    """What of the left equals what of the right, pair by pair; and the other terms of the predicate."""
    left, right = frozenset(join.left.schema.names), frozenset(join.right.schema.names)
    pairs, rest = [], []
    for term in conjuncts(join.predicate):
        match term:
            case Call("=", (a, b)) if a.type == b.type and are_sides(a, b, left, right):
                pairs.append((a, b))
            case Call("=", (a, b)) if a.type == b.type and are_sides(b, a, left, right):
                pairs.append((b, a))
            case _:
                rest.append(term)
    return pairs, tuple(rest)


def are_sides(a: Expression, b: Expression, left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether `a` reads only the left, and `b` only the right, and both read something."""
    return bool(columns_of(a)) and bool(columns_of(b)) and columns_of(a) <= left and columns_of(b) <= right
