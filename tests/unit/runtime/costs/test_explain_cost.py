"""EXPLAIN COST, of queries that run and of others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.live import SteppedSession

from tidegate.session import Session

READINGS = pa.table({"at": list(range(0, 4_000_000, 1_000)), "k": [n % 7 for n in range(4_000)], "v": [1.0] * 4_000})
QUERY = "SELECT k, SUM(v) AS s FROM a WINDOW(RANGE 2 SECONDS) WHERE v > 0 GROUP BY k"


def test_a_query_that_does_not_run_is_estimated_by_assumptions():
    with Session(runtime="embedded") as session:
        session.stream("a", READINGS, time="at")
        text = session.ask(f"EXPLAIN COST {QUERY}")
    assert "\n  a: 1,000 rows/s, assumed\n" in text
    assert "rows of state" in text
    assert "measured" not in text
    assert "\ntotal\n  memory " in text
    assert " of a core" in text


def test_an_alert_is_estimated():
    with Session(runtime="embedded") as session:
        session.stream("a", READINGS, time="at")
        text = session.ask("EXPLAIN COST CREATE ALERT hot FROM a x, a y WITHIN 1 SECOND MATCHING k WHEN x.v - y.v > 3")
    assert "threshold join for hot by x.k" in text
    assert "CPU" in text


def test_a_running_query_is_estimated_and_measured():
    with Session(runtime="embedded", buckets=1) as session:
        session.stream("a", READINGS, time="at")
        query = session.sql(f"CREATE QUERY sums AS {QUERY}")
        assert query is not None
        while not query.progress().recent_steps:
            query.wait(0.01)
        text = session.ask("EXPLAIN COST QUERY sums")
    assert text.startswith("query sums\n\nstages\n")
    assert "aggregate SUM(a.v) AS sum_v by a.k" in text


def test_cost_is_a_name_elsewhere():
    with Session(runtime="embedded") as session:
        session.stream("cost", pa.table({"cost": [1], "at": [0]}), time="at")
        assert "cost.cost" in session.explain("SELECT cost FROM cost")
        assert "rows/s" in session.ask("EXPLAIN COST SELECT cost FROM cost")


@pytest.fixture
def live(tmp_path):
    (tmp_path / "in").mkdir()
    running = SteppedSession(tmp_path / "state", {})
    running.execute(
        f"CREATE STREAM a (at BIGINT, k INT, v DOUBLE) FROM '{tmp_path}/in/*.csv' TIMESTAMP BY at; "
        f"CREATE QUERY sums AS {QUERY}"
    )
    for number in range(6):
        rows = "\n".join(
            f"{time},{time // 1000 % 7},1.0" for time in range(number * 10**6, (number + 1) * 10**6, 5_000)
        )
        (tmp_path / "in" / f"{number}.csv").write_text(f"at,k,v\n{rows}\n")
        assert running.step()
    yield running
    running.abandon()


def lines(live, text):
    (answer,) = live.execute(text)
    return answer.table.column("text").to_pylist()


def test_a_live_query_is_estimated_and_measured(live):
    shown = lines(live, "EXPLAIN COST QUERY sums")
    (aggregate,) = [line for line in shown if "aggregate SUM(a.v)" in line]
    assert "; measured " in aggregate
    assert "rows of state" in aggregate.partition("; measured ")[2]
    assert shown[shown.index("sources") + 1] == "  a: 200 rows/s"
    assert "; measured memory " in shown[-1]


def test_a_query_that_is_not_registered_is_estimated_by_the_rates_of_running_sources(live):
    shown = lines(live, "EXPLAIN COST SELECT COUNT(*) AS n FROM a WINDOW(RANGE 10 SECONDS)")
    assert "  a: 200 rows/s" in shown
    (aggregate,) = [line for line in shown if "aggregate COUNT" in line and "rows of state" in line]
    assert 2_000 <= int(aggregate.partition(" rows of state")[0].rpartition(" ")[2].replace(",", "")) < 3_000
    assert "live graph" in shown
    assert [query.name for query in live.queries()] == ["sums"]
