"""How far streams have come, and which of them nobody waits for."""

from __future__ import annotations

from tidegate.runtime.watermarks import SilenceTracker, advance_watermarks
from tidegate.time import BEGINNING, FOREVER

NO_DELAY = {"a": 0, "b": 0, "c": 0, "table": 0}


def test_a_silent_stream_follows_the_slowest_that_is_awake():
    after = advance_watermarks({"a": 5, "b": 3, "c": 0}, {"a": 20, "b": 10}, NO_DELAY, idle={"c": BEGINNING})
    assert after == {"a": 20, "b": 10, "c": 10}


def test_a_silent_stream_never_goes_back():
    assert advance_watermarks({"a": 5, "c": 30}, {"a": 20}, NO_DELAY, idle={"c": BEGINNING}) == {"a": 20, "c": 30}


def test_where_all_are_silent_all_follow_the_furthest():
    assert advance_watermarks({"a": 5, "b": BEGINNING}, {}, NO_DELAY, idle={"a": BEGINNING, "b": BEGINNING}) == {
        "a": 5,
        "b": 5,
    }


def test_a_stream_that_speaks_is_not_silent():
    assert advance_watermarks({"a": 5, "b": 3}, {"a": 20, "b": 4}, NO_DELAY, idle={"b": BEGINNING}) == {"a": 20, "b": 4}


def test_a_table_leads_nobody():
    before = {"a": 5, "b": 3, "table": FOREVER}
    assert advance_watermarks(before, {"a": 20}, NO_DELAY, idle={"b": BEGINNING}) == {
        "a": 20,
        "b": 20,
        "table": FOREVER,
    }


def test_where_all_are_silent_time_goes_on_with_the_clock():
    assert advance_watermarks({"a": 5, "b": 3}, {}, NO_DELAY, idle={"a": 17, "b": 17}) == {"a": 17, "b": 17}


def test_an_idle_stream_does_not_overtake_one_that_is_awake():
    assert advance_watermarks({"a": 5, "b": 3}, {}, NO_DELAY, idle={"b": 17}) == {"a": 5, "b": 5}


def test_streams_that_never_meet_do_not_wait_for_each_other():
    before, apart = {"a": 5, "b": 3, "c": 1}, [frozenset("ac"), frozenset("b")]
    after = advance_watermarks(before, {"a": 30}, NO_DELAY, {"b": 17, "c": BEGINNING}, apart)
    assert after == {"a": 30, "b": 17, "c": 30}


# --- silence, by the clock


def silence(stood: dict[str, int], began: int = 100, **idle_after: int) -> SilenceTracker:
    return SilenceTracker(idle_after, began, (frozenset(stood),), dict(stood))


def test_silence_is_counted_from_the_last_row_or_from_the_beginning():
    listening = silence({"a": 0, "b": 0}, a=10, b=10)
    listening.note_rows(["a"], {"a": 0, "b": 0}, 105)
    assert [tuple(sorted(listening.idle_streams(now))) for now in (109, 110, 115)] == [(), ("b",), ("a", "b")]


def test_time_goes_on_from_where_it_stood_when_the_last_row_came():
    listening = silence({"a": 0}, a=10)
    listening.note_rows(["a"], {"a": 1_000}, 105)
    assert [listening.idle_streams(now) for now in (114, 115, 120)] == [{}, {"a": 1_000}, {"a": 1_005}]


def test_time_goes_on_from_the_furthest_once_the_last_stream_is_idle():
    listening = silence({"a": BEGINNING, "b": BEGINNING}, a=10, b=60)
    listening.note_rows(["a"], {"a": 1_000, "b": BEGINNING}, 105)
    listening.note_rows(["b"], {"a": 1_000, "b": 900}, 110)
    assert listening.idle_streams(169) == {"a": BEGINNING}
    assert listening.idle_streams(175) == {"a": 1_005, "b": 1_005}


def test_time_does_not_go_on_while_a_stream_is_waited_for():
    assert silence({"a": 0, "b": 0}, a=10).idle_streams(200) == {"a": BEGINNING}


def test_time_goes_on_by_the_clock_beside_a_table():
    assert silence({"a": 0, "table": FOREVER}, a=10).idle_streams(200) == {"a": 90}


def test_the_clock_moves_nothing_before_the_first_row_or_when_all_is_read_once():
    assert silence({"a": BEGINNING}, a=10).idle_streams(200) == {"a": BEGINNING}
    assert silence({"a": 0}, a=10).idle_streams(200, by_clock=False) == {"a": BEGINNING}


def test_a_run_that_is_started_again_counts_silence_from_its_start():
    listening = silence({"a": 1_000}, began=5_000, a=10)
    assert [listening.idle_streams(now) for now in (5_009, 5_010, 5_011)] == [{}, {"a": 1_000}, {"a": 1_001}]
