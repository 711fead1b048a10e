"""Alerts that are registered while their streams run: exact from their instant on."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from support.live import Row, SteppedSession

from tidegate import Session
from tidegate.time import BEGINNING

STREAMS = "".join(
    f"CREATE STREAM {name} (t BIGINT, k INT, v INT) FROM '{{folder}}/{name}.csv' TIMESTAMP BY t DELAY 2 US;\n"
    for name in "ab"
)
ALERT = "CREATE ALERT late FROM a, b WITHIN 3 US MATCHING k WHEN a.v + b.v > 2 EMIT ALL"
COLUMNS = ["k", "a_t", "a_v", "b_t", "b_v"]
"""The first columns of an alarm. Incidents and alarms are counted from the instant of the alert on."""
ROUNDS = st.lists(
    st.tuples(*(st.lists(st.tuples(st.integers(-2, 2), st.integers(0, 1), st.integers(0, 2)), max_size=3),) * 2),
    min_size=2,
    max_size=8,
)


def write(folder: Path, stream: str, rows: list[tuple[int, int, int]], latest: int) -> int:
    with (folder / f"{stream}.csv").open("a") as file:
        for ahead, k, v in rows:
            file.write(f"{latest + ahead},{k},{v}\n")
            latest = max(latest, latest + ahead)
    return latest


def alarms_alone(folder: Path) -> list[tuple[int, ...]]:
    """Return the alarms of an alert that has seen everything, each with its validity."""
    with Session(runtime="embedded", buckets=1) as session:
        running = session.sql(STREAMS.format(folder=folder) + ALERT, once=True)
        assert running is not None
        found = running.results()
    times = [found[name].cast(pa.int64()).to_pylist() for name in ("valid_from", "valid_to")]
    return sorted(zip(*times, *(found[name].to_pylist() for name in COLUMNS), strict=True))


@given(ROUNDS, st.integers(0, 6), st.booleans())
def test_an_alert_misses_nothing_from_its_instant_on(rounds, registered, restarted):
    with tempfile.TemporaryDirectory() as name:
        folder, latest, results = Path(name), {"a": 0, "b": 0}, dict[str, list[Row]]()
        for stream in "ab":
            (folder / f"{stream}.csv").write_text("t,k,v\n")
        session = SteppedSession(folder / "checkpoint", results)
        session.execute(STREAMS.format(folder=folder))
        session.execute("CREATE QUERY all_a AS SELECT k FROM a; CREATE QUERY all_b AS SELECT k FROM b")
        begin = None
        for number, rows in enumerate([*rounds, ([(99, 9, 9)], [(99, 9, 9)])]):
            for stream, some in zip("ab", rows, strict=True):
                latest[stream] = write(folder, stream, some, latest[stream])
            session.step()
            if begin is None and number >= min(registered, len(rounds) - 1):
                exact = session.execute(ALERT)[-1].exact_from
                begin = BEGINNING if exact is None else exact
                if restarted:
                    session.abandon()
                    session = SteppedSession(folder / "checkpoint", results)
        while session.step():
            pass
        session.abandon()
        found = sorted((start, end, *row[: len(COLUMNS)]) for start, end, row in results.get("late", []))
        assert begin is not None
        assert found == [alarm for alarm in alarms_alone(folder) if alarm[0] >= begin]
