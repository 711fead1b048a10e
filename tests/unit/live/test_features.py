"""Joins of all kinds, EMIT EARLY and sinks in a live session give what a run over all rows gives."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from reference.instants import snapshots
from support.live import Row, SteppedSession

from tidegate.errors import QueryError
from tidegate.session import Session
from tidegate.time import BEGINNING, FOREVER

STREAMS = """
CREATE STREAM a (t BIGINT, k INT, v INT) FROM '{folder}/a.csv' TIMESTAMP BY t DELAY 1 US;
CREATE STREAM b (t BIGINT, k INT, v INT) FROM '{folder}/b.csv' TIMESTAMP BY t DELAY 1 US KEY (v);
CREATE TABLE c (k INT, w INT) FROM '{folder}/c.csv';
"""
FEATURES = {
    "keyed join": "SELECT a.v AS v, b.v AS w FROM a WINDOW(RANGE 8), b WINDOW(RANGE 9) WHERE a.v = b.v",
    "similarity join": "SELECT a.v AS v, b.v AS w FROM a WINDOW(RANGE 5), b WINDOW(RANGE 4) WHERE ABS(a.v - b.v) <= 2",
    "theta join": "SELECT a.v AS v, b.v AS w FROM a WINDOW(RANGE 5), b WINDOW(RANGE 4) WHERE a.k < b.k AND a.v > b.v",
    "outer join": "SELECT a.v AS v, c.w AS w FROM a WINDOW(RANGE 5) LEFT JOIN c ON a.k = c.k",
    "early": "SELECT k AS v, COUNT(*) AS w FROM a WINDOW(RANGE 6) GROUP BY k EMIT EARLY",
    "limit": "SELECT k AS v, v AS w FROM a WINDOW(RANGE 6) ORDER BY v LIMIT 2",
    "count window": "SELECT k AS v, v AS w FROM a WINDOW(ROWS 3)",
    "changes": "SELECT k AS v, n AS w FROM DSTREAM(SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 3) GROUP BY k)",
    "granularity": "SELECT k AS v, COUNT(*) AS w FROM a WINDOW(RANGE 6 SLIDE 3) GROUP BY k",
}
each_feature = pytest.mark.parametrize("text", FEATURES.values(), ids=FEATURES)
INSTANTS = range(-2, 60)


class Story:
    """Rows that arrive in rounds, and a live session that steps after each."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.results = folder, dict[str, list[Row]]()
        for name in "ab":
            (folder / f"{name}.csv").write_text("t,k,v\n")
        (folder / "c.csv").write_text("k,w\n0,5\n0,6\n2,7\n")
        self.open()
        self.session.execute(STREAMS.format(folder=folder))

    def open(self) -> None:
        self.session = SteppedSession(self.folder / "checkpoint", self.results, 2)

    def arrive(self, rounds: range) -> None:
        for at in rounds:
            for name, later in (("a", 0), ("b", 1)):
                with (self.folder / f"{name}.csv").open("a") as file:
                    file.write(f"{at * 2 + later},{at % 3},{at * (7 if name == 'a' else 1) % 40}\n")
            self.session.step()

    def restart(self) -> None:
        self.session.abandon(in_step=True)
        self.open()

    def end(self) -> None:
        for name, key in (("a", 50), ("b", 60)):
            with (self.folder / f"{name}.csv").open("a") as file:
                file.writelines(f"{1000 + more},9,{key + more}\n" for more in range(6))
        while self.session.step():
            pass
        self.session.abandon()

    def expected(self, text: str) -> list[Row]:
        """Return the results of a run that reads everything at once."""
        with Session(runtime="embedded", buckets=1) as session:
            query = session.sql(STREAMS.format(folder=self.folder) + text, once=True)
            assert query is not None
            return rows_of(query.finish())


def rows_of(found: pa.Table) -> list[Row]:
    start = found["valid_from"].cast(pa.int64()).fill_null(BEGINNING).to_pylist()
    end = found["valid_to"].cast(pa.int64()).fill_null(FOREVER).to_pylist()
    values = zip(*(column.to_pylist() for column in found.columns[2:]), strict=True)
    return list(zip(start, end, values, strict=True))


@each_feature
def test_a_query_that_sees_everything_is_exact_though_the_process_is_killed(tmp_path: Path, text: str):
    story = Story(tmp_path)
    story.session.execute(f"CREATE QUERY q AS {text}")
    story.arrive(range(10))
    story.restart()
    story.arrive(range(10, 20))
    story.end()
    expected = snapshots(story.expected(text), INSTANTS)
    assert any(expected.values())
    assert snapshots(story.results["q"], INSTANTS) == expected


@each_feature
def test_a_query_that_comes_later_is_exact_from_its_instant_on_or_refused(tmp_path: Path, text: str):
    story = Story(tmp_path)
    story.session.execute("CREATE QUERY reader AS SELECT a.v FROM a, b WINDOW(RANGE 2)")
    story.arrive(range(8))
    if text == FEATURES["count window"]:
        with pytest.raises(QueryError, match="cannot become exact"):
            story.session.execute(f"CREATE QUERY q AS {text}")
        story.session.abandon()
        return
    (answer,) = story.session.execute(f"CREATE QUERY q AS {text}")
    assert answer.exact_from is not None
    story.arrive(range(8, 14))
    story.restart()
    story.arrive(range(14, 20))
    story.end()
    instants = range(answer.exact_from, 60)
    expected = snapshots(story.expected(text), instants)
    assert any(expected.values())
    assert snapshots(story.results["q"], instants) == expected


def test_a_sink_gets_every_row_once_though_the_process_is_killed(tmp_path: Path):
    text = "SELECT a.v AS v, b.v AS w FROM a WINDOW(RANGE 5), b WINDOW(RANGE 4) WHERE a.k = b.k"
    story = Story(tmp_path)
    story.session.execute(f"INSERT INTO '{tmp_path}/out' {text}")
    for number in range(4):
        story.arrive(range(number * 5, number * 5 + 5))
        story.restart()
    story.end()
    lines = [line for file in sorted((tmp_path / "out").glob("*.jsonl")) for line in file.read_text().splitlines()]
    found = sorted((row["v"], row["w"], row["valid_from"]) for row in map(json.loads, lines))
    assert len(found) == len(set(found)) > 10
    assert [row[:2] for row in found] == sorted(values for _, _, values in story.expected(text))
