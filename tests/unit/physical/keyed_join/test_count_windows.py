"""Keyed joins of windows of rows: when results begin and end, and what is remembered of windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse, Reach
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.algebra.plan import CountWindow, Scan
from tidegate.errors import InternalError
from tidegate.expressions.nodes import Call, Column, Literal
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.keyed_join.count_windows import CountedInput, counted_input
from tidegate.physical.keyed_join.kernels.model import Size
from tidegate.physical.keyed_join.operator import KeyedJoinOperator
from tidegate.physical.stateless.operators import FilterOperator
from tidegate.runtime.state import deserialize, serialize
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

ORDERS, ITEMS = (Schema.of(**{f"{name}.k": Type.BIGINT, f"{name}.n": Type.INT}) for name in "oi")
EDGE = JoinEdge(0, 1, ("o.k",), ("i.k",))


def joining(orders=None, items=None, *, constraints=(), above=(), **settings):
    """Orders, each of one item, in windows of so many rows, or with validities of their own."""
    counted = (
        None if orders is None else CountedInput(orders, ORDERS, above),
        None if items is None else CountedInput(items, ITEMS, ()),
    )
    its = (("orders", "items"), constraints, (), ConstraintSettings(**settings))
    return KeyedJoinOperator((ORDERS, ITEMS), (EDGE,), *its, counted)


def batch(schema, rows, length=1):
    """Elements of a time, a key and a number each."""
    start = np.array([at for at, _, _ in rows], np.int64)
    columns = [pa.array([row[i] for row in rows], f.type.arrow) for i, f in zip((1, 2), schema, strict=True)]
    return Batch(start, start + length, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def step(operator, state, orders, items, watermarks, length=1):
    return operator.step(state, [batch(ORDERS, orders), batch(ITEMS, items, length)], watermarks)


def pieces(taken):
    names = [taken.output.column(name).to_pylist() for name in ("o.n", "i.n")]
    return sorted(zip(*names, taken.output.start.tolist(), taken.output.end.tolist(), strict=True))


def test_a_result_is_reported_up_to_the_watermark_and_ends_with_the_row_that_is_so_many_behind():
    operator = joining(orders=2, items=None)
    first = step(operator, NO_STATE, [(1, 7, 1)], [(0, 7, 1)], [5, 5], length=100)
    assert pieces(first) == [(1, 1, 1, 5)]
    second = step(operator, first.state, [(6, 8, 2)], [], [8, 8])
    assert pieces(second) == [(1, 1, 5, 8)]
    third = step(operator, second.state, [(9, 9, 3)], [], [12, 12])
    assert pieces(third) == [(1, 1, 8, 9)]
    assert pieces(step(operator, third.state, [], [], [FOREVER, FOREVER])) == []


def test_elements_are_joined_when_the_watermark_has_passed_them_in_the_order_of_time_and_values():
    operator = joining(orders=1)
    first = step(operator, NO_STATE, [(4, 9, 4), (3, 7, None), (3, 7, 3), (3, 7, 2)], [(0, 7, 1)], [3, 9], length=100)
    assert pieces(first) == []
    # Of those at 3, one without a number is the last, and stays until there is another one.
    second = step(operator, first.state, [], [], [5, 9])
    assert pieces(second) == [(None, 1, 3, 4)]


def test_what_is_open_ends_with_time():
    operator = joining(orders=5, items=5)
    first = step(operator, NO_STATE, [(1, 7, 1)], [(2, 7, 2)], [3, 9])
    assert pieces(first) == [(1, 2, 2, 3)]
    assert pieces(step(operator, first.state, [], [], [FOREVER, 9])) == [(1, 2, 3, 9)]
    last = step(operator, first.state, [], [], [FOREVER, FOREVER])
    assert pieces(last) == [(1, 2, 3, FOREVER)]
    assert not [name for name in last.state if name == "going on"]


def test_rows_that_have_ended_are_met_by_inputs_that_are_behind():
    operator = joining(orders=1)
    first = step(operator, NO_STATE, [(1, 7, 1), (5, 8, 2), (9, 9, 3)], [], [20, 0])
    second = step(operator, first.state, [], [(3, 7, 1), (6, 8, 2), (9, 8, 3)], [20, 6], length=100)
    assert pieces(second) == [(1, 1, 3, 5), (2, 2, 6, 9)]
    third = step(operator, second.state, [], [(7, 9, 4)], [20, 20], length=100)
    assert pieces(third) == [(3, 4, 9, 20)]
    assert (third.report.sizes[0].yes, third.report.sizes[0].unknown) == (0, 0)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_rows_that_fail_a_filter_above_the_window_are_counted(is_loaded):
    small = Call("<", (Column("o.n", Type.INT), Literal(5, Type.INT)), Type.BOOLEAN)
    operator = joining(orders=2, above=(FilterOperator(ORDERS, small),))
    taken = step(operator, NO_STATE, [(1, 7, 1), (2, 7, 9)], [(0, 7, 1)], [3, 3], length=100)
    found = pieces(taken)
    for at, number in ((4, 9), (5, 9)):
        state = {n: deserialize(serialize(c)) for n, c in taken.state.items()} if is_loaded else taken.state
        taken = step(operator, state, [(at, 7, number)], [], [at + 1, at + 1])
        found += pieces(taken)
    assert found == [(1, 1, 1, 3), (1, 1, 3, 4)]


def test_rows_without_a_key_are_counted():
    operator = joining(orders=1)
    first = step(operator, NO_STATE, [(1, 7, 1), (3, None, 2)], [(0, 7, 1)], [9, 9], length=100)
    assert pieces(first) == [(1, 1, 1, 3)]


def test_expressions_that_fail_above_a_window_make_one_dead_letter():
    inverse = Call("div", (Literal(1, Type.INT), Column("o.n", Type.INT)), Type.INT)
    above = (FilterOperator(ORDERS, Call(">", (inverse, Literal(0, Type.INT)), Type.BOOLEAN)),)
    operator = joining(orders=2, above=above)
    first = step(operator, NO_STATE, [(1, 7, 1), (2, 7, 0)], [(0, 7, 1)], [5, 5], length=100)
    assert pieces(first) == [(1, 1, 1, 5)]
    assert len(first.dead) == 1
    second = step(operator, first.state, [(6, 7, 1)], [], [9, 9])
    assert pieces(second) == [(1, 1, 5, 6), (1, 1, 6, 9)]
    assert not len(second.dead)


def test_a_repeated_key_is_a_dead_letter_as_long_as_its_row_is_in_the_window():
    operator = joining(orders=9, items=2)
    taken = step(operator, NO_STATE, [(0, 7, 0)], [(1, 7, 1), (2, 8, 2)], [3, 3])
    again = step(operator, taken.state, [], [(3, None, 5), (4, 8, 3)], [5, 5])
    assert [letter["reason"] for letter in again.dead.to_pylist()] == ["repeated_key"]
    later = step(operator, again.state, [], [(6, 9, 4)], [9, 9])
    fine = step(operator, later.state, [(10, 8, 1)], [(10, 8, 5)], [12, 12])
    assert pieces(fine) == [(1, 5, 10, 12)]
    assert not len(fine.dead)


def kept(taken):
    """Rows and results in memory: those that are cold are in files."""
    hot = sum(size.yes + size.unknown + size.no for size in taken.report.sizes)
    others = [chunk.num_rows for name, chunk in taken.state.items() if name.startswith(("counted", "going on"))]
    return hot + sum(others)


@pytest.mark.parametrize("exact", [True, False])
def test_of_a_large_window_little_is_remembered_where_constraints_let_rows_go(exact):
    """Of ten orders one has an item, within 5 rows; all items but one in a hundred have no order."""
    rows = EdgeConstraint(0, ConstraintKind.ARRIVING, Reach(rows=5))
    ordered = EdgeConstraint(0, ConstraintKind.ORDERED_PARENTS, Reach(rows=5))
    operator, state, most, results = joining(1000, 1000, constraints=(rows, ordered), exact=exact), NO_STATE, 0, 0
    for now in range(0, 4000, 20):
        orders = [(at, at, at) for at in range(now, now + 20)]
        items = [(at + 3, at if at % 100 == 0 else at - 10**6, at) for at in range(now, now + 20)]
        arrived = {"orders": now + 20, "items": now + 20}
        taken = step(operator.with_directive(None, arrived), state, orders, items, [now + 10, now + 10])
        state, results = taken.state, results + sum(start == end - 7 for _, _, start, end in pieces(taken))
        most = max(most, kept(taken))
    assert results == 40
    assert most < 150
    assert not exact or taken.report.sizes[0].cold <= 1100


def test_nothing_is_written_when_nothing_has_changed():
    operator = joining(orders=3, items=3)
    first = step(operator, NO_STATE, [(1, 7, 1), (9, 8, 1)], [(2, 7, 2)], [5, 5])
    assert "going on" in first.state
    second = step(operator, first.state, [], [], [5, 5])
    assert second.state == first.state
    assert all(second.state[name] is chunk for name, chunk in first.state.items())


def test_what_is_said_of_it():
    operator = joining(orders=3, items=5)
    assert operator.describe() == "keyed join of 2 along o.k = i.k, exact, in windows of 3 and 5 rows"
    assert operator.partition_keys == ((), ())
    assert joining(orders=3).input_schemas == (ORDERS, ITEMS)
    operator.warm_up()
    joining(orders=3, use=ConstraintUse.MONITORED, exact=False).warm_up()


def test_other_windows_of_rows_are_not_taken():
    scan = Scan("orders", ORDERS)
    assert counted_input(CountWindow(scan, 5)) == CountedInput(5, ORDERS, ())
    assert counted_input(scan) is None
    for window in (CountWindow(scan, None), CountWindow(scan, 5, 2), CountWindow(scan, 5, 1, ("o.k",))):
        with pytest.raises(InternalError):
            counted_input(window)


# ---- rows are counted as they arrive, and joined in the order of time


def run(operator, steps):
    """The pairs that are found, each once; steps have orders, items, and both watermarks."""
    state, found, arrived = NO_STATE, set(), {"orders": 0, "items": 0}
    for orders, items, *watermarks in steps:
        arrived = {"orders": arrived["orders"] + len(orders), "items": arrived["items"] + len(items)}
        inputs = [batch(schema, rows, 1000) for schema, rows in ((ORDERS, orders), (ITEMS, items))]
        taken = operator.with_directive(None, arrived).step(state, inputs, watermarks)
        state = taken.state
        found |= {(order, item) for order, item, _, _ in pieces(taken)}
    return found


def lean(kind, rows, **windows):
    return joining(**windows, constraints=(EdgeConstraint(0, kind, Reach(rows=rows)),), exact=False)


def test_a_child_that_waits_for_its_watermark_has_not_come_too_late():
    steps = [([(1, 7, 1)], [], 2, 0), ([], [(50, 7, 1)], 2, 10), ([], [], 2, 60)]
    assert run(lean(ConstraintKind.ARRIVING, 1, items=9), steps) == {(1, 1)}


def test_children_that_waited_when_a_parent_came_are_not_behind_it():
    waiting: list[tuple[list, list, int, int]] = [([], [(50, 1, 1)], 0, 0), ([], [(60, 2, 2)], 0, 0)]
    steps = [*waiting, ([(1, 7, 1)], [], 2, 0), ([], [], 2, 55), ([], [(70, 7, 3)], 2, 80)]
    assert run(lean(ConstraintKind.ARRIVING, 1, items=9), steps) == {(1, 3)}


def test_an_order_is_that_of_arrival():
    arrivals = ((10, 1), (20, 9), (30, 5))
    one_by_one: list[tuple[list, list, int, int]] = [([], [(at, key, at)], 2, at + 1) for at, key in arrivals]
    assert run(lean(ConstraintKind.ORDERED_CHILDREN, 1, items=9), [([(1, 5, 1)], [], 2, 0), *one_by_one]) == {(1, 30)}
    before = [([(1, 5, 1)], [], 2, 0), ([], [(60, 5, 1)], 2, 0), ([], [(50, 7, 2)], 2, 55), ([], [], 2, 70)]
    assert run(lean(ConstraintKind.ORDERED_CHILDREN, 0, items=9), before) == {(1, 1)}


def test_others_that_arrived_before_one_do_not_end_its_cluster():
    others = [(10, 8, 1), (11, 8, 2), (12, 8, 3)]
    steps = [(others, [(0, 7, 0)], 1, 1), ([(2, 7, 4)], [], 5, 5), ([], [], 20, 5), ([(25, 7, 5)], [], 30, 5)]
    assert run(lean(ConstraintKind.CLUSTERED, 0, orders=9), steps) == {(4, 0), (5, 0)}


def test_others_do_not_end_a_cluster_that_arrived_behind_one_that_waits():
    steps = [([(1, 7, 1)], [(0, 7, 0)], 2, 2), ([(100, 7, 2)], [], 2, 2), ([(2, 8, 3), (3, 8, 4)], [], 5, 2)]
    assert run(lean(ConstraintKind.CLUSTERED, 0, orders=9), [*steps, ([], [], 101, 2)]) == {(1, 0), (2, 0)}


def test_rows_go_with_a_child_that_has_left_its_window():
    """Orders wait for a seller; when their item is over, they need not."""
    sellers = Schema.of(**{"s.k": Type.BIGINT, "s.n": Type.INT})
    edges = (EDGE, JoinEdge(0, 2, ("o.n",), ("s.n",)))
    windows = (None, CountedInput(1, ITEMS, ()), None)
    its = (("orders", "items", "sellers"), (), (), ConstraintSettings())
    operator = KeyedJoinOperator((ORDERS, ITEMS, sellers), edges, *its, windows)
    nobody = batch(sellers, [])
    first = operator.step(NO_STATE, [batch(ORDERS, [(1, 7, 1)], 100), batch(ITEMS, [(1, 7, 1)]), nobody], [5, 5, 5])
    assert first.report.sizes[0] == Size(0, 1, 0, 0)
    second = operator.step(first.state, [batch(ORDERS, []), batch(ITEMS, [(6, 8, 2)]), nobody], [9, 9, 9])
    assert second.report.sizes[0] == Size(0, 0, 0, 0)
