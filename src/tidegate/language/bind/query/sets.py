"""UNION, EXCEPT and INTERSECT, and the final types of the columns of a result."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.plan import Distinct, Map, Output, Plan, SetOperation, SetRule, Union
from tidegate.errors import QueryError, Span
from tidegate.expressions.coercion import coerce, common_type
from tidegate.expressions.nodes import Column
from tidegate.language import syntax
from tidegate.schema import Field, Schema, Type

_RULES = {
    "union max": SetRule.MAX_UNION,
    "except": SetRule.EXCEPT,
    "except all": SetRule.EXCEPT_ALL,
    "except strict": SetRule.STRICT_EXCEPT_ALL,
    "intersect": SetRule.INTERSECT,
    "intersect all": SetRule.INTERSECT_ALL,
}


def union_all(plans: Sequence[Plan], queries: Sequence[syntax.Query], span: Span) -> Plan:
    """Return all elements of all plans, with the names of the first and types that hold the values of all."""
    return Union(_align_columns(plans, queries, "union all"), span)


def set_operation(operator: str, plans: Sequence[Plan], queries: Sequence[syntax.Query], span: Span) -> Plan:
    """Return the UNION, EXCEPT or INTERSECT of two plans, with the names of the first and common types."""
    left, right = _align_columns([cast_bare_nulls(plan) for plan in plans], queries, operator)
    if operator == "union":
        return Distinct(Union((left, right), span), span)
    return SetOperation(left, right, _RULES[operator], span)


def _align_columns(plans: Sequence[Plan], queries: Sequence[syntax.Query], operator: str) -> tuple[Plan, ...]:
    fields = plans[0].schema.fields
    for plan, query in zip(plans[1:], queries[1:], strict=True):
        fields = _widen_fields(fields, plan.schema.fields, query.span, operator.upper())
    target = Schema(fields)
    return tuple(_cast_to_schema(plan, target, query.span) for plan, query in zip(plans, queries, strict=True))


def cast_bare_nulls(plan: Plan) -> Plan:
    """Cast bare NULL columns to STRING, because a result has no columns without a type."""
    known = (Field(f.name, Type.STRING if f.type is Type.NULL else f.type) for f in plan.schema)
    return _cast_to_schema(plan, Schema(tuple(known)), plan.span)


def _widen_fields(fields: tuple[Field, ...], more: tuple[Field, ...], span: Span, word: str) -> tuple[Field, ...]:
    if len(fields) != len(more):
        article = "an" if word[0] in "EI" else "a"
        counts = f"the queries before it have {len(fields)}, this one has {len(more)}"
        message = f"all queries of {article} {word} need the same number of columns"
        raise QueryError("Q108", message, span, hint=counts)
    return tuple(Field(a.name, _common_field_type(a, b, span, word)) for a, b in zip(fields, more, strict=True))


def _common_field_type(a: Field, b: Field, span: Span, word: str) -> Type:
    type_ = common_type(a.type, b.type)
    if type_ is None:
        message = f"column '{a.name}' of this {word} is {a.type.name} before, but {b.type.name} here"
        raise QueryError("Q108", message, span, hint="CAST one of them")
    return type_


def _cast_to_schema(plan: Plan, target: Schema, span: Span) -> Plan:
    """Return the plan with these column names and wider types; the plan itself if it already has them."""
    match plan:
        case _ if plan.schema == target:
            return plan
        case Map(source=source, outputs=outputs):
            expressions = [output.expression for output in outputs]
        case _:
            source, expressions = plan, [Column(f.name, f.type, span) for f in plan.schema]
    made = (Output(f.name, coerce(e, f.type, e.span)) for f, e in zip(target, expressions, strict=True))
    return Map(source, tuple(made), plan.span)
