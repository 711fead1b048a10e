"""Which joins become keyed joins, and what is known of these."""

from __future__ import annotations

from dataclasses import replace

import pytest
from inline_snapshot import snapshot
from support.keyed import (
    MONITORED,
    O_KEYED,
    OFF,
    P_TO_O,
    TO_O,
    UNKEYED,
    P,
    Q,
    joins,
    optimized,
    query,
    stream,
    the_join,
    why_plain,
)

from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.explain import explain
from tidegate.algebra.explain_keyed_join import describe_join_graphs
from tidegate.algebra.join_graph import common_key, covers, graph_shape
from tidegate.algebra.keyed_join import ConstraintKind, JoinEdge
from tidegate.algebra.plan import Filter, Scan, Window, walk
from tidegate.algebra.properties import has_own_times, is_chronon, unique_keys, validity_bound
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.sharing import share_subplans
from tidegate.schema import Schema, Type
from tidegate.time import MICROSECONDS

MINUTE = MICROSECONDS["minute"]


# ---- which joins


def test_an_equality_with_a_key_makes_an_edge_from_the_many_to_the_one() -> None:
    plan = optimized(P + O_KEYED + P_TO_O)
    assert explain(plan) == snapshot("""\
Map p.note AS note
  Keyed join on p.pid → o.pid
    Window range 10 minutes
      Rename to p
        Scan p
    Window range 10 minutes
      Rename to o
        Scan o\
""")
    assert joins(plan)[0].streams == ("p", "o")


def test_only_keys_and_what_is_read_above_is_read() -> None:
    join = the_join(P + O_KEYED + P_TO_O)
    assert [each.schema.names for each in join.inputs] == [("p.pid", "p.note"), ("o.pid",)]


def test_an_equality_with_a_part_of_a_key_makes_none() -> None:
    text = P + stream("o", "KEY (pid, oid)") + P_TO_O
    assert why_plain(text) == ["p, o: no equality with another stream covers all columns of a key"]


def test_all_equalities_between_two_streams_are_one_edge() -> None:
    join = the_join(P + O_KEYED + query("p", "o", where="p.pid = o.pid AND p.oid = o.oid"))
    assert join.edges == (JoinEdge(0, 1, ("p.pid", "p.oid"), ("o.pid", "o.oid")),)


def test_streams_that_both_have_their_key_in_it_are_joined_from_both_sides() -> None:
    join = the_join(stream("p", "KEY (pid)") + O_KEYED + P_TO_O)
    assert [(edge.parent, edge.child) for edge in join.edges] == [(0, 1), (1, 0)]
    assert covers(2, join.edges) == ((0,), (1,))


def test_a_column_of_a_key_that_is_fixed_by_a_constant_need_not_be_joined() -> None:
    text = P + stream("o", "KEY (pid, size)") + query("p", "o", where="p.pid = o.pid AND o.size = 2")
    assert the_join(text).edges == (JoinEdge(0, 1, ("p.pid",), ("o.pid",)),)
    assert why_plain(text.replace("o.size = 2", "o.size > 2"))


STAR = query("p", "o", "s", where="p.pid = o.pid AND p.pid = s.pid")


def test_an_equality_that_follows_is_an_edge_where_a_reference_is_declared_of_it() -> None:
    said = P + stream("o", "KEY (pid) FOREIGN KEY (pid) REFERENCES s (pid) WITHIN 5 SECONDS") + stream("s", "KEY (pid)")
    join = the_join(said + STAR)
    assert join.edges[-1] == JoinEdge(1, 2, ("o.pid",), ("s.pid",))
    assert [(each.edge, each.kind) for each in join.used_constraints] == [(2, ConstraintKind.ARRIVING)]


@pytest.mark.parametrize(
    "said",
    [
        "KEY (pid)",
        "KEY (pid) FOREIGN KEY (oid) REFERENCES s (pid) WITHIN 5 SECONDS",
        "KEY (pid) FOREIGN KEY (pid) REFERENCES s (pid) WITHIN 5 HOURS",
    ],
)
def test_an_equality_that_follows_is_no_edge_where_that_would_not_help(said: str) -> None:
    join = the_join(P + stream("o", said) + stream("s", "KEY (pid)") + STAR, MONITORED)
    assert [(edge.parent, edge.child) for edge in join.edges] == [(0, 1), (0, 2)]


def test_an_equality_that_follows_does_not_bring_a_stream_into_a_graph() -> None:
    said = P + stream("o", "FOREIGN KEY (pid) REFERENCES s (pid) WITHIN 5 SECONDS") + stream("s", "KEY (pid)")
    assert [join.streams for join in joins(optimized(said + STAR, MONITORED))] == [("p", "s")]


def test_there_is_no_way_back_where_all_is_reached_anyway_and_nothing_is_known_of_it() -> None:
    said = P + stream("q", "KEY (pid)") + O_KEYED
    where = "p.pid = q.pid AND q.pid = o.pid"
    assert graph_shape(3, the_join(said + query("p", "q", "o", where=where)).edges) == "tree"
    assert graph_shape(3, the_join(said + query("p", "q", "o", where=where), MONITORED).edges) == "cyclic"


def test_a_key_may_be_widened_for_the_comparison() -> None:
    join = the_join(P + stream("o", "KEY (size)") + query("p", "o", where="p.pid = o.size"))
    assert join.edges == (JoinEdge(0, 1, ("p.pid",), ("key:1:0",)),)
    assert "  p → o on p.pid = o.size" in describe_join_graphs(join)


def test_a_cast_that_makes_different_keys_equal_is_no_key() -> None:
    where = "CAST(p.pid AS DOUBLE) = CAST(o.pid AS DOUBLE)"
    assert "Many-one" not in explain(optimized(P + O_KEYED + query("p", "o", where=where)))


def test_other_conditions_are_a_filter_above() -> None:
    text = explain(optimized(P + O_KEYED + query("p", "o", where="p.pid = o.pid AND p.size > o.size")))
    assert "Filter p.size > o.size\n    Keyed join on p.pid → o.pid\n" in text


def test_a_chain_of_subqueries_is_one_join_whatever_they_call_their_columns() -> None:
    inner = "SELECT p.pid AS x, o.oid AS y FROM p WINDOW(RANGE 9), o WINDOW(RANGE 9) WHERE p.pid = o.pid"
    text = P + O_KEYED + stream("s", "KEY (oid)")
    join = the_join(text + f"SELECT t.x FROM ({inner}) t, s WINDOW(RANGE 9) WHERE t.y = s.oid;")
    assert [(edge.parent, edge.child) for edge in join.edges] == [(0, 1), (1, 2)]


def test_columns_of_equal_names_are_kept_apart() -> None:
    inner = "SELECT p.pid, p.size FROM p WINDOW(RANGE 9), o WINDOW(RANGE 9) WHERE p.pid = o.pid"
    join = the_join(P + O_KEYED + f"SELECT t.size FROM ({inner}) t, o WINDOW(RANGE 9) WHERE t.pid = o.pid;")
    assert len(set(join.schema.names)) == len(join.schema)


def test_groups_that_no_edge_connects_are_joined_plainly() -> None:
    text = P + O_KEYED + stream("r") + stream("s", "KEY (oid)")
    where = "p.pid = o.pid AND r.oid = s.oid AND p.size = r.size"
    plan = optimized(text + query("p", "o", "r", "s", where=where))
    assert [join.streams for join in joins(plan)] == [("p", "o"), ("r", "s")]
    assert "Join on p.size = r.size" in explain(plan)


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("o WINDOW(ROWS 5 SLIDE 2)", "o takes no part, since its window of rows moves in steps"),
        (
            "o WINDOW(PARTITION BY oid ROWS 5)",
            "o takes no part, since its window counts the rows of each group separately",
        ),
        ("(SELECT DISTINCT pid FROM o WINDOW(RANGE 5)) o", "o takes no part, since it is computed"),
    ],
)
def test_what_has_no_whole_rows_takes_no_part(source: str, why: str) -> None:
    text = f"SELECT p.note FROM p WINDOW(RANGE 5), {source} WHERE p.pid = o.pid;"
    assert why_plain(P + O_KEYED + text) == [f"p, o: {why}"]


def test_windows_of_rows_take_part_and_filters_stay_above_them() -> None:
    text = "SELECT p.note FROM p WINDOW(ROWS 50), o WINDOW(RANGE 5) WHERE p.pid = o.pid AND p.size > 3;"
    plan = optimized(P + O_KEYED + text)
    assert explain(plan) == snapshot("""\
Map p.note AS note
  Keyed join on p.pid → o.pid
    Map p.pid, p.note
      Filter p.size > 3
        Window rows 50
          Rename to p
            Scan p
    Window range 5 microseconds
      Rename to o
        Scan o\
""")
    assert describe_join_graphs(plan)[-1] == "  in one bucket: windows count rows, which needs all of them in one place"


def test_a_filter_below_a_window_of_rows_stays_there() -> None:
    inner = "(SELECT pid, note FROM p WHERE size > 3) p WINDOW(ROWS 50)"
    join = the_join(P + O_KEYED + f"SELECT p.note FROM {inner}, o WINDOW(RANGE 5) WHERE p.pid = o.pid;")
    window = count_window_below(join.inputs[0])
    assert window is not None
    assert window.rows == 50
    assert any(isinstance(node, Filter) for node in walk(window.source))


def test_a_condition_that_can_fail_stays_where_it_is() -> None:
    text = query("p", "o", where="p.pid = o.pid AND 1 / (p.size - o.size) > 1")
    reason = "p, o: a condition can fail, and is evaluated only on the pairs of this join"
    assert why_plain(P + O_KEYED + text) == [reason]


def test_constraints_can_be_off() -> None:
    assert why_plain(P + O_KEYED + P_TO_O, OFF) == ["p, o: constraints are off"]


def test_nothing_is_said_of_streams_of_which_nothing_is_declared() -> None:
    assert why_plain(P + UNKEYED + P_TO_O) == []


# ---- whether it is worth it


def test_without_constraints_two_sources_keep_all_that_plain_joins_keep() -> None:
    (why,) = why_plain(P + Q + O_KEYED + TO_O)
    assert why == snapshot(
        "p, o, q: plain joins are cheaper: 75 % of their rows would be kept, at 1.5 times the cost of a row"
    )


def test_a_short_window_over_the_many_does_not_pay_for_a_long_one_over_the_one() -> None:
    text = "SELECT p.note FROM p WINDOW(RANGE 1 MINUTE), o WINDOW(RANGE 1 HOUR) WHERE p.pid = o.pid;"
    assert "plain joins are cheaper" in why_plain(P + O_KEYED + text)[0]
    assert joins(optimized(stream("p", "CLUSTERED BY (pid) WITHIN 5 SECONDS") + O_KEYED + text))


@pytest.mark.parametrize(("rows", "is_worth_it"), [(50, True), (1000, False)])
def test_a_reach_in_rows_is_compared_with_a_window_of_rows(rows: int, is_worth_it: bool) -> None:
    read = ", ".join(f"{name} WINDOW(ROWS 1000)" for name in ("p", "q", "o"))
    text = f"SELECT p.note FROM {read} WHERE p.pid = o.pid AND q.pid = o.pid;"
    said = "".join(stream(name, f"CLUSTERED BY (pid) WITHIN {rows} ROWS") for name in ("p", "q"))
    assert bool(joins(optimized(said + O_KEYED + text))) == is_worth_it


def test_what_may_be_found_makes_it_worth_to_watch() -> None:
    join = the_join(P + Q + O_KEYED + TO_O, MONITORED)
    assert join.watched == tuple((edge, kind) for edge in (0, 1) for kind in ConstraintKind)


# ---- graphs and properties


def test_graphs_have_shapes_and_covers() -> None:
    def edges(*pairs: tuple[int, int]) -> list[JoinEdge]:
        return [JoinEdge(a, b, ("k",), ("k",)) for a, b in pairs]

    assert graph_shape(3, edges((0, 1), (0, 2))) == "tree"
    assert graph_shape(3, edges((0, 1), (1, 2), (0, 2))) == "acyclic"
    assert graph_shape(2, edges((0, 1), (1, 0))) == "cyclic"
    assert covers(3, edges((0, 2), (1, 2))) == ((0, 1),)
    assert covers(3, edges((0, 1), (1, 0), (1, 2))) == ((0,), (1,))


def test_inputs_are_hashed_by_columns_that_are_equal_in_all_of_them() -> None:
    two = [JoinEdge(0, 1, ("a", "x"), ("b", "y")), JoinEdge(1, 2, ("b",), ("c",))]
    assert common_key(3, two) == (("a",), ("b",), ("c",))
    assert common_key(3, [two[0], JoinEdge(1, 2, ("z",), ("c",))]) == ((), (), ())


def test_properties_are_those_of_the_joins_that_it_stands_for() -> None:
    join = the_join(P + O_KEYED + P_TO_O)
    assert validity_bound(join) == 10 * MINUTE
    assert has_own_times(join)
    assert not is_chronon(join)
    assert not unique_keys(join)
    scan = Scan("s", Schema.of(k=Type.INT))
    assert is_chronon(replace(join, inputs=(join.inputs[0], scan)))
    assert validity_bound(replace(join, inputs=(join.inputs[0], Window(scan, 5)))) == 5


def test_joins_of_two_queries_that_mean_the_same_are_one() -> None:
    renamed = "SELECT x.note AS n FROM p x WINDOW(RANGE 10 MINUTES), o y WINDOW(RANGE 10 MINUTES) WHERE x.pid = y.pid;"
    said = stream("p", "CLUSTERED BY (pid) WITHIN 20 MINUTES") + O_KEYED
    queries = bind(said + P_TO_O + renamed).queries
    one, other = share_subplans([optimize(each.plan)[0] for each in queries])
    assert joins(one) == joins(other)
