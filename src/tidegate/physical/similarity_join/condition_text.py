"""Text of similarity joins, for EXPLAIN and reports."""

from __future__ import annotations

from tidegate.algebra.similarity_join import SECOND, Measure, Policy, Shedding, SimilarityCondition
from tidegate.expressions.nodes import Call, Column, Expression, Literal, conjuncts
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Schema, Type

_WAYS = {Measure.DISTANCE: "in order"}
_SHEDDING = {Policy.OFF: "", Policy.ON: ", shedding within {}", Policy.DROP: ", dropping rows within {}"}


def describe_join(condition: str, likeness: SimilarityCondition | None, shedding: Shedding, *, is_keyed: bool) -> str:
    """Describe in one line what is joined, how, and what may be shed."""
    start, way = "join by comparing all", "pair by pair"
    if is_keyed:
        start, way = "join by comparing equal keys", "pair by pair"
    elif likeness is not None:
        start, way = "similarity join", _WAYS.get(likeness.measure, "by prefixes")
    on = f" on {condition}" if condition else ""
    return f"{start}{on}, {way}{_SHEDDING[shedding.policy].format(_budget_text(shedding))}"


def join_condition_text(
    left: Schema, right: Schema, likeness: SimilarityCondition | None, predicate: Expression
) -> str:
    """Return the text of the join condition; empty if there is none."""
    terms = [to_sql(term) for term in conjuncts(predicate)]
    alike = [] if likeness is None else [to_sql(_similarity_expression(left, right, likeness))]
    return " AND ".join([*alike, *(term for term in terms if term not in alike)])


def _budget_text(shedding: Shedding) -> str:
    if shedding.budget is not None:
        return f"{shedding.budget:,} comparisons a step"
    seconds = shedding.target / SECOND
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


def _similarity_expression(left: Schema, right: Schema, likeness: SimilarityCondition) -> Expression:
    columns = Column(likeness.left, left.type_of(likeness.left)), Column(likeness.right, right.type_of(likeness.right))
    name, bound = likeness.measure.value, likeness.bound
    if likeness.measure in (Measure.SUBSET, Measure.SUPERSET):
        return Call(name, columns, Type.BOOLEAN)
    kind = Type.BIGINT if isinstance(bound, int) else Type.DOUBLE
    if likeness.measure is Measure.DISTANCE:
        measured, comparison = Call(name, (Call("-", columns, columns[0].type),), columns[0].type), "<="
    else:
        measured, comparison = Call(name, columns, kind), ">="
    return Call(comparison, (measured, Literal(bound, kind)), Type.BOOLEAN)
