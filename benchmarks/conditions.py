"""How many combinations of elements a condition decides each second, in one process on one core.

An alert on a sum of two streams that asks for every combination (EMIT ALL), at 10, 100 and 1,000 readings of the other
stream within reach; and joins by a condition, with and without a key: how many pairs of valid elements they look at,
or exclude by the bounds of their values. What is found is counted again in NumPy.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.support.report import Report, main, say
from tidegate import Session
from tidegate.runtime.running_query import RunningQuery

KEYS = 100
BEGIN = 1_767_225_600_000_000
REACH = 30_000_000
ALARMS = 400
"""Average number of combinations that cross the threshold."""

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Holds = Callable[[Floats, Floats], Mask]


@dataclass(frozen=True, slots=True)
class Scale:
    rows: int
    join_rows: int
    repeats: int


FULL = Scale(rows=1_000_000, join_rows=400_000, repeats=3)
QUICK = Scale(rows=100_000, join_rows=60_000, repeats=2)


@dataclass(frozen=True, slots=True, eq=False)
class Stream:
    """Readings in the order of time."""

    key: Ints
    value: Floats
    time: Ints

    @property
    def table(self) -> pa.Table:
        return pa.table({"key": self.key, "value": self.value, "at": self.time})


def streams(rows: int, density: float, keys: int) -> tuple[Stream, Stream]:
    """Two streams of which `density` readings of a key lie within reach before or after each."""
    random, gap = np.random.default_rng(7), 2 * REACH / density / keys
    half = rows // 2

    def one() -> Stream:
        times = BEGIN + np.sort(random.integers(0, int(half * gap), half))
        return Stream(random.integers(0, keys, half), random.random(half), times)

    return one(), one()


def threshold(pairs: float) -> float:
    """A sum of two uniform numbers is above 2 - e with a probability of e²/2."""
    return round(2 - math.sqrt(2 * ALARMS / pairs), 6)


def count_pairs(a: Stream, b: Stream, before: int, after: int, holds: Holds) -> tuple[int, int]:
    """Count pairs of one key with times near each other, and those for which a condition holds, plainly."""
    pairs, crossing = 0, 0
    for key in np.unique(a.key):
        mine, other = a.key == key, b.key == key
        times, values = b.time[other], b.value[other]
        begin = np.searchsorted(times, a.time[mine] - before)
        end = np.searchsorted(times, a.time[mine] + after, side="right")
        pairs += int((end - begin).sum())
        for value, low, high in zip(a.value[mine], begin, end, strict=True):
            crossing += int(holds(value, values[low:high]).sum())
    return pairs, crossing


def run(text: str, a: Stream, b: Stream, repeats: int) -> tuple[float, int]:
    """Return the seconds of the fastest run after one that warms up, and the number of results."""
    best, many = math.inf, 0
    for _ in range(repeats + 1):
        session = Session(runtime="embedded")
        session.stream("a", a.table, time="at")
        session.stream("b", b.table, time="at")
        began = time.perf_counter()
        query = session.sql(text, once=True)
        assert isinstance(query, RunningQuery)
        many = query.finish().num_rows
        best = min(best, time.perf_counter() - began)
        session.close()
    return best, many


def measure_alert(scale: Scale, density: int, figures: dict[str, float]) -> bool:
    a, b = streams(scale.rows, density, KEYS)
    limit = threshold(scale.rows / 2 * density)
    text = f"CREATE ALERT alarms FROM a, b WITHIN 30 SECONDS MATCHING key WHEN a.value + b.value > {limit} EMIT ALL"
    seconds, found = run(text, a, b, scale.repeats)
    pairs, crossing = count_pairs(a, b, REACH, REACH, lambda x, y: x + y > limit)
    figures[f"alert_all_{density}_rows_per_s"] = scale.rows / seconds
    figures[f"alert_all_{density}_pairs_per_s"] = pairs / seconds
    say(f"alert, {density} within reach: {scale.rows / seconds:,.0f} rows/s, {found} alarms")
    return found == crossing


CONDITIONS: dict[str, tuple[str, Callable[[Floats, Floats, float], Mask]]] = {
    "sum": ("a.value + b.value > {0}", lambda x, y, c: x + y > c),
    "weighted": ("a.value * 0.5 + b.value * 1.5 > {0}", lambda x, y, c: x * 0.5 + y * 1.5 > c),
    "mixed": (
        "a.value * b.value > {0} OR a.value - 2 * b.value > 0.9999",
        lambda x, y, c: (x * y > c) | (x - 2 * y > 0.9999),
    ),
}
"""Conditions by name, as text and in NumPy."""


def measure_join(scale: Scale, name: str, keys: int, figures: dict[str, float]) -> bool:
    rows = scale.join_rows
    a, b = streams(rows, 2_000, keys)
    text, holds = CONDITIONS[name]
    limit = {"sum": threshold(rows / 2 * 2_000), "weighted": 1.9995, "mixed": 0.9995}[name]
    window = "WINDOW(RANGE 30 SECONDS)"
    equal = "a.key = b.key AND " if keys > 1 else ""
    query = f"SELECT a.value AS x, b.value AS y FROM a {window}, b {window} WHERE {equal}({text.format(limit)})"
    seconds, found = run(query, a, b, scale.repeats)
    pairs, crossing = count_pairs(a, b, REACH - 1, REACH - 1, lambda x, y: holds(x, y, limit))
    label = f"{'join' if keys > 1 else 'theta'}_{name}"
    figures[f"{label}_pairs_per_s"] = pairs / seconds
    say(f"{label}: {pairs / seconds:,.0f} pairs/s, {rows / seconds:,.0f} rows/s, {found} results")
    return found == crossing


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    scale, figures = QUICK if quick else FULL, dict[str, float]()
    equal = [measure_alert(scale, density, figures) for density in (10, 100, 1_000)]
    equal += [measure_join(scale, name, keys, figures) for keys in (KEYS, 1) for name in CONDITIONS]
    pairs = [figures[name] for name in figures if name.startswith(("join_", "theta_"))]
    return Report("conditions", all(equal), {"pairs_vs_300_million": min(pairs) / 3e8}, figures)


if __name__ == "__main__":
    main(measure, __doc__ or "")
