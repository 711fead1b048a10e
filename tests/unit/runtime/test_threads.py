"""Work in threads gives what work in one thread gives."""

from __future__ import annotations

import random
import threading

import pyarrow as pa
import pytest

from tidegate.runtime import threads
from tidegate.runtime.threads import map_in_threads
from tidegate.session import Session

MANY = 10**9


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(threads, "core_count", lambda: 2)


def test_results_are_in_the_order_of_the_items(two_cores):
    meet = threading.Barrier(2)  # both items run at the same time, or nothing happens

    def square(number: int) -> int:
        meet.wait(60)
        return number * number

    assert map_in_threads(square, [3, 4], rows=MANY) == [9, 16]


def test_the_first_error_is_raised(two_cores):
    def fail(number: int) -> None:
        raise ValueError(str(number))

    with pytest.raises(ValueError, match=r"^1$"):
        map_in_threads(fail, [1, 2], rows=MANY)


def test_little_work_runs_in_this_thread(two_cores):
    assert map_in_threads(lambda _: threading.current_thread(), [1, 2], rows=1) == [threading.current_thread()] * 2


def outcome(rows: int, monkeypatch) -> tuple[list[object], list[object]]:
    """Results and dead letters of some queries, if work over at least as many rows is done in threads."""
    monkeypatch.setattr(threads, "FEWEST_ROWS", rows)
    dice = random.Random(1)
    with Session(runtime="embedded", buckets=3) as session:
        for name in "ab":
            data = {"k": [dice.randrange(9) for _ in range(300)], "v": [dice.randrange(3) for _ in range(300)]}
            session.stream(name, pa.table({**data, "at": list(range(1000, 1300))}), time="at")
        found, dead = [], []
        for text in (
            "SELECT a.k, a.v / b.v AS share FROM a WINDOW(RANGE 20), b WINDOW(RANGE 20) WHERE a.k = b.k",
            "SELECT k, COUNT(*) AS n FROM (SELECT DISTINCT k, v FROM a WINDOW(RANGE 50)) GROUP BY k",
            "SELECT k FROM a WINDOW(RANGE 9) EXCEPT SELECT k FROM b WINDOW(RANGE 9)",
        ):
            running = session.sql(text, once=True)
            assert running is not None
            running.finish()
            found.append(running.results().to_pylist())
            dead.append(running.dead_letters().to_pylist())
    return found, dead


def test_queries_in_threads_give_the_same_rows_in_the_same_order(two_cores, monkeypatch):
    assert outcome(0, monkeypatch) == outcome(MANY, monkeypatch)
