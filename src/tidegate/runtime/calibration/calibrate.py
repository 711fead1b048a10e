"""Measure the prices of work on this machine: short runs of each kind of operator, at a few sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidegate.runtime.calibration.measured_run import MeasuredRun
from tidegate.runtime.costs.learn import learn, measure_work
from tidegate.runtime.costs.prices import MeasuredWork
from tidegate.values import value

STREAMS = """
CREATE STREAM a (at BIGINT, k INT, id BIGINT, number BIGINT, value DOUBLE, name STRING) FROM 'a.csv' TIMESTAMP BY at
  KEY (id);
CREATE STREAM b (at BIGINT, k INT, id BIGINT, number BIGINT, value DOUBLE, name STRING) FROM 'b.csv' TIMESTAMP BY at;
"""

STEP = 1_000_000
"""Microseconds of application time of a step."""


@value
class CalibrationQuery:
    """A query that uses some kinds of operators, and the most rows of a step that it can take."""

    text: str
    most_rows: int = 100_000


QUERIES: Mapping[str, CalibrationQuery] = {
    "filters": CalibrationQuery("SELECT k, value FROM a WHERE value > 0.5"),
    "filters by formulas": CalibrationQuery("SELECT k FROM a WHERE value * 2 > number AND k < 10"),
    "maps": CalibrationQuery("SELECT k + 1 AS k, value * 2 AS doubled FROM a"),
    "unions": CalibrationQuery(
        "SELECT k FROM a WINDOW(RANGE 1 SECOND) UNION ALL SELECT k FROM b WINDOW(RANGE 3 SECONDS)"
    ),
    "joins": CalibrationQuery(
        "SELECT x.value, y.number FROM a WINDOW(RANGE 5 SECONDS) x, b WINDOW(RANGE 5 SECONDS) y WHERE x.k = y.k", 3_000
    ),
    "joins with few results": CalibrationQuery(
        "SELECT x.value, y.number FROM b WINDOW(RANGE 5 SECONDS) x, b WINDOW(RANGE 5 SECONDS) y "
        "WHERE x.number = y.number AND x.value < y.value"
    ),
    "joins by inequalities": CalibrationQuery(
        "SELECT x.k, y.number FROM a WINDOW(RANGE 2 SECONDS) x, b WINDOW(RANGE 2 SECONDS) y "
        "WHERE x.value < y.value - 0.99",
        2_000,
    ),
    "joins by likelier inequalities": CalibrationQuery(
        "SELECT x.k, y.number FROM a WINDOW(RANGE 2 SECONDS) x, b WINDOW(RANGE 2 SECONDS) y "
        "WHERE x.value < y.value - 0.7",
        500,
    ),
    "aggregates": CalibrationQuery("SELECT COUNT(*) AS n, AVG(value) AS mean FROM a WINDOW(RANGE 5 SECONDS)"),
    "groups": CalibrationQuery("SELECT k, SUM(value) AS s, COUNT(*) AS n FROM a WINDOW(RANGE 5 SECONDS) GROUP BY k"),
    "many groups": CalibrationQuery("SELECT number, COUNT(*) AS n FROM a WINDOW(RANGE 5 SECONDS) GROUP BY number"),
    "extremes": CalibrationQuery("SELECT k, MAX(value) AS most FROM a WINDOW(RANGE 5 SECONDS) GROUP BY k"),
    "medians": CalibrationQuery("SELECT k, MEDIAN(value) AS m FROM a WINDOW(RANGE 3 SECONDS) GROUP BY k", 1_000),
    "distinct rows": CalibrationQuery("SELECT DISTINCT k FROM a WINDOW(RANGE 5 SECONDS)"),
    "granules": CalibrationQuery(
        "SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 10 SECONDS) GRANULARITY(1 SECOND) GROUP BY k"
    ),
    "sliding windows": CalibrationQuery(
        "SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 10 SECONDS SLIDE 2 SECONDS) GROUP BY k"
    ),
    "joins of aggregates": CalibrationQuery(
        "SELECT x.n, y.value FROM (SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 5 SECONDS) GRANULARITY(1 SECOND) "
        "GROUP BY k) x, b WINDOW(RANGE 1 SECOND) y WHERE x.k = y.k",
        10_000,
    ),
    "differences": CalibrationQuery(
        "SELECT number FROM a WINDOW(RANGE 5 SECONDS) EXCEPT SELECT number FROM b WINDOW(RANGE 5 SECONDS)"
    ),
    "semi-joins": CalibrationQuery(
        "SELECT x.k FROM a WINDOW(RANGE 5 SECONDS) x WHERE NOT EXISTS "
        "(SELECT * FROM b WINDOW(RANGE 2 SECONDS) y WHERE y.number = x.number AND y.value > x.value)",
        10_000,
    ),
    "first rows": CalibrationQuery("SELECT k, value FROM a WINDOW(RANGE 3 SECONDS) ORDER BY value LIMIT 10", 1_000),
    "changes": CalibrationQuery("ISTREAM(SELECT k FROM a WINDOW(RANGE 5 SECONDS))"),
    "windows of rows": CalibrationQuery("SELECT k, value FROM a WINDOW(PARTITION BY k ROWS 10)"),
    "windows of all rows": CalibrationQuery("SELECT COUNT(*) AS n FROM a WINDOW(ROWS 1000)"),
    "alerts": CalibrationQuery(
        "CREATE ALERT hot FROM a, b WITHIN 2 SECONDS MATCHING k WHEN a.value - b.value > 0.99", 10_000
    ),
    "totals": CalibrationQuery("CREATE ALERT much FROM a t MATCHING k WHEN TOTAL(t.number) >= 1000000"),
    "keyed joins": CalibrationQuery(
        "SELECT y.name, x.value FROM b WINDOW(RANGE 5 SECONDS) x, a WINDOW(RANGE 5 SECONDS) y WHERE x.id = y.id"
    ),
    "similarity joins": CalibrationQuery(
        "SELECT x.k, y.k AS other FROM a WINDOW(RANGE 5 SECONDS) x, b WINDOW(RANGE 5 SECONDS) y "
        "WHERE ABS(x.value - y.value) < 0.0001",
        10_000,
    ),
}
"""Queries by what they measure."""

ROWS = (1, 20, 500, 5_000, 50_000)
"""Average rows of the steps that are measured, of each stream."""

WARM, COUNTED = 12, 12
"""Steps before windows are full, and steps that are measured."""

FEW_ROWS, COUNTED_OF_FEW = 20, 60
"""Rows of a step below which more steps are measured."""


def calibrate(rows: tuple[int, ...] = ROWS) -> Iterator[tuple[str, list[MeasuredWork]]]:
    """Run all queries, and yield the work of each and the seconds that it took."""
    for name, query in QUERIES.items():
        measured: list[MeasuredWork] = []
        for count in rows:
            if count <= query.most_rows:
                measured += measure_query(STREAMS + query.text, count)
        yield name, measured


def measure_query(text: str, rows: int) -> list[MeasuredWork]:
    """Run a query with a number of rows a step, and return the work of its operators in a steady state."""
    run, random = MeasuredRun(text), np.random.default_rng(rows)
    for number in range(WARM):
        run.step(_rows_of_step(number, rows, random))
    before = run.sample()
    for number in range(WARM, WARM + (COUNTED_OF_FEW if rows < FEW_ROWS else COUNTED)):
        run.step(_rows_of_step(number, rows, random))
    span = run.span_since(before)
    known = learn(run.job.graph, run.know(), span, {})
    return measure_work(run.job.graph, replace(known, factors={}), span)


def _rows_of_step(number: int, average: int, random: np.random.Generator) -> dict[str, pa.RecordBatch]:
    return {stream: _make_rows(number, average, random) for stream in ("a", "b")}


def _make_rows(number: int, average: int, random: np.random.Generator) -> pa.RecordBatch:
    rows = int(random.poisson(average))
    times = np.sort(random.integers(number * STEP, (number + 1) * STEP, rows))
    keys = random.integers(0, 50, rows)
    columns = {
        "at": pa.array(times, pa.int64()),
        "k": pa.array(keys.astype(np.int32)),
        "id": pa.array(np.arange(rows) + number * (3 * average + 20), pa.int64()),
        "number": pa.array(random.integers(1, 20_000, rows), pa.int64()),
        "value": pa.array(random.random(rows)),
        "name": pa.array([f"name {key}" for key in keys], pa.string()),
    }
    return pa.RecordBatch.from_pydict(columns)
