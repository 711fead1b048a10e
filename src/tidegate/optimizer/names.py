"""Expressions and plans under other names, as rules need them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidegate.algebra.plan import Filter, Map, Output, Plan
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Column, Expression, columns_of, conjunction, transform


def rename(expression: Expression, names: Mapping[str, str]) -> Expression:
    """The expression over columns of other names."""
    return transform(expression, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e)


def rename_by_position(expression: Expression, old: Plan, new: Plan) -> Expression:
    """The expression over the columns of another plan of the same types."""
    return rename(expression, dict(zip(old.schema.names, new.schema.names, strict=True)))


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """The expression with columns replaced by what makes them."""
    return transform(expression, lambda e: by[e.name] if isinstance(e, Column) else e)


def exactly(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with these of its columns, in this order."""
    if plan.schema.names == tuple(names):
        return plan
    return Map(plan, tuple(Output(n, Column(n, plan.schema.type_of(n))) for n in names))


def named(plan: Plan, names: Sequence[str]) -> Plan:
    """The plan with other names for its columns."""
    if plan.schema.names == tuple(names):
        return plan
    return Map(plan, tuple(Output(n, Column(f.name, f.type)) for n, f in zip(names, plan.schema, strict=True)))


def filtered(plan: Plan, terms: tuple[Expression, ...]) -> Plan:
    """The plan where all terms hold; the plan itself if there are none."""
    return Filter(plan, conjunction(terms)) if terms else plan


def reads_only(term: Expression, names: Collection[str]) -> bool:
    """Whether the term reads something, and only columns of these names."""
    read = columns_of(term)
    return bool(read) and read.issubset(names)


def is_safe(*expressions: Expression) -> bool:
    """Whether none of the expressions can fail: only then may more or fewer elements be tried."""
    return not any(can_fail(e) for e in expressions)
