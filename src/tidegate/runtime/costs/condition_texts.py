"""Conditions of joins, and the texts by which what is known of them is found in every plan of a query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidegate.expressions.nodes import TRUE, Call, Column, Expression, conjuncts
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.schema import Type


def terms_of_join(join: JoinOperator) -> Iterator[Expression]:
    """Yield the conditions of a join."""
    for left, right in zip(join.left_keys, join.right_keys, strict=True):
        columns = Column(left, join.left.type_of(left)), Column(right, join.right.type_of(right))
        yield Call("=", columns, Type.BOOLEAN)
    yield from () if join.residual == TRUE else conjuncts(join.residual)


def terms_of_edges(join: KeyedJoinOperator) -> Iterator[tuple[int, Expression]]:
    """Yield the equalities of the edges of a keyed join, each with the input that its edge leads to."""
    for edge in join.edges:
        for parent, child in zip(edge.parent_keys, edge.child_keys, strict=True):
            columns = Column(parent, join.schema.type_of(parent)), Column(child, join.schema.type_of(child))
            yield edge.child, Call("=", columns, Type.BOOLEAN)


def texts_of(term: Expression) -> Iterator[str]:
    """Yield the text of a condition, and of an equality also the text from right to left."""
    yield to_sql(term)
    match term:
        case Call("=", (left, right)):
            yield to_sql(replace(term, arguments=(right, left)))
