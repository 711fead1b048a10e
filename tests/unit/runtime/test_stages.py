"""Where plans are cut into stages, and how rows are spread over buckets."""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies.plans import plans, streams

from tidegate.algebra.plan import CountWindow, Distinct, Filter, Scan, Split, Union, Validity, Window
from tidegate.expressions.nodes import TRUE
from tidegate.language.bind.program import bind
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.plan import Apply
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.lower import lower
from tidegate.physical.stateless.operators import UnionOperator
from tidegate.physical.stateless.validities import SplitOperator
from tidegate.runtime.bucket_step import runs_in, split_by_bucket
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.stage import FromStage, FromStream, Node, Port, Stage, ToQuery, ToStage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.schema import Schema, Type

STREAMS = """
CREATE STREAM a (k INT, x INT, v DOUBLE, at BIGINT) FROM 'a' TIMESTAMP BY at;
CREATE STREAM b (k INT, x INT, w DOUBLE, at BIGINT) FROM 'b' TIMESTAMP BY at;
CREATE STREAM c (k INT, x INT, u DOUBLE, at BIGINT) FROM 'c' TIMESTAMP BY at;
"""


def graph_of(queries: str) -> StageGraph:
    return cut_into_stages([(query.name, lower(query.plan)) for query in bind(STREAMS + queries).queries])


def operators(node: Node | Port) -> Iterator[object]:
    if isinstance(node, Node):
        yield node.operator
        for each in node.inputs:
            yield from operators(each)


def stateful(stage: Stage) -> list[str]:
    """Joins and aggregates of a stage, from the top."""
    kinds = {JoinOperator: "join", AggregateOperator: "group"}
    return [kinds[type(o)] for o in operators(stage.root) if type(o) in kinds]


def shape(queries: str) -> list[tuple[list[str], tuple[str, ...] | None]]:
    """Stages after an exchange: what is in them, and what they are hashed by."""
    return [(stateful(s), s.partition) for s in graph_of(queries).stages if s.level]


def exchanges(queries: str) -> set[tuple[str, ...] | None]:
    """What stages are hashed by on their way to others."""
    return {t.keys for s in graph_of(queries).stages for t in s.targets if isinstance(t, ToStage)}


# ---- no exchange


def test_a_query_without_state_is_one_stage_wherever_the_rows_are():
    (stage,) = graph_of("SELECT k, v + 1 AS more FROM a WHERE v > 3").stages
    assert (stage.level, stage.partition, stage.targets) == (0, None, (ToQuery("query_1"),))
    assert isinstance(stage.feeds[0], FromStream)


def test_branches_of_a_union_at_the_root_stay_apart():
    graph = graph_of("SELECT k, v FROM a UNION ALL SELECT k, w FROM b UNION ALL SELECT x, u FROM c")
    assert [s.targets for s in graph.stages] == [(ToQuery("query_1"),)] * 3
    assert graph.levels == 1
    assert {s.root.schema.names for s in graph.stages} == {("k", "v")}, "under the names of the first"


# ---- one exchange


def test_a_group_by_hashes_by_its_keys():
    assert shape("SELECT k, SUM(v) AS total FROM a WINDOW(RANGE 9) GROUP BY k") == [(["group"], ("k",))]


def test_a_join_hashes_both_sides_by_its_keys():
    query = "SELECT a.v, b.w FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k AND a.x = b.x"
    assert exchanges(query) == {("a.k", "a.x"), ("b.k", "b.x")}
    assert [kinds for kinds, _ in shape(query)] == [["join"]]


def test_a_key_that_is_an_expression_is_computed_below_the_join():
    query = "SELECT a.v, b.w FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k + 1 = b.k"
    assert exchanges(query) == {("key:left:0",), ("b.k",)}


def test_a_group_by_more_than_the_keys_of_the_join_stays_in_its_stage():
    query = """SELECT a.k, b.x, COUNT(*) AS n FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k
               GROUP BY a.k, b.x"""
    assert [kinds for kinds, _ in shape(query)] == [["group", "join"]]


def test_a_group_by_the_key_under_the_name_of_the_other_side_stays_too():
    query = "SELECT b.k, COUNT(*) AS n FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k GROUP BY b.k"
    assert [kinds for kinds, _ in shape(query)] == [["group", "join"]]


def test_a_distinct_that_keeps_the_key_of_the_join_stays_in_its_stage():
    query = "SELECT DISTINCT a.k, b.w FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k"
    assert [kinds for kinds, _ in shape(query)] == [["group", "join"]]


def test_a_join_of_three_on_one_key_is_one_stage():
    query = """SELECT a.v, b.w, c.u FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k
               JOIN c WINDOW(RANGE 9) ON {} = c.k"""
    for key in ("a.k", "b.k"):
        assert [kinds for kinds, _ in shape(query.format(key))] == [["join", "join"]]


def test_a_group_by_a_group_and_what_it_counted_stays_in_its_stage():
    query = """SELECT k, n, COUNT(*) AS many FROM (SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 9) GROUP BY k) s
               GROUP BY k, n"""
    assert [kinds for kinds, _ in shape(query)] == [["group", "group"]]


def test_branches_of_a_union_meet_where_they_are_grouped():
    graph = graph_of("""SELECT k, SUM(v) AS total
                        FROM (SELECT k, v FROM a UNION ALL SELECT x, w FROM b) s WINDOW(RANGE 9) GROUP BY k""")
    assert [s.level for s in graph.stages] == [0, 0, 1]
    assert any(isinstance(o, UnionOperator) for o in operators(graph.stages[2].root))
    assert graph.stages[2].feeds == (FromStage(0), FromStage(1))


def test_a_branch_of_a_union_that_is_hashed_already_is_not_moved_again():
    graph = graph_of("""SELECT k, COUNT(*) AS n FROM (
                          SELECT a.k AS k FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k
                          UNION ALL SELECT x FROM c WINDOW(RANGE 9)) s
                        GROUP BY k""")
    assert graph.levels == 2
    assert [stateful(s) for s in graph.stages if s.level] == [["group", "join"]]
    assert len(graph.stages[-1].feeds) == 3


# ---- one bucket


def test_an_aggregate_of_all_rows_is_in_one_bucket():
    graph = graph_of("SELECT COUNT(*) AS n FROM a WINDOW(RANGE 9)")
    stage = graph.stages[-1]
    assert stage.is_single
    assert stage.partition == ()
    assert [runs_in(stage, bucket) for bucket in range(3)] == [True, False, False]
    assert exchanges("SELECT COUNT(*) AS n FROM a WINDOW(RANGE 9)") == {()}


def test_a_join_without_equality_is_in_one_bucket():
    assert shape("SELECT a.v FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.v < b.w") == [(["join"], ())]


def test_what_is_in_one_bucket_stays_there_for_an_aggregate_of_all_rows():
    query = "SELECT COUNT(*) AS n FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.v < b.w"
    assert shape(query) == [(["group", "join"], ())]


def test_what_is_in_one_bucket_is_spread_for_a_group_by():
    query = "SELECT a.k, COUNT(*) AS n FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.v < b.w GROUP BY a.k"
    assert shape(query) == [(["join"], ()), (["group"], ("k",))]


# ---- several exchanges


def test_a_group_by_another_key_than_that_of_the_join_is_another_exchange():
    query = """SELECT a.x, COUNT(*) AS n FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k GROUP BY a.x"""
    graph = graph_of(query)
    assert [s.level for s in graph.stages] == [0, 0, 1, 2]
    assert [kinds for kinds, _ in shape(query)] == [["join"], ["group"]]


def test_a_group_by_fewer_than_the_keys_of_the_join_is_another_exchange():
    query = """SELECT a.k, COUNT(*) AS n FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9)
               ON a.k = b.k AND a.x = b.x GROUP BY a.k"""
    assert [kinds for kinds, _ in shape(query)] == [["join"], ["group"]]


def test_a_join_of_three_on_two_keys_is_two_stages():
    query = """SELECT a.v FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k
               JOIN c WINDOW(RANGE 9) ON b.x = c.x"""
    assert [kinds for kinds, _ in shape(query)] == [["join"], ["join"]]


def test_a_side_that_is_hashed_by_one_of_two_keys_is_not_moved_for_both():
    """What agrees in two keys agrees in one of them."""
    query = """SELECT a.v FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k
               JOIN c WINDOW(RANGE 9) ON a.k = c.k AND b.x = c.x"""
    assert [kinds for kinds, _ in shape(query)] == [["join", "join"]]
    assert exchanges(query) == {("a.k",), ("b.k",), ("c.k",)}


# ---- names change, what is hashed does not


def test_a_key_is_known_under_its_new_name():
    query = """SELECT key, COUNT(*) AS n
               FROM (SELECT a.k AS key, a.v AS v FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k) s
               WHERE v > 1 GROUP BY key"""
    ((kinds, partition),) = shape(query)
    assert (kinds, partition) == (["group", "join"], ("key",))


def test_a_key_under_two_names_is_known_under_both():
    query = """SELECT {}, COUNT(*) AS n
               FROM (SELECT a.k AS one, b.k AS other FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k) s
               GROUP BY {}"""
    for name in ("one", "other"):
        assert [kinds for kinds, _ in shape(query.format(name, name))] == [["group", "join"]]


@pytest.mark.parametrize("changed", ["a.k + 0", "CAST(a.k AS BIGINT)", "-a.k", "a.x"])
def test_a_key_that_was_changed_is_another_key(changed):
    query = f"""SELECT key, COUNT(*) AS n
                FROM (SELECT {changed} AS key FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k) s
                GROUP BY key"""
    assert [kinds for kinds, _ in shape(query)] == [["join"], ["group"]]


def test_the_name_of_a_dropped_key_may_be_used_for_another_column():
    query = """SELECT k, COUNT(*) AS n
               FROM (SELECT a.x AS k FROM a WINDOW(RANGE 9) JOIN b WINDOW(RANGE 9) ON a.k = b.k) s GROUP BY k"""
    assert [kinds for kinds, _ in shape(query)] == [["join"], ["group"]]


# ---- all graphs


def test_queries_of_one_program_share_sources_but_no_stage():
    graph = graph_of("""SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 9) GROUP BY k;
                        SELECT x, v FROM a WHERE v > 2;""")
    assert graph.streams == ("a",)
    assert {s.query for s in graph.stages} == {"query_1", "query_2"}
    assert len(graph.readers["a"]) == 2
    assert graph.columns("a") >= {"k", "x", "v"}


# ---- windows take each instant by itself

RAW = Scan("s", Schema.of(a=Type.INT))
LASTING = Scan("i", Schema.of(a=Type.INT), validity=Validity.INTERVAL)


@pytest.mark.parametrize(
    ("source", "is_split"),
    [
        (RAW, False),
        (Filter(RAW, TRUE), False),
        (Union((RAW, RAW)), False),
        (Split(LASTING, 1), False),
        (LASTING, True),
        (Distinct(RAW), True),
        (Window(RAW, 5), True),
        (Union((RAW, LASTING)), True),
    ],
)
@pytest.mark.parametrize("window", [lambda source: Window(source, 5), lambda source: CountWindow(source, 3)])
def test_a_split_is_put_below_a_window_unless_elements_are_known_to_be_chronons(source, is_split, window):
    below = lower(window(source)).inputs[0]
    splits = isinstance(below.operator, SplitOperator) if isinstance(below, Apply) else False
    assert splits is (is_split or isinstance(source, Split))


# ---- what is shared

TOP = "SELECT k, MAX(v) AS top FROM a WINDOW(RANGE 9) GROUP BY k"


def shared_graph_of(queries: str) -> StageGraph:
    return compile_queries(bind(STREAMS + queries))[1]


def all_stateful(graph: StageGraph) -> list[str]:
    return sorted(kind for stage in graph.stages for kind in stateful(stage))


def test_two_queries_that_differ_in_names_only_are_one_stage_with_two_outlets():
    graph = shared_graph_of(f"{TOP}; SELECT z.k AS key, MAX(z.v) AS best FROM a z WINDOW(RANGE 9) GROUP BY z.k")
    assert all_stateful(graph) == ["group"]
    assert graph.stages[-1].targets == (ToQuery("query_1"), ToQuery("query_2"))
    assert [o.root.schema.names for o in graph.stages[-1].outlets] == [("k", "top"), ("key", "best")]


def test_a_part_that_a_query_reads_twice_runs_once_and_goes_to_both_readers():
    graph = shared_graph_of(f"SELECT p.k, q.top FROM ({TOP}) p, ({TOP}) q WHERE p.top < q.top")
    assert all_stateful(graph) == ["group", "join"]
    group = next(s for s in graph.stages if len(s.outlets) > 1)
    assert [(t.stage, t.port) for t in group.targets if isinstance(t, ToStage)] == [(2, 0), (2, 1)]


def test_what_is_reported_in_another_way_is_not_shared():
    graph = shared_graph_of(f"{TOP}; SELECT p.k, w FROM ({TOP}) p, b WINDOW(RANGE 9) WHERE p.k = b.k")
    assert all_stateful(graph) == ["group", "group", "join"], "at the root changes are reported, below a join all"


def test_parts_without_state_are_not_shared_but_read_the_stream_once():
    graph = shared_graph_of("SELECT k FROM a WHERE v > 2; SELECT k FROM a WHERE v > 2")
    assert [len(s.outlets) for s in graph.stages] == [1, 1]
    assert graph.streams == ("a",)


def test_dead_letters_of_a_shared_part_are_those_of_its_first_query_and_the_rest_of_their_own():
    shared = "SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 9) GROUP BY k"
    graph = shared_graph_of(f"{shared}; SELECT k, 1 / (n - 1) AS share FROM ({shared}) t; {shared}")
    stage = next(s for s in graph.stages if len(s.outlets) > 1)
    (schema,) = stage.port_schemas.values()
    elements = Batch(
        np.array([0]), np.array([9]), pa.RecordBatch.from_pylist([dict.fromkeys(schema.names, 1)], schema.arrow)
    )
    step = stage.step({}, [elements], [10])
    (dead,) = step.dead
    assert dead.column("origin").to_pylist() == ["query_2"] * dead.num_rows != []
    assert [len(output) > 0 for output, _ in step.outputs] == [True, False, True]


def test_a_graph_with_shared_parts_survives_the_way_to_a_worker():
    graph = shared_graph_of(f"{TOP}; {TOP}")
    copy = pickle.loads(pickle.dumps(graph))
    first, second = copy.stages[-1].outlets
    assert first.root is second.root


@given(st.data())
def test_whatever_the_plan_stages_fit_together(data):
    plan = data.draw(plans(data.draw(streams())))
    graph = cut_into_stages([("query", lower(plan))])
    assert [s.number for s in graph.stages] == list(range(len(graph.stages)))
    for stage in graph.stages:
        assert_fits(graph, stage)
    results = [o.root for s in graph.stages for o in s.outlets if isinstance(o.target, ToQuery)]
    assert results
    assert all(tuple(f.type for f in r.schema) == tuple(f.type for f in plan.schema) for r in results)


def assert_fits(graph: StageGraph, stage: Stage) -> None:
    """A stage is fed by lower ones that know it; what keeps state has buckets."""
    assert sorted(stage.port_schemas) == list(range(len(stage.feeds)))
    for port, feed in enumerate(stage.feeds):
        if isinstance(feed, FromStage):
            sender = graph.stages[feed.stage]
            outlet = sender.outlets[feed.outlet]
            assert isinstance(outlet.target, ToStage)
            assert (outlet.target.stage, outlet.target.port) == (stage.number, port)
            assert sender.level < stage.level
            assert outlet.root.schema == stage.port_schemas[port]
            assert outlet.target.keys is not None
            assert set(outlet.target.keys) <= set(outlet.root.schema.names)
    assert (stage.level == 0) == all(isinstance(f, FromStream) for f in stage.feeds)
    assert (stage.partition is None) == (stage.level == 0)
    assert not (stage.level == 0 and stateful(stage))


# ---- rows to buckets

KEYS = {
    "i": (pa.int32(), st.none() | st.integers(-3, 3)),
    "f": (pa.float64(), st.none() | st.sampled_from([0.0, -0.0, 1.5, math.nan, math.inf, -math.inf])),
    "s": (pa.string(), st.none() | st.sampled_from(["", "a", "b", "ab", "ä"])),
    "b": (pa.bool_(), st.none() | st.booleans()),
}


@st.composite
def batches(draw, *, most: int = 20) -> Batch:
    count = draw(st.integers(0, most))
    columns = {
        name: pa.array(draw(st.lists(values, min_size=count, max_size=count)), type_)
        for name, (type_, values) in KEYS.items()
    }
    columns["row"] = pa.array(draw(st.lists(st.integers(0, 9), min_size=count, max_size=count)), pa.int64())
    start = np.array(draw(st.lists(st.integers(-5, 5), min_size=count, max_size=count)), np.int64)
    return Batch(start, start + 1, pa.RecordBatch.from_pydict(columns))


keys = st.lists(st.sampled_from(sorted(KEYS)), unique=True, max_size=3).map(tuple)


def plain(batch: Batch) -> list[tuple[object, ...]]:
    """Rows that can be compared: all NaN are one, and so are both zeros."""
    rows = zip(batch.start.tolist(), batch.end.tolist(), batch.columns.to_pylist(), strict=True)
    return [(start, end, *(_plain(v) for v in values.values())) for start, end, values in rows]


def _plain(value: object) -> object:
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def key_of(row: dict[str, object], names: tuple[str, ...]) -> tuple[object, ...]:
    return tuple(_plain(row[n]) for n in names)


@given(batches(), keys, st.integers(1, 7))
def test_every_row_goes_to_exactly_one_bucket(batch, names, buckets):
    parts = list(split_by_bucket(batch, names, buckets))
    numbers = [number for number, _ in parts]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < buckets and len(part) for number, part in parts)
    rows = sorted((row for _, part in parts for row in plain(part)), key=repr)
    assert rows == sorted(plain(batch), key=repr)


@given(st.lists(batches(most=8), min_size=1, max_size=4), keys, st.integers(1, 7))
def test_equal_keys_go_to_the_same_bucket_in_every_batch(given_batches, names, buckets):
    where: dict[tuple[object, ...], int] = {}
    for batch in given_batches:
        for number, part in split_by_bucket(batch, names, buckets):
            for row in part.columns.to_pylist():
                assert where.setdefault(key_of(row, names), number) == number


@given(st.lists(batches(most=8), min_size=1, max_size=4), keys, st.integers(1, 7), st.data())
def test_the_bucket_does_not_depend_on_how_rows_are_cut_into_batches(given_batches, names, buckets, data):
    whole = concat(given_batches)
    begin = data.draw(st.integers(0, len(whole)))
    part = Batch(whole.start[begin:], whole.end[begin:], whole.columns.slice(begin))
    expected = {key_of(r, names): n for n, p in split_by_bucket(whole, names, buckets) for r in p.columns.to_pylist()}
    found = {key_of(r, names): n for n, p in split_by_bucket(part, names, buckets) for r in p.columns.to_pylist()}
    assert found.items() <= expected.items()


@given(batches(), st.integers(1, 7))
def test_without_keys_all_rows_go_to_the_first_bucket(batch, buckets):
    assert {number for number, _ in split_by_bucket(batch, (), buckets)} <= {0}


def test_integers_of_both_widths_and_both_zeros_are_equal_keys():
    def bucket(column: pa.Array) -> list[int]:
        rows = Batch(np.zeros(len(column), np.int64), np.ones(len(column), np.int64), pa.record_batch({"k": column}))
        return [number for number, part in split_by_bucket(rows, ("k",), 1000) for _ in range(len(part))]

    for value in range(-20, 20):
        assert bucket(pa.array([value], pa.int32())) == bucket(pa.array([value], pa.int64()))
    assert len(set(bucket(pa.array([0.0, -0.0])))) == 1


def test_many_keys_are_spread_over_all_buckets():
    count = 8_000
    rows = Batch(
        np.zeros(count, np.int64), np.ones(count, np.int64), pa.record_batch({"k": pa.array(np.arange(count))})
    )
    sizes = {number: len(part) for number, part in split_by_bucket(rows, ("k",), 8)}
    assert set(sizes) == set(range(8))
    assert all(800 < size < 1200 for size in sizes.values())
