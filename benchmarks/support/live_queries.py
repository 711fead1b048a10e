"""Queries of ten shapes over one stream of readings, and the readings.

The queries of a shape differ in a constant. In eight shapes it is in HAVING, above an aggregate that all queries of the
shape share; in two shapes it is in WHERE, over the stream itself. Constants are such that about one row in a hundred
is a result, as for queries that watch for something rare.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

ROOMS, SENSORS = 50, 1_000


@dataclass(frozen=True, slots=True)
class Shape:
    """A query with a constant, which is greater by a step from variant to variant."""

    text: str
    first: float
    step: float

    def variant(self, number: int) -> str:
        return self.text.format(round(self.first + number * self.step, 6))


_LAST = "FROM reading WINDOW(RANGE {size})"


def _aggregate(selected: str, size: str, having: str, constants: tuple[float, float], keys: str = "room") -> Shape:
    source = _LAST.format(size=size)
    grouped = f" GROUP BY {keys}" if keys else ""
    return Shape(f"SELECT {selected} {source}{grouped} HAVING {having} {{}}", *constants)


SHAPES = (
    _aggregate("room, AVG(celsius) AS a", "3 SECONDS", "AVG(celsius) >", (20.4, 0.002)),
    _aggregate("room, MAX(celsius) AS a", "5 SECONDS", "MAX(celsius) <", (39.95, 0.0001)),
    _aggregate("sensor, COUNT(*) AS n", "2 SECONDS", "COUNT(*) >", (120, 0.2), "sensor"),
    _aggregate("room, SUM(watt) AS w", "2 SECONDS", "SUM(watt) >", (41_000, 5)),
    _aggregate("MIN(celsius) AS a", "1 SECOND", "MIN(celsius) >", (0.003, 0.00001), ""),
    _aggregate("room, AVG(celsius) AS a, AVG(watt) AS w", "2 SECONDS", "AVG(celsius) >", (20.5, 0.002)),
    _aggregate("room, sensor, MAX(watt) AS w", "1 SECOND", "MAX(watt) >", (39.6, 0.003), "room, sensor"),
    Shape(
        "SELECT x.room, COUNT(*) AS n "
        "FROM reading WINDOW(RANGE 20 MILLISECONDS) x, reading WINDOW(RANGE 20 MILLISECONDS) y "
        "WHERE x.sensor = y.sensor AND x.celsius < y.celsius GROUP BY x.room HAVING COUNT(*) > {}",
        20,
        0.1,
    ),
    Shape("SELECT sensor, celsius FROM reading WHERE room = 17 AND celsius > {}", 30, 0.05),
    Shape("SELECT room, sensor, watt FROM reading WHERE celsius + watt > {}", 76, 0.02),
)
VARIANTS = 100
STAYING = SHAPES[0].variant(0)
"""The query that is compared with itself run alone."""


def live_queries(count: int) -> Iterator[tuple[str, str]]:
    """Yield names and texts of queries, of all shapes in turn."""
    for number in range(count):
        yield f"q{number}", SHAPES[number % len(SHAPES)].variant(number // len(SHAPES) % VARIANTS)


def create_query(name: str, text: str) -> str:
    return f"CREATE QUERY {name} AS {text}"


def create_stream(folder: Path) -> str:
    return (
        "CREATE STREAM reading (at BIGINT, room INT, sensor INT, celsius DOUBLE, watt DOUBLE) "
        f"FROM '{folder}/*.csv' TIMESTAMP BY at;"
    )


def readings(rows: int, begin: int, rows_per_s: int, seed: int) -> pa.Table:
    """Return readings at a steady rate, from an instant in microseconds on."""
    generator = np.random.default_rng(seed)
    return pa.table(
        {
            "at": begin + np.arange(rows, dtype=np.int64) * (1_000_000 // rows_per_s),
            "room": generator.integers(0, ROOMS, rows, dtype=np.int32),
            "sensor": generator.integers(0, SENSORS, rows, dtype=np.int32),
            "celsius": np.round(generator.uniform(0, 40, rows), 3),
            "watt": np.round(generator.uniform(0, 40, rows), 3),
        }
    )


def write_readings(path: Path, rows: pa.Table) -> None:
    """Write a file that appears as a whole."""
    part = path.with_suffix(".part")
    csv.write_csv(rows, part)
    part.rename(path)
