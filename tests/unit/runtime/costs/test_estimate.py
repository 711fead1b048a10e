"""Estimates of graphs: every operator has one, at the place of its figures, near what the operator keeps."""

from __future__ import annotations

import ast
from dataclasses import replace
from functools import partial
from math import exp, isfinite
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest
from support.paths import ROOT

from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import SECOND, CostContext, Flow, Prices, Work
from tidegate.language.bind.program import bind
from tidegate.physical.estimate import estimate_operator
from tidegate.physical.relation.view import ViewOperator
from tidegate.physical.stateless.validities import ClipOperator
from tidegate.runtime.calibration.calibrate import QUERIES, STREAMS
from tidegate.runtime.calibration.measured_run import MeasuredRun
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.costs.estimate import estimate_graph, total_of, walk_estimates
from tidegate.runtime.costs.knowledge import Knowledge
from tidegate.runtime.costs.learn import learn
from tidegate.schema import Schema, Type

MORE_QUERIES = (
    "SELECT k, FIRST(value) AS v FROM a WINDOW(RANGE 5 SECONDS SLIDE 5 SECONDS) GROUP BY k",
    """SELECT COUNT(*) AS n
       FROM (SELECT k, COUNT(*) AS m FROM a WINDOW(RANGE 1 SECOND) GRANULARITY(1 SECOND) GROUP BY k)
            WINDOW(RANGE 10 SECONDS)""",
    "SELECT k FROM a WINDOW(RANGE 5 SECONDS) EMIT CHANGES",
    "CREATE TABLE item (k INT) FROM 'item.csv'; SELECT k FROM ISTREAM(item)",
    "SET quality_columns = on; SELECT k FROM a WINDOW(RANGE MIN 1 SECOND, MAX 5 SECONDS)",
    "SELECT COUNT(*) AS n FROM a WINDOW(RANGE 5 SECONDS) WITH (shedding = sample, sample = 0.5)",
    "SELECT k FROM a WINDOW(RANGE 5 SECONDS SLIDE 1 SECOND) ORDER BY k LIMIT 3",
    """CREATE STREAM r (id STRING, k INT, low DOUBLE, high DOUBLE, most BIGINT, at BIGINT)
         FROM 'r.csv' TIMESTAMP BY at;
       CREATE ALERTS volume FROM a t, r r WHERE t.value BETWEEN r.low AND r.high MATCHING k
         WHEN TOTAL(t.number) >= r.most""",
    """CREATE ALERT low FROM a WITHIN 1 MINUTE WHERE value < 3 MATCHING k WHEN COUNT(*) >= 5;
       CREATE ALERT high FROM a WITHIN 1 MINUTE WHERE value > 7 MATCHING k WHEN COUNT(*) >= 9""",
    "CREATE ALERT hot FROM a WITHIN 4 SECONDS MATCHING k WHEN exp(a.value) > 2",
)


def graph_of(text):
    return compile_queries(bind(STREAMS + text))[1]


def operator_classes():
    """All classes of operators, by name."""
    found = set()
    for path in (ROOT / "src/tidegate/physical").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and node.name != "Operator":
                methods = {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                found |= {node.name} if {"step", "describe"} <= methods else set()
    return found


def test_every_operator_has_an_estimate():
    seen = {"ClipOperator", "ViewOperator"}  # of live graphs
    for text in (*(each.text for each in QUERIES.values()), *MORE_QUERIES):
        graph = graph_of(text)
        estimates = estimate_graph(graph, Knowledge())
        operators = {(s.number, n): node.operator for s in graph.stages for n, node in enumerate(s.nodes)}
        assert estimates.keys() == operators.keys()
        for place, each in estimates.items():
            seen.add(type(operators[place]).__name__)
            assert min(each.rows, each.bytes) >= 0
            assert each.seconds > 0
            assert isfinite(each.bytes)
            assert isfinite(each.seconds)
    assert seen == operator_classes()


def test_operators_of_live_graphs_have_estimates():
    schema, flow = Schema.of(k=Type.BIGINT), Flow.of(Characteristics(1_000.0, 10 * SECOND))
    assert estimate_operator(ClipOperator(schema, 0, 5), [flow], CostContext()).flow == flow
    view = estimate_operator(ViewOperator(schema, int(30 * SECOND)), [flow], CostContext())
    assert view.rows == pytest.approx(40_000, rel=0.4)
    assert view.rows >= 40_000
    assert view.flow.rate == 0


# ---- what operators keep

RATE = 400
"""Rows of a step of a second."""


def rows_of(number, random, rate=RATE):
    def make():
        count = random.poisson(rate)
        times = np.sort(random.integers(number * 1_000_000, (number + 1) * 1_000_000, count))
        return pa.RecordBatch.from_pydict(
            {
                "at": pa.array(times, pa.int64()),
                "k": pa.array(random.integers(0, 50, count).astype(np.int32)),
                "id": pa.array(number * 10_000 + np.arange(count)),
                "number": pa.array(random.integers(0, 1_000, count)),
                "value": pa.array(random.random(count)),
                "name": pa.array([f"name {n % 10}" for n in range(count)]),
            }
        )

    return {"a": make(), "b": make()}


KEPT = {
    "join": "SELECT x.value, y.number FROM a WINDOW(RANGE 7 SECONDS) x, b WINDOW(RANGE 3 SECONDS) y "
    "WHERE x.number = y.number",
    "join of few keys": "SELECT x.value, y.number FROM a WINDOW(RANGE 2 SECONDS) x, b WINDOW(RANGE 6 SECONDS) y "
    "WHERE x.k = y.k",
    "join of joins": "SELECT x.value, y.number, z.value AS w FROM a WINDOW(RANGE 9 SECONDS) x, "
    "b WINDOW(RANGE 3 SECONDS) y, a WINDOW(RANGE 5 SECONDS) z WHERE x.number = y.number AND y.k = z.k",
    "inequality": "SELECT x.value, y.number FROM a WINDOW(RANGE 2 SECONDS) x, b WINDOW(RANGE 5 SECONDS) y "
    "WHERE x.value < y.value - 0.9",
    "count": "SELECT COUNT(*) AS n FROM a WINDOW(RANGE 6 SECONDS)",
    "groups": "SELECT k, SUM(number) AS s, COUNT(value) AS n FROM a WINDOW(RANGE 5 SECONDS) GROUP BY k",
    "many groups": "SELECT number, COUNT(*) AS n FROM a WINDOW(RANGE 2 SECONDS) GROUP BY number",
    "extremes": "SELECT k, MAX(value) AS most FROM a WINDOW(RANGE 8 SECONDS) GROUP BY k",
    "distinct": "SELECT DISTINCT number FROM a WINDOW(RANGE 4 SECONDS)",
    "median": "SELECT k, MEDIAN(value) AS m FROM a WINDOW(RANGE 4 SECONDS) GROUP BY k",
    "changes": "ISTREAM(SELECT k, value FROM a WINDOW(RANGE 4 SECONDS))",
    "limit": "SELECT k, value FROM a WINDOW(RANGE 4 SECONDS) ORDER BY value LIMIT 5",
    "window of rows": "SELECT k, COUNT(*) AS n FROM a WINDOW(PARTITION BY k ROWS 20) GROUP BY k",
    "granules": "SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 10 SECONDS) GRANULARITY(2 SECONDS) GROUP BY k",
    "sliding": "SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 8 SECONDS SLIDE 4 SECONDS) GROUP BY k",
    "difference": "SELECT number FROM a WINDOW(RANGE 4 SECONDS) EXCEPT SELECT number FROM b WINDOW(RANGE 2 SECONDS)",
}


KEPT_OF_FEATURES = {
    "similarity join": "SELECT x.k, y.k AS other FROM a WINDOW(RANGE 5 SECONDS) x, b WINDOW(RANGE 3 SECONDS) y "
    "WHERE ABS(x.value - y.value) < 0.001",
    "keyed join": "SELECT y.name, x.value FROM b WINDOW(RANGE 5 SECONDS) x, a WINDOW(RANGE 7 SECONDS) y "
    "WHERE x.id = y.id",
    "alert": "CREATE ALERT hot FROM a, b WITHIN 4 SECONDS MATCHING k WHEN a.value - b.value > 0.99",
    "totals": "CREATE ALERT much FROM a t MATCHING k WHEN TOTAL(t.number) >= 1000000",
    "subscriptions": """CREATE STREAM r (id STRING, k INT, low DOUBLE, high DOUBLE, most BIGINT, at BIGINT)
         FROM 'r.csv' TIMESTAMP BY at;
       CREATE ALERTS volume FROM a t, r r WHERE t.value BETWEEN r.low AND r.high MATCHING k
         WHEN TOTAL(t.number) >= r.most""",
    "semi-join": "SELECT x.k FROM a WINDOW(RANGE 5 SECONDS) x WHERE NOT EXISTS "
    "(SELECT * FROM b WINDOW(RANGE 2 SECONDS) y WHERE y.number = x.number AND y.value > x.value)",
}
"""Operators of which the values of rows decide how many they keep."""

FILLING = {
    name: text.replace("7 SECONDS", "7 MINUTES").replace("3 SECONDS", "3 MINUTES").replace("5 SECONDS", "5 MINUTES")
    for name, text in (KEPT | KEPT_OF_FEATURES).items()
    if name in ("join", "groups", "keyed join", "similarity join", "join of joins")
}
"""Queries of which a window is never full."""


def registrations_of(number, random, count=50):
    columns = {
        "id": [f"{number}-{each}" for each in range(count)],
        "k": pa.array(random.integers(0, 50, count).astype(np.int32)),
        "low": random.random(count) / 2,
        "high": 0.5 + random.random(count) / 2,
        "most": pa.array(np.full(count, 10**9)),
        "at": pa.array(np.sort(random.integers(number * 1_000_000, (number + 1) * 1_000_000, count))),
    }
    return pa.RecordBatch.from_pydict(columns)


def run_and_compare(text):
    """Run a query, learn from a span without the bytes of rows, and return kept bytes of operators with estimates."""
    run, random = MeasuredRun(STREAMS + text), np.random.default_rng(5)

    def step(number):
        run.step(rows_of(number, random) | {"r": registrations_of(number, random)})

    for number in range(20):
        step(number)
    before = run.sample()
    for number in range(20, 30):
        step(number)
    now = replace(run.know(), elapsed=25.5 * SECOND)
    learnt = learn(run.job.graph, now, run.span_since(before), {})
    operators = {p: replace(each, row_bytes=None) for p, each in learnt.operators.items()}
    known = replace(learnt, operators=operators, elapsed=45.5 * SECOND)
    kept: dict = {}
    for number in range(30, 60):
        step(number)
        for place, size in run.sample().sizes.items():
            kept[place] = kept.get(place, 0) + size.bytes / 30
    estimates = estimate_graph(run.job.graph, known)
    return {
        run.job.graph.by_number[s].nodes[n].operator.describe(): (size, estimates[s, n].bytes)
        for (s, n), size in kept.items()
    }


@pytest.mark.parametrize("name", KEPT)
def test_an_estimate_is_near_what_an_operator_keeps(name):
    for operator, (kept, estimated) in run_and_compare(KEPT[name]).items():
        assert estimated == pytest.approx(kept, rel=0.25), operator


@pytest.mark.parametrize("name", KEPT_OF_FEATURES)
def test_an_estimate_of_a_feature_is_near_what_it_keeps(name):
    for operator, (kept, estimated) in run_and_compare(KEPT_OF_FEATURES[name]).items():
        assert estimated == pytest.approx(kept, rel=0.5), operator


@pytest.mark.parametrize("name", FILLING)
def test_an_estimate_by_now_knows_that_windows_still_fill(name):
    for operator, (kept, estimated) in run_and_compare(FILLING[name]).items():
        assert estimated == pytest.approx(kept, rel=0.35), operator


def test_a_steady_state_has_full_windows():
    graph = graph_of("SELECT x.value FROM a WINDOW(RANGE 1 HOUR) x, b WINDOW(RANGE 1 HOUR) y WHERE x.number = y.number")
    full, half = (total_of(estimate_graph(graph, Knowledge(elapsed=each * SECOND)))[0] for each in (1e9, 1800))
    assert full == pytest.approx(total_of(estimate_graph(graph, Knowledge()))[0])
    assert full > 2 * half


def test_rows_in_steps_of_a_window_leave_when_the_watermark_jumps():
    text = (
        "SELECT x.value FROM a WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) x, "
        "b WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS) y WHERE x.number = y.number AND x.value < 2"
    )
    # Elements wait for half a window on average, until the watermark reaches the next one.
    for operator, (kept, estimated) in run_and_compare(text).items():
        assert estimated == pytest.approx(kept, rel=0.5), operator


def test_what_queries_share_counts_once():
    one = "SELECT x.k FROM a WINDOW(RANGE 7 SECONDS) x, b WINDOW(RANGE 3 SECONDS) y WHERE x.number = y.number"
    two = f"{one}; {one.replace('x.k', 'x.k + 1 AS l', 1)}"
    alone, shared = (total_of(estimate_graph(graph_of(text), Knowledge()))[0] for text in (one, two))
    assert shared < 1.5 * alone


def test_a_query_over_a_table_keeps_no_rows_of_the_stream():
    text = (
        "CREATE TABLE limits (k INT, most DOUBLE) FROM 'limits.csv'; "
        "SELECT a.value FROM a, limits WHERE a.k = limits.k AND a.value > limits.most"
    )
    graph = graph_of(text)
    always = Flow(Characteristics(2.0**62 / 50, 2.0**62), Characteristics(2.0**62 / 50, 2.0**62), mark=-(2.0**62))
    found = estimate_graph(graph, Knowledge({"limits": always, "a": Flow.of(Characteristics(1_000.0, 1.0))}))
    assert max(each.rows for each in found.values()) == pytest.approx(100, rel=0.1)


def test_each_bucket_has_steps_of_its_own():
    place, work = (0, 0), Work("filter", steps=1e-6, rows_in=1e-3, rows_out=1e-3)
    known = [Knowledge(prices={"filter": Prices(1e-3, 1e-6, 0.0)}, buckets=each) for each in (1, 4)]
    assert [each.seconds_of(place, work) for each in known] == pytest.approx([2e-3, 5e-3])


def test_buckets_are_busy_only_in_the_steps_in_which_rows_come_to_them():
    one, four = (Knowledge(buckets=each) for each in (1, 4))
    # Two rows a step, at random times: each of four buckets gets half a row on average.
    work = Work("join", steps=1.0, rows_in=2.0, rows_out=0.0, parts=3.0, busy=1.0 - exp(-2.0))
    assert one.count_buckets(work) == pytest.approx(work)
    spread = four.count_buckets(work)
    assert (spread.steps, spread.parts) == (4.0, 12.0)
    assert spread.busy == pytest.approx(4.0 * (1.0 - exp(-0.5)))


def works_of(text, sources=None):
    graph = graph_of(text)
    found = walk_estimates(graph, known := Knowledge(sources or {}), partial(estimate_one, known))
    return {each.work.kind: each.work for _, each in found}


def estimate_one(known, place, operator, inputs):
    return estimate_operator(operator, inputs, known.context(place, {}))


def test_a_map_is_priced_by_its_columns():
    narrow, wide = (works_of(f"SELECT {columns} FROM a")["map"] for columns in ("k + 1 AS x", "k + 1 AS x, k + 2 AS y"))
    assert wide.parts == pytest.approx(2 * narrow.parts)


def test_rows_of_a_rare_stream_are_searched_in_few_steps():
    text = "SELECT x.k FROM a WINDOW(RANGE 9 SECONDS) x, b WINDOW(RANGE 9 SECONDS) y WHERE x.k = y.k"
    often, seldom = Flow.of(Characteristics(1e3, 1.0)), Flow.of(Characteristics(1e8, 1.0))
    both, one = (works_of(text, {"a": often, "b": each})["join"] for each in (often, seldom))
    assert one.parts < both.parts / 2
    assert one.busy == pytest.approx(both.busy)
    none = works_of(text, {"a": seldom, "b": seldom})["join"]
    assert none.busy < none.steps / 20


def test_an_operator_that_holds_back_gives_nothing_before_its_first_result_has_ended():
    graph = graph_of("SELECT COUNT(*) AS n FROM a WINDOW(RANGE 10 SECONDS SLIDE 10 SECONDS)")
    rates = [
        max(each.characteristics.rate for place, each in estimate_graph(graph, known).items() if place[0] > 0)
        for known in (Knowledge(elapsed=2.0 * SECOND), Knowledge(elapsed=60.0 * SECOND))
    ]
    assert rates[0] == 0.0 < rates[1]


def test_an_adjusted_size_replaces_that_of_the_operator():
    context = CostContext(sizes={"w": 5.0})
    assert [context.size(key, 10.0) for key in ("w", "v", None)] == [5.0, 10.0, 10.0]
    assert context.size(None, None) == context.lasting


def test_thousands_of_operators_are_estimated_quickly():
    text = ";\n".join(
        f"SELECT x.k FROM a WINDOW(RANGE {n} SECONDS) x, b WINDOW(RANGE {n + 1} SECONDS) y WHERE x.k = y.k"
        for n in range(1, 301)
    )
    graph = graph_of(text)
    estimate_graph(graph, Knowledge())
    began = perf_counter()
    found = estimate_graph(graph, Knowledge())
    assert len(found) > 1_000
    assert (perf_counter() - began) / len(found) < 0.0005
