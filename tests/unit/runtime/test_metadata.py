"""Metadata: every figure of a small run with known numbers, in both runtimes and in a live session."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.live import SteppedSession

from tidegate import Session
from tidegate.errors import QueryError
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.figures import (
    NO_BUCKET,
    RATE_SPAN,
    Metadata,
    OperatorFigures,
    OperatorPlace,
    PhaseClock,
    SourceFigures,
    StepPhases,
    figures_of_operators,
)
from tidegate.runtime.job import Progress, StepTime
from tidegate.runtime.metadata import phase_rows

READINGS = pa.table({"k": [1, 2, 1, 3], "v": [5.0, 1.0, 5.0, 7.0], "at": [0, 1, 2, 30]})
QUERY = "SELECT k, SUM(v) AS s FROM a WINDOW(RANGE 10) WHERE v > 2 GROUP BY k"


def at(micros: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


def metadata_of_run(session: Session) -> Metadata:
    session.stream("a", READINGS, time="at")
    query = session.sql(QUERY)
    assert query is not None
    while query.progress().rows_in < READINGS.num_rows or not query.progress().recent_steps:
        assert not query.wait(0.01)
    found = query.metadata()
    query.stop()
    return found


def without_times(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: cell for name, cell in row.items() if name not in ("seconds", "lag")} for row in rows]


def operator(metadata: Metadata, begins: str) -> dict[str, Any]:
    (row,) = [row for row in metadata.operators.to_pylist() if row["operator"].startswith(begins)]
    return row


def test_an_operator_that_reads_has_rows_selectivity_and_the_watermark_of_its_stream():
    with Session(runtime="embedded", buckets=1) as session:
        found = metadata_of_run(session)
    row = operator(found, "filter")
    assert without_times([row]) == [
        {
            "query": "query_1",
            "stage": 0,
            "operator": "filter v > 2.0",
            "bucket": None,
            "rows_in": 4,
            "rows_out": 3,
            "omitted": 0,
            "selectivity": 0.75,
            "state_rows": 0,
            "state_bytes": 0,
            "watermark": at(30),
        }
    ]
    assert row["seconds"] > 0
    assert row["lag"] > 1_000_000_000  # the rows are of 1970


def test_an_operator_with_state_has_its_size_and_an_output_watermark_of_its_own():
    with Session(runtime="embedded", buckets=1) as session:
        found = metadata_of_run(session)
        run = session._running[0]._run
    assert isinstance(run, EmbeddedRun)
    row = operator(found, "aggregate")
    # The sum of the first key ends at 10 and at 12; the last reading is open.
    assert (row["bucket"], row["rows_in"], row["rows_out"]) == (0, 3, 3)
    assert row["selectivity"] == 1.0
    chunks = [chunk for version in run.engine.state.values() for chunk in version.chunks.values()]
    assert row["state_rows"] == sum(chunk.num_rows for chunk in chunks) > 0
    assert row["state_bytes"] == sum(chunk.nbytes for chunk in chunks) > 0
    assert row["watermark"] == at(30)


def test_buckets_have_rows_of_their_own_that_add_up():
    with Session(runtime="embedded", buckets=5) as session:
        rows = metadata_of_run(session).operators.to_pylist()
    aggregates = [row for row in rows if row["operator"].startswith("aggregate")]
    assert [row["bucket"] for row in aggregates] == [0, 1, 2, 3, 4]
    assert sum(row["rows_in"] for row in aggregates) == 3
    assert max(row["rows_in"] for row in aggregates) < 3  # the keys 1 and 3 are in two buckets
    assert [row["selectivity"] for row in aggregates if not row["rows_in"]] == [None] * 3


def test_an_operator_is_as_far_as_its_slowest_bucket():
    figures = {
        OperatorPlace(1, 0, 0): OperatorFigures(3, 2, 1, 0.5, 70),
        OperatorPlace(1, 0, 1): OperatorFigures(4, 1, 0, 0.25, 50),
        OperatorPlace(1, 1, 0): OperatorFigures(5),
    }
    assert figures_of_operators(figures) == {(1, 0): OperatorFigures(7, 3, 1, 0.75, 50), (1, 1): OperatorFigures(5)}


def test_a_source_has_rows_a_rate_and_a_lag():
    with Session(runtime="embedded") as session:
        (row,) = metadata_of_run(session).sources.to_pylist()
    assert (row["source"], row["rows"], row["watermark"]) == ("a", 4, at(30))
    assert row["rows_per_s"] > 0
    assert row["lag"] > 1_000_000_000


def test_a_rate_is_that_of_the_first_rows_and_then_forgets_slowly():
    first = SourceFigures(100.0).after(50, 101.0)
    assert first.rows_per_second(101.0) == pytest.approx(50, rel=0.06)
    assert first.rows_per_second(100.0) == 0.0
    later = first
    for second in range(102, 200):
        later = later.after(200, float(second))
    assert later.rows == 50 + 98 * 200
    assert later.rows_per_second(199.0) == pytest.approx(200, rel=0.06)
    # Without rows, a third is left after the span.
    assert later.rows_per_second(199.0 + RATE_SPAN) == pytest.approx(later.rows_per_second(199.0) / 2.718, rel=0.001)


def test_a_clock_adds_up_the_phases_of_a_step_and_starts_again():
    clock = PhaseClock()
    for phase in ("read", "run", "run"):
        with clock.measure(phase):
            pass
    took = clock.take()
    assert took.read > 0
    assert took.run > 0
    assert took.save == 0
    assert clock.take() == StepPhases()


def test_phases_have_a_sum_the_last_step_and_quantiles():
    progress = Progress()
    for step in range(1, 101):
        progress.note_step(StepTime(step, 0.0, 1, 1.0, StepPhases(save=float(step))), {"a": 2})
    rows = {row.pop("phase"): row for row in phase_rows(progress)}
    assert list(rows) == ["read", "decode", "run", "save", "publish", "record"]
    assert rows["save"] == {"seconds": 5050.0, "last": 100.0, "p50": 50.0, "p99": 99.0}
    assert rows["run"] == {"seconds": 0.0, "last": 0.0, "p50": 0.0, "p99": 0.0}
    assert progress.sources["a"].rows == 200


def test_a_run_without_a_step_has_no_quantiles():
    assert {row["p99"] for row in phase_rows(Progress())} == {None}


def test_every_phase_of_a_run_with_a_checkpoint_takes_time(tmp_path: Path):
    with Session(runtime="embedded") as session:
        session.stream("a", READINGS, time="at")
        query = session.sql(QUERY, once=True, checkpoint=str(tmp_path / "state"))
        assert query is not None
        query.wait()
        assert all(row["seconds"] > 0 for row in query.metadata().phases.to_pylist())


def test_a_session_answers_as_text():
    with Session(runtime="embedded", buckets=1) as session:
        assert session.ask("SHOW METADATA") == "no query runs"
        session.stream("a", READINGS, time="at")
        query, other = session.sql(QUERY), session.sql("CREATE QUERY high AS SELECT v FROM a WHERE v > 6")
        assert query is not None
        assert other is not None
        while not query.progress().recent_steps or not other.progress().recent_steps:
            query.wait(0.01)
        heading, *rows = session.ask("SHOW METADATA").splitlines()
        assert heading.split() == query.metadata().operators.column_names
        assert {row.split()[0] for row in rows} == {"query_1", "high"}
        (row,) = session.ask("SHOW METADATA FOR HIGH").splitlines()[1:]
        assert row.split()[:10] == ["high", "0", "filter", "v", ">", "6.0", "4", "1", "0", "0.25"]
        shown = session.ask("EXPLAIN ANALYZE QUERY query_1")
        assert "aggregate SUM(a.v) AS sum_v by a.k, reporting ended  [3 rows in, 3 out" in shown
        assert "state of" in shown
        assert "\n  a: 4 rows, " in shown
        with pytest.raises(QueryError, match="there is no query 'hihg'"):
            session.ask("SHOW METADATA FOR hihg")


def test_metadata_is_a_name_elsewhere():
    with Session(runtime="embedded") as session:
        session.stream("metadata", pa.table({"metadata": [1], "at": [0]}), time="at")
        query = session.sql("SELECT metadata FROM metadata", once=True)
        assert query is not None
        assert query.results().column("metadata").to_pylist() == [1]


# ---- a live session

STREAM = "CREATE STREAM a (at BIGINT, k INT, v DOUBLE) FROM '{}/*.csv' TIMESTAMP BY at;"
SHARED = "SELECT k, SUM(v) AS s FROM a WINDOW(RANGE 10 MICROSECONDS) GROUP BY k"


def write(folder: Path, number: int, *rows: tuple[int, int, float]) -> None:
    text = "at,k,v\n" + "".join(f"{at},{k},{v}\n" for at, k, v in rows)
    (folder / f"{number}.csv").write_text(text)


@pytest.fixture
def live(tmp_path: Path):
    (tmp_path / "in").mkdir()
    session = SteppedSession(tmp_path / "state", {})
    session.execute(STREAM.format(tmp_path / "in"))
    for name, least in (("low", 2), ("high", 6)):
        session.execute(f"CREATE QUERY {name} AS {SHARED} HAVING SUM(v) > {least}")
    write(tmp_path / "in", 1, (0, 1, 1.0), (1, 2, 5.0), (2, 3, 7.0), (50, 1, 0.0))
    assert session.step()
    yield session
    session.abandon()


def counts(session: SteppedSession, name: str | None = None) -> dict[str, tuple[str | None, int, int]]:
    rows = session.metadata(name).operators.to_pylist()
    return {row["operator"].split(" to ")[0]: (row["query"], row["rows_in"], row["rows_out"]) for row in rows}


def test_what_several_queries_share_belongs_to_none_of_them(live):
    found = counts(live)
    assert found["aggregate SUM(a.v) AS sum_v by a.k, reporting ended"] == (None, 4, 3)
    assert found["filter sum_v > 2.0"] == ("low", 3, 2)
    assert found["filter sum_v > 6.0"] == ("high", 3, 1)


def test_one_query_has_what_it_uses_and_no_more(live):
    found = counts(live, "high")
    assert found["aggregate SUM(a.v) AS sum_v by a.k, reporting ended"] == ("high", 4, 3)
    assert found["filter sum_v > 6.0"] == ("high", 3, 1)
    assert "filter sum_v > 2.0" not in found
    (answer,) = live.execute("SHOW METADATA FOR high")
    assert without_times(answer.table.to_pylist()) == without_times(live.metadata("high").operators.to_pylist())


def test_figures_stay_with_their_operators_when_queries_come_and_go(live, tmp_path):
    live.execute("DROP QUERY low")
    expected = {name: ("high", *each) for name, (_, *each) in counts(live, "high").items()}
    assert counts(live) == expected
    assert expected["filter sum_v > 6.0"] == ("high", 3, 1)
    live.execute(f"CREATE QUERY third AS {SHARED} HAVING SUM(v) > 4")
    assert counts(live)["filter sum_v > 4.0"] == ("third", 0, 0)
    assert counts(live)["filter sum_v > 6.0"] == ("high", 3, 1)
    write(tmp_path / "in", 2, (100, 1, 1.0))
    assert live.step()
    assert counts(live)["filter sum_v > 6.0"] == ("high", 4, 1)  # the value 0 at 50
    assert counts(live)["filter sum_v > 4.0"] == ("third", 1, 0)


def test_nothing_is_kept_of_operators_that_are_gone(live):
    live.execute("DROP QUERY low; DROP QUERY high")
    assert live.progress().operators == {}
    assert live.progress().sources == {}
    assert live.metadata().operators.num_rows == 0


def test_a_running_query_is_explained_with_its_figures(live):
    (answer,) = live.execute("EXPLAIN ANALYZE QUERY high")
    text = "\n".join(answer.table.column("text").to_pylist())
    assert "filter sum_v > 6.0  [3 rows in, 1 out" in text
    assert "aggregate SUM(a.v) AS sum_v by a.k, reporting ended  [4 rows in, 3 out" in text
    assert "low" not in text
    assert "median step: read " in text


@pytest.mark.spark
def test_on_spark_the_same_figures_are_found(spark):
    with Session(runtime="embedded", buckets=2) as session:
        expected = metadata_of_run(session)
    with Session(spark=spark, buckets=2) as session:
        found = metadata_of_run(session)
    assert without_times(found.operators.to_pylist()) == without_times(expected.operators.to_pylist())
    assert [row["rows"] for row in found.sources.to_pylist()] == [4]
    assert all(row["seconds"] > 0 for row in found.phases.to_pylist() if row["phase"] != "publish")
    assert NO_BUCKET not in found.operators.column("bucket").to_pylist()
