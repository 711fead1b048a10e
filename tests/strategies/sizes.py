"""Plans with windows and granularities whose sizes change, and any history of their sizes."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from strategies.streams import Streams
from tidegate.algebra.adaptable import Adaptable, is_adaptable
from tidegate.algebra.plan import (
    EVERY_ROW,
    Aggregate,
    AggregateCall,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Order,
    Output,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Union,
    Window,
    walk,
)
from tidegate.expressions.nodes import TRUE, Call, Case, Cast, Column, Expression, Literal
from tidegate.optimizer.quality import SizeBounds
from tidegate.physical.common.sizes import SizeHistory
from tidegate.schema import Schema, Type

LATEST = 5
"""No element starts later."""

COLUMNS = Schema.of(k=Type.INT, a=Type.INT)
K, A = (Column(name, Type.INT) for name in COLUMNS.names)


@st.composite
def two_streams(draw: DrawFn) -> Streams:
    """Two streams over few keys, values and times."""
    row: st.SearchStrategy[dict[str, object]] = st.fixed_dictionaries(
        {"k": st.sampled_from([0, 1]), "a": st.sampled_from([0, 1, None])}
    )
    elements = st.lists(st.tuples(st.integers(0, LATEST), row), max_size=8)
    return Streams(
        dict.fromkeys(("s0", "s1"), COLUMNS),
        {name: sorted(draw(elements), key=lambda each: each[0]) for name in ("s0", "s1")},
    )


@st.composite
def adaptable_plans(draw: DrawFn, name: str = "s0") -> Plan:
    """A window or granularity with a range of sizes over a stream, or several of them above each other."""
    plan: Plan = Scan(name, COLUMNS)
    if draw(st.integers(0, 3)) == 0:
        plan = columns_of_sample(Sample(plan, "weight"))
    if draw(st.booleans()):
        plan = Filter(plan, Call("=", (K, Literal(0, Type.INT)), Type.BOOLEAN))
    if draw(st.integers(0, 5)) == 0:
        plan = Union((plan, Scan("s1" if name == "s0" else "s0", COLUMNS)))
    if draw(st.integers(0, 5)) == 0:
        plan = Map(plan, (Output("k", K), Output("a", A)))
    match draw(st.sampled_from(["range", "rows", "granularity"])):
        case "range":
            best, slide = draw(st.integers(2, 6)), draw(st.sampled_from([1, 1, 2, 3]))
            plan = Window(plan, best, slide, least=draw(st.integers(1, best - 1)))
        case "rows":
            best, keys = draw(st.integers(2, 4)), draw(st.sampled_from([(), ("k",)]))
            return CountWindow(plan, best, 1, keys, least=draw(st.integers(1, best - 1)))
        case "granularity":
            plan = Window(plan, draw(st.integers(1, 5)), 1)
    for _ in range(draw(st.integers(0 if isinstance(plan, Window) and is_adaptable(plan) else 1, 2))):
        size = draw(st.sampled_from([1, 2])) * (plan.size if isinstance(plan, Granularity) else 1)
        plan = Granularity(plan, size, coarsest=size * draw(st.sampled_from([2, 3, 4, 5])))
    return plan


def columns_of_sample(sample: Sample) -> Plan:
    """The sample, whose rows are worth what they stand for, with the columns of its source."""
    weighed = Case(((Call("=", (K, Literal(0, Type.INT)), Type.BOOLEAN), A),), _rounded("weight"), Type.INT)
    return Map(sample, (Output("k", K), Output("a", weighed)))


def _rounded(name: str) -> Expression:
    return Cast(Column(name, Type.DOUBLE), Type.INT)


@st.composite
def plans_over_adaptable(draw: DrawFn) -> Plan:
    """An operator over adaptable windows."""
    left = draw(adaptable_plans())
    right = Map(draw(adaptable_plans("s1")), (Output("j", K), Output("b", A)))
    equal = Call("=", (K, Column("j", Type.INT)), Type.BOOLEAN)
    count = AggregateCall("count", None, "n", Type.BIGINT)
    return draw(
        st.sampled_from(
            [
                left,
                left,
                left,
                Aggregate(left, ("k",), (count,)),
                Aggregate(left, (), (AggregateCall("max", "a", "most", Type.INT),)),
                Distinct(left),
                Limit(left, (Order("a"), Order("k")), 1),
                Join(left, right, equal),
                Join(left, right, TRUE),
                SemiJoin(left, right, equal),
                SemiJoin(left, right, equal, anti=True),
                SetOperation(left, right, SetRule.EXCEPT_ALL),
                SetOperation(left, right, SetRule.INTERSECT),
                Aggregate(Join(left, right, equal), ("k",), (count,)),
            ]
        )
    )


def adaptable_in(plan: Plan) -> list[Adaptable]:
    """The adaptable operators of a plan, each once."""
    found = [node for node in walk(plan) if is_adaptable(node)]
    return [node for node in dict.fromkeys(found) if isinstance(node, Adaptable)]


@st.composite
def histories(draw: DrawFn, bounds: SizeBounds, *, most: int = 4) -> SizeHistory:
    """Any history within bounds; it begins with the best size, and granules become finer at their multiples only."""
    history = SizeHistory.of(bounds.best)
    allowed = some_sizes(bounds)
    instants = draw(st.lists(st.integers(0, LATEST + 1), max_size=most, unique=True))
    for instant in sorted(instants):
        size, newest = draw(st.sampled_from(allowed)), history.newest
        if not (bounds.chain and size < newest.size and instant % newest.size):
            history = history.changed(instant, size)
    return history


def some_sizes(bounds: SizeBounds) -> list[int]:
    """Sizes within bounds: all of them, but a few rates."""
    if bounds.kind == "rate":
        return [EVERY_ROW, 500_000, 200_000]
    return list(bounds.chain or range(bounds.worst, bounds.best + 1))


def reference_sizes(found: Iterable[tuple[Plan, SizeHistory]]) -> dict[Plan, list[tuple[int, int]]]:
    """The histories as the reference reads them."""
    return {plan: [(each.instant, each.size) for each in history.changes] for plan, history in found}
