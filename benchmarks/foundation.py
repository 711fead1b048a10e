"""The window join and the sliding GROUP BY, beside Spark's own, on the same data in the same run.

Two streams of readings, 1,000 keys; the window is such that 100 tuples of a key are in it (both
streams together). The join keeps pairs with l.v + r.v > 1.9, the aggregate counts and sums each
key over ten slides. Rates are those of the steady state: the first micro-batches, in which
workers start and kernels are compiled or loaded, are left out on both sides alike.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from benchmarks.support.report import Report, main, say
from benchmarks.support.spark import Bench, Rate, files
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.outputs import result_rows

KEYS = 1_000
IN_WINDOW = 100
STEP = 100  # microseconds between two rows of the two streams together
SIZE = IN_WINDOW * KEYS * STEP
SLIDES = 10
BUCKETS = 2
BEGIN = 1_000 * SIZE
"""The first row's time. Spark's own watermark begins at the epoch and takes a row of that very instant as late."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured: rows of both streams together, and how many of the batches are warm-up."""

    rows: int
    batches: int
    skipped: int


FULL = Scale(rows=1_000_000, batches=8, skipped=2)
QUICK = Scale(rows=160_000, batches=4, skipped=2)

JOIN = f"""
SELECT l.k AS k, l.id AS left_id, r.id AS right_id
FROM l WINDOW(RANGE {SIZE}), r WINDOW(RANGE {SIZE})
WHERE l.k = r.k AND l.v + r.v > 1.9;
"""

AGGREGATE = f"""
SELECT k, COUNT(*) AS n, SUM(v) AS total
FROM l WINDOW(RANGE {SIZE} SLIDE {SIZE // SLIDES})
GROUP BY k;
"""


@dataclass(frozen=True, slots=True, eq=False)
class Foundation:
    """One run: its scale, and where it runs."""

    scale: Scale
    bench: Bench

    def make_data(self, name: str, rows: int) -> Path:
        """Files of both streams, as many as there are batches; times interleave, values are uniform."""
        random = np.random.default_rng(7)
        where = self.bench.folder / name
        per_file = rows // 2 // self.scale.batches
        for stream in ("l", "r"):
            (where / stream).mkdir(parents=True)
            for batch in range(self.scale.batches):
                ids = np.arange(batch * per_file, (batch + 1) * per_file)
                table = pa.table(
                    {
                        "id": ids,
                        "k": random.integers(0, KEYS, per_file).astype(np.int32),
                        "v": random.random(per_file),
                        "ts": pa.array(BEGIN + (2 * ids + (stream == "r")) * STEP, pa.timestamp("us", tz="UTC")),
                    }
                )
                pq.write_table(table, where / stream / f"{batch:04d}.parquet")
                time.sleep(0.002)  # Spark takes files in the order of their age
        return where

    def program(self, data: Path, query: str) -> str:
        streams = "".join(
            f"CREATE STREAM {s} (id BIGINT, k INT, v DOUBLE, ts TIMESTAMP) FROM '{data / s}' "
            "TIMESTAMP BY ts WITH (files_per_batch = 1);\n"
            for s in ("l", "r")
        )
        return streams + query

    def timed(self, data: Path, name: str) -> DataFrame:
        return self.bench.stream(data / name).withWatermark("ts", "0 seconds")

    def native_join(self, data: Path, rows: int) -> Rate:
        left, right = (
            self.timed(data, s).select(*(F.col(c).alias(f"{s}_{c}") for c in ("id", "k", "v", "ts"))) for s in "lr"
        )
        near = (
            f"l_ts < r_ts + INTERVAL {SIZE // 1000} MILLISECONDS AND r_ts < l_ts + INTERVAL {SIZE // 1000} MILLISECONDS"
        )
        joined = left.join(right, F.expr(f"l_k = r_k AND {near} AND l_v + r_v > 1.9"))
        return self.bench.native(
            joined.selectExpr("l_k AS k", "l_id AS left_id", "r_id AS right_id"), rows, "native-join"
        )

    def native_aggregate(self, data: Path, rows: int) -> Rate:
        size, slide = f"{SIZE // 1000} milliseconds", f"{SIZE // SLIDES // 1000} milliseconds"
        grouped = self.timed(data, "l").groupBy(F.window("ts", size, slide), "k")
        counted = grouped.agg(F.count("*").alias("n"), F.sum("v").alias("total"))
        flat = counted.selectExpr("unix_micros(window.end) AS ending", "k", "n", "total")
        return self.bench.native(flat, rows, "native-aggregate")

    def embedded(self, data: Path, query: str, rows: int) -> tuple[float, pa.Table]:
        """The same stages in this process, fed with batches that are already in memory."""
        program = bind(self.program(data, query))
        job = compile_job(program, buckets=1, sinks={})
        files = {s: [pq.read_table(f) for f in sorted((data / s).glob("*.parquet"))] for s in job.graph.streams}
        steps = [
            {s: tables[i].combine_chunks().to_batches() for s, tables in files.items()}
            for i in range(self.scale.batches)
        ]
        best = 0.0
        for _ in range(5):  # the first time kernels are compiled or loaded; others may disturb any one
            engine = Engine(job)
            began = time.perf_counter()
            boxes = [engine.step(raw)[0] for raw in steps]
            best = max(best, rows / (time.perf_counter() - began))
            boxes.append(engine.finish())
        batches = [result_rows(b) for box in boxes for _, b in box.results]
        return best, pa.Table.from_batches(batches)


def pairs(relation: str) -> tuple[int, ...]:
    """What identifies the result of the join: how many pairs, and sums over who they are."""
    found = duckdb.sql(
        f"SELECT count(*), sum(left_id), sum(right_id), sum(left_id * 31 + right_id * 17 + k) FROM {relation}"
    ).fetchall()
    return tuple(int(n or 0) for n in found[0])


def same_groups(ours: str, native: str) -> bool:
    """Whether every window that Spark closed has our count and sum at the instant it ends."""
    slide = SIZE // SLIDES
    ((compared, agreeing),) = duckdb.sql(
        f"""
        SELECT count(*), count(o.k) FROM {native} s LEFT JOIN {ours} o
        ON o.k = s.k AND epoch_us(o.valid_from) <= s.ending - 1 AND s.ending - 1 < epoch_us(o.valid_to)
           AND o.n = s.n AND abs(o.total - s.total) < 1e-6 * greatest(1, abs(s.total))
        WHERE s.ending % {slide} = 0
        """
    ).fetchall()
    say(f"  windows compared: {compared:,}")
    return bool(compared > 0 and compared == agreeing)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    scale = QUICK if quick else FULL
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    try:
        return _measure(Foundation(scale, Bench.start(folder, scale.skipped)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(run: Foundation) -> Report:
    scale, bench = run.scale, run.bench
    data = run.make_data("data", scale.rows)
    embedded_join, embedded_pairs = run.embedded(data, JOIN, scale.rows)
    say(f"embedded join: {embedded_join:,.0f} rows/s, {embedded_pairs.num_rows:,} pairs")
    embedded_groups, _ = run.embedded(data, AGGREGATE, scale.rows // 2)
    say(f"embedded aggregate: {embedded_groups:,.0f} rows/s")
    join = bench.ours(run.program(data, JOIN), scale.rows, "join", buckets=BUCKETS)
    say(f"join on Spark: {join.rows_per_s:,.0f} rows/s, state {join.state_bytes:,} bytes")
    equal = pairs(files(bench.folder / "join" / "query_1")) == _pairs_of(embedded_pairs)
    native_join = run.native_join(data, scale.rows)
    say(f"Spark's own join: {native_join.rows_per_s:,.0f} rows/s, state {native_join.state_bytes:,} bytes")
    equal &= pairs(files(bench.folder / "join" / "query_1")) == pairs(files(bench.folder / "native-join"))
    aggregate = bench.ours(run.program(data, AGGREGATE), scale.rows // 2, "aggregate", buckets=BUCKETS)
    say(f"aggregate on Spark: {aggregate.rows_per_s:,.0f} rows/s")
    native_aggregate = run.native_aggregate(data, scale.rows // 2)
    say(f"Spark's own aggregate: {native_aggregate.rows_per_s:,.0f} rows/s")
    equal &= same_groups(files(bench.folder / "aggregate" / "query_1"), files(bench.folder / "native-aggregate"))
    bench.spark.stop()
    return Report(
        "foundation",
        equal,
        {
            "join_vs_spark": join.rows_per_s / native_join.rows_per_s,
            "aggregate_vs_spark": aggregate.rows_per_s / native_aggregate.rows_per_s,
        },
        {
            "embedded_join_rows_per_s": embedded_join,
            "embedded_aggregate_rows_per_s": embedded_groups,
            "spark_join_rows_per_s": join.rows_per_s,
            "spark_own_join_rows_per_s": native_join.rows_per_s,
            "spark_aggregate_rows_per_s": aggregate.rows_per_s,
            "spark_own_aggregate_rows_per_s": native_aggregate.rows_per_s,
            "state_bytes": join.state_bytes,
            "spark_own_state_bytes": native_join.state_bytes,
            "rows": scale.rows,
            "pairs": embedded_pairs.num_rows,
        },
    )


def _pairs_of(table: pa.Table) -> tuple[int, ...]:
    duckdb.register("embedded_result", table)
    return pairs("embedded_result")


if __name__ == "__main__":
    main(measure, __doc__)
