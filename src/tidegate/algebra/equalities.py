"""Join conditions that equate an expression of one side with one of the other; a hash lookup finds these pairs."""

from __future__ import annotations

from tidegate.algebra.plan import Join, SemiJoin
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.expressions.nodes import Call, Expression, columns_of, conjuncts


def equalities(
    join: Join | SemiJoin | SimilarityJoin,
) -> tuple[list[tuple[Expression, Expression]], tuple[Expression, ...]]:
    """Split the predicate into pairs (left expression, right expression) that are equal, and the remaining terms."""
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


def is_by_key(join: SimilarityJoin) -> bool:
    """Return whether a similarity join compares rows with equal keys instead of similar ones."""
    return join.similarity is None and bool(equalities(join)[0])


def are_sides(a: Expression, b: Expression, left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether `a` reads only the left side, `b` only the right side, and both read at least one column."""
    return bool(columns_of(a)) and bool(columns_of(b)) and columns_of(a) <= left and columns_of(b) <= right
