"""Helpers of rules that rename columns and restrict plans."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from tidegate.algebra.plan import Filter, Map, Output, Plan
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Column, Expression, columns_of, conjunction, transform


def rename(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Replace the column names of an expression."""
    return transform(expression, lambda e: replace(e, name=names.get(e.name, e.name)) if isinstance(e, Column) else e)


def rename_by_position(expression: Expression, old: Plan, new: Plan) -> Expression:
    """Rewrite an expression over one plan to the columns of another plan of the same types."""
    return rename(expression, dict(zip(old.schema.names, new.schema.names, strict=True)))


def substitute(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """Replace the columns of an expression by the expressions that compute them."""
    return transform(expression, lambda e: by[e.name] if isinstance(e, Column) else e)


def select_columns(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan with exactly these of its columns, in this order."""
    if plan.schema.names == tuple(names):
        return plan
    return Map(plan, tuple(Output(n, Column(n, plan.schema.type_of(n))) for n in names))


def rename_columns(plan: Plan, names: Sequence[str]) -> Plan:
    """Return the plan with other names for its columns."""
    if plan.schema.names == tuple(names):
        return plan
    return Map(plan, tuple(Output(n, Column(f.name, f.type)) for n, f in zip(names, plan.schema, strict=True)))


def filter_by(plan: Plan, terms: tuple[Expression, ...]) -> Plan:
    """Filter the plan by all terms; return the plan itself if there are none."""
    return Filter(plan, conjunction(terms)) if terms else plan


def reads_only(term: Expression, names: Collection[str]) -> bool:
    """Return whether the term reads at least one column, and only columns with these names."""
    read = columns_of(term)
    return bool(read) and read.issubset(names)


def is_safe(*expressions: Expression) -> bool:
    """Return whether none of the expressions can fail: only then may they be evaluated on more or fewer elements."""
    return not any(can_fail(e) for e in expressions)
