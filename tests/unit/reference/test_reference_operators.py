"""The reference of operators, against expectations worked out by hand, and against their laws."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.changes import has_own_times, is_finite
from reference.instants import interesting_instants_of
from reference.letters import lasting, letters, row, table
from reference.semantics import failures, relation_at, relation_of, relations, relations_of
from reference.values import DIVISION_BY_ZERO, NAN
from strategies.plans import plans, sources, streams
from support.examples import examples

from tidegate.algebra.plan import (
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Limit,
    Map,
    Order,
    Output,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Union,
    Window,
)
from tidegate.expressions.nodes import TRUE, Call, Column, Literal
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING, FOREVER

X, Y = Column("x", Type.DOUBLE), Column("y", Type.DOUBLE)


# ---- LIMIT


ROWS = [("a", 1.0), ("b", NAN), ("c", None), ("d", 1.0), ("e", -2.0)]
NAMED = Schema.of(e=Type.STRING, x=Type.DOUBLE)


def first(count: int, *order: Order, offset: int = 0, keys: tuple[str, ...] = ()) -> list[str]:
    raw = {"s": [(0, {"e": e, "x": x}) for e, x in reversed(ROWS)]}
    plan = Limit(Scan("s", NAMED), order, count, offset, keys)
    return sorted(str(e) for e, _ in relation_at(plan, raw, 0).elements())


def test_limit_orders_nulls_last_and_nan_as_the_greatest_number() -> None:
    assert first(3, Order("x")) == ["a", "d", "e"]
    assert first(4, Order("x")) == ["a", "b", "d", "e"]
    assert first(1, Order("x", descending=True)) == ["b"]
    assert first(1, Order("x", nulls_first=True)) == ["c"]
    assert first(2, Order("x", descending=True, nulls_first=True)) == ["b", "c"]


def test_ties_in_a_limit_fall_by_all_columns_ascending() -> None:
    assert first(2, Order("x")) == ["a", "e"]
    assert first(2, Order("x", descending=True)) == ["a", "b"]
    assert first(1, Order("x"), Order("e", descending=True), offset=1) == ["d"]
    assert first(2) == ["a", "b"]
    assert first(2, offset=4) == ["e"]
    assert first(1, Order("e"), keys=("x",)) == ["a", "b", "c", "e"]


# ---- pairs and sets


def test_the_sets_of_rows_take_null_for_equal_to_null_and_nan_to_nan() -> None:
    raw = {"l": [(0, {"x": v}) for v in (None, None, NAN, 1.0)], "r": [(0, {"x": v}) for v in (None, NAN, 2.0)]}
    left, right = (Scan(name, Schema.of(x=Type.DOUBLE)) for name in ("l", "r"))
    found = {rule: relation_at(SetOperation(left, right, rule), raw, 0) for rule in SetRule}
    assert found == {
        SetRule.EXCEPT_ALL: Counter([(None,), (1.0,)]),
        SetRule.INTERSECT_ALL: Counter([(None,), (NAN,)]),
        SetRule.MAX_UNION: Counter([(None,), (None,), (NAN,), (1.0,), (2.0,)]),
        SetRule.STRICT_EXCEPT_ALL: Counter([(1.0,)]),
        SetRule.EXCEPT: Counter([(1.0,)]),
        SetRule.INTERSECT: Counter([(None,), (NAN,)]),
    }


def test_a_semi_join_with_null_has_no_partner_and_an_anti_join_keeps_it() -> None:
    raw = {"l": [(0, {"x": v}) for v in (None, 1.0, 1.0, 2.0)], "r": [(0, {"y": v}) for v in (None, 1.0, 1.0)]}
    left, right = Scan("l", Schema.of(x=Type.DOUBLE)), Scan("r", Schema.of(y=Type.DOUBLE))
    equal = Call("=", (X, Y), Type.BOOLEAN)
    assert relation_at(SemiJoin(left, right, equal), raw, 0) == Counter({(1.0,): 2})
    assert relation_at(SemiJoin(left, right, equal, anti=True), raw, 0) == Counter([(None,), (2.0,)])


def test_a_pair_of_a_semi_join_that_fails_is_no_partner() -> None:
    raw = {"l": [(0, {"x": 1.0})], "r": [(0, {"y": 0.0})]}
    broken = Call("=", (Call("/", (X, Y), Type.DOUBLE), Literal(1.0, Type.DOUBLE)), Type.BOOLEAN)
    plan = SemiJoin(Scan("l", Schema.of(x=Type.DOUBLE)), Scan("r", Schema.of(y=Type.DOUBLE)), broken)
    assert relation_at(plan, raw, 0) == Counter()
    assert [f.kinds for f in failures(plan, raw, [0])] == [DIVISION_BY_ZERO.kinds]


# ---- time


def test_counts_go_by_value_within_an_instant_with_null_last_and_null_as_a_key() -> None:
    raw = {"s": [(0, {"k": k, "x": x}) for k, x in [(None, NAN), (None, None), (None, 1.0), (1, 3.0)]]}
    plan = CountWindow(Scan("s", Schema.of(k=Type.INT, x=Type.DOUBLE)), 2, keys=("k",))
    assert relation_at(plan, raw, 5) == Counter([(None, NAN), (None, None), (1, 3.0)])


def test_rows_of_a_table_are_always_valid_and_an_interval_until_its_end() -> None:
    given_elements = {
        "t": [(BEGINNING, FOREVER, row("a"))],
        "s": [(-2, 3, row("b")), (1, FOREVER, row("c"))],
    }
    plan = Union((table("t"), lasting("s")))
    found = relations_of(plan, given_elements, [-(2**61), -2, 3, FOREVER - 1, FOREVER])
    assert ["".join(sorted(e for (e,) in r)) for r in found.values()] == ["a", "ab", "ac", "ac", "ac"]


def test_an_unbounded_window_over_validities_keeps_every_instant() -> None:
    elements = {"s": [(1, 3, row("a")), (5, 6, row("b"))]}
    plan = Window(lasting("s"), None)
    found = relations_of(plan, elements, [0, 1, 2, 4, 5, FOREVER - 1])
    assert ["".join(sorted(e for (e,) in r.elements())) for r in found.values()] == ["", "a", "aa", "aa", "aab", "aab"]


@pytest.mark.parametrize("window", [CountWindow(table("t"), 2), Window(table("t"), None)])
def test_nothing_counts_the_instants_of_a_table(window: CountWindow | Window) -> None:
    with pytest.raises(ValueError, match="valid for ever"):
        relation_of(window, {"t": [(BEGINNING, FOREVER, row("a"))]}, 0)
    assert not is_finite(window)


def test_a_window_of_some_instants_over_a_table_repeats_its_rows() -> None:
    given_elements = {"t": [(BEGINNING, FOREVER, row("a"))]}
    assert relation_of(Window(table("t"), 3), given_elements, 7) == Counter({("a",): 3})


def test_rows_that_come_from_one_element_have_a_time_of_their_own() -> None:
    source, rows = Window(letters("s"), 5), CountWindow(letters("s"), 2)
    known = (source, rows, Granularity(source, 2), SemiJoin(source, Distinct(source), TRUE), Split(Distinct(source), 1))
    unknown = (Distinct(source), Split(source, 2), Coalesce(source, 2), SemiJoin(Distinct(source), source, TRUE))
    assert all(has_own_times(plan) for plan in (*known, Changes(Distinct(source), Change.INSERTED)))
    assert not any(has_own_times(plan) for plan in unknown)


# ---- laws


@settings(max_examples=examples(40))
@given(st.data())
def test_relations_of_validities_change_at_interesting_instants_only(data: st.DataObject) -> None:
    source = data.draw(sources())
    plan = data.draw(plans(source))
    found = relations_of(plan, source.elements, range(-4, 40))
    changes = {t for t in range(-3, 40) if found[t] != found[t - 1]}
    assert changes <= set(interesting_instants_of(plan, source.elements))


@settings(max_examples=examples(25))
@given(st.data(), st.integers(1, 4))
def test_at_its_own_instants_a_coarser_stream_is_the_finer_one(data: st.DataObject, size: int) -> None:
    """Lemma 20.1."""
    source = data.draw(sources())
    plan = data.draw(plans(source, depth=3))
    times = range(-8, 24)
    fine, coarse = (relations_of(p, source.elements, times) for p in (plan, Granularity(plan, size)))
    assert all(coarse[t] == fine[t // size * size] for t in times if t // size * size in fine)


@settings(max_examples=examples(25))
@given(st.data())
def test_set_operations_follow_from_difference_and_union(data: st.DataObject) -> None:
    """Formulas (8.12) to (8.14)."""
    source = data.draw(streams())
    a, b = (Map(data.draw(plans(source, depth=2)), (Output("n", Literal(1, Type.INT)),)) for _ in range(2))

    def less(left, right):
        return SetOperation(left, right, SetRule.EXCEPT_ALL)

    both = less(a, less(a, b))
    known = {
        SetRule.INTERSECT_ALL: both,
        SetRule.MAX_UNION: Union((less(a, b), less(b, a), both)),
        SetRule.EXCEPT: Distinct(SetOperation(a, b, SetRule.STRICT_EXCEPT_ALL)),
        SetRule.INTERSECT: Distinct(both),
    }
    for rule, plan in known.items():
        times = range(-2, 16)
        assert relations(SetOperation(a, b, rule), source.elements, times) == relations(plan, source.elements, times)


@settings(max_examples=examples(25))
@given(st.data(), st.integers(1, 4))
def test_a_window_by_time_is_the_union_of_the_windows_of_its_groups(data: st.DataObject, size: int) -> None:
    source = data.draw(streams(most=1))
    scan = Scan("s0", source.schemas["s0"])
    groups = [Filter(scan, Call("=", (Column("k", Type.INT), Literal(k, Type.INT)), Type.BOOLEAN)) for k in range(3)]
    whole, parts = Window(scan, size), Union(tuple(Window(group, size) for group in groups))
    times = range(-2, 20)
    assert relations(whole, source.elements, times) == relations(parts, source.elements, times)


@settings(max_examples=examples(25))
@given(st.data())
def test_what_is_inserted_and_deleted_explains_the_relation(data: st.DataObject) -> None:
    source = data.draw(sources())
    plan = data.draw(plans(source, depth=3))
    times = range(-3, 24)
    content = relations_of(plan, source.elements, times)
    changes = {c: relations_of(Changes(plan, c), source.elements, times) for c in Change}
    for t in times[1:]:
        gained, lost = changes[Change.INSERTED][t], changes[Change.DELETED][t]
        assert content[t - 1] + gained - lost == content[t]
        assert not gained & lost
        assert changes[Change.DELETED_LAST][t - 1] == lost
