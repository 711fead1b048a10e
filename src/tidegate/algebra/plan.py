"""The logical algebra: one frozen dataclass per operator, from streams to a stream.

The meaning of a plan is a relation at every instant. Columns are named, and names are unique
within the schema of a node: the binder sees to that. Expressions that can fail stand only in
`Filter`, `Map` and `Join`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tidegate.errors import NOWHERE, Span
from tidegate.expressions.nodes import Expression
from tidegate.schema import Field, Schema, Type


@dataclass(frozen=True, slots=True)
class Scan:
    """The raw elements of a source stream, each valid for one chronon."""

    stream: str
    schema: Schema
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Window:
    """Make each element valid for `size` microseconds, moving every `slide`; size None: for ever.

    With slide a, the content changes at instants a-1, 2a-1, … (PIPES, formula 17.1). The source's
    validities are one chronon long; the binder refuses others.
    """

    source: Plan
    size: int | None
    slide: int = 1
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.source.schema


@dataclass(frozen=True, slots=True)
class Filter:
    """Keep the elements for which the predicate is true (not false, not unknown)."""

    source: Plan
    predicate: Expression
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.source.schema


@dataclass(frozen=True, slots=True)
class Output:
    """A column that a map makes."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Map:
    """Replace each element by the given columns of it."""

    source: Plan
    outputs: tuple[Output, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(Field(o.name, o.expression.type) for o in self.outputs))


@dataclass(frozen=True, slots=True)
class Union:
    """All elements of all inputs (UNION ALL); the inputs have the same types, names are the first's."""

    inputs: tuple[Plan, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs for which the predicate is true and whose validities overlap, valid in the overlap."""

    left: Plan
    right: Plan
    predicate: Expression
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.left.schema + self.right.schema


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """One of "count", "sum", "avg", "min", "max" of a column; "count" of no column counts elements."""

    function: str
    column: str | None
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Aggregate:
    """At every instant, one row for each group that is not empty: its keys, then its aggregates."""

    source: Plan
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(k, self.source.schema.type_of(k)) for k in self.keys)
        return Schema(keys + tuple(Field(c.name, c.type) for c in self.calls))


@dataclass(frozen=True, slots=True)
class Distinct:
    """Each row at most once at every instant."""

    source: Plan
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.source.schema


Plan = Scan | Window | Filter | Map | Union | Join | Aggregate | Distinct


def inputs(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan():
            return ()
        case Union(inputs=many):
            return many
        case Join(left=left, right=right):
            return (left, right)
        case _:
            return (plan.source,)


def with_inputs(plan: Plan, new: tuple[Plan, ...]) -> Plan:
    """The same operator over other inputs; `plan` itself if they are the same objects."""
    if all(a is b for a, b in zip(inputs(plan), new, strict=True)):
        return plan
    match plan:
        case Scan():
            return plan
        case Union():
            return replace(plan, inputs=new)
        case Join():
            return replace(plan, left=new[0], right=new[1])
        case _:
            return replace(plan, source=new[0])


def walk(plan: Plan) -> Iterator[Plan]:
    """The plan and all below it, parents first."""
    yield plan
    for each in inputs(plan):
        yield from walk(each)


def rewrite(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """Rebuild bottom-up, replacing each node by what `change` makes of it."""
    return change(with_inputs(plan, tuple(rewrite(each, change) for each in inputs(plan))))
