"""The alert over two streams beside Spark's own stream-stream join, on the same data in the same run.

100 keys; independent uniform values; l.v + r.v > T, with T such that some hundreds of pairs cross it.
`density` is how many tuples of a key and a stream are in an interval of twice the distance: a new tuple
meets so many of the other stream.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from benchmarks.support.report import say
from benchmarks.support.spark import Bench, Rate, files

KEYS = 100
STEP = 100  # microseconds between two rows of the two streams together
BEGIN = 1_767_225_600_000_000
ALARMS = 400
"""So many pairs cross the threshold, on average."""
COLUMNS = "k, l_id, l_at, r_id, r_at, value"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one density: rates, how many alarms there were, and whether they are right."""

    ours: Rate
    native: Rate
    alarms: int
    crossing: int
    native_alarms: int
    equal: bool


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """One density: rows of both streams together, cut into so many batches; Spark's own has so many seconds."""

    bench: Bench
    density: int
    rows: int
    batches: int
    limit: float

    @property
    def name(self) -> str:
        return f"d{self.density}"

    @property
    def distance(self) -> int:
        """In microseconds; in twice as long come so many rows of each of the two streams, for every key."""
        return self.density * KEYS * STEP

    @property
    def threshold(self) -> float:
        pairs = self.rows / 2 * self.density
        # A sum of two uniform numbers is above 2 - e with a probability of e²/2.
        return round(2 - math.sqrt(2 * ALARMS / pairs), 6)

    @property
    def data(self) -> Path:
        return self.bench.folder / self.name

    def measure(self) -> Outcome:
        self.make_data()
        ours = self.bench.ours(self.program(), self.rows, f"{self.name}-ours")
        say(f"{self.name}: {ours.rows_per_s:,.0f} rows/s, state {ours.state_bytes:,} bytes, {ours.state_rows:,} rows")
        native = self.native()
        say(f"  Spark's own: {native.rows_per_s:,.0f}, {native.state_bytes:,} bytes, {native.state_rows:,} rows")
        return self.compared(ours, native)

    def make_data(self) -> None:
        """Files of both streams, as many as there are batches; times interleave."""
        random = np.random.default_rng(self.density)
        per_file = self.rows // 2 // self.batches
        for stream in ("l", "r"):
            (self.data / stream).mkdir(parents=True)
        for batch in range(self.batches):
            ids = np.arange(batch * per_file, (batch + 1) * per_file)
            for stream in ("l", "r"):
                table = pa.table(
                    {
                        "id": ids,
                        "k": random.integers(0, KEYS, per_file).astype(np.int32),
                        "v": random.random(per_file),
                        "ts": pa.array(BEGIN + (2 * ids + (stream == "r")) * STEP, pa.timestamp("us", tz="UTC")),
                    }
                )
                pq.write_table(table, self.data / stream / f"{batch:04d}.parquet")
            time.sleep(0.002)  # Spark takes files in the order of their age

    def program(self) -> str:
        streams = "".join(
            f"CREATE STREAM {s} (id BIGINT, k INT, v DOUBLE CHECK (v BETWEEN 0 AND 1), ts TIMESTAMP) "
            f"FROM '{self.data / s}' TIMESTAMP BY ts WITH (files_per_batch = 1);\n"
            for s in ("l", "r")
        )
        return streams + (
            f"CREATE ALERT alarms FROM l, r WITHIN {self.distance} MICROSECONDS MATCHING k "
            f"WHEN l.v + r.v > {self.threshold};"
        )

    def native(self) -> Rate:
        left, right = (
            self.bench.stream(self.data / s)
            .withWatermark("ts", "0 seconds")
            .select(*(F.col(c).alias(f"{s}_{c}") for c in ("id", "k", "v", "ts")))
            for s in "lr"
        )
        length = f"INTERVAL {self.distance // 1000} MILLISECONDS"
        near = f"l_ts <= r_ts + {length} AND r_ts <= l_ts + {length}"
        joined = left.join(right, F.expr(f"l_k = r_k AND {near} AND l_v + r_v > {self.threshold}"))
        flat = joined.selectExpr("l_k AS k", "l_id", "r_id")
        return self.bench.native(flat, self.rows, f"{self.name}-native", limit=self.limit, batches=self.batches)

    def compared(self, ours: Rate, native: Rate) -> Outcome:
        """Ours are true; and for every pair that crosses, found by Spark's own join or not, there is one of ours."""
        with duckdb.connect() as database:
            for stream in "lr":
                # Others cannot cross, whatever they meet: values are below one.
                database.sql(
                    f"CREATE TABLE {stream} AS SELECT id, k, v, epoch_us(ts) AS at FROM {files(self.data / stream)} "
                    f"WHERE v > {self.threshold} - 1"
                )
            database.sql(
                f"CREATE TABLE crossing AS SELECT l.k, l.id AS l_id, l.at AS l_at, r.id AS r_id, r.at AS r_at, "
                f"l.v + r.v AS value FROM l JOIN r ON l.k = r.k AND abs(l.at - r.at) <= {self.distance} "
                f"WHERE l.v + r.v > {self.threshold}"
            )
            database.sql(
                f"CREATE TABLE ours AS SELECT k, l_id, epoch_us(l_ts) AS l_at, r_id, epoch_us(r_ts) AS r_at, value "
                f"FROM {files(self.bench.folder / f'{self.name}-ours' / 'alarms')}"
            )
            database.register("native", self._published())
            near = " AND ".join(f"abs(o.{x}_at - c.{x}_at) <= {2 * self.distance}" for x in "lr")
            alarms, crossing, by_spark, false, missed, strange = (
                int(database.sql(f"SELECT count(*) FROM ({rows})").fetchall()[0][0])
                for rows in (
                    "FROM ours",
                    "FROM crossing",
                    "FROM native",
                    f"SELECT {COLUMNS} FROM ours EXCEPT SELECT {COLUMNS} FROM crossing",
                    f"FROM crossing c ANTI JOIN ours o ON o.k = c.k AND o.value >= c.value AND {near}",
                    "SELECT k, l_id, r_id FROM native EXCEPT SELECT k, l_id, r_id FROM crossing",
                )
            )
        say(f"  {alarms:,} alarms; {crossing:,} pairs cross; Spark's own found {by_spark:,}")
        say(f"  false: {false}, missed: {missed}, of Spark's own not found by brute force: {strange}")
        equal = crossing > 0 and false == missed == strange == 0
        return Outcome(ours, native, alarms, crossing, by_spark, equal)

    def _published(self) -> pa.Table:
        """What Spark's own join has written in the batches that it finished."""
        schema = "k INT, l_id BIGINT, r_id BIGINT"
        return self.bench.spark.read.schema(schema).parquet(str(self.bench.folder / f"{self.name}-native")).toArrow()
