"""Sources with validities, without times, that fall silent, and tables: on both runtimes."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.micros import in_micros

from tidegate.errors import TidegateWarning
from tidegate.runtime.running_query import RunningQuery
from tidegate.session import Session
from tidegate.time import FOREVER


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def session(request: pytest.FixtureRequest):
    if request.param == "embedded":
        opened = Session(runtime="embedded", buckets=2)
    else:
        opened = Session(spark=request.getfixturevalue("spark"), buckets=2)
    with opened:
        yield opened


def lines(path: Path, *rows: Mapping[str, object]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_of(session: Session, text: str) -> tuple[list[tuple[Any, ...]], dict[str, int]]:
    running = session.sql(text, once=True)
    assert running is not None
    running.wait()
    return _rows(running), dict(running.progress().dead)


def _rows(running: RunningQuery) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in in_micros(running.results()).to_pylist())


# ---- validities that the rows bring


def test_rows_are_valid_from_one_column_to_another(session: Session, tmp_path: Path) -> None:
    lines(
        tmp_path / "s" / "a.jsonl",
        {"k": 1, "begin": 10, "end": 20},
        {"k": 1, "begin": 15, "end": 18},
        {"k": 2, "begin": 16, "end": 17},
    )
    found, dead = rows_of(
        session,
        f'CREATE STREAM s (k INT, begin BIGINT, "end" BIGINT) FROM \'{tmp_path}/s\' VALID FROM begin TO "end";'
        "SELECT k, COUNT(*) AS n FROM s GROUP BY k",
    )
    at = {t: {(k, n) for start, end, k, n in found if start <= t < end} for t in (9, 10, 15, 16, 18, 20)}
    assert at == {9: set(), 10: {(1, 1)}, 15: {(1, 2)}, 16: {(1, 2), (2, 1)}, 18: {(1, 1)}, 20: set()}
    assert dead == {}


def test_a_row_without_an_end_is_valid_for_ever_and_one_without_a_beginning_never(
    session: Session, tmp_path: Path
) -> None:
    lines(
        tmp_path / "s" / "a.jsonl",
        {"k": 1, "begin": 10, "end": 10},
        {"k": 2, "begin": 10},
        {"k": 3, "end": 10},
        {"k": 4, "begin": 10, "end": 11},
    )
    found, dead = rows_of(
        session,
        f'CREATE STREAM s (k INT, begin BIGINT, "end" BIGINT) FROM \'{tmp_path}/s\' VALID FROM begin TO "end";'
        "SELECT k FROM s",
    )
    assert found == [(10, 11, 4), (10, FOREVER, 2)]
    assert dead == {"no_time": 1, "time_range": 1}


# ---- units of time


def test_times_in_milliseconds(session: Session, tmp_path: Path) -> None:
    rows = [{"k": k, "at": 1_700_000_000_000 + 250 * k} for k in range(4)]
    lines(tmp_path / "s" / "a.jsonl", *rows, {"k": 9, "at": 2**62})
    found, dead = rows_of(
        session,
        f"CREATE STREAM s (k INT, at BIGINT) FROM '{tmp_path}/s' TIMESTAMP BY at UNIT MILLISECONDS;"
        "SELECT at FROM s WINDOW(RANGE 500 MILLISECONDS)",
    )
    times = [1_700_000_000_000_000 + 250_000 * k for k in range(4)]
    assert found == [(t, t + 500_000, t // 1000) for t in times]
    assert dead == {"time_range": 1}


def test_times_in_milliseconds_without_a_unit_are_warned_of(session: Session, tmp_path: Path) -> None:
    lines(tmp_path / "s" / "a.jsonl", *({"k": k, "at": 1_700_000_000_000 + k} for k in range(4)))
    running = session.sql(
        f"CREATE STREAM s (k INT, at BIGINT) FROM '{tmp_path}/s' TIMESTAMP BY at; SELECT k FROM s", once=True
    )
    assert running is not None
    with pytest.warns(TidegateWarning, match="all times of 's' lie in January 1970: are they milliseconds"):
        running.wait()
    assert [warning.code for warning in running.warnings] == ["W301"]


# ---- the time of arrival


def test_rows_without_a_time_are_valid_when_they_arrive(session: Session, tmp_path: Path) -> None:
    lines(tmp_path / "s" / "a.jsonl", {"k": 1}, {"k": 1}, {"k": 2})
    before = time.time_ns() // 1_000
    found, dead = rows_of(session, f"CREATE STREAM s (k INT) FROM '{tmp_path}/s'; SELECT k FROM s")
    assert [row[2] for row in found] == [1, 1, 2]
    assert all(before <= start <= time.time_ns() // 1_000 and end == start + 1 for start, end, _ in found)
    assert dead == {}


def test_rows_without_a_time_can_be_counted(session: Session, tmp_path: Path) -> None:
    lines(tmp_path / "s" / "a.jsonl", {"k": 1}, {"k": 1}, {"k": 2})
    found, _ = rows_of(
        session, f"CREATE STREAM s (k INT) FROM '{tmp_path}/s'; SELECT COUNT(*) AS n FROM s WINDOW(RANGE 1 MINUTE)"
    )
    assert {n for _, _, n in found} == {3}
    assert sum(end - start for start, end, _ in found) == 60_000_000


# ---- tables


def table_and_stream(folder: Path) -> str:
    lines(
        folder / "item" / "a.jsonl", {"id": 1, "name": "lamp"}, {"id": 2, "name": "chair"}, {"id": 2, "name": "stool"}
    )
    lines(folder / "bid" / "a.jsonl", {"t": 10, "item": 2}, {"t": 20, "item": 1}, {"t": 30, "item": 3})
    return (
        f"CREATE TABLE item (id INT, name STRING) FROM '{folder}/item';"
        f"CREATE STREAM bid (t BIGINT, item INT) FROM '{folder}/bid' TIMESTAMP BY t;"
    )


def test_a_stream_meets_a_table(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + "SELECT b.item, i.name FROM bid b, item i WHERE b.item = i.id"
    found, dead = rows_of(session, text)
    assert found == [(10, 11, 2, "chair"), (10, 11, 2, "stool"), (20, 21, 1, "lamp")]
    assert dead == {}


def test_what_is_not_in_a_table(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + "SELECT item FROM bid WHERE item NOT IN (SELECT id FROM item)"
    assert rows_of(session, text) == ([(30, 31, 3)], {})


def test_a_table_keeps_no_element_of_the_stream_waiting(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + (
        "SELECT i.name, COUNT(*) AS n FROM bid WINDOW(RANGE 15) b, item i WHERE b.item = i.id GROUP BY i.name"
    )
    found, _ = rows_of(session, text)
    assert _merged(found) == [(10, 25, "chair", 1), (10, 25, "stool", 1), (20, 35, "lamp", 1)]


# ---- silence


def test_a_silent_stream_holds_nobody_back(session: Session, tmp_path: Path) -> None:
    lines(tmp_path / "a" / "1.jsonl", {"t": 10, "k": 1}, {"t": 20, "k": 1}, {"t": 100, "k": 1})
    lines(tmp_path / "b" / "1.jsonl", {"t": 11, "k": 1})
    streams = "".join(
        f"CREATE STREAM {s} (t BIGINT, k INT) FROM '{tmp_path}/{s}' TIMESTAMP BY t IDLE AFTER 1 SECOND;" for s in "ab"
    )
    union = "SELECT k, COUNT(*) AS n FROM (SELECT k FROM a WINDOW(RANGE 5) UNION ALL SELECT k FROM b WINDOW(RANGE 5))"
    running = session.sql(f"{streams} {union} GROUP BY k")
    assert running is not None
    expected = [(10, 11, 1, 1), (11, 15, 1, 2), (15, 16, 1, 1), (20, 25, 1, 1), (100, 105, 1, 1)]
    deadline = time.monotonic() + 60
    while _merged(_rows(running)) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    running.stop()
    assert _merged(_rows(running)) == expected


def _merged(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Equal neighbours in time as one row."""
    merged: list[tuple[Any, ...]] = []
    for row in sorted(rows, key=lambda r: (r[2:], r[0])):
        if merged and merged[-1][1] == row[0] and merged[-1][2:] == row[2:]:
            merged[-1] = (merged[-1][0], *row[1:])
        else:
            merged.append(row)
    return sorted(merged)


# ---- tables that change


def test_a_table_is_read_again_when_it_changes(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + (
        "CREATE STREAM known AS SELECT b.item, i.name FROM bid b, item i WHERE b.item = i.id;"
        "CREATE STREAM unknown AS SELECT item FROM bid WHERE item NOT IN (SELECT id FROM item);"
        "SELECT item, name FROM known UNION ALL SELECT item, 'unknown' AS name FROM unknown"
    )
    running = session.sql(text)
    assert running is not None
    first = [(10, 11, 2, "chair"), (10, 11, 2, "stool"), (20, 21, 1, "lamp"), (30, 31, 3, "unknown")]
    # What is not in a table comes out when the watermark has passed.
    _until(running, first[:3])
    lines(tmp_path / "item" / "a.jsonl", {"id": 3, "name": "table"}, {"id": 1, "name": "candle"})
    lines(tmp_path / "bid" / "b.jsonl", {"t": 40, "item": 1}, {"t": 41, "item": 2}, {"t": 50, "item": 3})
    second = [(40, 41, 1, "candle"), (41, 42, 2, "unknown"), (50, 51, 3, "table")]
    _until(running, first + second)
    running.stop()
    assert _rows(running) == first + second


def _until(running: RunningQuery, expected: Sequence[tuple[Any, ...]]) -> None:
    deadline = time.monotonic() + 60
    while _rows(running) != expected and time.monotonic() < deadline:
        time.sleep(0.2)
    assert _rows(running) == expected


def test_a_table_that_is_also_a_result_is_read_once(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + "SELECT item FROM bid UNION ALL SELECT id AS item FROM item"
    running = session.sql(text)
    assert running is not None
    expected = [*((-(2**62), 2**62, item) for item in (1, 2, 2)), (10, 11, 2), (20, 21, 1), (30, 31, 3)]
    _until(running, expected)
    lines(tmp_path / "item" / "a.jsonl", {"id": 4, "name": "bed"})
    lines(tmp_path / "bid" / "b.jsonl", {"t": 40, "item": 1})
    _until(running, [*expected, (40, 41, 1)])
    running.stop()


def replace_lines(path: Path, *rows: Mapping[str, object]) -> None:
    """Put a file in place as a whole: a file that is being written may be read before it has any rows."""
    lines(path.with_name(".new"), *rows).replace(path)


CHANGES = """
SELECT 'new' AS what, id, name FROM ISTREAM(item) UNION ALL SELECT 'gone' AS what, id, name FROM DSTREAM(item)
UNION ALL SELECT 'bid' AS what, item AS id, 'none' AS name FROM bid WHERE item = 0
"""
"""On Spark a query needs a stream, too."""


def test_a_table_that_changes_gains_and_loses_rows(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + CHANGES
    replace_lines(tmp_path / "item" / "a.jsonl", {"id": 1, "name": "lamp"}, {"id": 2, "name": "stool"})
    place = str(tmp_path / "checkpoint")
    first, began = session.sql(text, checkpoint=place), time.time_ns() // 1000
    assert first is not None
    _wait_for(first, lambda: first.progress().steps > 0)
    replace_lines(
        tmp_path / "item" / "a.jsonl", {"id": 1, "name": "lamp"}, {"id": 2, "name": "chair"}, {"id": 1, "name": "lamp"}
    )
    _wait_for(first, lambda: len(_rows(first)) == 3)
    first.stop()
    found = _rows(first)
    assert [row[2:] for row in found] == [("gone", 2, "stool"), ("new", 1, "lamp"), ("new", 2, "chair")]
    assert {end - start for start, end, *_ in found} == {1}
    [at] = {start for start, *_ in found}
    assert began <= at <= time.time_ns() // 1000
    # What changes while nothing runs is found by the next run, once.
    replace_lines(tmp_path / "item" / "a.jsonl", {"id": 2, "name": "chair"}, {"id": 3, "name": "table"})
    second = session.sql(CHANGES, checkpoint=place)
    assert second is not None
    _wait_for(second, lambda: len(_rows(second)) == 3)
    second.stop()
    found = _rows(second)
    assert [row[2:] for row in found] == [("gone", 1, "lamp"), ("gone", 1, "lamp"), ("new", 3, "table")]
    assert all(start > at for start, *_ in found)


def _wait_for(running: RunningQuery, happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened() and time.monotonic() < deadline:
        assert running.error is None, running.error
        time.sleep(0.1)
    assert happened()


def test_tables_that_meet_are_read_again_together(session: Session, tmp_path: Path) -> None:
    text = table_and_stream(tmp_path) + (
        f"CREATE TABLE maker (name STRING, city STRING) FROM '{tmp_path}/maker';"
        "SELECT b.item, m.city FROM (SELECT i.id, m.city FROM item i JOIN maker m ON m.name = i.name) m, bid b "
        "WHERE m.id = b.item"
    )
    lines(tmp_path / "maker" / "a.jsonl", {"name": "lamp", "city": "Rome"}, {"name": "candle", "city": "Bern"})
    running = session.sql(text)
    assert running is not None
    _until(running, [(20, 21, 1, "Rome")])
    lines(tmp_path / "item" / "a.jsonl", {"id": 1, "name": "candle"}, {"id": 3, "name": "lamp"})
    lines(tmp_path / "bid" / "b.jsonl", {"t": 40, "item": 1}, {"t": 50, "item": 3})
    _until(running, [(20, 21, 1, "Rome"), (40, 41, 1, "Bern"), (50, 51, 3, "Rome")])
    running.stop()


def test_a_field_of_csv_may_have_line_breaks(session: Session, tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text('at,note\n1,"two\nlines"\n2,"a ""quote""\r\n\nand more"\n3,open "quote\n')
    text = (
        f"CREATE STREAM s (at BIGINT, note STRING) FROM '{tmp_path}' TIMESTAMP BY at DELAY 1 HOUR; SELECT note FROM s"
    )
    running = session.sql(text, once=True)
    rows = running.finish().column("note").to_pylist()
    assert sorted(rows) == sorted(["two\nlines", 'a "quote"\r\n\nand more', 'open "quote'] * 2)
    assert running.dead_letters().num_rows == 0
