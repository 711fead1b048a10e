"""Subscriptions in a table that changes while trades arrive: on both runtimes, and after a restart."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidegate.runtime.running_query import RunningQuery
from tidegate.session import Session

PROGRAM = """CREATE STREAM trade (price INT, t BIGINT) FROM '{folder}/trade' TIMESTAMP BY t;
CREATE TABLE limits (id INT, low INT, high INT, n INT, active BOOLEAN) FROM '{folder}/limits';
CREATE ALERTS volume FROM trade t, limits r WHERE t.price BETWEEN r.low AND r.high WHEN COUNT(*) >= r.n
"""


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def sessions(request: pytest.FixtureRequest):
    """Return a function that opens a session."""
    runtime, spark = request.param, None
    if runtime == "spark":
        spark = request.getfixturevalue("spark")
    return lambda: Session(runtime="embedded", buckets=2) if spark is None else Session(spark=spark, buckets=2)


def write(path: Path, *rows: Mapping[str, object]) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def limit(number: int, low: int, high: int, n: int, *, active: bool = True) -> dict[str, object]:
    return {"id": number, "low": low, "high": high, "n": n, "active": active}


def trades(folder: Path, name: str, *rows: tuple[int, int]) -> None:
    write(folder / "trade" / f"{name}.jsonl", *({"t": t, "price": price} for t, price in rows))


def alarms(running: RunningQuery) -> list[tuple[int, int, int]]:
    found = running.results()
    return sorted(zip(*(found[name].to_pylist() for name in ("t_t", "r_id", "total")), strict=True))


def wait_for(running: RunningQuery, expected: list[tuple[int, int, int]]) -> None:
    deadline = time.monotonic() + 60
    while alarms(running) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alarms(running) == expected


def begin(folder: Path) -> None:
    write(folder / "limits" / "a.jsonl", limit(1, 0, 10, 3), limit(2, 5, 20, 2), limit(4, 0, 99, 1, active=False))
    trades(folder, "a", (10, 6), (20, 7), (30, 99))


def change(folder: Path) -> None:
    """Change the first subscription, keep the second, which is complete, and add a third."""
    write(folder / "limits" / "a.jsonl", limit(1, 0, 10, 4), limit(2, 5, 20, 2), limit(3, 0, 10, 2))
    trades(folder, "b", (40, 6), (50, 7), (55, 8), (58, 9), (60, 99))


FIRST, SECOND = [(20, 2, 2)], [(50, 3, 2), (58, 1, 4)]


def test_rows_that_are_added_and_removed_register_and_end(sessions, tmp_path: Path) -> None:
    begin(tmp_path)
    with sessions() as session:
        running = session.sql(PROGRAM.format(folder=tmp_path))
        assert running is not None
        wait_for(running, FIRST)
        change(tmp_path)
        wait_for(running, FIRST + SECOND)
        running.stop()
        assert not running.progress().dead


def test_a_run_that_is_started_again_knows_the_table_that_it_had(sessions, tmp_path: Path) -> None:
    begin(tmp_path)
    text, checkpoint = PROGRAM.format(folder=tmp_path), str(tmp_path / "checkpoint")
    with sessions() as session:
        running = session.sql(text, checkpoint=checkpoint)
        assert running is not None
        wait_for(running, FIRST)
        running.stop()
    change(tmp_path)
    with sessions() as session:
        running = session.sql(text, checkpoint=checkpoint)
        assert running is not None
        wait_for(running, SECOND)
        running.stop()
