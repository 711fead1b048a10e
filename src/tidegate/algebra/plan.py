"""The logical algebra: one frozen dataclass per operator, from streams to a stream.

The meaning of a plan is a relation at every instant. Columns are named, and the binder ensures that names are unique
within the schema of a node. Expressions that can fail occur only in `Filter`, `Map` and joins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import Enum

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.constraints import Constraint
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.errors import NOWHERE, Span
from tidegate.expressions.functions.aggregates import AggregateFunction
from tidegate.expressions.nodes import Expression
from tidegate.schema import Domain, Field, Schema, Type
from tidegate.time import BEGINNING, LATEST
from tidegate.values import value


def _keep_schema(plan: Map | Join | Aggregate, schema: Schema) -> None:
    """Store the schema of a frozen node: rules read it often, and computing it would walk the whole subplan."""
    object.__setattr__(plan, "schema", schema)


class _SameColumns:
    """An operator whose output has the columns of its source."""

    __slots__ = ()
    source: Plan

    @property
    def schema(self) -> Schema:
        return self.source.schema


class Validity(Enum):
    """The validity of the elements of a source."""

    INSTANT = "instant"  # one chronon, from the time of the row
    INTERVAL = "interval"  # as given in the rows
    RELATION = "relation"  # while the row is in the table


@value
class Scan:
    """The elements of a source: a raw stream, a stream with validities, or a table."""

    stream: str
    schema: Schema
    span: Span = field(default=NOWHERE, compare=False)
    validity: Validity = Validity.INSTANT
    domains: tuple[tuple[str, Domain], ...] = ()
    """Declared domains of columns."""
    key: tuple[str, ...] = ()
    """Columns of the source in which no two rows ever agree, if known; the schema need not contain them."""
    constraints: tuple[Constraint, ...] = ()
    """Declared constraints on how rows arrive, by columns of the source."""


@value
class Window(_SameColumns):
    """Make each element valid for `size` microseconds, moving every `slide`; size None: for ever.

    With slide a, the content changes at instants a-1, 2a-1, … (PIPES, formula 17.1). The window extends every instant
    of an element's validity. Physically, it splits the source into chronons unless the source is known to consist of
    them. Over time in granules, the granules are the instants (PIPES, section 20).

    With `whole`, the window extends each element once, from its first to its last instant. The set of rows at each
    instant is the same, but the number of copies may be smaller. Such windows occur only below operators that see the
    set of rows alone.

    With `least`, a shorter size, the size may change while the query runs, if the window is *adaptable*
    (`algebra/adaptable.py`): an element gets the size in force at its start. `size` is the best one.
    """

    source: Plan
    size: int | None
    slide: int = 1
    span: Span = field(default=NOWHERE, compare=False)
    whole: bool = False
    least: int | None = None


@value
class CountWindow(_SameColumns):
    """The last `rows` elements, per group of equal keys if there are keys; rows None: all of them.

    With slide A the content changes with every A-th element of the group (PIPES, formula 17.2). Elements are counted
    in time order. Elements of one instant are counted in the order of their values, so that the content does not
    depend on the order of arrival; the last of them determines the content from that instant on.

    With `least`, the number of rows may change while the query runs, as in `Window`: if N rows are in force at the
    start of an element, it ends at the start of the N-th element after it.
    """

    source: Plan
    rows: int | None
    slide: int = 1
    keys: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    least: int | None = None


@value
class Granularity(_SameColumns):
    """Time in steps of `size`: the rows valid at a multiple of `size` are valid until the next multiple.

    Physically [⌈start/size⌉·size, ⌈end/size⌉·size), if that is not empty (PIPES, algorithm 24).

    With `coarsest`, the size may become coarser while the query runs, as in `Window`: both ends of an element are
    rounded to the size in force at its start.
    """

    source: Plan
    size: int
    span: Span = field(default=NOWHERE, compare=False)
    coarsest: int | None = None


@value
class Split(_SameColumns):
    """The same relation at every instant, from elements valid for at most `length`; 1 is CQL's Rstream."""

    source: Plan
    length: int
    span: Span = field(default=NOWHERE, compare=False)


WHOLE = LATEST - BEGINNING
"""Length that no element with an end reaches."""


@value
class Coalesce(_SameColumns):
    """The same relation at every instant, with equal elements adjacent in time merged up to a validity of `length`."""

    source: Plan
    length: int
    span: Span = field(default=NOWHERE, compare=False)


@value
class Stamp:
    """The source with one more column: the own time of each element, which windows above do not move.

    The own time of a row of a source stream is the start of its validity. All other rows are split into chronons,
    whose own time is their instant, because how operators cut validities has no meaning.
    """

    source: Plan
    column: str
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.source.schema + Schema((Field(self.column, Type.BIGINT),))


EVERY_ROW = 1_000_000
"""The rate of a sample that keeps every element: rates are millionths."""

LEAST_RATE = 1_000
"""Smallest rate that is ever chosen for an adaptable sample."""


@value
class Sample:
    """Each element with a probability, its rate, and one more column `weight`, which is 1 / rate.

    Whether an element is kept follows from a hash of all its columns and its start. So it depends neither on how input
    is cut nor on where it is processed, and equal elements of one instant share their fate.

    `rate` is in millionths. Without one, the sample is *adaptable*, as a window is: an element is kept by the rate in
    force at its start, which follows from how long steps take, compared with `target` microseconds.
    """

    source: Plan
    weight: str
    rate: int | None = None
    target: int = 1_000_000
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.source.schema + Schema((Field(self.weight, Type.DOUBLE),))


class Change(Enum):
    """The kind of change of a relation from one instant to the next, and when it is reported."""

    INSERTED = "istream"  # τ(t) − τ(t−1), at t
    DELETED = "dstream"  # τ(t−1) − τ(t), at t
    DELETED_LAST = "dstream_last"  # τ(t) − τ(t+1), at t: the last instant at which the row was there


@value
class Changes(_SameColumns):
    """The rows that a relation gains or loses at an instant, as bags (PIPES, section 17.3; CQL)."""

    source: Plan
    change: Change
    span: Span = field(default=NOWHERE, compare=False)


@value
class Order:
    """A column to order by; NULLs come last unless `nulls_first`, NaN is the greatest number."""

    column: str
    descending: bool = False
    nulls_first: bool = False


@value
class Limit(_SameColumns):
    """At every instant, the first `count` rows in an order, after skipping `offset`; per group if there are keys.

    Rows that are equal in the order are ordered by all their columns, ascending, NULLs last. With `ties`, rows that
    are equal in the order to the last row also belong to the result.
    """

    source: Plan
    order: tuple[Order, ...]
    count: int
    offset: int = 0
    keys: tuple[str, ...] = ()
    span: Span = field(default=NOWHERE, compare=False)
    ties: bool = False


@value
class Filter(_SameColumns):
    """Keep the elements for which the predicate is true (not false, not unknown)."""

    source: Plan
    predicate: Expression
    span: Span = field(default=NOWHERE, compare=False)


@value
class Output:
    """A column that a map computes."""

    name: str
    expression: Expression


@value
class Map:
    """Replace each element by the given columns, computed from it."""

    source: Plan
    outputs: tuple[Output, ...]
    span: Span = field(default=NOWHERE, compare=False)
    schema: Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _keep_schema(self, Schema(tuple(Field(o.name, o.expression.type) for o in self.outputs)))


@value
class Union:
    """All elements of all inputs (UNION ALL); the inputs have the same types, and names come from the first."""

    inputs: tuple[Plan, ...]
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.inputs[0].schema


@value
class Join:
    """Pairs for which the predicate is true and whose validities overlap, valid in the overlap."""

    left: Plan
    right: Plan
    predicate: Expression
    span: Span = field(default=NOWHERE, compare=False)
    schema: Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _keep_schema(self, self.left.schema + self.right.schema)


class SetRule(Enum):
    """The number of copies of a row in the result, if the left input has n copies and the right input m."""

    EXCEPT_ALL = "except all"  # max(n - m, 0): PIPES' difference
    INTERSECT_ALL = "intersect all"  # min(n, m)
    MAX_UNION = "max union"  # max(n, m)
    STRICT_EXCEPT_ALL = "strict except all"  # n if m = 0, else 0: PIPES' strict difference
    EXCEPT = "except"  # 1 if n > 0 and m = 0
    INTERSECT = "intersect"  # 1 if n > 0 and m > 0


@value
class SetOperation:
    """Rows of two inputs of the same types, combined by their number of copies.

    NULL equals NULL. Names come from the left input.
    """

    left: Plan
    right: Plan
    rule: SetRule
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@value
class SemiJoin:
    """Left elements, valid while a right row makes the predicate true; with `anti`, while none does.

    The predicate reads columns of both sides. The result has the columns of the left and keeps the number of copies.
    """

    left: Plan
    right: Plan
    predicate: Expression
    anti: bool = False
    span: Span = field(default=NOWHERE, compare=False)

    @property
    def schema(self) -> Schema:
        return self.left.schema


@value
class AggregateCall:
    """A call of an aggregate function, by its lower-case name, on columns; "count" without a column counts elements.

    `column` is the first argument; `others` are further columns (ARG_MAX(a, b)), `options` constants (QUANTILE(a,
    0.9)). With `distinct`, each value counts once. `user` is a user-defined aggregate in Python.
    """

    function: str
    column: str | None
    name: str
    type: Type
    others: tuple[str, ...] = ()
    options: tuple[int | float | str | bool, ...] = ()
    distinct: bool = False
    user: AggregateFunction | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return (*(() if self.column is None else (self.column,)), *self.others)


@value
class Aggregate:
    """At every instant, one row for each non-empty group: its keys, then its aggregates.

    With `omits`, elements that are extreme at no instant are dropped before they travel: those of `extreme_demand`.
    """

    source: Plan
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    span: Span = field(default=NOWHERE, compare=False)
    omits: bool = False
    schema: Schema = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        keys = tuple(Field(k, self.source.schema.type_of(k)) for k in self.keys)
        _keep_schema(self, Schema(keys + tuple(Field(c.name, c.type) for c in self.calls)))


@value
class Distinct(_SameColumns):
    """Each row at most once at every instant."""

    source: Plan
    span: Span = field(default=NOWHERE, compare=False)


Plan = (
    Scan
    | Window
    | CountWindow
    | Granularity
    | Split
    | Coalesce
    | Stamp
    | Sample
    | Changes
    | Limit
    | Filter
    | Map
    | Union
    | Join
    | SemiJoin
    | SetOperation
    | Aggregate
    | Distinct
    | ThresholdJoin
    | TotalThreshold
    | GroupedTotals
    | RangeThreshold
    | KeyedJoin
    | SimilarityJoin
)

Pair = Join | SemiJoin | SetOperation | SimilarityJoin
"""Operators with two inputs, left and right."""


def inputs(plan: Plan) -> tuple[Plan, ...]:
    match plan:
        case Scan():
            return ()
        case Union(inputs=many) | ThresholdJoin(inputs=many) | KeyedJoin(inputs=many):
            return many
        case Join() | SemiJoin() | SetOperation() | SimilarityJoin():
            return (plan.left, plan.right)
        case RangeThreshold(elements=elements, subscriptions=subscriptions):
            return (elements, subscriptions)
        case _:
            return (plan.source,)


def with_inputs(plan: Plan, new: tuple[Plan, ...]) -> Plan:
    """Return the operator with other inputs; `plan` itself if they are the same objects."""
    if all(a is b for a, b in zip(inputs(plan), new, strict=True)):
        return plan
    match plan:
        case Scan():
            return plan
        case Union() | ThresholdJoin() | KeyedJoin():
            return replace(plan, inputs=new)
        case Join() | SemiJoin() | SetOperation() | SimilarityJoin():
            return replace(plan, left=new[0], right=new[1])
        case RangeThreshold():
            return replace(plan, elements=new[0], subscriptions=new[1])
        case _:
            return replace(plan, source=new[0])


def walk(plan: Plan) -> Iterator[Plan]:
    """Yield the plan and all nodes below it, parents first."""
    yield plan
    for each in inputs(plan):
        yield from walk(each)


def rewrite(plan: Plan, change: Callable[[Plan], Plan]) -> Plan:
    """Rebuild the plan bottom-up, replacing each node by the result of `change`."""
    return change(with_inputs(plan, tuple(rewrite(each, change) for each in inputs(plan))))
