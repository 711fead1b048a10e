"""Readings of two streams for the benchmark of scale, and how many pairs cross the threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.rivals_data import ALARMS, BEGIN, DISTANCE, MILLION

DENSITY = 10
"""Readings of a key and stream in the time in which a reading can meet others."""
THRESHOLD = round(2 - math.sqrt(2 * ALARMS / (MILLION / 2 * DENSITY)), 6)
ROWS_PER_FILE = MILLION // 2
FIRST = 10_000
"""Rows of each stream in the part that only starts the engine."""


def write_readings(folder: Path, *, rows: int, keys: int) -> int:
    """Write the readings to the folder `whole`, some to `first`; return the number of pairs of the whole that cross."""
    large: dict[str, list[pa.Table]] = {"a": [], "b": []}
    for part in ("first", "whole"):
        for stream in "ab":
            (folder / part / stream).mkdir(parents=True)
    for number, (stream, table) in enumerate(_tables(rows // 2, keys)):
        pq.write_table(table, folder / "whole" / stream / f"{number:05d}.parquet", compression="none")
        if number < len(large):
            pq.write_table(table.slice(0, FIRST), folder / "first" / stream / "0.parquet")
        # Values are below one, so only these can be in a pair that crosses.
        large[stream].append(table.filter(pa.array(table["value"].to_numpy() > THRESHOLD - 1)))
    a, b = (pa.concat_tables(some) for some in large.values())
    return _count_crossing(a, b)


def _tables(rows: int, keys: int) -> Iterator[tuple[str, pa.Table]]:
    random = np.random.default_rng(keys)
    step = 2 * DISTANCE / (2 * keys * DENSITY)  # between two rows of the two streams together
    for begin in range(0, rows, ROWS_PER_FILE):
        ids = np.arange(begin, min(begin + ROWS_PER_FILE, rows))
        for side, stream in enumerate("ab"):
            at = BEGIN + ((2 * ids + side) * step).astype(np.int64)
            key = random.integers(0, keys, len(ids)).astype(np.int32)
            yield stream, pa.table({"key": key, "value": random.random(len(ids)), "at": at})


def _count_crossing(a: pa.Table, b: pa.Table) -> int:
    """Count the pairs of one key that are near enough in time and cross; both tables are sorted by time."""
    key, value, at = (b[name].to_numpy() for name in ("key", "value", "at"))
    count = 0
    for row_key, row_value, row_at in zip(*(a[name].to_numpy() for name in ("key", "value", "at")), strict=True):
        near = slice(np.searchsorted(at, row_at - DISTANCE), np.searchsorted(at, row_at + DISTANCE, "right"))
        count += int(((key[near] == row_key) & (row_value + value[near] > THRESHOLD)).sum())
    return count
