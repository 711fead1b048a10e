"""What papers promise and no other test shows; docs/papers.md names the tests of all the rest."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.canonical import output_rows
from reference.instants import OutputRow, snapshots
from reference.letters import lasting, letters
from reference.semantics import elements_of, relation_at, relation_of
from reference.table import INPUTS
from support.harness import rows_of, run_elements
from support.micros import in_micros
from support.reading import read_rows

from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Coalesce,
    Distinct,
    Filter,
    Join,
    Map,
    Output,
    Plan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Union,
)
from tidegate.expressions.nodes import TRUE, Call, Column
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.engine import Engine
from tidegate.schema import Type
from tidegate.session import Session

INSTANTS = range(-1, 40)


def test_the_conversions_of_streams_say_the_same_at_every_instant() -> None:
    """From raw to physical, from raw to logical and from physical to logical."""
    raw = {"s": [(1, {"e": "a"}), (1, {"e": "a"}), (1, {"e": "b"}), (4, {"e": "a"})]}
    logical = {1: Counter({("a",): 2, ("b",): 1}), 4: Counter({("a",): 1})}
    physical = elements_of(raw)
    assert [(start, end) for start, end, _ in physical["s"]] == [(1, 2), (1, 2), (1, 2), (4, 5)]
    for t in range(-1, 7):
        assert relation_at(letters("s"), raw, t) == relation_of(letters("s"), physical, t) == logical.get(t, Counter())


@pytest.mark.parametrize(
    ("query", "lasting_for"),
    [("SELECT value FROM s", 1), ("SELECT value FROM s WINDOW(RANGE 4)", 4)],
)
def test_elements_have_a_validity_and_start_at_or_after_the_watermark_that_was_promised(query, lasting_for) -> None:
    """PIPES orders physical streams by start. Here a watermark says what may still start; after it, any order goes."""
    times = [5, 3, 4, 9, 7, 6, 12, 2, 10, 11, 40]
    with Session(runtime="embedded") as session:
        session.stream("s", pa.table({"at": times, "value": times}), time="at", delay="3 us")
        source = session._sources_by_name()["s"]
        job = compile_job(bind(query, session.catalog), sinks={}, sources={"s": source})
        took: list[tuple[int, int]] = []
        engine, late, gave = Engine(job), [], []
        for raw, _ in read_rows(source, None, 2, columns=job.graph.columns("s")):
            promised = engine.watermarks["s"]
            read = engine.decoders["s"].decode(raw, promised)
            out, _ = engine.step({"s": [raw]})
            took += zip(read.batch.start.tolist(), read.batch.end.tolist(), strict=True)
            late += [letter["time"] for letter in read.dead.to_pylist()]
            given = [batch for _, batch in out.results]
            gave += [each for batch in given for each in zip(batch.start.tolist(), batch.end.tolist(), strict=True)]
            assert min([promised, *read.batch.start.tolist()]) == promised
            assert min([promised, *(start for batch in given for start in batch.start.tolist())]) == promised
    assert took == [(t, t + 1) for t in times if t != 2]
    assert late == [2]
    assert [start for start, _ in took] != sorted(start for start, _ in took)
    assert gave == [(t, t + lasting_for) for t in times if t != 2]


def test_any_of_several_times_can_be_the_one_that_orders_a_stream() -> None:
    """The others are columns like all, and so is, unlike in PIPES, the chosen one."""
    orders = pa.table({"ordered": [10, 11], "shipped": [30, 20]})
    found = {}
    for time in ("ordered", "shipped"):
        with Session(runtime="embedded") as session:
            session.stream("orders", orders, time=time, delay="1 ms")
            found[time] = sorted(
                tuple(row.values()) for row in in_micros(_finished(session, "SELECT * FROM orders")).to_pylist()
            )
    assert found == {"ordered": [(10, 11, 10, 30), (11, 12, 11, 20)], "shipped": [(20, 21, 11, 20), (30, 31, 10, 30)]}


def test_results_are_an_archive_that_can_be_asked_later(tmp_path: Path) -> None:
    """What a query wrote, with its validities, is a source that says at every instant what the query said."""
    with Session(runtime="embedded") as session:
        session.stream("reading", pa.table({"at": [0, 3, 9], "value": [1, 5, 2]}), time="at")
        top = "SELECT MAX(value) AS top FROM reading WINDOW(RANGE 5)"
        expected = _rows(_finished(session, top))
        running = session.sql(top, once=True, out=str(tmp_path))
        assert running is not None
        running.wait()
        columns = "valid_from BIGINT, valid_to BIGINT, top BIGINT"
        archive = f"CREATE STREAM archive ({columns}) FROM '{tmp_path}/query_1' VALID FROM valid_from TO valid_to;"
        again = _rows(_finished(session, archive + "SELECT top FROM archive"))
    assert snapshots(again, INSTANTS) == snapshots(expected, INSTANTS)
    assert any(snapshots(again, INSTANTS).values())


def test_all_readings_are_stored_while_an_alert_keeps_few(tmp_path: Path) -> None:
    """A query over the same stream writes all rows: omission is a matter of the alert."""
    times = np.arange(20_000)
    heat = pa.table({"at": times, "value": np.random.default_rng(1).random(len(times))})
    rain = pa.table({"at": times[::500], "value": np.full(len(times[::500]), 0.5)})
    alert = "CREATE ALERT hot FROM heat, rain WITHIN 500 MICROSECONDS WHEN heat.value + rain.value > 1.499;"
    with Session(runtime="embedded") as session:
        session.stream("heat", heat, time="at")
        session.stream("rain", rain, time="at")
        running = session.sql(f"{alert} SELECT value FROM heat", once=True, out=str(tmp_path), format="parquet")
        assert running is not None
        running.wait()
        progress = running.progress()
    assert len(pq.read_table(tmp_path / "hot")) > 0
    assert sorted(pq.read_table(tmp_path / "query_1")["value"].to_pylist()) == sorted(heat["value"].to_pylist())
    assert progress.omitted_rows > 19_000
    assert progress.peak_state_rows < 500


def _finished(session: Session, text: str) -> pa.Table:
    running = session.sql(text, once=True)
    assert running is not None
    running.wait()
    return running.results()


def _rows(table: pa.Table) -> list[OutputRow]:
    return output_rows(table.to_batches())


EQUAL = Call("=", (Column("e", Type.STRING), Column("f", Type.STRING)), Type.BOOLEAN)


def other(plan: Plan) -> Plan:
    """The same with its column under another name, for joins."""
    return Map(plan, (Output("f", Column("e", Type.STRING)),))


REDUCIBLE = {
    "filter": lambda a, _: Filter(a, TRUE),
    "map": lambda a, _: other(a),
    "union": lambda a, b: Union((a, b)),
    "product": lambda a, b: Join(a, other(b), TRUE),
    "join": lambda a, b: Join(a, other(b), EQUAL),
    "semi-join": lambda a, b: SemiJoin(a, other(b), EQUAL),
    "anti-join": lambda a, b: SemiJoin(a, other(b), EQUAL, anti=True),
    "difference": lambda a, b: SetOperation(a, b, SetRule.EXCEPT_ALL),
    "intersection": lambda a, b: SetOperation(a, b, SetRule.INTERSECT_ALL),
    "distinct": lambda a, _: Distinct(a),
    "group": lambda a, _: Aggregate(a, ("e",), (AggregateCall("count", None, "n", Type.BIGINT),)),
}


@pytest.mark.parametrize("operator", REDUCIBLE)
@pytest.mark.parametrize("recut", [lambda s: Split(s, 1), lambda s: Split(s, 3), lambda s: Coalesce(s, 5)])
def test_split_and_coalesce_commute_with_the_operators_of_sql(operator, recut) -> None:
    """Lemma 12.1, of the operators that run: below, above or not at all, the relations stay."""
    make, a, b = REDUCIBLE[operator], lasting("s1"), lasting("s2")
    plain, below, above = (
        snapshots(rows_of(run_elements(plan, INPUTS, buckets=2, cuts=3)), INSTANTS)
        for plan in (make(a, b), make(recut(a), recut(b)), recut(make(a, b)))
    )
    assert plain == below == above
    assert any(plain.values())
