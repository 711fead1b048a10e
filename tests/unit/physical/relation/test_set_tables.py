"""Difference, changes, semi- and anti-joins on the printed tables of PIPES, and what they promise."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from support.harness import rows_of, run_elements
from support.stepping import Element, at_once, bag_at, in_steps, intervals, run

from tidegate.algebra.plan import (
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Granularity,
    Map,
    Plan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
)
from tidegate.expressions.nodes import TRUE, Call, Column, Literal
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.lower import lower
from tidegate.physical.relation.coalesce import CoalesceOperator
from tidegate.physical.relation.semi_join import SemiJoinOperator
from tidegate.physical.relation.sets import RepeatOperator
from tidegate.physical.stateless.operators import MapOperator
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

Printed = list[tuple[str, int, int]]

S1: Printed = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]  # Table 11.1 (a)
S2: Printed = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]  # Table 11.1 (b)

# Table 8.1: multisets by instant, and what Tables 8.7 and section 3.9 say of them.
L_S1 = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}
L_S2 = {2: "bb", 3: "bb", 4: "abc", 5: "aab", 6: "acc"}
LOGICAL = {
    SetRule.EXCEPT_ALL: {1: "c", 2: "aaa", 3: "aaa", 4: "aa", 5: "b", 6: "bb"},
    SetRule.INTERSECT_ALL: {3: "b", 4: "abc", 5: "b"},
    SetRule.MAX_UNION: {1: "c", 2: "aaabb", 3: "aaabb", 4: "aaabc", 5: "aabb", 6: "abbcc"},
    SetRule.STRICT_EXCEPT_ALL: {1: "c", 2: "aaa", 3: "aaa", 6: "bb"},
    SetRule.EXCEPT: {1: "c", 2: "a", 3: "a", 6: "b"},
    SetRule.INTERSECT: {3: "b", 4: "abc", 5: "b"},
}

LEFT, RIGHT = intervals("left", Schema.of(l=Type.STRING)), intervals("right", Schema.of(r=Type.STRING))
L, R = Column("l", Type.STRING), Column("r", Type.STRING)
EQUAL = Call("=", (L, R), Type.BOOLEAN)


def elements(printed: Printed) -> list[Element]:
    return [(start, end, (letter,)) for letter, start, end in printed]


def chronons(relation: dict[int, str]) -> list[Element]:
    return [(t, t + 1, (letter,)) for t, letters in relation.items() for letter in letters]


def assert_same(found: list[Element], expected: list[Element]) -> None:
    """Whether both say the same at every instant."""
    for instant in [*range(-1, 30), FOREVER - 1]:
        assert bag_at(found, instant) == bag_at(expected, instant), instant


def operators(plan: PhysicalPlan) -> list[type]:
    if not isinstance(plan, Apply):
        return []
    return [type(plan.operator), *(each for below in plan.inputs for each in operators(below))]


@pytest.mark.parametrize("rule", list(SetRule))
def test_set_operations_on_the_logical_streams(rule: SetRule) -> None:
    outcome = run(SetOperation(LEFT, RIGHT, rule), at_once(left=chronons(L_S1), right=chronons(L_S2)))
    assert_same(outcome.elements, chronons(LOGICAL[rule]))


def test_difference_is_table_11_8() -> None:
    outcome = run(SetOperation(LEFT, RIGHT, SetRule.EXCEPT_ALL), at_once(left=elements(S1), right=elements(S2)))
    expected = [("c", 1, 8), ("a", 5, 11), ("d", 9, 14), ("a", 9, 10), ("b", 15, 17)]
    assert_same(outcome.elements, elements(expected))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (Change.INSERTED, [("b", 1, 2), ("d", 3, 4), ("a", 4, 5), ("e", 10, 11)]),  # Table 17.3
        (Change.DELETED_LAST, [("a", 4, 5), ("d", 8, 9), ("b", 14, 15), ("e", 17, 18)]),  # Table 17.4
        (Change.DELETED, [("a", 5, 6), ("d", 9, 10), ("b", 15, 16), ("e", 18, 19)]),  # one later (E-13)
    ],
)
def test_changes_are_those_of_the_tables(change: Change, expected: Printed) -> None:
    for marks in ([], [3, 7, 8, 12]):
        outcome = run(Changes(LEFT, change), in_steps(elements(S2), marks))
        assert sorted(outcome.elements) == sorted(elements(expected))


def test_insertions_are_a_difference_of_bags() -> None:
    """Erratum E-12: with duplicates, the printed formula is not what the algorithm computes."""
    outcome = run(Changes(LEFT, Change.INSERTED), at_once(left=elements([("c", 0, 7), ("c", 1, 4)])))
    assert sorted(outcome.elements) == elements([("c", 0, 1), ("c", 1, 2)])


def test_what_never_ends_is_never_deleted() -> None:
    for change in (Change.DELETED, Change.DELETED_LAST):
        assert run(Changes(LEFT, change), in_steps([(3, FOREVER, ("a",))], [5])).elements == []


def test_semi_and_anti_joins_on_the_logical_streams() -> None:
    delivery = at_once(left=chronons(L_S1), right=chronons(L_S2))
    semi, anti = (run(SemiJoin(LEFT, RIGHT, EQUAL, each), delivery).elements for each in (False, True))
    assert_same(semi, chronons({3: "b", 4: "aaabc", 5: "bb"}))
    assert_same(anti, chronons({1: "c", 2: "aaa", 3: "aaa", 6: "bb"}))


def test_several_fitting_rows_do_not_multiply_an_element() -> None:
    """Erratum E-11: a semi-join is EXISTS."""
    everything = Call("<>", (L, R), Type.BOOLEAN)
    delivery = at_once(left=elements([("a", 0, 9)]), right=elements([("b", 2, 5), ("c", 3, 7)]))
    assert_same(run(SemiJoin(LEFT, RIGHT, everything), delivery).elements, elements([("a", 2, 7)]))


@pytest.mark.parametrize("anti", [False, True])
def test_how_many_rows_fit_does_not_cut_an_element(anti: bool) -> None:
    less = Call("<", (L, R), Type.BOOLEAN)
    fitting = [(t, t + 10, ("b",)) for t in range(20, 40)]
    outcome = run(SemiJoin(LEFT, RIGHT, less, anti), at_once(left=elements([("a", 0, 90)]), right=fitting))
    assert sorted(outcome.elements) == elements([("a", 0, 20), ("a", 49, 90)] if anti else [("a", 20, 49)])


def test_a_predicate_that_fails_for_a_pair_makes_a_dead_letter_and_no_match() -> None:
    left, right = intervals("left", Schema.of(x=Type.DOUBLE)), intervals("right", Schema.of(y=Type.DOUBLE))
    six_over = Call("/", (Literal(6.0, Type.DOUBLE), Column("y", Type.DOUBLE)), Type.DOUBLE)
    predicate = Call("<", (Column("x", Type.DOUBLE), six_over), Type.BOOLEAN)
    delivery = at_once(left=[(0, 4, (1.0,))], right=[(0, 2, (0.0,)), (2, 3, (3.0,))])
    for anti, expected in ((False, [(2, 3, (1.0,))]), (True, [(0, 2, (1.0,)), (3, 4, (1.0,))])):
        outcome = run(SemiJoin(left, right, predicate, anti), delivery)
        assert_same(outcome.elements, expected)
        (letter,) = outcome.dead
        assert (letter["reason"], json.loads(str(letter["row"]))) == ("division_by_zero", {"x": 1.0, "y": 0.0})


def test_an_equality_needs_the_right_once_and_a_semi_join_of_it_is_a_join() -> None:
    semi, anti = (operators(lower(SemiJoin(LEFT, RIGHT, EQUAL, each))) for each in (False, True))
    assert semi == [MapOperator, CoalesceOperator, JoinOperator, AggregateOperator, MapOperator]
    assert anti == [SemiJoinOperator, AggregateOperator, MapOperator]
    every = operators(lower(SemiJoin(LEFT, RIGHT, Call("<", (L, R), Type.BOOLEAN))))
    assert every == [SemiJoinOperator, MapOperator]


def test_below_a_stateful_operator_counts_are_settled() -> None:
    plan = lower(Distinct(SetOperation(LEFT, RIGHT, SetRule.EXCEPT_ALL)))
    assert isinstance(plan, Apply)
    repeat = plan.inputs[0]
    assert isinstance(repeat, Apply)
    assert isinstance(repeat.operator, RepeatOperator)
    counted = repeat.inputs[0]
    assert isinstance(counted, Apply)
    assert isinstance(counted.operator, AggregateOperator)
    assert counted.operator.emit is Emit.SETTLED


@pytest.mark.parametrize("buckets", [1, 3])
@pytest.mark.parametrize(
    "plan",
    [
        SetOperation(LEFT, RIGHT, SetRule.EXCEPT_ALL),
        SetOperation(LEFT, LEFT, SetRule.INTERSECT_ALL),
        Changes(LEFT, Change.INSERTED),
        Changes(SetOperation(LEFT, RIGHT, SetRule.MAX_UNION), Change.DELETED),
        SemiJoin(LEFT, RIGHT, EQUAL),
        SemiJoin(LEFT, RIGHT, EQUAL, anti=True),
        SemiJoin(LEFT, RIGHT, Call("<", (L, R), Type.BOOLEAN)),
        SemiJoin(LEFT, RIGHT, TRUE, anti=True),
        SetOperation(SemiJoin(LEFT, RIGHT, EQUAL), RIGHT, SetRule.STRICT_EXCEPT_ALL),
    ],
)
def test_stages_and_buckets_change_nothing(plan: Plan, buckets: int) -> None:
    delivery = at_once(left=elements(S1), right=elements(S2))
    given = {"left": [(s, e, {"l": r[0]}) for s, e, r in elements(S1)],
             "right": [(s, e, {"r": r[0]}) for s, e, r in elements(S2)]}  # fmt: skip
    assert_same(rows_of(run_elements(plan, given, buckets=buckets, cuts=4)), run(plan, delivery).elements)


NOTHING = Map(LEFT, ())


@pytest.mark.parametrize(
    ("plan", "expected"),
    [
        (SetOperation(NOTHING, Map(RIGHT, ()), SetRule.EXCEPT_ALL), {3: 0, 6: 1, 9: 2, 16: 0}),
        (SemiJoin(NOTHING, RIGHT, TRUE), {0: 0, 6: 3, 9: 3, 17: 0}),
        (SemiJoin(NOTHING, RIGHT, TRUE, anti=True), {0: 0, 6: 0, 9: 0}),
        (Changes(NOTHING, Change.INSERTED), {1: 1, 2: 0, 8: 0, 9: 1}),
        (Coalesce(NOTHING, 9), {1: 1, 7: 3, 9: 3, 16: 1}),
        (Split(NOTHING, 2), {1: 1, 7: 3, 9: 3, 16: 1}),
        (Granularity(NOTHING, 2), {1: 0, 2: 1, 8: 2, 17: 1}),
        (CountWindow(NOTHING, 2), {0: 0, 1: 1, 2: 2, 50: 2}),
    ],
)
@pytest.mark.parametrize("buckets", [1, 3])
def test_elements_need_no_columns(plan: Plan, expected: dict[int, int], buckets: int) -> None:
    given = {"left": [(s, e, {"l": r[0]}) for s, e, r in elements(S1)],
             "right": [(s, e, {"r": r[0]}) for s, e, r in elements(S2)]}  # fmt: skip
    rows = rows_of(run_elements(plan, given, buckets=buckets, cuts=3))
    assert {t: bag_at(rows, t).total() for t in expected} == expected


def test_rows_are_counted_not_listed() -> None:
    many = [(0, 5, ("a",))] * 1000
    outcome = run(SetOperation(LEFT, RIGHT, SetRule.EXCEPT_ALL), at_once(left=many, right=many[:-2]))
    assert Counter(outcome.elements) == Counter({(0, 5, ("a",)): 2})
