"""Streams that fall silent, and tables that change, in a live session on both runtimes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from reference.instants import snapshots
from support.live import Row, SteppedSession, SteppedSparkSession

from tidegate.live.state import LiveProgram

SECOND = 1_000_000
Open = Callable[[Path, dict[str, list[Row]]], SteppedSession]


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def open_session(request: pytest.FixtureRequest) -> Open:
    if request.param == "embedded":
        return SteppedSession
    return partial(SteppedSparkSession, request.getfixturevalue("spark"))


class Clock:
    """A clock that is set by hand."""

    now = 1_900_000_000 * SECOND

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    own, make_job = Clock(), LiveProgram.make_job
    monkeypatch.setattr(LiveProgram, "make_job", lambda *given: replace(make_job(*given), clock=own))
    monkeypatch.setattr("tidegate.runtime.spark.runner.CLOCK_EVERY", 0.0)
    return own


def append(path: Path, *rows: tuple[int, int]) -> None:
    with path.open("a") as file:
        file.writelines(f"{t},{k}\n" for t, k in rows)


def run_all(session: SteppedSession) -> None:
    while session.step():
        pass


def relation(rows: list[Row], end: int) -> dict[int, Counter[tuple[object, ...]]]:
    return {t: found for t, found in snapshots(rows, range(end)).items() if found}


COUNTED = "FROM (SELECT k FROM a UNION ALL SELECT k FROM b) WINDOW(RANGE 10)"


def counts(times: list[int], begin: int, end: int) -> dict[int, Counter[tuple[object, ...]]]:
    """What COUNT(*) over a window of ten says at each instant."""
    found = {t: sum(s <= t < s + 10 for s in times) for t in range(begin, end)}
    return {t: Counter({(n,): 1}) for t, n in found.items() if n}


def test_a_silent_stream_follows_the_others_while_queries_come_and_change(tmp_path, open_session, clock) -> None:
    results: dict[str, list[Row]] = {}
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("t,k\n")
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    session = open_session(tmp_path / "checkpoint", results)
    session.execute(f"CREATE STREAM a (t BIGINT, k INT) FROM '{a}' TIMESTAMP BY t IDLE AFTER 5 SECONDS")
    session.execute(f"CREATE STREAM b (t BIGINT, k INT) FROM '{b}' TIMESTAMP BY t")
    session.execute(f"CREATE QUERY n AS SELECT CAST(COUNT(*) AS INT) AS n {COUNTED}")
    append(a, (1, 0))
    append(b, (2, 0), (20, 1), (40, 1))
    run_all(session)
    assert len(results.get("n", [])) <= 2
    clock.now += 6 * SECOND
    session.pass_time()
    assert relation(results["n"], 30) == counts([1, 2, 20], 0, 30)
    # A query that comes, and one that changes, while the stream is silent.
    session.execute("CREATE QUERY late AS SELECT k FROM a")
    (altered,) = session.execute(f"ALTER QUERY n AS SELECT CAST(SUM(k) AS INT) AS n {COUNTED}")
    begin = altered.exact_from
    assert begin is not None
    session.abandon(in_step=True)
    session = open_session(tmp_path / "checkpoint", results)
    append(b, (60, 1), (65, 1), (100, 1), (120, 1))
    run_all(session)
    clock.now += 6 * SECOND
    session.pass_time()
    # The stream speaks again: what it says of before is late.
    append(a, (50, 7), (125, 3))
    append(b, (160, 1))
    run_all(session)
    append(a, (170, 1))
    append(b, (200, 1))
    run_all(session)
    session.abandon()
    found = relation(results["n"], 150)
    assert {t: rows for t, rows in found.items() if t < begin} == counts([1, 2, 20, 40], 0, begin)
    values = [(60, 1), (65, 1), (100, 1), (120, 1), (125, 3)]
    for t in range(begin, 150):
        live = [k for s, k in [(40, 1), *values] if s <= t < s + 10]
        assert found.get(t, Counter()) == (Counter({(sum(live),): 1}) if live else Counter()), t
    assert [row[2] for row in results["late"]] == [(3,), (1,)]


def test_rows_join_the_table_as_it_is_when_they_arrive(tmp_path, open_session) -> None:
    results: dict[str, list[Row]] = {}
    a, table = tmp_path / "a.csv", tmp_path / "c.csv"
    a.write_text("t,k\n")

    def write_table(w: int) -> None:
        time.sleep(0.01)  # the time of the change must differ
        table.write_text(f"k,w\n0,{w}\n1,{w + 100}\n")

    write_table(5)
    session = open_session(tmp_path / "checkpoint", results)
    session.execute(f"CREATE STREAM a (t BIGINT, k INT) FROM '{a}' TIMESTAMP BY t")
    session.execute(f"CREATE TABLE c (k INT, w INT) FROM '{table}'")
    session.execute("CREATE QUERY one AS SELECT a.t AS t, c.w AS w FROM a JOIN c ON a.k = c.k")
    append(a, (1, 0))
    run_all(session)
    write_table(6)
    append(a, (2, 0))
    run_all(session)
    # Two more readers: one shares the join, the other one reads the table alone.
    session.execute("CREATE QUERY two AS SELECT c.w AS w FROM a JOIN c ON a.k = c.k")
    session.execute("CREATE QUERY three AS SELECT c.w AS w, a.k AS k FROM a JOIN c ON a.k < c.k")
    append(a, (3, 0))
    run_all(session)
    write_table(7)
    append(a, (4, 0))
    session.abandon(in_step=True)
    session = open_session(tmp_path / "checkpoint", results)
    run_all(session)
    session.execute("DROP QUERY one")
    write_table(8)
    append(a, (5, 0), (6, 1))
    run_all(session)
    session.execute("PAUSE QUERY three")
    write_table(9)
    append(a, (7, 0))
    run_all(session)
    session.execute("RESUME QUERY three")
    append(a, (9, 0))
    run_all(session)
    session.abandon()
    assert [row[2] for row in results["one"]] == [(1, 5), (2, 6), (3, 6), (4, 7)]
    assert [row[2] for row in results["two"]] == [(6,), (7,), (8,), (108,), (9,), (9,)]
    assert [row[2] for row in results["three"]] == [(106, 0), (107, 0), (108, 0), (109, 0)]
