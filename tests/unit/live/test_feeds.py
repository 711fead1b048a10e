"""Feeds: bounded, several per query, and they say what was lost."""

from __future__ import annotations

import threading

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.live.feeds import ResultFeed

SCHEMA = pa.schema({"n": pa.int64()})


def batch(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(numbers)}, schema=SCHEMA)


def numbers(batches) -> list[int]:
    return [n for each in batches for n in each.column("n").to_pylist()]


@given(st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=12), st.integers(1, 6))
def test_a_reader_gets_the_newest_rows_in_order_and_the_others_are_counted(moves, most_rows):
    """A move offers that many rows, or reads one batch."""
    feed, offered, read = ResultFeed(SCHEMA, most_rows=most_rows), 0, []
    lost: list[int] = []
    waiting: list[int] = []
    for move in moves:
        if move is None:
            got = feed.next(0)
            rows = [] if got is None else numbers([got])
            assert waiting[: len(rows)] == rows
            assert bool(rows) == bool(waiting)
            read += rows
            waiting = waiting[len(rows) :]
        else:
            new = list(range(offered, offered + move))
            offered += move
            feed.add(batch(*new))
            waiting += new
            excess = max(0, len(waiting) - most_rows)
            lost, waiting = lost + waiting[:excess], waiting[excess:]
    feed.close()
    assert numbers(feed) == waiting
    assert feed.dropped == len(lost)
    assert sorted(read + lost + waiting) == list(range(offered))


def test_next_returns_none_after_the_timeout_and_after_the_end():
    feed = ResultFeed(SCHEMA)
    assert (feed.next(0.001), feed.closed) == (None, False)
    feed.add(batch(1))
    feed.end()
    assert feed.closed
    assert numbers([feed.next(None)]) == [1]
    assert feed.next(None) is None
    feed.add(batch(2))
    assert feed.next(0) is None


def test_a_reader_that_waits_is_woken_by_rows_and_by_the_end():
    feed, got = ResultFeed(SCHEMA), []
    reader = threading.Thread(target=lambda: got.extend(numbers(feed)))
    reader.start()
    feed.add(batch(1, 2))
    feed.add(batch(3))
    feed.end()
    reader.join(60)
    assert not reader.is_alive()
    assert got == [1, 2, 3]


def test_an_observer_is_called_for_rows_and_the_end_and_for_what_came_before():
    feed, calls = ResultFeed(SCHEMA), []
    feed.add(batch(1))
    feed.call_on_change(lambda: calls.append(feed.closed))
    feed.add(batch(2))
    feed.end()
    assert calls == [False, False, True]
