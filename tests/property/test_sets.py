"""Set operations, changes, semi- and anti-joins against their definitions at every instant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.stepping import (
    INSTANTS,
    Bag,
    Delivery,
    at_once,
    bag_at,
    canonical,
    check,
    deliveries,
    intervals,
    lengths,
    run,
)

from tidegate.algebra.plan import Change, Changes, Plan, SemiJoin, SetOperation, SetRule
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, Literal
from tidegate.physical.common.emit import Emit
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

COLUMNS = Schema.of(a=Type.STRING, x=Type.DOUBLE)
OTHERS = Schema.of(b=Type.STRING, y=Type.DOUBLE)
LEFT, RIGHT = intervals("left", COLUMNS), intervals("right", OTHERS)

ROWS = st.tuples(st.sampled_from(["a", None]), st.sampled_from([0.0, -0.0, float("nan"), None]))
NUMBERS = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0.0, 1.0, 2.0, None]))

COPIES: dict[SetRule, Callable[[int, int], int]] = {
    SetRule.EXCEPT_ALL: lambda n, m: max(n - m, 0),
    SetRule.INTERSECT_ALL: min,
    SetRule.MAX_UNION: max,
    SetRule.STRICT_EXCEPT_ALL: lambda n, m: 0 if m else n,
    SetRule.EXCEPT: lambda n, m: int(n > 0 and m == 0),
    SetRule.INTERSECT: lambda n, m: int(n > 0 and m > 0),
}


def bag(delivery: Delivery, stream: str, instant: int) -> Bag:
    """The relation of a stream, in which equal floats look equal."""
    rows = Counter[tuple[object, ...]]()
    for row, count in bag_at(delivery.streams[stream], instant).items():
        rows[tuple(map(canonical, row))] += count
    return rows


@pytest.mark.parametrize("rule", list(SetRule))
@given(delivery=deliveries({"left": ROWS, "right": ROWS}, lengths(5, endless=True)), emit=st.sampled_from(Emit))
@settings(max_examples=examples(60), deadline=None)
def test_a_set_operation_counts_rows_as_its_rule_says(rule: SetRule, delivery: Delivery, emit: Emit) -> None:
    def expected(instant: int) -> Bag:
        left, right = (bag(delivery, side, instant) for side in ("left", "right"))
        return +Counter({row: COPIES[rule](left[row], right[row]) for row in left | right})

    outcome = run(SetOperation(LEFT, RIGHT, rule), delivery, emit=emit)
    check(outcome, {t: expected(t) for t in INSTANTS})


def test_a_stream_without_itself_is_empty() -> None:
    delivery = at_once(left=[(1, 5, ("a", 0.0)), (2, 3, ("a", 0.0))])
    assert run(SetOperation(LEFT, LEFT, SetRule.EXCEPT_ALL), delivery).elements == []


@pytest.mark.parametrize("change", list(Change))
@given(delivery=deliveries({"left": ROWS}, lengths(5, endless=True), most=14), emit=st.sampled_from(Emit))
@settings(max_examples=examples(60), deadline=None)
def test_changes_are_differences_between_neighbouring_instants(change: Change, delivery: Delivery, emit: Emit) -> None:
    def expected(instant: int) -> Bag:
        before, now, after = (bag(delivery, "left", instant + d) for d in (-1, 0, 1))
        match change:
            case Change.INSERTED:
                return now - before
            case Change.DELETED:
                return before - now
            case Change.DELETED_LAST:
                return now - after

    outcome = run(Changes(LEFT, change), delivery, emit=emit)
    check(outcome, {t: expected(t) for t in INSTANTS if t != FOREVER - 1})
    assert all(end == start + 1 for start, end, _ in outcome.elements)


A, X, B, Y = (Column(n, t) for n, t in (("a", Type.STRING), ("x", Type.DOUBLE), ("b", Type.STRING), ("y", Type.DOUBLE)))


def compare(function: str, left: Expression, right: Expression) -> Expression:
    return Call(function, (left, right), Type.BOOLEAN)


def both(left: Expression, right: Expression) -> Expression:
    return compare("and", left, right)


def matches(left: tuple[Any, ...], right: tuple[Any, ...], *, equal: bool, less: bool) -> bool:
    fits = not equal or (left[0] is not None and left[0] == right[0])
    return fits and (not less or (None not in (left[1], right[1]) and left[1] < right[1]))


@pytest.mark.parametrize(
    ("predicate", "equal", "less"),
    [
        (compare("=", A, B), True, False),
        (compare("<", X, Y), False, True),
        (both(compare("=", B, A), compare("<", X, Y)), True, True),
        (TRUE, False, False),
    ],
    ids=["equality", "comparison", "both", "nothing"],
)
@given(
    delivery=deliveries({"left": NUMBERS, "right": NUMBERS}, lengths(5)),
    anti=st.booleans(),
    emit=st.sampled_from(Emit),
)
@settings(max_examples=examples(60), deadline=None)
def test_semi_and_anti_joins_keep_elements_as_often_as_they_were(
    predicate: Expression, equal: bool, less: bool, delivery: Delivery, anti: bool, emit: Emit
) -> None:
    def expected(instant: int) -> Bag:
        left, right = (bag(delivery, side, instant) for side in ("left", "right"))
        found = {row for row in left if any(matches(row, other, equal=equal, less=less) for other in right)}
        return Counter({row: count for row, count in left.items() if (row in found) != anti})

    outcome = run(SemiJoin(LEFT, RIGHT, predicate, anti), delivery, emit=emit)
    check(outcome, {t: expected(t) for t in INSTANTS})


@pytest.mark.parametrize("anti", [False, True])
def test_keys_that_are_computed_do_not_stay_in_the_result(anti: bool) -> None:
    doubled = Call("*", (X, Literal(2.0, Type.DOUBLE)), Type.DOUBLE)
    plan: Plan = SemiJoin(LEFT, RIGHT, compare("=", doubled, Y), anti)
    delivery = at_once(left=[(0, 9, ("a", 1.0)), (0, 9, ("b", None))], right=[(3, 5, ("z", 2.0))])
    outcome = run(plan, delivery, emit=Emit.SETTLED)
    found = [(0, 3, ("a", 1.0)), (0, 9, ("b", None)), (5, 9, ("a", 1.0))] if anti else [(3, 5, ("a", 1.0))]
    assert sorted(outcome.elements, key=str) == sorted(found, key=str)
