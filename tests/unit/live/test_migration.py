"""Migration by ALTER QUERY: the examples of chapter 28 and the errata, with our own phases."""

from __future__ import annotations

from pathlib import Path

import pytest
from reference.instants import snapshots
from support.live import SteppedSession

from benchmarks.baselines.migration import COUNTS, DISTINCT_JOIN, Counterexample

INSTANTS = range(-2, 200)
FAR = 500
STREAMS = "CREATE STREAM {s} (t BIGINT, v STRING) FROM '{folder}/{s}.csv' TIMESTAMP BY t;"

JOINED = "SELECT DISTINCT a.v AS v FROM a WINDOW(RANGE 101) JOIN b WINDOW(RANGE 101) ON a.v = b.v"
PUSHED = """
SELECT x.v AS v FROM (SELECT DISTINCT v FROM a WINDOW(RANGE 101)) AS x
JOIN (SELECT DISTINCT v FROM b WINDOW(RANGE 101)) AS y ON x.v = y.v
"""
COUNT = "SELECT COUNT(*) AS n FROM a WINDOW(RANGE 10)"
SUM = "SELECT SUM(one) AS n FROM (SELECT CAST(1 AS BIGINT) AS one FROM a) WINDOW(RANGE 10)"


def migrate(folder: Path, example: Counterexample, old: str, new: str) -> tuple[SteppedSession, int]:
    """Run the elements before the migration, alter the query, and run the others; return when the new text counts."""
    names = "ab"[: len(example.inputs)]
    for name in names:
        (folder / f"{name}.csv").write_text("t,v\n")
    session = SteppedSession(folder / "checkpoint", {})
    for name in names:
        session.execute(STREAMS.format(s=name, folder=folder))
    session.execute(f"CREATE QUERY q AS {old}")
    begin = int(example.begin)
    _arrive(session, folder, example, -FAR, begin)
    (answer,) = session.execute(f"ALTER QUERY q AS {new}")
    assert answer.exact_from is not None
    _arrive(session, folder, example, begin, FAR)
    for name in names:
        with (folder / f"{name}.csv").open("a") as file:
            file.write(f"{FAR},end\n")
    while session.step():
        pass
    return session, answer.exact_from


def _arrive(session: SteppedSession, folder: Path, example: Counterexample, begin: int, end: int) -> None:
    """Let the elements that start in [begin, end) arrive in time order, each in a step of its own."""
    elements = [(int(e.start), name, e.value) for name, some in zip("ab", example.inputs, strict=False) for e in some]
    for start, name, value in sorted(each for each in elements if begin <= each[0] < end):
        with (folder / f"{name}.csv").open("a") as file:
            file.write(f"{start},{value}\n")
        session.step()


@pytest.mark.parametrize(
    ("example", "old", "new"),
    [
        (DISTINCT_JOIN, JOINED, PUSHED),
        (DISTINCT_JOIN, PUSHED, JOINED),
        (COUNTS, COUNT, SUM),
        (COUNTS, SUM, COUNT),
    ],
    ids=["push down", "pull up", "count", "sum"],
)
def test_an_altered_query_is_right_at_every_instant(tmp_path, example: Counterexample, old, new):
    session, exact_from = migrate(tmp_path, example, old, new)
    # A window after the largest start that was seen, which is after the end of every element that arrived before.
    assert example.split < exact_from <= example.split + 2
    found = snapshots(session.results["q"], INSTANTS)
    right = snapshots([(int(e.start), int(e.end), (e.value,)) for e in example.answer()], INSTANTS)
    assert found == right
    assert [p.definition.text for p in session._live.version.phases if not p.is_over] == [len(example.inputs) + 1]
    session.abandon()
