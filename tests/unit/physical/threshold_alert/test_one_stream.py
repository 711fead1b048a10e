"""Alerts on one stream: bad rows, when alarms come, what the state keeps, restarts, and both runtimes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.live import Row, SteppedSession

from tidegate import Session
from tidegate.algebra.threshold_alert import Alert, Demand, Representation
from tidegate.expressions.nodes import Call, Cast, Column, Literal
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.threshold_alert.one_stream import OneStreamAlertOperator
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

SCHEMA = Schema.of(**{"r.v": Type.DOUBLE})
VALUE = Column("r.v", Type.DOUBLE)


def operator(window: int = 10, *, above: bool = True, below: bool = False) -> OneStreamAlertOperator:
    condition = Call(">", (VALUE, Literal(0.0, Type.DOUBLE)), Type.BOOLEAN)
    demand = Demand("r.v", window, strict=False, above=above, below=below, keeps_copies=True)
    alert = Alert("a", (0,), (), VALUE, condition, demands=(demand,), representation=Representation(window))
    return OneStreamAlertOperator(SCHEMA, (), alert)


def elements(*readings: tuple[int, float]) -> Batch:
    start = np.array([time for time, _ in readings], np.int64)
    values = pa.array([value for _, value in readings], pa.float64())
    return Batch(start, start + 1, pa.RecordBatch.from_arrays([values], schema=SCHEMA.arrow))


def times(output: Batch) -> list[int]:
    return output.start.tolist()


# ---- when


def test_the_first_alarm_of_an_incident_comes_when_the_watermark_has_passed_it():
    first = operator().step(NO_STATE, [elements((5, 1.0))], [5])
    assert times(first.output) == []
    assert times(operator().step(first.state, [elements()], [6]).output) == [5]


def test_an_alarm_after_a_greater_one_waits_until_nothing_can_bracket_it():
    first = operator().step(NO_STATE, [elements((5, 2.0), (7, 1.0))], [15])
    assert times(first.output) == [5]
    assert times(operator().step(first.state, [elements()], [16]).output) == [7]
    bracketed = operator().step(first.state, [elements((15, 3.0))], [16])
    assert (times(bracketed.output), bracketed.omitted) == ([15], (1,))


def test_an_element_that_is_not_extreme_on_one_side_waits_for_that_side():
    both = operator(below=True)
    # 1 is bracketed below by 0 and -1; above, the 2 before it waits for a partner until 15.
    first = both.step(NO_STATE, [elements((4, 0.0), (5, 2.0), (7, 1.0), (8, -1.0))], [15])
    assert 7 not in times(first.output)
    assert times(both.step(first.state, [elements()], [16]).output) == [7]


def test_alarms_of_an_incident_are_numbered_in_the_order_in_which_they_are_certain():
    # 3 is above all before it; 1 lies between 2 and 3, and below it waits for a partner of the 0 until 15.
    both, readings = operator(below=True), elements((4, 0.0), (5, 2.0), (7, 1.0), (8, 3.0))
    state, found = NO_STATE, list[tuple[int, int]]()
    for watermark, batch in ((8, readings), (9, elements()), (15, elements()), (FOREVER, elements())):
        step = both.step(state, [batch], [watermark])
        state = step.state
        found += zip(times(step.output), step.output.columns["alert:alarm"].to_pylist(), strict=True)
    at_once = both.step(NO_STATE, [readings], [FOREVER]).output
    expected = [(5, 1), (7, 3), (8, 2)]
    assert sorted(found) == sorted(zip(times(at_once), at_once.columns["alert:alarm"].to_pylist(), strict=True))
    assert sorted(found) == expected


def test_elements_that_can_bracket_no_later_one_are_dropped():
    rising, both = operator(), operator(below=True)
    readings = elements((5, 1.0), (6, 9.0))
    assert rising.step(NO_STATE, [readings], [15]).state["side.0"].num_rows == 2
    assert rising.step(NO_STATE, [readings], [16]).state["side.0"].num_rows == 1
    assert both.step(NO_STATE, [readings], [25]).state["side.0"].num_rows == 2
    assert both.step(NO_STATE, [readings], [26]).state["side.0"].num_rows == 1
    assert set(both.step(NO_STATE, [readings], [FOREVER]).state) == {"watermark"}


def test_a_step_without_news_keeps_its_chunks():
    first = operator().step(NO_STATE, [elements((5, 1.0))], [5])
    second = operator().step(first.state, [elements()], [5])
    assert all(second.state[name] is chunk for name, chunk in first.state.items())


def test_the_side_of_a_comparison_is_computed_once():
    made = Cast(Call("+", (VALUE, Literal(1.0, Type.DOUBLE)), Type.DOUBLE), Type.DOUBLE)
    condition = Call(">", (made, Literal(2.0, Type.DOUBLE)), Type.BOOLEAN)
    alert = Alert("a", (0,), (), made, condition)
    found = OneStreamAlertOperator(SCHEMA, (), alert).step(NO_STATE, [elements((5, 1.5), (6, 0.5))], [FOREVER])
    assert found.output.columns["alert:value"].to_pylist() == [2.5]


# ---- bad rows


def alarms_of(text: str, rows: dict, **functions) -> tuple[list[dict], list[dict]]:
    with Session(runtime="embedded") as session:
        for name, function in functions.items():
            session.function(name, function, arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
        session.stream("r", pa.table(rows), time="at")
        running = session.sql(text, once=True)
        assert running is not None
        return running.finish().to_pylist(), running.dead_letters().to_pylist()


def test_unknown_values_raise_no_alarm_and_unknown_keys_take_no_part():
    rows = {"k": [1, None, 1], "v": [None, 5.0, 4.0], "at": [1, 2, 3]}
    alarms, dead = alarms_of("CREATE ALERT a FROM r WITHIN 5 MICROSECONDS MATCHING k WHEN exp(v) > 1", rows)
    assert [(row["k"], row["r_v"]) for row in alarms] == [(1, 4.0)]
    assert not dead


def test_a_reading_for_which_the_function_fails_is_a_dead_letter():
    def costly(value: float) -> float:
        if value == 3.0:
            raise ValueError("too hot")
        return value

    text = "CREATE ALERT a FROM r WITHIN 5 MICROSECONDS WHEN costly(v) > 1 ASSUME QUASICONVEX"
    alarms, dead = alarms_of(text, {"v": [3.0, 2.0], "at": [1, 20]}, costly=costly)
    assert [(row["r_v"], row["value"], row["assumed"]) for row in alarms] == [(2.0, 2.0, "quasiconvex in r")]
    assert [(row["origin"], row["reason"]) for row in dead] == [("a", "user_function")]
    assert "too hot" in dead[0]["detail"]


def test_an_alert_reads_the_changes_of_a_query():
    query = "ISTREAM(SELECT k, SUM(v) AS total FROM r WINDOW(RANGE 5 MICROSECONDS) GROUP BY k)"
    text = f"CREATE ALERT a FROM {query} s WITHIN 20 MICROSECONDS MATCHING k WHEN power(s.total, 2) > 20"
    alarms, _ = alarms_of(text, {"k": [1, 1, 1], "v": [2.0, 3.0, 4.0], "at": [1, 2, 30]})
    assert [row["s_total"] for row in alarms] == [5.0]


# ---- restarts and runtimes

READINGS = 400


def readings(rows: int) -> pa.Table:
    values = np.random.default_rng(3).integers(0, 50, rows)
    return pa.table({"k": np.arange(rows) % 3, "v": values.astype(float), "at": np.arange(rows)})


HOT = "CREATE ALERT hot FROM r WITHIN 40 MICROSECONDS MATCHING k WHEN exp(v / 10) > 50"


def in_order(table: pa.Table) -> list[dict]:
    return sorted(table.to_pylist(), key=str)


def test_a_run_that_continues_raises_the_alarms_of_one_that_does_not(tmp_path: Path):
    (tmp_path / "r").mkdir()
    declared = f"CREATE STREAM r (k BIGINT, v DOUBLE, at BIGINT) FROM '{tmp_path}/r/*.parquet' TIMESTAMP BY at;"
    table, found = readings(READINGS), []
    for place in range(4):
        part = table.slice(place * READINGS // 4, READINGS // 4)
        pq.write_table(part, tmp_path / f"r/{place}.parquet")
        with Session(runtime="embedded", buckets=2) as session:
            out, kept = str(tmp_path / "out"), str(tmp_path / "checkpoint")
            running = session.sql(declared + HOT, once=True, out=out, checkpoint=kept)
            assert running is not None
            assert running.wait()
    files = sorted((tmp_path / "out/hot").rglob("*.parquet"))
    found = in_order(pa.concat_tables(pq.read_table(file) for file in files))
    with Session(runtime="embedded") as session:
        session.stream("r", table, time="at")
        running = session.sql(HOT, once=True)
        assert running is not None
        assert found == in_order(running.finish())


def test_a_live_session_goes_on_where_it_stopped(tmp_path: Path):
    (tmp_path / "in").mkdir()
    results: dict[str, list[Row]] = {}
    session = SteppedSession(tmp_path / "state", results)
    session.execute(f"CREATE STREAM a (at BIGINT, v DOUBLE) FROM '{tmp_path}/in/*.csv' TIMESTAMP BY at")
    session.execute("CREATE ALERT hot FROM a WITHIN 10 MICROSECONDS WHEN exp(v) > 3")
    # 3 waits after 5, and lies between it and 4; 2 and 1.5 wait after it.
    for number, rows in enumerate((["0,5", "2,3"], ["6,4", "8,2"], ["15,1.5", "40,0"])):
        (tmp_path / f"in/{number}.csv").write_text("at,v\n" + "\n".join(rows) + "\n")
        assert session.step()
        session.abandon()
        session = SteppedSession(tmp_path / "state", results)
    found = [(start, values[-1]) for start, _, values in results["hot"]]
    session.abandon()
    assert [start for start, _ in found] == [0, 6, 8, 15]
    assert [number for _, number in found] == [1, 2, 3, 4]


@pytest.mark.spark
def test_on_spark_the_alarms_and_the_calls_are_the_same(spark):
    text = HOT.replace("exp(v / 10)", "steep(v)") + " ASSUME QUASICONVEX"
    found = []
    for session in (Session(runtime="embedded", buckets=1), Session(spark=spark, buckets=3)):
        with session:
            session.function("steep", lambda value: value**2, arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
            session.stream("r", readings(READINGS), time="at")
            running = session.sql(text, once=True)
            assert running is not None
            found.append(in_order(running.finish()))
    assert found[0]
    assert found[0] == found[1]
