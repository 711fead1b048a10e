"""From the logical to the physical plan: which operator and kernel computes what."""

from __future__ import annotations

from typing import assert_never

from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Output,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Union,
    Window,
)
from tidegate.errors import InternalError
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, columns_of, conjunction, conjuncts
from tidegate.physical.aggregate import AggregateOperator, Emit
from tidegate.physical.join import JoinOperator
from tidegate.physical.plan import Apply, PhysicalPlan, Read
from tidegate.physical.stateless import FilterOperator, MapOperator, UnionOperator, WindowOperator
from tidegate.schema import Schema


def lower(plan: Plan, *, emit: Emit = Emit.CHANGES) -> PhysicalPlan:
    """The physical plan of a logical one.

    `emit` says how aggregates above which nothing is stateful report: at the root a value is
    reported when it begins and when it ends; below a stateful operator, which waits for
    watermarks, it must be settled with each of them.
    """
    match plan:
        case Scan(stream=stream, schema=schema):
            return Read(stream, schema, TRUE)
        case Filter(source=Scan(stream=stream, schema=schema), predicate=predicate):
            return Apply(FilterOperator(schema, predicate), (Read(stream, schema, predicate),))
        case Filter(source=source, predicate=predicate):
            return Apply(FilterOperator(plan.schema, predicate), (lower(source, emit=emit),))
        case Map(source=source, outputs=outputs):
            return Apply(MapOperator(outputs), (lower(source, emit=emit),))
        case Window(source=source, size=size, slide=slide):
            return Apply(WindowOperator(plan.schema, size, slide), (lower(source, emit=emit),))
        case Union(inputs=inputs):
            return Apply(UnionOperator(plan.schema), tuple(lower(each, emit=emit) for each in inputs))
        case Aggregate(source=source, keys=keys, calls=calls):
            below = lower(source, emit=Emit.SETTLED)
            return Apply(AggregateOperator(source.schema, keys, calls, emit), (below,))
        case Distinct(source=source):
            below = lower(source, emit=Emit.SETTLED)
            return Apply(AggregateOperator(source.schema, source.schema.names, (), emit), (below,))
        case Join():
            return _lower_join(plan)
        case CountWindow() | Granularity() | Split() | Coalesce() | Changes() | Limit() | SemiJoin() | SetOperation():
            raise InternalError("I310", f"there is no operator for {type(plan).__name__} yet")
        case _:
            assert_never(plan)


def _lower_join(join: Join) -> PhysicalPlan:
    """Equalities between the sides become keys, computed below the join where they are no columns."""
    pairs, rest = _equalities(join)
    left, left_keys = _with_keys(join.left, [a for a, _ in pairs], "left")
    right, right_keys = _with_keys(join.right, [b for _, b in pairs], "right")
    operator = JoinOperator(left.schema, right.schema, left_keys, right_keys, conjunction(rest))
    joined = Apply(operator, (lower(left, emit=Emit.SETTLED), lower(right, emit=Emit.SETTLED)))
    if joined.schema == join.schema:
        return joined
    return Apply(MapOperator(_columns(join.schema)), (joined,))


def _equalities(join: Join) -> tuple[list[tuple[Expression, Expression]], tuple[Expression, ...]]:
    left, right = frozenset(join.left.schema.names), frozenset(join.right.schema.names)
    pairs, rest = [], []
    for term in conjuncts(join.predicate):
        match term:
            case Call("=", (a, b)) if a.type == b.type and _sides(a, b, left, right):
                pairs.append((a, b))
            case Call("=", (a, b)) if a.type == b.type and _sides(b, a, left, right):
                pairs.append((b, a))
            case _:
                rest.append(term)
    return pairs, tuple(rest)


def _sides(a: Expression, b: Expression, left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether `a` reads only the left, and `b` only the right, and both read something."""
    return bool(columns_of(a)) and bool(columns_of(b)) and columns_of(a) <= left and columns_of(b) <= right


def _with_keys(side: Plan, keys: list[Expression], label: str) -> tuple[Plan, tuple[str, ...]]:
    computed = [
        Output(f"key:{label}:{position}", key) for position, key in enumerate(keys) if not isinstance(key, Column)
    ]
    names = tuple(
        key.name if isinstance(key, Column) else f"key:{label}:{position}" for position, key in enumerate(keys)
    )
    return (Map(side, (*_columns(side.schema), *computed)) if computed else side), names


def _columns(schema: Schema) -> tuple[Output, ...]:
    return tuple(Output(f.name, Column(f.name, f.type)) for f in schema)
