"""Histories of sizes: what is in force when, what is kept, and what a file says of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.recorded import recorded

from tidegate.physical.common.codec import to_json
from tidegate.physical.common.sizes import SizeChange, SizeHistory
from tidegate.time import BEGINNING, FOREVER

CHANGES = st.lists(st.tuples(st.integers(-5, 9), st.integers(1, 3)), max_size=4, unique_by=lambda each: each[0])
TIMES = range(-8, 12)


@st.composite
def any_history(draw) -> tuple[SizeHistory, list[tuple[int, int]]]:
    changes = sorted(draw(CHANGES))
    history = SizeHistory.of(4)
    for instant, size in changes:
        history = history.changed(instant, size)
    return history, [(BEGINNING, 4), *changes]


def size_by_definition(changes: list[tuple[int, int]], time: int) -> int:
    return [size for instant, size in changes if instant <= time][-1]


@given(any_history())
def test_the_size_in_force_is_that_of_the_last_change_so_far(case) -> None:
    history, changes = case
    expected = [size_by_definition(changes, time) for time in TIMES]
    assert history.at(np.array(TIMES)).tolist() == expected
    assert [history.size_at(time) for time in TIMES] == expected


@given(any_history(), st.integers(-7, 10))
def test_a_trimmed_history_keeps_the_size_in_force(case, before) -> None:
    history, changes = case
    trimmed = history.trimmed(before)
    later = [time for time in TIMES if time >= before]
    assert [trimmed.size_at(time) for time in later] == [size_by_definition(changes, time) for time in later]
    assert all(each.instant > before for each in trimmed.changes[1:])
    assert trimmed.newest == history.newest


@given(any_history(), st.integers(-7, 10), st.integers(1, 8))
def test_in_force_during_an_interval_are_the_sizes_of_its_instants(case, begin, length) -> None:
    history, changes = case
    found = [each.size for each in history.in_force(begin, begin + length)]
    by_instant = [size_by_definition(changes, time) for time in range(begin, begin + length)]
    assert found == [size for at, size in enumerate(by_instant) if at == 0 or by_instant[at - 1] != size]


def test_a_change_comes_after_those_before_it() -> None:
    history = SizeHistory.of(4).changed(3, 2, "full")
    assert history.changes == (SizeChange(BEGINNING, 4), SizeChange(3, 2, "full"))
    assert history.changed(5, 2) is history
    with pytest.raises(ValueError, match="not after"):
        history.changed(3, 1)


@given(any_history())
def test_a_history_is_what_a_file_says_of_it(case) -> None:
    history, _ = case
    assert recorded(history) == history
    assert json.loads(json.dumps(to_json(history)))["changes"][0] == [BEGINNING, 4, ""]


def test_the_ends_of_time_have_a_size() -> None:
    history = SizeHistory.of(4).changed(3, 2)
    assert [history.size_at(time) for time in (BEGINNING, FOREVER)] == [4, 2]
    assert history.in_force(BEGINNING, FOREVER) == history.changes
