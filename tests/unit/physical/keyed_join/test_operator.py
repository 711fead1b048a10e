"""The operator of keyed joins: keys of all types, repeated ones, and what is written of the state."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.recorded import recorded
from support.warmed import recorded_steps

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse, Monitoring, Reach
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.errors import InternalError
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.hold_back import FIGURES
from tidegate.physical.common.operator import NO_STATE, NeedsWarmUp, Operator, Steered
from tidegate.physical.keyed_join import layout
from tidegate.physical.keyed_join import state as keyed_state
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.kernels import cold
from tidegate.physical.keyed_join.kernels.model import Size
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.runtime.state import deserialize, serialize
from tidegate.schema import Field, Schema, Type
from tidegate.time import FOREVER

ARRIVING = ConstraintKind.ARRIVING


def orders_and_items(kind=Type.BIGINT, columns=1, constraints=(), **settings):
    """Orders, each of one item: o(k…, n) → i(k…, m)."""
    keys = [tuple(f"{name}.k{i}" for i in range(columns)) for name in "oi"]
    schemas = tuple(
        Schema((*(Field(key, kind) for key in own), Field(rest, Type.INT)))
        for own, rest in zip(keys, ("o.n", "i.m"), strict=True)
    )
    edges = (JoinEdge(0, 1, *keys),)
    return KeyedJoinOperator(schemas, edges, ("orders", "items"), constraints, (), ConstraintSettings(**settings))


def batch(schema, rows, start=0, length=100):
    columns = list(zip(*rows, strict=True)) or [() for _ in schema]
    arrays = [pa.array(c, f.type.arrow) for c, f in zip(columns, schema, strict=True)]
    begin = np.full(len(rows), start)
    return Batch(begin, begin + length, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))


def step(operator, state, orders, items, now=0, watermark=None, length=100):
    inputs = [batch(s, rows, now, length) for s, rows in zip(operator.schemas, (orders, items), strict=True)]
    return operator.step(state, inputs, [now if watermark is None else watermark] * 2)


def pairs(taken):
    return sorted(zip(taken.output.column("o.n").to_pylist(), taken.output.column("i.m").to_pylist(), strict=True))


def test_it_is_an_operator_that_is_steered_and_warmed_up():
    operator: Operator = orders_and_items()
    assert isinstance(operator, Steered)
    assert isinstance(operator, NeedsWarmUp)
    assert operator.schema.names == ("o.k0", "o.n", "i.k0", "i.m")
    assert operator.describe() == "keyed join of 2 along o.k0 = i.k0, exact"
    assert hash(operator) == hash(orders_and_items())


@pytest.mark.parametrize("constraints", [(), tuple(EdgeConstraint(0, kind, Reach(time=0)) for kind in ConstraintKind)])
@pytest.mark.parametrize("exact", [True, False])
def test_what_is_compiled_is_compiled_by_warming_up(constraints, exact, monkeypatch):
    steps = recorded_steps(monkeypatch, KeyedJoinOperator)
    orders_and_items(constraints=constraints, exact=exact).warm_up()
    orders_and_items(Type.STRING, 2, constraints, exact=exact, use=ConstraintUse.MONITORED).warm_up()
    assert len(steps) == 8
    assert all(len(step.output) for step in steps)
    assert all(step.state for step in steps)


KEYS = {
    Type.INT: [1, 2, 3],
    Type.BIGINT: [-(2**62), 0, 2**62],
    Type.DOUBLE: [math.nan, 0.0, -1.5],
    Type.STRING: ["a", "", "ä" * 40],
    Type.BOOLEAN: [True, False],
    Type.TIMESTAMP: [0, 1, 10**15],
}


@pytest.mark.parametrize(("kind", "values"), KEYS.items())
@pytest.mark.parametrize("columns", [1, 2])
def test_keys_of_any_type_join_and_null_joins_nothing(kind, values, columns):
    operator = orders_and_items(kind, columns)
    known = [*values, None]
    items = [(*[v] * columns, i) for i, v in enumerate(known)]
    orders = [(*[-v if v == 0.0 and kind is Type.DOUBLE else v] * columns, i) for i, v in enumerate(known)]
    first = step(operator, NO_STATE, orders[:1], items)
    second = step(operator, first.state, orders[1:], [], now=5)
    assert pairs(first) + pairs(second) == [(i, i) for i in range(len(values))]
    assert not len(first.dead)


def test_a_repeated_key_is_a_dead_letter_that_names_stream_and_key():
    operator = orders_and_items(Type.STRING)
    first = step(operator, NO_STATE, [], [("a", 1), ("b", 2)])
    second = step(operator, first.state, [("a", 7)], [("a", 3)], now=5)
    assert pairs(second) == [(7, 1)]
    (letter,) = second.dead.to_pylist()
    assert (letter["origin"], letter["reason"], letter["time"]) == ("items", "repeated_key", 5)
    assert letter["detail"] == "items has a row with this key already, and it is still remembered: k0 = a"
    assert json.loads(letter["row"]) == {"k0": "a", "m": 3}


def test_different_keys_with_one_hash_are_an_error_and_not_a_wrong_result(monkeypatch):
    monkeypatch.setattr(layout, "hash_columns", lambda columns: np.zeros(len(columns[0]), np.uint64))
    operator = orders_and_items(Type.STRING)
    first = step(operator, NO_STATE, [], [("a", 1)])
    assert pairs(step(operator, first.state, [("b", 7)], [])) == []
    with pytest.raises(InternalError, match="same hash"):
        step(operator, step(operator, NO_STATE, [], [("a", 1)]).state, [], [("b", 2)])


@pytest.mark.parametrize("is_loaded", [False, True])
def test_the_key_of_a_cold_element_is_repeated_as_long_as_it_is_valid(is_loaded):
    operator = orders_and_items(Type.STRING, constraints=(EdgeConstraint(0, ConstraintKind.CLUSTERED, Reach(time=0)),))
    first = [batch(schema, [("a", 1), ("b", 2)]) for schema in operator.schemas]
    until = np.array([100, 1000])
    inputs = [Batch(each.start, until, each.columns) for each in first]
    taken = operator.step(NO_STATE, inputs, [1, 1])
    assert taken.report.sizes[1] == Size(0, 0, 0, 2)
    known, letters = [], []
    for now, new in ((5, [("a", 3)]), (200, []), (200, [("a", 4), ("b", 5)]), (210, [])):
        state = {n: deserialize(serialize(c)) for n, c in taken.state.items()} if is_loaded else taken.state
        orders = [("a", now), ("b", now)] if new else [("b", now)]
        taken = step(operator, state, orders, new, now=now)
        known.append(pairs(taken))
        letters += [json.loads(letter["row"])["m"] for letter in taken.dead.to_pylist()]
    assert known == [[(5, 1), (5, 2)], [(200, 2)], [(200, 2), (200, 4)], [(210, 2)]]
    assert letters == [3, 5]


def test_different_keys_with_one_hash_are_an_error_if_one_is_cold(monkeypatch):
    monkeypatch.setattr(layout, "hash_columns", lambda columns: np.zeros(len(columns[0]), np.uint64))
    operator = orders_and_items(Type.STRING, constraints=(EdgeConstraint(0, ConstraintKind.CLUSTERED, Reach(time=0)),))
    first = step(operator, NO_STATE, [("a", 1)], [("a", 1)], watermark=1)
    assert first.report.sizes[1] == Size(0, 0, 0, 1)
    with pytest.raises(InternalError, match="same hash"):
        step(operator, first.state, [], [("b", 2)], now=5)


def test_elements_meet_by_the_columns_that_are_equal_everywhere():
    assert orders_and_items(columns=2).partition_keys == (("o.k0", "o.k1"), ("i.k0", "i.k1"))
    schemas = tuple(Schema.of(**{f"{n}.p": Type.INT, f"{n}.q": Type.INT}) for n in "abc")
    chain = (JoinEdge(0, 1, ("a.p",), ("b.p",)), JoinEdge(1, 2, ("b.q",), ("c.p",)))
    its = (("a", "b", "c"), (), (), ConstraintSettings())
    assert KeyedJoinOperator(schemas, chain, *its).partition_keys == ((), (), ())
    one = (JoinEdge(0, 1, ("a.p",), ("b.p",)), JoinEdge(2, 1, ("c.q", "c.p"), ("b.p", "b.q")))
    assert KeyedJoinOperator(schemas, one, *its).partition_keys == (("a.p",), ("b.p",), ("c.q",))


def test_nothing_is_left_when_all_streams_are_finished():
    bound = (EdgeConstraint(0, ARRIVING, Reach(time=0)),)
    operator = orders_and_items(constraints=bound)
    first = step(operator, NO_STATE, [(1, 1), (2, 2)], [(2, 2), (3, 3)], watermark=1)
    assert first.report.sizes == (Size(0, 0, 0, 1), Size(2, 0, 0, 0))
    last = step(operator, first.state, [], [(1, 9)], now=50, watermark=FOREVER)
    assert pairs(last) == [(1, 9)]
    assert last.report.returned == (1, 0)
    assert last.report.sizes == (Size(0, 0, 0, 0),) * 2
    assert last.watermark == FOREVER


def test_rows_are_counted_as_they_are_told():
    operator = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(rows=2)),), exact=False)
    first = step(operator.with_directive(None, {"orders": 1, "items": 10}), NO_STATE, [(1, 1)], [])
    second = step(operator.with_directive(None, {"orders": 1, "items": 11}), first.state, [], [])
    assert second.report.sizes[0] == Size(0, 1, 0, 0)
    third = step(operator.with_directive(None, {"orders": 1, "items": 12}), second.state, [], [])
    assert third.report.sizes[0] == Size(0, 0, 0, 0)


def test_rows_that_did_not_come_here_are_no_others_in_a_cluster():
    """Of five more orders of the item that arrive, a filter lets only the last one pass."""
    operator = orders_and_items(constraints=(EdgeConstraint(0, ConstraintKind.CLUSTERED, Reach(rows=0)),), exact=False)
    first = step(operator.with_directive(None, {"orders": 1, "items": 1}), NO_STATE, [(1, 1)], [(1, 1)])
    second = step(operator.with_directive(None, {"orders": 5, "items": 1}), first.state, [], [])
    third = step(operator.with_directive(None, {"orders": 6, "items": 1}), second.state, [(1, 2)], [])
    assert pairs(third) == [(2, 1)]
    last = step(operator.with_directive(None, {"orders": 7, "items": 1}), third.state, [(2, 3)], [])
    assert last.report.sizes[1] == Size(0, 0, 0, 0)


def test_what_is_decided_is_made_use_of_in_the_next_step():
    operator = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=5)),))
    first = step(operator, NO_STATE, [(1, 1)], [])
    record = operator.decide(None, [recorded(first.report)], 0.0)
    assert record.directive.within == {"0/arriving": Reach(time=5)}
    second = step(operator.with_directive(record.directive, {}), first.state, [], [], now=6)
    assert second.report.sizes[0] == Size(0, 0, 0, 1)
    off = KeyedJoinDirective(within={}, keeps_no=())
    assert step(operator.with_directive(off, {}), first.state, [], [], now=6).report.sizes[0] == Size(0, 1, 0, 0)


@pytest.mark.parametrize("columns", [1, 2])
def test_why_an_order_is_not_made_use_of_is_told(columns):
    kinds = (ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN)
    declared = tuple(EdgeConstraint(0, kind, Reach(rows=5)) for kind in kinds)
    operator = orders_and_items(Type.STRING, columns, declared)
    record = operator.decide(None, [step(operator, NO_STATE, [], []).report], 0.0)
    why = {
        1: "only the order of numbers and times can be used",
        2: "rows are joined by several columns, but only one is ordered",
    }
    assert [each.in_use.startswith(f"no: {why[columns]}") for each in record.found] == [True, True]
    assert record.directive.within == {}


def test_what_is_missing_is_told_from_memory_as_it_is_from_the_state():
    bound = (EdgeConstraint(0, ARRIVING, Reach(time=0)),)
    operator = orders_and_items(constraints=bound, exact=False, monitoring=Monitoring(sample=1.0))
    reports = []
    for is_loaded in (False, True):
        state, told = NO_STATE, []
        for now in range(0, 60, 5):
            taken = step(operator, state, [(now, 1)], [(now if now % 2 else now - 10, 2)], now=now, watermark=now + 1)
            state = {n: deserialize(serialize(c)) for n, c in taken.state.items()} if is_loaded else taken.state
            told.append(taken.report)
        reports.append(told)
    assert reports[0] == reports[1]
    missing = [sum(report.losses.lost.results.missing) for report in reports[0]]
    assert missing == [0, 0] + [1, 0] * 5


def written(before, after):
    return sum(len(serialize(chunk)) for name, chunk in after.items() if before.get(name) is not chunk)


def test_little_is_written_when_little_changes():
    operator, many = orders_and_items(), 20_000
    first = step(operator, NO_STATE, [(i, i) for i in range(many)], [], length=10**6)
    state, sizes = first.state, []
    for number in range(40):
        taken = step(operator, state, [(-number, 1)], [(number, 1)], now=number)
        assert len(taken.output)
        sizes.append(written(state, taken.state))
        state = taken.state
    assert written({}, state) > 1_000_000
    assert np.mean(sizes) < 30_000
    assert np.median(sizes) < 6_000
    same = step(operator, state, [], [], now=number)
    assert written(state, same.state) == 0


def test_columns_of_elements_that_are_gone_are_not_kept_for_those_that_are_not():
    operator, state = orders_and_items(), NO_STATE
    for number in range(20):
        orders = batch(operator.schemas[0], [*((i, i) for i in range(1000)), (-number, 0)], number)
        end = np.where(np.arange(1001) < 1000, number + 1, 1000)
        inputs = [Batch(orders.start, end, orders.columns), batch(operator.schemas[1], [])]
        state = operator.step(state, inputs, [number, number]).state
    assert sum(chunk.num_rows for name, chunk in state.items() if name.startswith("payload")) < 2500


def test_cold_elements_are_not_looked_at_until_a_partner_comes(monkeypatch):
    monkeypatch.setattr(cold, "FULL_SLICE", 100)
    operator = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=0)),))
    first = step(operator, NO_STATE, [(i, i) for i in range(1000)], [], watermark=1, length=1000)
    assert first.report.sizes[0] == Size(0, 0, 0, 1000)
    state = {name: deserialize(serialize(chunk)) for name, chunk in first.state.items()}
    assert {name for name in state if name.startswith("cold")} == {"cold0.0", "cold filters 0.0"}
    looked = []
    load = keyed_state.LazyColumns.__getitem__

    def look(lazy, name):
        looked.append(name)
        return load(lazy, name)

    monkeypatch.setattr(keyed_state.LazyColumns, "__getitem__", look)
    second = step(operator, state, [(-1, 0)], [(5000, 1), (5001, 1)], now=2, watermark=3)
    assert not looked
    assert second.state["cold0.0"] is state["cold0.0"]
    assert second.state["cold filters 0.0"] is state["cold filters 0.0"]
    third = step(operator, second.state, [], [(7, 1)], now=3)
    assert pairs(third) == [(7, 1)]
    assert looked
    assert third.state["cold0.0"] is state["cold0.0"]
    # What came back, and was joined, is not found again.
    assert third.report.sizes[0] == Size(0, 0, 0, 1000)


def test_slices_are_taken_over_from_files():
    operator = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=0)),))
    first = step(operator, NO_STATE, [(i, i) for i in range(10_000)], [], watermark=1, length=1000)
    mapped = {n: deserialize(serialize(c)) if n.startswith("cold") else c for n, c in first.state.items()}
    second = step(operator, mapped, [], [(7, 1)], now=2)
    assert pairs(second) == [(7, 1)]
    assert second.state["cold0.0"] is mapped["cold0.0"]
    assert second.state["cold filters 0.0"] is mapped["cold filters 0.0"]
    assert sources_of_slice(second) == (id(mapped["cold0.0"]), id(mapped["cold filters 0.0"]))
    # Filters may be in a file now though the slice was in one before.
    again = {**second.state, "cold filters 0.0": deserialize(serialize(mapped["cold filters 0.0"]))}
    third = step(operator, again, [], [], now=3)
    assert sources_of_slice(third) == (id(mapped["cold0.0"]), id(again["cold filters 0.0"]))


def sources_of_slice(done):
    """The chunks from which what is remembered beside a state has the columns and the filters of its only slice."""
    remembered = keyed_state._CACHED_STATES.take(done.state[FIGURES])
    assert remembered is not None
    keyed_state._CACHED_STATES.put(done.state[FIGURES], remembered)
    (only,) = remembered.join.cold[0].slices
    columns: Any = only.columns
    filters: Any = only.filters
    return id(columns.chunk), id(filters.chunk)


def test_less_than_a_byte_stays_in_memory_for_a_cold_element():
    operator, state = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=0)),)), NO_STATE
    for now in range(20):
        orders = [(now * 20_000 + i, i) for i in range(20_000)]
        state = step(operator, state, orders, [], now, watermark=now + 1, length=10**6).state
    cold_rows = sum(chunk.num_rows for name, chunk in state.items() if name.startswith("cold0."))
    assert cold_rows == 400_000
    assert sum(len(serialize(chunk)) for name, chunk in state.items() if not name.startswith("cold")) < cold_rows
    # Each is found, over all digests, and all of them go when nobody is valid any more.
    items = [(i, i % 20_000) for i in range(0, 400_000, 9_999)]
    assert pairs(step(operator, state, [], items, now)) == sorted((m, m) for _, m in items)
    left = step(operator, state, [], [], now=10**7).state
    assert not [name for name in left if name.startswith(("cold", "digest"))]


def test_what_is_cold_does_not_stay_in_memory_when_it_is_expired():
    operator, state = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=0)),)), NO_STATE
    loose = []
    for now in range(60):
        state = step(operator, state, [(now * 10 + i, i) for i in range(10)], [], now, length=5).state
        loose.append(sum(chunk.num_rows for name, chunk in state.items() if name.startswith("loose")))
    assert max(loose) < 200


def test_small_steps_make_small_slices_and_not_many():
    operator, state = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=0)),)), NO_STATE
    for now in range(60):
        state = step(operator, state, [(now * 1000 + i, i) for i in range(1000)], [], now, length=10**6).state
    rows = {name: chunk.num_rows for name, chunk in state.items() if name.startswith(("cold0.", "loose"))}
    assert sum(rows.values()) == 59_000
    assert sum(count for name, count in rows.items() if name.startswith("loose")) < 5000
    assert len(rows) < 40


# --- constraints that are broken --------------------------------------------------------------------


def broken_after(operator):
    """What is decided after an item that came too late."""
    first = step(operator.with_directive(None, {"orders": 1, "items": 0}), NO_STATE, [(7, 1)], [], watermark=5)
    middle = step(operator.with_directive(None, {"orders": 1, "items": 8}), first.state, [], [(8, 0)], now=6)
    last = step(operator.with_directive(None, {"orders": 1, "items": 9}), middle.state, [], [(7, 1)], now=9)
    record = None
    for taken in (first, middle, last):
        record = operator.decide(record, [taken.report], 0.0)
    return record


@pytest.mark.parametrize("reach", [Reach(time=3), Reach(rows=3)])
def test_a_declared_constraint_says_that_it_was_broken(reach):
    record = broken_after(orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, reach),)))
    assert [each.in_use for each in record.found] == ["yes, but it was broken: 1 row arrived too late"]


def test_a_reference_that_holds_is_not_said_to_be_broken_by_another_one():
    both = (
        EdgeConstraint(0, ARRIVING, Reach(time=30)),
        EdgeConstraint(0, ConstraintKind.ORDERED_CHILDREN, Reach(time=0)),
    )
    record = broken_after(orders_and_items(constraints=both))
    assert {each.in_use for each in record.found} == {"yes"}


def test_without_cold_storage_results_that_are_missing_say_that_a_constraint_was_broken():
    all_keys = {"exact": False, "monitoring": Monitoring(sample=1.0)}
    record = broken_after(orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=3)),), **all_keys))
    assert [each.in_use for each in record.found] == ["yes, but it was broken: results are missing"]
    assert record.losses.estimate == 1


def test_without_a_sample_lean_mode_says_that_results_may_be_missing_and_exact_mode_does_not():
    none, late = {"monitoring": Monitoring(sample=0.0)}, EdgeConstraint(0, ARRIVING, Reach(time=3))
    told = broken_after(orders_and_items(constraints=(late,), exact=False, **none)).losses
    assert (told.estimate, told.low, told.high) == (None, 0, 1)
    assert broken_after(orders_and_items(constraints=(late,), **none)).losses is None
    unused = replace(late, unused="it reaches further than the window")
    assert broken_after(orders_and_items(constraints=(unused,), exact=False, **none)).losses is None


def test_not_more_is_said_to_be_missing_than_there_can_be():
    operator = orders_and_items(constraints=(EdgeConstraint(0, ARRIVING, Reach(time=3)),), exact=False)
    assert broken_after(operator).losses.high == 1
    taken = step(operator, NO_STATE, [(7, 1)], [(7, 1)])
    assert operator.decide(None, [taken.report], 0.0).losses is None
