"""How far streams have come, and which of them nobody waits for."""

from __future__ import annotations

from tidegate.runtime.watermarks import Silence, advanced
from tidegate.time import BEGINNING, FOREVER

NO_DELAY = {"a": 0, "b": 0, "c": 0, "table": 0}


def test_a_silent_stream_follows_the_slowest_that_is_awake():
    after = advanced({"a": 5, "b": 3, "c": 0}, {"a": 20, "b": 10}, NO_DELAY, idle=["c"])
    assert after == {"a": 20, "b": 10, "c": 10}


def test_a_silent_stream_never_goes_back():
    assert advanced({"a": 5, "c": 30}, {"a": 20}, NO_DELAY, idle=["c"]) == {"a": 20, "c": 30}


def test_where_all_are_silent_all_follow_the_furthest():
    assert advanced({"a": 5, "b": BEGINNING}, {}, NO_DELAY, idle=["a", "b"]) == {"a": 5, "b": 5}


def test_a_stream_that_speaks_is_not_silent():
    assert advanced({"a": 5, "b": 3}, {"a": 20, "b": 4}, NO_DELAY, idle=["b"]) == {"a": 20, "b": 4}


def test_a_table_leads_nobody():
    before = {"a": 5, "b": 3, "table": FOREVER}
    assert advanced(before, {"a": 20}, NO_DELAY, idle=["b"]) == {"a": 20, "b": 20, "table": FOREVER}


def test_silence_is_counted_from_the_last_row_or_from_the_beginning():
    silence = Silence({"a": 10, "b": 10}, began=100)
    silence.hear(["a"], 105)
    assert [silence.idle(now) for now in (109, 110, 115)] == [(), ("b",), ("a", "b")]
