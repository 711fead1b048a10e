"""Group below a join with a stream that has a KEY: each row of the grouped side then meets at most one row.

It is not always cheaper: every change of a value becomes an element of the join. So it is done only where the cost
model chooses it (`PlanChoices`).

A KEY holds for the whole stream, so it also holds within a window of whole rows, at every instant. It says nothing
about a window over rows that last, which has copies of a row; such a plan has no origin (`origins.py`). NULL equals
nothing, so a group with NULL in the join columns gives no result, as its rows did before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.algebra.plan import Aggregate, Join, Map, Output, Plan
from tidegate.algebra.properties.calls import call_can_fail
from tidegate.expressions.nodes import Call, Column, Expression, columns_of, conjuncts
from tidegate.optimizer.join_clusters import has_key
from tidegate.optimizer.names import is_safe
from tidegate.optimizer.origins import find_origin, without_cast
from tidegate.optimizer.rule import rule
from tidegate.values import value


@rule("γk,f(S1 ⋈ S2) = γk1,f(S1) ⋈ S2 if the join is on columns of k, and a KEY of S2 is among these")
def group_below_join_on_key(plan: Plan) -> Plan | None:
    match plan:
        case Aggregate(source=Join() as join):
            return _group_one_side(plan, join, {f.name: Column(f.name, f.type) for f in join.schema})
        case Aggregate(source=Map(source=Join() as join, outputs=outputs)):
            return _group_one_side(plan, join, {o.name: o.expression for o in outputs})
    return None


@value
class _Link:
    """An equality between a column of the side that is grouped and an expression over its partner."""

    own: Column
    other: Expression


def _group_one_side(plan: Aggregate, join: Join, made: Mapping[str, Expression]) -> Plan | None:
    """Return the plan with one side grouped; `made` has the columns that are grouped, as expressions over the join."""
    if not is_safe(*made.values()) or any(call_can_fail(call) for call in plan.calls):
        return None
    for grouped, partner in ((join.left, join.right), (join.right, join.left)):
        links = _links(join.predicate, grouped, partner)
        if links and _decides_group(plan, made, links) and _meets_one_row(partner, links):
            found = _rebuild(plan, join, made, grouped, links)
            if found is not None:
                return found
    return None


def _links(predicate: Expression, grouped: Plan, partner: Plan) -> list[_Link]:
    """Return the terms of a condition as links; none if a term is something else."""
    own, others = frozenset(grouped.schema.names), frozenset(partner.schema.names)
    found: list[_Link] = []
    terms = conjuncts(predicate)
    for term in terms:
        match term:
            case Call("=", (left, right)):
                for one, two in ((left, right), (right, left)):
                    column = without_cast(one)
                    if isinstance(column, Column) and column.name in own and columns_of(two) <= others:
                        found.append(_Link(column, two))
    return found if len(found) == len(terms) else []


def _decides_group(plan: Aggregate, made: Mapping[str, Expression], links: Sequence[_Link]) -> bool:
    """Return whether all rows of a group have the same join columns."""
    keys = [without_cast(made[key]) for key in plan.keys]
    return all(link.own in keys or without_cast(link.other) in keys for link in links)


def _meets_one_row(partner: Plan, links: Sequence[_Link]) -> bool:
    return has_key(find_origin(partner), [link.other for link in links], partner)


def _rebuild(
    plan: Aggregate, join: Join, made: Mapping[str, Expression], grouped: Plan, links: Sequence[_Link]
) -> Plan | None:
    """Return the join of the grouped side; None if columns of both sides are computed together, or names clash."""
    own = frozenset(grouped.schema.names)
    others = frozenset(join.schema.names) - own
    below = {key: made[key] for key in plan.keys if not columns_of(made[key]) <= others}
    arguments = {name: made[name] for call in plan.calls for name in call.columns}
    columns: dict[str, Expression] = {link.own.name: link.own for link in links}
    for name, expression in (*below.items(), *arguments.items()):
        if not columns_of(expression) <= own or columns.setdefault(name, expression) != expression:
            return None
    calls = frozenset(call.name for call in plan.calls)
    if others & (columns.keys() | calls) or calls & columns.keys():
        return None
    source = Map(grouped, tuple(Output(name, expression) for name, expression in columns.items()), plan.span)
    keys = tuple(dict.fromkeys([*(link.own.name for link in links), *below]))
    group = Aggregate(source, keys, plan.calls, plan.span)
    joined = replace(join, left=group) if grouped is join.left else replace(join, right=group)
    values = (Column(f.name, f.type) if f.name in below or f.name in calls else made[f.name] for f in plan.schema)
    return Map(joined, tuple(Output(f.name, each) for f, each in zip(plan.schema, values, strict=True)), plan.span)
