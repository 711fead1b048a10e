"""A live session in parts: numbers of stages, exactness, paths, versions, statements."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.live import Row, SteppedSession

from tidegate.errors import DataError, QueryError, TidegateWarning
from tidegate.language.bind.program import bind
from tidegate.live import state
from tidegate.live.paths import refuse_outside
from tidegate.live.session import LiveSession
from tidegate.physical.common.batch import Batch
from tidegate.physical.stateless.validities import ClipOperator
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.compile import query_identity
from tidegate.schema import Schema, Type

COUNT = "SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 5) GROUP BY k"


@pytest.fixture
def session(tmp_path: Path):
    (tmp_path / "a.csv").write_text("t,k,v\n1,0,1\n4,1,2\n")
    made = SteppedSession(tmp_path / "checkpoint", {})
    made.execute(
        f"CREATE STREAM a (t BIGINT, k INT, v INT) FROM '{tmp_path}/a.csv' TIMESTAMP BY t DELAY 2 US;"
        f"CREATE STREAM iv (s BIGINT, e BIGINT, k INT) FROM '{tmp_path}/iv.csv' VALID FROM s TO e"
    )
    (tmp_path / "iv.csv").write_text("s,e,k\n1,9,0\n")
    yield made
    made.abandon()


def state_stages(session: SteppedSession) -> dict[int, frozenset[str]]:
    """The stages that keep state, with the names of their chunks."""
    return {stage: frozenset(version.chunks) for (stage, _), version in session._run.engine.state.items()}


def test_a_stage_keeps_its_number_and_its_state_when_readers_come_and_go(session):
    session.execute(f"CREATE QUERY one AS {COUNT}")
    session.step()
    before = state_stages(session)
    session.execute(f"CREATE QUERY two AS SELECT n, k FROM ({COUNT}) WHERE n > 0")
    session.execute(f"CREATE QUERY three AS {COUNT}; DROP QUERY one")
    session.step()
    assert {s: chunks for s, chunks in state_stages(session).items() if s in before} == before
    session.execute("DROP QUERY two; DROP QUERY three")
    assert state_stages(session) == {}
    session.execute(f"CREATE QUERY four AS {COUNT}")
    assert not session._run.job.graph.numbers & before.keys()


def test_names_of_a_dropped_query_are_kept_while_another_has_them(session, tmp_path):
    session.execute(f"CREATE QUERY one AS {COUNT}")
    session.execute("CREATE QUERY two AS SELECT x.k AS other, COUNT(*) AS m FROM a WINDOW(RANGE 5) AS x GROUP BY x.k")
    session.execute("DROP QUERY one")
    identity = session._live.version.phases[-1].identity
    session.abandon()
    again = SteppedSession(tmp_path / "checkpoint", {})
    assert again._live.version.phases[-1].identity == identity
    again.execute("DROP QUERY two")
    assert again._live.version.phases == ()
    again.abandon()


def test_a_query_says_from_when_it_is_exact(session, tmp_path):
    assert session.execute(f"CREATE QUERY one AS {COUNT}")[0].exact_from is None
    session.step()
    # The watermark is 2: the rows up to 4 were read. A window of 6 looks back 6 instants, and 1 more for its granule.
    wider = COUNT.replace("RANGE 5", "RANGE 6")
    assert session.execute(f"CREATE QUERY two AS {wider}")[0].exact_from == 5 + 6 + 1
    assert session.execute("CREATE QUERY three AS SELECT k FROM a")[0].exact_from == 5
    # Nothing was given yet by the operator that runs: a new reader misses nothing.
    assert session.execute(f"CREATE QUERY four AS {COUNT}")[0].exact_from is None
    with (tmp_path / "a.csv").open("a") as file:
        file.write("20,0,0\n")
    session.step()
    # Now it gave counts in [1, 6) and [4, 9): a new reader is exact from 9 on, and need not wait for a window.
    assert session.execute(f"CREATE QUERY five AS {COUNT}")[0].exact_from == 9


@pytest.mark.parametrize("source", ["a WINDOW(ROWS 2)", "iv"])
def test_a_query_that_cannot_become_exact_is_refused(session, source):
    text = f"SELECT COUNT(*) AS n FROM {source}"
    session.execute("CREATE QUERY a1 AS SELECT k FROM a; CREATE QUERY i1 AS SELECT k FROM iv")
    session.step()
    before = session._live
    with pytest.raises(QueryError) as caught:
        session.execute(f"CREATE QUERY late AS {text}")
    assert caught.value.code == "Q319"
    assert session._live is before


def test_a_text_is_applied_as_a_whole_or_not_at_all(session):
    with pytest.raises(QueryError):
        session.execute(f"CREATE QUERY one AS {COUNT}; CREATE QUERY two AS SELECT nothing FROM a")
    with pytest.raises(DataError):
        session.execute("CREATE STREAM m (t BIGINT) FROM 'generator://none' TIMESTAMP BY t; SELECT t FROM m")
    assert session.queries() == ()
    assert session._live.catalog.find("m") is None


def test_a_stream_that_is_dropped_and_created_again_is_read_from_its_beginning(session, tmp_path):
    session.execute("CREATE QUERY one AS SELECT k FROM a")
    session.step()
    session.execute(
        f"DROP QUERY one; DROP STREAM a;CREATE STREAM a (t BIGINT, k INT, v INT) FROM '{tmp_path}/a.csv' TIMESTAMP BY t"
    )
    session.abandon()
    results: dict[str, list[Row]] = {}
    again = SteppedSession(tmp_path / "checkpoint", results)
    assert again.execute("CREATE QUERY two AS SELECT k FROM a")[0].exact_from is None
    again.step()
    assert results["two"] == [(1, 2, (0,)), (4, 5, (1,))]
    again.abandon()


def test_alter_keeps_the_columns(session):
    session.execute("CREATE QUERY one AS SELECT k FROM a")
    with pytest.raises(QueryError) as caught:
        session.execute("ALTER QUERY one AS SELECT v FROM a")
    assert caught.value.code == "Q318"


def test_show_and_explain(session):
    session.execute(f"CREATE QUERY one AS {COUNT}; CREATE QUERY two AS SELECT k FROM a; PAUSE QUERY two")
    shown = session.execute("SHOW QUERIES")[0].table
    assert shown.column("state").to_pylist() == ["running", "paused"]
    lines = session.execute(f"EXPLAIN SELECT k FROM ({COUNT}) AS x WHERE n > 1")[0].table.column(0).to_pylist()
    assert any(line.endswith("shared, stage 1") for line in lines)


@pytest.mark.parametrize("statement", ["PAUSE QUERY q", "RESUME QUERY q", "ALTER QUERY q AS SELECT 1 AS x FROM a"])
def test_changes_of_queries_need_a_live_session(statement):
    with pytest.raises(QueryError) as caught:
        bind(f"CREATE STREAM a (t BIGINT) FROM 'a.csv' TIMESTAMP BY t; CREATE QUERY q AS SELECT t FROM a; {statement}")
    assert caught.value.code == "Q317"


def test_a_query_that_is_compiled_to_another_plan_is_paused_and_others_go_on(session, tmp_path, monkeypatch):
    session.execute("CREATE QUERY kept AS SELECT v FROM a; CREATE QUERY changed AS SELECT v + 1 AS v FROM a")
    session.abandon()

    def identity_after_upgrade(compiled):
        return query_identity(compiled).replace("v + 1", "1 + v")

    monkeypatch.setattr(state, "query_identity", identity_after_upgrade)
    with pytest.warns(TidegateWarning, match="query 'changed' is paused(.|\n)*was: (.|\n)*now: "):
        again = SteppedSession(tmp_path / "checkpoint", session.results)
    assert [(each.name, each.state) for each in again.queries()] == [("kept", "running"), ("changed", "paused")]
    again.step()
    assert set(again.results) == {"kept"}
    assert "exact from" in again.execute("RESUME QUERY changed")[0].message
    again.abandon()


def test_a_view_that_is_compiled_to_another_plan_is_to_be_created_again(session, tmp_path, monkeypatch):
    session.execute("CREATE MATERIALIZED VIEW kept AS SELECT v + 1 AS v FROM a WINDOW(RANGE 5)")
    session.abandon()
    monkeypatch.setattr(state, "query_identity", lambda compiled: query_identity(compiled) + " changed")
    with pytest.warns(TidegateWarning, match="query 'kept' is paused") as caught:
        again = SteppedSession(tmp_path / "checkpoint", session.results)
    assert "drop it, and create it again" in caught[0].message.hint
    with pytest.raises(QueryError, match="view 'kept' is paused"):
        again.execute("SELECT v FROM kept")
    again.execute("DROP VIEW kept")
    again.execute("CREATE MATERIALIZED VIEW kept AS SELECT v + 1 AS v FROM a WINDOW(RANGE 5)")
    again.step()
    again.execute("SELECT v FROM kept")
    again.abandon()


@pytest.mark.parametrize("change", ["ALTER QUERY kept AS SELECT v FROM a", "PAUSE QUERY kept", "OPTIMIZE QUERY kept"])
def test_a_view_cannot_be_changed(session, change):
    session.execute("CREATE MATERIALIZED VIEW kept AS SELECT v FROM a WINDOW(RANGE 5)")
    with pytest.raises(QueryError) as caught:
        session.execute(change)
    assert (caught.value.code, caught.value.hint) == ("Q318", "write DROP VIEW kept, then CREATE MATERIALIZED VIEW")


def test_a_damaged_version_is_refused(session, tmp_path):
    session.execute("CREATE QUERY one AS SELECT k FROM a")
    newest = max((tmp_path / "checkpoint" / "programs").iterdir())
    newest.write_bytes(newest.read_bytes().replace(b"one", b"two"))
    with pytest.raises(DataError) as caught:
        Checkpoint(str(tmp_path / "checkpoint")).last_program()
    assert caught.value.code == "D302"


def test_clip():
    columns = pa.RecordBatch.from_pydict({"k": pa.array([0, 1, 2, 3], pa.int32())})
    batch = Batch(np.array([0, 4, 7, 2]), np.array([3, 9, 8, 20]), columns)
    step = ClipOperator(Schema.of(k=Type.INT), 3, 7).step({}, [batch], [5])
    assert (step.output.start.tolist(), step.output.end.tolist()) == ([4, 3], [7, 7])
    assert step.output.columns.column(0).to_pylist() == [1, 3]


def test_allowed_paths(tmp_path):
    root, other = tmp_path / "data", tmp_path / "other"
    root.mkdir()
    other.mkdir()
    (root / "link").symlink_to(other)
    roots = [str(root), "s3://bucket/in"]
    for fine in [f"{root}/a.csv", f"{root}/*/b.csv", f"file://{root}/a.csv", "s3://bucket/in/x.csv"]:
        refuse_outside(fine, roots)
    for bad in [
        f"{other}/a.csv",
        f"{root}/../other/a.csv",
        f"{root}/link/a.csv",
        f"{root}/*/../../other/a.csv",
        f"{root}x/a.csv",
        "s3://bucket/inside.csv",
        "s3://bucket/in/../x.csv",
        "generator://bids",
        f"file://{other}/a.csv",
    ]:
        with pytest.raises(QueryError) as caught:
            refuse_outside(bad, roots)
        assert caught.value.code == "Q316"


def test_a_session_refuses_paths_outside(tmp_path):
    (tmp_path / "in").mkdir()
    with LiveSession(checkpoint=str(tmp_path / "c"), allowed_paths=[str(tmp_path / "in")]) as session:
        with pytest.raises(QueryError, match="outside"):
            session.execute(f"CREATE STREAM a (t BIGINT) FROM '{tmp_path}/a.csv' TIMESTAMP BY t")
        session.execute(f"CREATE STREAM a (t BIGINT) FROM '{tmp_path}/in/*.csv' TIMESTAMP BY t")
        with pytest.raises(QueryError, match="outside"):
            session.execute(f"INSERT INTO '{tmp_path}/out' SELECT t FROM a")


def test_a_join_over_unbounded_windows_is_refused_or_warned_about(session, tmp_path):
    source = f"FROM '{tmp_path}/a.csv' TIMESTAMP BY t KEY (k)"
    session.execute(
        f"CREATE STREAM p (t BIGINT, k INT) {source} CONSTRAINT (k) REFERENCES o (k) WITHIN 5 MICROSECONDS;"
        f"CREATE STREAM o (t BIGINT, k INT) {source} CONSTRAINT (k) REFERENCES p (k) WITHIN 0 SECONDS;"
        f"CREATE STREAM q (t BIGINT, k INT) {source}"
    )
    query = (
        "CREATE QUERY grows AS SELECT p.k FROM p WINDOW(RANGE UNBOUNDED), {0} WINDOW(RANGE UNBOUNDED) WHERE p.k = {0}.k"
    )
    answer, *_ = session.execute(query.format("o"))
    assert [warning.code for warning in answer.warnings] == ["W202"]
    session.step()
    with pytest.raises(QueryError, match="rows of p stay in memory for ever"):
        session.execute(query.replace("grows", "other").format("q"))
