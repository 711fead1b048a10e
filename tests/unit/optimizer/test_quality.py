"""Keys of size histories, and the sizes that all queries of a window allow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies.sizes import adaptable_plans, plans_over_adaptable
from support.examples import examples

from tidegate.algebra.adaptable import granule_chain, is_adaptable
from tidegate.algebra.plan import (
    EVERY_ROW,
    LEAST_RATE,
    Aggregate,
    AggregateCall,
    CountWindow,
    Filter,
    Granularity,
    Join,
    Map,
    Output,
    Plan,
    Scan,
    Window,
    inputs,
    rewrite,
)
from tidegate.expressions.nodes import Call, Column, Literal
from tidegate.expressions.user_calls import UserFunction
from tidegate.optimizer.plan_keys import plan_key
from tidegate.optimizer.quality import SizeBounds, size_bounds, size_key
from tidegate.optimizer.sharing import SubplanTable, share_subplans
from tidegate.physical.lower import lower
from tidegate.schema import Schema, Type

RAW = Scan("s", Schema.of(k=Type.INT, v=Type.DOUBLE))
K = Column("k", Type.INT)
COUNT = AggregateCall("count", None, "n", Type.BIGINT)
DEFINED = """
import sys
sys.path[:0] = {path!r}
from unit.optimizer.test_quality import KEYED
from tidegate.optimizer.quality import size_key
print(*[size_key(plan) for plan in KEYED])
"""


def key_of(plan: Plan) -> str:
    key = size_key(plan)
    assert key is not None
    return key


def called(function: Callable[..., Any]) -> Call:
    return Call("f", (K,), Type.INT, user=UserFunction("f", (Type.INT,), Type.INT, function))


POSITIVE = Call(">", (K, Literal(0, Type.INT)), Type.BOOLEAN)
KEYED = (
    Window(RAW, 10, least=5),
    Window(RAW, 10, 2, least=5),
    Window(RAW, 11, least=5),
    Window(Filter(RAW, POSITIVE), 10, least=5),
    Window(Map(RAW, (Output("x", called(lambda x: x)),)), 10, least=5),
    CountWindow(RAW, 10, 1, ("k",), least=5),
    CountWindow(RAW, 10, least=5),
    Granularity(RAW, 10, coarsest=50),
    Granularity(Window(RAW, 10, least=5), 10, coarsest=50),
    Granularity(Window(RAW, 10), 10, coarsest=50),
)


def test_other_windows_and_other_inputs_have_other_keys() -> None:
    keys = [size_key(plan) for plan in KEYED]
    assert len(set(keys)) == len(keys)
    assert None not in keys


def test_a_fixed_window_has_no_key() -> None:
    assert size_key(Window(RAW, 10)) is None
    assert plan_key(Window(RAW, 10)) != plan_key(Window(RAW, 10, least=5))
    assert plan_key(Window(RAW, 10)) == plan_key(Window(RAW, 10, least=10))


def test_the_key_depends_neither_on_names_nor_on_the_worst_size() -> None:
    renamed = Map(RAW, (Output("other", K),))
    same = Map(RAW, (Output("k", K),))
    assert size_key(Window(renamed, 10, least=5)) == size_key(Window(same, 10, least=2))
    assert size_key(Granularity(RAW, 10, coarsest=50)) == size_key(Granularity(RAW, 10, coarsest=20))


def test_a_user_defined_function_counts_by_its_name() -> None:
    plans = [Window(Map(RAW, (Output("x", called(f)),)), 10, least=5) for f in (lambda x: x, lambda x: x + 1)]
    assert size_key(plans[0]) == size_key(plans[1])


def test_the_key_is_the_same_in_another_process() -> None:
    code = DEFINED.format(path=[each for each in sys.path if each])
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == [size_key(plan) for plan in KEYED]


def test_operators_know_their_keys() -> None:
    for plan in KEYED:
        assert getattr(lower(plan).operator, "adjusted_by", "") == size_key(plan)
    assert lower(Granularity(RAW, 10, coarsest=50)) == lower(Granularity(RAW, 10, coarsest=20))
    assert lower(Window(RAW, 10)).operator.adjusted_by is None


# ---- bounds


def allowed_by_definition(plans: list[Plan], key: str, kind: str) -> set[int]:
    """All sizes that every place of every plan allows."""
    allowed = set(range(1, 300))

    def visit(plan: Plan, above: tuple[int, ...]) -> None:
        nonlocal allowed
        if is_adaptable(plan) and size_key(plan) == key:
            match plan:
                case Granularity():
                    own = {g for g in granule_chain(plan) if all(size % g == 0 and g <= size for size in above)}
                case Window(size=int(best), least=int(worst)) | CountWindow(rows=int(best), least=int(worst)):
                    own = set(range(worst, best + 1))
            allowed &= own
        for each in inputs(plan):
            visit(each, (*above, plan.size) if isinstance(plan, Granularity) else above)

    for plan in plans:
        visit(plan, ())
    return allowed


@given(st.data())
@settings(max_examples=examples(200), deadline=None)
def test_bounds_are_the_sizes_that_every_query_allows(data) -> None:
    first = data.draw(st.one_of(adaptable_plans(), plans_over_adaptable()))
    plans = [first, *data.draw(st.lists(st.builds(with_other_bounds, st.just(first), st.integers(1, 5)), max_size=2))]
    plans += data.draw(st.lists(adaptable_plans(), max_size=1))
    bounds = size_bounds(plans)
    for key, each in bounds.items():
        if each.kind == "rate":
            assert (each.best, each.worst) == (EVERY_ROW, LEAST_RATE)
            continue
        allowed = allowed_by_definition(plans, key, each.kind)
        assert {size for size in range(1, 300) if each.allows(size)} == allowed
        best = min if each.kind == "granularity" else max
        assert (each.best, each.worst) == (best(allowed), {min: max, max: min}[best](allowed))
    assert bounds.keys() == {key for plan in plans for key in size_bounds([plan])}
    # A query that goes takes its bounds with it (E-45).
    assert size_bounds(plans[:1]) == {key: size_bounds(plans[:1])[key] for key in size_bounds(plans[:1])}


def with_other_bounds(plan: Plan, by: int) -> Plan:
    def change(node: Plan) -> Plan:
        match node:
            case Window(size=int(best), least=int(least)) | CountWindow(rows=int(best), least=int(least)):
                return replace(node, least=min(least + by, best - 1))
            case Granularity(size=size, coarsest=int()):
                return replace(node, coarsest=size * (1 + by))
        return node

    return rewrite(plan, change)


def test_a_granule_divides_each_granule_above_it() -> None:
    below = Granularity(RAW, 1, coarsest=12)
    assert granule_chain(below) == (1, 2, 4, 12)
    assert size_bounds([Granularity(below, 6)])[key_of(below)] == SizeBounds(1, 2, "granularity", (1, 2))
    above = Granularity(below, 4, coarsest=16)
    found = size_bounds([above])
    assert found[key_of(below)].chain == (1, 2, 4)
    assert found[key_of(above)].chain == (4, 8, 16)


# ---- sharing


def counted(least: int | None, *, size: int = 10) -> Plan:
    return Aggregate(Window(RAW, size, least=least), ("k",), (COUNT,))


@pytest.mark.parametrize(
    ("other", "is_shared"), [(counted(3), True), (counted(None), False), (counted(5, size=9), False)]
)
def test_windows_that_differ_in_the_worst_size_alone_are_shared(other: Plan, *, is_shared: bool) -> None:
    plans = share_subplans([counted(5), other])
    assert (plans[0] == plans[1]) == is_shared
    both = size_bounds([counted(5), other, *plans])
    assert both[key_of(Window(RAW, 10, least=5))].worst == 5


def test_a_plan_with_other_bounds_is_not_covered() -> None:
    """Its own bounds would be lost, since a wider plan has another key."""
    total = AggregateCall("sum", "v", "total", Type.DOUBLE)
    wide = Aggregate(Window(RAW, 10, least=5), ("k",), (COUNT, total))
    for least, is_covered in ((5, True), (3, False), (None, False)):
        table = SubplanTable(covers=True)
        table.share_plan(wide, 0)
        shared, used = table.share_plan(counted(least), 1)
        assert (used == {0}) == is_covered, least
        assert (Aggregate in map(type, [shared])) == (not is_covered)


def test_a_join_of_windows_with_other_bounds_is_not_covered() -> None:
    def joined(least: int, *columns: str) -> Plan:
        left = Window(RAW, 10, least=least)
        right = Map(Window(RAW, 10, least=5), (Output("j", K),))
        both = Join(left, right, Call("=", (K, Column("j", Type.INT)), Type.BOOLEAN))
        return Map(both, tuple(Output(name, Column(name, both.schema.type_of(name))) for name in columns))

    table = SubplanTable(covers=True)
    table.share_plan(joined(5, "k", "v"), 0)
    assert table.share_plan(joined(5, "k"), 1)[1] == {0}
    # It has the key of the second plan, so it is that one; the bounds are those of both queries.
    assert table.share_plan(joined(4, "k"), 2)[1] == {1}
    assert size_bounds([joined(5, "k"), joined(4, "k")])[key_of(Window(RAW, 10, least=5))].worst == 5
