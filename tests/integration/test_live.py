"""A live session on both runtimes: a fixed story with a restart, and a process that is killed within a change."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections import Counter
from pathlib import Path

import pytest

from tidegate.live.feeds import ResultFeed
from tidegate.live.session import LiveSession
from tidegate.runtime.job import QueryState
from tidegate.time import FOREVER

STREAMS = """
CREATE STREAM a (t BIGINT, k INT, v INT) FROM '{folder}/a.csv' TIMESTAMP BY t DELAY 2 US;
CREATE TABLE c (k INT, w INT) FROM '{folder}/c.csv';
"""
COUNT = "SELECT k, CAST(COUNT(*) AS INT) AS n FROM a WINDOW(RANGE 30) GROUP BY k"


def wait_for(is_so, what: str) -> None:
    for _ in range(600):
        if is_so():
            return
        time.sleep(0.1)
    raise AssertionError(what)


def append(folder: Path, *rows: tuple[int, int, int]) -> None:
    with (folder / "a.csv").open("a") as file:
        file.writelines(f"{t},{k},{v}\n" for t, k, v in rows)


def arrived(session: LiveSession, watermark: int) -> None:
    wait_for(lambda: session.progress().watermarks.get("a", -1) >= watermark, f"watermark {watermark}")


def rows_of(feed: ResultFeed) -> Counter[tuple[int, ...]]:
    """The rows of each instant, of a feed that is closed or waits."""
    found: Counter[tuple[int, ...]] = Counter()
    while (batch := feed.next(0.2)) is not None:
        columns = [column.cast("int64").to_pylist() for column in batch.columns]
        for start, end, *values in zip(*columns, strict=True):
            found.update((instant, *values) for instant in range(start, min(end, 60)))
    return found


@pytest.mark.parametrize("runtime", ["embedded", "spark"])
def test_a_live_session_continues_after_a_restart(tmp_path: Path, runtime: str, request) -> None:
    more = {"spark": request.getfixturevalue("spark")} if runtime == "spark" else {}
    (tmp_path / "a.csv").write_text("t,k,v\n")
    (tmp_path / "c.csv").write_text("k,w\n0,7\n")
    settings = {"checkpoint": str(tmp_path / "checkpoint"), "runtime": runtime, "buckets": 2, **more}
    with LiveSession(**settings) as session:
        session.execute(STREAMS.format(folder=tmp_path))
        first = session.execute(f"CREATE QUERY counts AS {COUNT}")[0]
        assert first.exact_from is None
        feed = session.subscribe("counts")
        append(tmp_path, (1, 0, 1), (2, 0, 1), (6, 1, 1))
        arrived(session, 4)
        second = session.execute("CREATE QUERY named AS SELECT a.k AS k, c.w AS w FROM a JOIN c ON a.k = c.k")[0]
        assert second.exact_from == 7
        before = rows_of(feed)
    with LiveSession(**settings) as session:
        assert [(q.name, q.state) for q in session.queries()] == [("counts", "running"), ("named", "running")]
        counts, named = session.subscribe("counts"), session.subscribe("named")
        append(tmp_path, (5, 0, 9), (7, 0, 1), (9, 0, 1))
        arrived(session, 7)
        altered = session.execute("ALTER QUERY counts AS SELECT k, v AS n FROM a")[0]
        assert altered.exact_from == 10
        # A new reader of the table; the first must not get its rows again.
        session.execute("CREATE QUERY other AS SELECT c.w AS w, a.v AS v FROM a JOIN c ON a.k = c.k")
        append(tmp_path, (10, 0, 5), (20, 1, 6))
        arrived(session, 18)
        # The count of the key 1 changes at 20, after the watermark: its old phase ends without knowing that.
        wait_for(lambda: all(p.end == FOREVER for p in session._live.running_phases()), "the end of the old phase")
        append(tmp_path, (40, 2, 2))
        arrived(session, 38)
        session.execute("DROP QUERY named")
        assert named.closed
        found = before + rows_of(counts)
        assert rows_of(named) == Counter({(7, 0, 7): 1, (9, 0, 7): 1, (10, 0, 7): 1})
        assert session.state is QueryState.RUNNING
    elements = [(1, 0), (2, 0), (6, 1), (5, 0), (7, 0), (9, 0)]
    expected = Counter(
        (t, k, n) for t in range(10) for k in (0, 1) if (n := sum(s <= t < s + 30 and k == own for s, own in elements))
    )
    expected.update([(10, 0, 5), (20, 1, 6), (40, 2, 2)])
    assert found == expected


CHILD = """
import sys
from tidegate.live.session import LiveSession
session = LiveSession(checkpoint=sys.argv[1], buckets=1)
session.execute(sys.argv[2])
print("ready", flush=True)
for number in range(100000):
    session.execute(f"CREATE QUERY q{number} AS SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE {number + 1}) GROUP BY k")
    print(number, flush=True)
"""


def test_what_was_answered_survives_a_kill_within_a_change(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("t,k,v\n1,0,1\n")
    (tmp_path / "c.csv").write_text("k,w\n0,7\n")
    checkpoint = str(tmp_path / "checkpoint")
    command = [sys.executable, "-c", textwrap.dedent(CHILD), checkpoint, STREAMS.format(folder=tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        answered = [process.stdout.readline() for _ in range(5)]
        os.kill(process.pid, signal.SIGKILL)
        answered += process.stdout.read().splitlines()
    with LiveSession(checkpoint=checkpoint) as session:
        names = [query.name for query in session.queries()]
        known = len([line for line in answered if line.strip().isdigit()])
        assert names[:known] == [f"q{number}" for number in range(known)]
        assert len(names) - known in (0, 1)
        (answer,) = session.execute("SHOW QUERIES")
        assert answer.table is not None
        assert answer.table.column("name").to_pylist() == names


@pytest.mark.parametrize("runtime", ["embedded", "spark"])
def test_queries_that_share_all_stages_have_results_and_metadata_of_their_own(tmp_path: Path, runtime, request) -> None:
    more = {"spark": request.getfixturevalue("spark")} if runtime == "spark" else {}
    (tmp_path / "a.csv").write_text("t,k,v\n")
    (tmp_path / "c.csv").write_text("k,w\n0,7\n")
    settings = {"checkpoint": str(tmp_path / "checkpoint"), "runtime": runtime, "buckets": 2, **more}
    with LiveSession(**settings) as session:
        session.execute(STREAMS.format(folder=tmp_path))
        session.execute(f"CREATE QUERY one AS {COUNT}; CREATE QUERY two AS {COUNT} HAVING COUNT(*) > 1")
        session.execute(f"CREATE QUERY unread AS {COUNT}")
        one, two = session.subscribe("one"), session.subscribe("two")
        append(tmp_path, (1, 0, 1), (2, 0, 1), (3, 1, 1), (60, 0, 1))
        arrived(session, 58)
        wait_for(lambda: session.progress().rows_out.get("unread"), "results")
        assert rows_of(two) == Counter({(t, 0, 2): 1 for t in range(2, 31)})
        assert len(rows_of(one)) == 31 + 30
        assert session.progress().rows_out == {"one": 4, "two": 1, "unread": 4}
        rows = session.metadata().operators.to_pylist()
        shared = [row for row in rows if row["operator"].startswith("aggregate")]
        assert [(row["query"], row["bucket"]) for row in shared] == [(None, 0), (None, 1)]
        assert (sum(row["rows_in"] for row in shared), sum(row["rows_out"] for row in shared)) == (4, 4)
        assert all(row["state_bytes"] > 0 for row in shared)
        own = session.metadata("two").operators.to_pylist()
        filters = [row for row in own if row["operator"].startswith("filter")]
        assert (sum(row["rows_in"] for row in filters), sum(row["rows_out"] for row in filters)) == (4, 1)
