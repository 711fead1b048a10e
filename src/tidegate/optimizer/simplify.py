"""Rules that remove operators: maps that change nothing, maps of maps, unions of unions."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import Map, Output, Plan, Union
from tidegate.expressions.nodes import Column, Literal
from tidegate.optimizer.names import is_safe, select_columns, substitute
from tidegate.optimizer.rule import rule


@rule("μid(S) = S")
def drop_identity_map(plan: Plan) -> Plan | None:
    match plan:
        case Map(source=source, outputs=outputs):
            same = tuple(Output(f.name, Column(f.name, f.type)) for f in source.schema)
            return source if outputs == same else None
    return None


@rule("μf(μg(S)) = μf∘g(S) if g only picks columns")
def merge_maps(plan: Plan) -> Plan | None:
    # An expression that can fail keeps its input columns, because a dead letter shows them.
    match plan:
        case Map(source=Map(source=source, outputs=inner), outputs=outer):
            if not all(isinstance(o.expression, Column | Literal) for o in inner):
                return None
            if not is_safe(*(o.expression for o in outer)):
                return None
            made = {o.name: o.expression for o in inner}
            return replace(
                plan, source=source, outputs=tuple(Output(o.name, substitute(o.expression, made)) for o in outer)
            )
    return None


@rule("(S1 ∪ S2) ∪ S3 = S1 ∪ S2 ∪ S3")
def flatten_unions(plan: Plan) -> Plan | None:
    match plan:
        case Union(inputs=many) if any(isinstance(each, Union) for each in many):
            flat = tuple(below for each in many for below in (each.inputs if isinstance(each, Union) else (each,)))
            return replace(plan, inputs=flat)
    return None


@rule("∪(S) = S")
def drop_union_of_one(plan: Plan) -> Plan | None:
    match plan:
        case Union(inputs=(only,)):
            return select_columns(only, plan.schema.names)
    return None


SIMPLIFYING_RULES = (drop_identity_map, merge_maps, flatten_unions, drop_union_of_one)
