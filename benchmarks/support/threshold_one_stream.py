"""An alert on one stream whose function takes a millisecond: how often it is called, and what that saves."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from benchmarks.support.report import say
from tidegate.physical.threshold_alert.kernels.brackets import find_bracketed
from tidegate.session import Session

WINDOW = 1_000
"""Readings in a window: one in each microsecond."""

BEGAN = 1_767_225_600_000_000
"""The time of the first reading, in microseconds: the beginning of 2026."""

THRESHOLD = 0.999
SECONDS = 0.001
"""What a call takes."""


@dataclass(slots=True)
class CostlyFunction:
    """A rising function that takes its time, and counts its calls."""

    calls: list[float] = field(default_factory=list)

    def __call__(self, value: float) -> float:
        self.calls.append(value)
        time.sleep(SECONDS)
        return value


@dataclass(frozen=True, slots=True)
class OneStreamOutcome:
    """Calls and seconds of an alert, and whether its alarms are those of a brute-force computation."""

    equal: bool
    share: float
    seconds: float
    seconds_without: float
    """What all calls together take at least."""


def measure_one_stream(rows: int) -> OneStreamOutcome:
    """Run an alert over uniform values, with WITHIN as long as a thousand of them take."""
    values = np.random.default_rng(20).random(rows)
    function = CostlyFunction()
    with Session(runtime="embedded") as session:
        session.function("costly", function, arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
        session.stream("reading", pa.table({"value": values, "at": BEGAN + np.arange(rows)}), time="at")
        text = (
            f"CREATE ALERT hot FROM reading r WITHIN {WINDOW} MICROSECONDS "
            f"WHEN costly(r.value) > {THRESHOLD} ASSUME QUASICONVEX"
        )
        began = time.perf_counter()
        running = session.sql(text, once=True)
        assert running is not None
        alarms = running.finish()
        seconds = time.perf_counter() - began
    found = np.sort(alarms["r_at"].combine_chunks().cast(pa.int64()).to_numpy(zero_copy_only=False)) - BEGAN
    equal = np.array_equal(found, _alarms(values)) and len(function.calls) == _needed(values).sum()
    share = len(function.calls) / rows
    say(f"one stream: {len(function.calls):,} of {rows:,} readings needed a call ({share:.2%}), {seconds:.2f} s")
    return OneStreamOutcome(bool(equal), share, seconds, rows * SECONDS)


def _needed(values: np.ndarray) -> np.ndarray:
    rows = len(values)
    group, times = np.zeros(rows, np.int64), np.arange(rows)
    bracketed = find_bracketed(group, times, values, window=WINDOW, strict=False, above=True, below=True)
    return ~bracketed


def _alarms(values: np.ndarray) -> np.ndarray:
    return np.flatnonzero(_needed(values) & (values > THRESHOLD))
