"""Aggregates by name: what they take, what they give, and what must not be taken for the same."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.micros import in_micros

from tidegate.algebra.plan import Aggregate, AggregateCall, Plan, walk
from tidegate.errors import NOWHERE, QueryError
from tidegate.expressions.functions.aggregates import AGGREGATE_ALIASES, AGGREGATES, aggregate_named, result_type
from tidegate.language.bind.program import bind
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Step
from tidegate.schema import Schema, Type
from tidegate.session import Session
from tidegate.time import BEGINNING, FOREVER

SOURCE = Schema.of(k=Type.STRING, v=Type.BIGINT, s=Type.STRING, u=Type.TIMESTAMP, x=Type.DOUBLE)
BID = "CREATE STREAM bid (k STRING, v BIGINT, x DOUBLE, s STRING, ts TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY ts;"
EARLY, LATE = datetime(1960, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)

Elements = list[tuple[int, int, dict[str, Any]]]


def call(function: str, *columns: str, name: str = "result", **more: Any) -> AggregateCall:
    types = [SOURCE.type_of(c) for c in columns]
    return AggregateCall(
        function,
        columns[0] if columns else None,
        name,
        result_type(AGGREGATES[function], types, NOWHERE),
        columns[1:],
        **more,
    )


def run(calls: tuple[AggregateCall, ...], steps: list[tuple[Elements, int]], emit: Emit = Emit.SETTLED) -> list[Step]:
    operator, state, done = AggregateOperator(SOURCE, ("k",), calls, emit), NO_STATE, []
    for elements, watermark in steps:
        columns = [pa.array([row.get(f.name) for *_, row in elements], f.type.arrow) for f in SOURCE]
        start, end = (np.array([e[at] for e in elements], np.int64) for at in (0, 1))
        rows = pa.RecordBatch.from_arrays(columns, schema=SOURCE.arrow)
        done.append(operator.step(state, [Batch(start, end, rows)], [watermark]))
        state = done[-1].state
    return done


def pieces(step: Step) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values())[1:] for row in step.output.columns.to_pylist()]
    return sorted(
        ((int(a), int(b), *row) for row, a, b in zip(rows, step.output.start, step.output.end, strict=True)),
        key=lambda piece: piece[:2],
    )


def at_once(elements: Elements, *calls: AggregateCall) -> list[tuple[Any, ...]]:
    (step,) = run(calls, [(elements, FOREVER)])
    return pieces(step)


# ---- what must not be merged or flipped


def test_null_is_not_zero() -> None:
    """The sum of nothing has the number 0 behind it: it must not become one piece with a sum that is 0."""
    elements: Elements = [(0, 10, {"v": None, "x": None}), (4, 6, {"v": 0, "x": 0.0})]
    assert at_once(elements, call("sum", "v")) == [(0, 4, None), (4, 6, 0), (6, 10, None)]
    assert at_once(elements, call("sum", "x")) == [(0, 4, None), (4, 6, 0.0), (6, 10, None)]
    mixed = at_once(elements, call("sum", "v"), call("first", "v", "v", name="first"))
    assert mixed == [(0, 4, None, None), (4, 6, 0, 0), (6, 10, None, None)]


@pytest.mark.parametrize("function", ["variance", "stddev"])
def test_the_spread_of_one_value_is_not_that_of_two_equal_ones(function: str) -> None:
    elements = [(0, 10, {"x": 1.0}), (4, 6, {"x": 1.0})]
    assert at_once(elements, call(function, "x")) == [(0, 4, None), (4, 6, 0.0), (6, 10, None)]


@pytest.mark.parametrize("others", [(), (call("median", "x", name="other"),)], ids=["swept", "by slots"])
def test_smallest_and_greatest_of_texts_and_times_are_not_confused(others: tuple[AggregateCall, ...]) -> None:
    pairs = [("a", EARLY), ("b", LATE), (None, None)]
    elements = [(0, 4, {"s": s, "u": u}) for s, u in pairs]
    for column, low, high in (("s", "a", "b"), ("u", EARLY, LATE)):
        calls = call("min", column, name="low"), call("max", column, name="high"), *others
        assert [piece[:4] for piece in at_once(elements, *calls)] == [(0, 4, low, high)]


def test_first_and_last_go_by_time_and_then_by_value() -> None:
    rows = [("m", 0), ("z", 3), ("a", 3), (None, 5)]
    elements = [(start, 9, {"s": s, "v": v}) for start, (s, v) in zip((4, 6, 6, 6), rows, strict=True)]
    calls = call("first", "s", "v"), call("last", "s", "v", name="last")
    assert at_once(elements, *calls) == [(4, 6, "m", "m"), (6, 9, "m", "z")]
    assert at_once(elements[1:], *calls) == [(6, 9, "a", "z")]


def test_the_best_is_chosen_by_the_second_argument_and_ties_go_to_the_smallest() -> None:
    elements: Elements = [(0, 9, {"s": "low", "x": 1.0}), (0, 9, {"s": None, "x": 5.0})]
    elements.append((4, 6, {"s": "top", "x": 5.0}))
    assert at_once(elements, call("arg_max", "s", "x")) == [(0, 4, None), (4, 6, "top"), (6, 9, None)]
    assert at_once(elements, call("arg_min", "s", "x")) == [(0, 9, "low")]


def test_a_value_counts_once_however_often_it_is_there() -> None:
    elements: Elements = [(0, 4, {"v": 7}), (2, 8, {"v": 7}), (3, 5, {"v": 1}), (0, 8, {"v": None})]
    calls = call("count", "v", distinct=True), call("sum", "v", name="sum", distinct=True)
    assert at_once(elements, *calls) == [(0, 3, 1, 7), (3, 5, 2, 8), (5, 8, 1, 7)]


def test_variances_do_not_suffer_from_large_means() -> None:
    elements = [(0, 9, {"x": 1e16 + offset}) for offset in (0.0, 2.0, 4.0)]
    assert at_once(elements, call("variance", "x")) == [(0, 9, 4.0)]
    whole = [(0, 9, {"v": 2**62 + offset}) for offset in (0, 1)]
    assert at_once(whole, call("variance", "v")) == [(0, 9, 0.5)]


def test_quantiles_take_the_share_as_it_is_written() -> None:
    elements = [(0, 9, {"v": value}) for value in (0,) * 10 + (10**18,)]
    assert at_once(elements, call("quantile", "v", options=(0.9,))) == [(0, 9, 0.0)]
    assert at_once(elements, call("quantile", "v", options=(0.95,))) == [(0, 9, 5e17)]


# ---- steps and state


def test_a_value_that_stays_is_emitted_once_when_it_has_changed() -> None:
    steps = [([(0, 9, {"x": 1.0})], 2), ([], 4), ([(4, 6, {"x": 3.0})], 5), ([], FOREVER)]
    done = run((call("median", "x"),), steps, Emit.ENDED)
    assert [pieces(s) for s in done] == [[], [], [(0, 4, 1.0)], [(4, 6, 2.0), (6, 9, 1.0)]]
    assert [s.watermark for s in done] == [0, 0, 4, FOREVER]


def test_a_value_that_stays_is_emitted_early_when_it_begins_and_when_it_ends() -> None:
    steps = [([(0, 9, {"x": 1.0})], 2), ([], 4), ([(4, 6, {"x": 3.0})], 5), ([], FOREVER)]
    done = run((call("median", "x"),), steps, Emit.EARLY)
    assert [pieces(s) for s in done] == [[(0, 2, 1.0)], [], [(2, 4, 1.0), (4, 5, 2.0)], [(5, 6, 2.0), (6, 9, 1.0)]]
    assert [s.watermark for s in done] == [2, 2, 5, FOREVER]


@pytest.mark.parametrize("emit", [Emit.EARLY, Emit.ENDED])
def test_a_sum_that_does_not_fit_is_one_dead_letter_when_it_begins(emit: Emit) -> None:
    steps = [([(0, 9, {"v": 2**62}), (0, 9, {"v": 2**62})], 2), ([], 4), ([], 20)]
    assert [step.dead.num_rows for step in run((call("sum", "v"),), steps, emit)] == [1, 0, 0]


def test_chunks_that_do_not_change_are_the_same_objects() -> None:
    for emit in Emit:
        steps = [([(0, 90, {"x": 1.0}), (50, 60, {"x": 2.0})], 2), ([], 3)]
        first, second = run((call("median", "x"),), steps, emit)
        assert {n for n in second.state if first.state.get(n) is second.state[n]} == {"groups", "futures.0", "live.0"}


def test_what_has_ended_is_forgotten() -> None:
    first, last = run((call("median", "x"),), [([(0, 3, {"x": 1.0, "k": "a"}), (0, 9, {"x": 1.0})], 1), ([], 5)])
    assert first.state["groups"].num_rows == 2
    assert last.state["groups"].num_rows == 1
    assert set(run((call("median", "x"),), [([(0, 3, {"x": 1.0})], 5)])[0].state) == {"figures"}


def test_the_state_of_many_small_steps_stays_in_few_chunks() -> None:
    steps = [([(t, t + 150, {"x": float(t % 7)})], t + 1) for t in range(200)]
    done = run((call("median", "x"),), steps)
    assert max(len(s.state) for s in done) <= 11


def test_a_sum_that_does_not_fit_is_a_dead_letter_beside_other_aggregates_too() -> None:
    elements = [(0, 9, {"v": 2**62}), (3, 5, {"v": 2**62})]
    (step,) = run((call("sum", "v"), call("last", "v", "v", name="last")), [(elements, FOREVER)])
    assert [piece[:2] for piece in pieces(step)] == [(0, 3), (5, 9)]
    (letter,) = step.dead.to_pylist()
    assert (letter["origin"], letter["reason"], letter["time"]) == ("SUM(v)", "overflow", 3)


def test_an_aggregation_says_what_it_does() -> None:
    calls = call("quantile", "x", options=(0.9,)), call("count", "v", name="n", distinct=True)
    words = AggregateOperator(SOURCE, ("k",), calls, Emit.SETTLED).describe()
    assert words == "aggregate QUANTILE(x, 0.9) AS result, COUNT(DISTINCT v) AS n by k, reporting settled"


# ---- the language


def calls_of(text: str) -> list[AggregateCall]:
    plan: Plan = bind(BID + text).queries[0].plan
    return [call for node in walk(plan) if isinstance(node, Aggregate) for call in node.calls]


def error(text: str) -> QueryError:
    with pytest.raises(QueryError) as caught:
        bind(BID + text)
    return caught.value


def test_aggregates_are_found_by_name_and_typed() -> None:
    text = "SELECT MEDIAN(v) AS a, arg_max(s, x) AS b, Percentile(x, 0.9) AS c, STDDEV_SAMP(v) AS d FROM bid [RANGE 9]"
    found = [(c.function, c.columns, c.options, c.type) for c in calls_of(text)]
    assert found == [
        ("median", ("bid.v",), (), Type.DOUBLE),
        ("arg_max", ("bid.s", "bid.x"), (), Type.STRING),
        ("quantile", ("bid.x",), (0.9,), Type.DOUBLE),
        ("stddev", ("bid.v",), (), Type.DOUBLE),
    ]


def test_distinct_is_kept_where_it_matters() -> None:
    text = "SELECT COUNT(DISTINCT v) AS a, COUNT(v) AS b, MAX(DISTINCT v) AS c, MAX(v) AS d FROM bid [RANGE 9]"
    assert [(c.function, c.distinct) for c in calls_of(text)] == [("count", True), ("count", False), ("max", False)]
    found = error("SELECT ARG_MAX(DISTINCT s, x) AS a FROM bid [RANGE 9]")
    assert found.hint == "DISTINCT is for aggregates of one argument"


def test_the_same_aggregate_is_computed_once() -> None:
    text = "SELECT quantile(x, 0.5) - quantile(x, 0.25) AS a, quantile(x, 0.5) AS b FROM bid [RANGE 9]"
    assert [c.options for c in calls_of(text)] == [(0.5,), (0.25,)]


def test_arguments_may_be_computed() -> None:
    (found,) = calls_of("SELECT arg_min(s, x * 2) AS a FROM bid [RANGE 9]")
    assert found.columns == ("bid.s", "argument_2")


@pytest.mark.parametrize(
    ("text", "code", "message", "hint"),
    [
        ("MEDIAN(s)", "Q121", "MEDIAN of STRING is not defined", "it takes a number"),
        ("BOOL_AND(v)", "Q121", "BOOL_AND of BIGINT is not defined", "it takes a truth value"),
        ("QUANTILE(x)", "Q107", "QUANTILE takes 2 arguments, not 1",
         "it takes a number and a constant share from 0 to 1"),
        ("QUANTILE(x, v)", "Q121", "a constant is needed here",
         "QUANTILE takes a number and a constant share from 0 to 1"),
        ("QUANTILE(x, 1.5)", "Q121", "the share must be a number from 0 to 1",
         "QUANTILE takes a number and a constant share from 0 to 1"),
        ("QUANTILE(x, 0.1234567891)", "Q121", "the share has more than nine decimals",
         "QUANTILE takes a number and a constant share from 0 to 1"),
        ("ARG_MAX(x)", "Q107", "ARG_MAX takes 2 arguments, not 1",
         "it takes the value to return, and the value to maximise"),
        ("MIN(x, v)", "Q107", "MIN takes one argument, not 2", "LEAST compares several values of one row"),
        ("MEDIAN(FIRST(x))", "Q107", "an aggregate is not allowed in another aggregate",
         "aggregate first in a subquery in FROM"),
    ],
)  # fmt: skip
def test_wrong_calls_are_explained(text: str, code: str, message: str, hint: str | None) -> None:
    found = error(f"SELECT {text} AS a FROM bid [RANGE 9]")
    assert (found.code, found.message, found.hint) == (code, message, hint)


def test_other_names_are_those_of_aggregates() -> None:
    assert set(AGGREGATE_ALIASES.values()) <= set(AGGREGATES)
    assert aggregate_named("VAR_SAMP") is AGGREGATES["variance"]


@pytest.fixture
def session() -> Iterator[Session]:
    table = pa.table({"at": [0, 1, 2], "k": ["a", "a", "a"], "x": [1.0, 2.0, 4.0], "b": [True, False, True]})
    with Session(runtime="embedded") as made:
        made.stream("bid", table, time="at")
        yield made


def test_aggregates_of_all_kinds_stand_in_one_query(session: Session) -> None:
    text = (
        "SELECT COUNT(*) AS n, SUM(x) AS s, MEDIAN(x) AS m, STDDEV(x) AS d, LAST(x) AS l, BOOL_AND(b) AS e,"
        " ARG_MAX(b, x) AS a FROM bid [RANGE 10]"
    )
    query = session.sql(text, once=True)
    assert query is not None
    (row,) = [row for row in in_micros(query.finish()).to_pylist() if row["valid_from"] <= 2 < row["valid_to"]]
    assert (row["n"], row["s"]) == (3, 7.0)
    assert (row["m"], row["l"], row["e"], row["a"]) == (2.0, 4.0, False, True)
    assert row["d"] == pytest.approx(1.5275252316519468, abs=0)


def test_first_and_last_in_a_tumbling_window_go_by_time() -> None:
    """Open and close of a bar: all its elements become valid at the same instant."""
    table = pa.table({"at": [61, 62, 118, 119, 119, 121], "price": [5.0, 9.0, 1.0, 4.0, 3.0, 8.0]})
    with Session(runtime="embedded") as session:
        session.stream("trade", table, time="at")
        bars = session.sql("SELECT FIRST(price) AS o, LAST(price) AS c FROM trade WINDOW(RANGE 60 SLIDE 60)", once=True)
        assert bars is not None
        rows = [(row["valid_from"], row["o"], row["c"]) for row in in_micros(bars.finish()).to_pylist()]
    assert rows == [(119, 5.0, 4.0), (179, 8.0, 8.0)]


def test_first_and_last_of_the_last_rows_and_of_an_outer_join_go_by_time() -> None:
    table = pa.table({"at": [0, 1, 2, 3], "price": [5.0, 9.0, 1.0, 4.0]})
    with Session(runtime="embedded") as session:
        session.stream("trade", table, time="at")
        for source in (
            "trade WINDOW(ROWS 4 SLIDE 4)",
            "trade [RANGE 4 SLIDE 4] t LEFT JOIN trade [NOW] u ON u.price = 0",
        ):
            column = "price" if "JOIN" not in source else "t.price"
            query = session.sql(f"SELECT FIRST({column}) AS o, LAST({column}) AS c FROM {source}", once=True)
            assert query is not None
            rows = in_micros(query.finish()).to_pylist()
            assert (5.0, 4.0) in [(row["o"], row["c"]) for row in rows if row["valid_from"] <= 7]


def test_a_window_over_a_derived_stream_of_hours_extends_its_values() -> None:
    """The greatest hourly maximum of a day; and in how many of the last minutes there was one."""
    hour, minute = 3_600_000_000, 60_000_000
    table = pa.table({"at": [0, 30 * minute, 5 * hour], "price": [5.0, 9.0, 1.0]})
    with Session(runtime="embedded") as session:
        session.stream("trade", table, time="at")
        session.sql("CREATE STREAM top AS SELECT MAX(price) AS price FROM trade WINDOW(RANGE 1 HOUR)")
        query = session.sql("SELECT MAX(price) AS price FROM top WINDOW(RANGE 1 DAY)", once=True)
        assert query is not None
        rows = sorted(tuple(row.values()) for row in in_micros(query.finish()).to_pylist())
        end = 30 * minute + hour - 1 + 24 * hour
        assert _merged(rows) == [(0, 30 * minute, 5.0), (30 * minute, end, 9.0), (end, 30 * hour - 1, 1.0)]
        minutes = session.sql(
            "SELECT COUNT(*) AS n FROM (SELECT * FROM top GRANULARITY(1 MINUTE)) t WINDOW(RANGE 1 HOUR)", once=True
        )
        assert minutes is not None
        assert max(row["n"] for row in minutes.finish().to_pylist()) == 60


def _merged(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Neighbours in time with equal values as one."""
    made: list[tuple[Any, ...]] = []
    for start, end, *values in rows:
        joined = bool(made) and made[-1][1:] == (start, *values)
        made.append((made.pop()[0] if joined else start, end, *values))
    return made


@pytest.mark.parametrize("function", ["max", "median"])
def test_a_value_of_rows_that_were_always_there_is_reported_from_the_beginning(function: str) -> None:
    steps = [([(BEGINNING, FOREVER, {"v": 7})], -2), ([], 3), ([(3, 5, {"v": 9})], FOREVER)]
    done = run((call(function, "v"),), steps, Emit.ENDED)
    assert min(piece[0] for step in done for piece in pieces(step)) == BEGINNING
