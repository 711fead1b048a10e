"""What benchmarks on Spark have in common: our queries and Spark's own, measured in the same way."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.runtime.spark.session import start_spark
from tidegate.session import Session

PARTITIONS = 2
"""Of Spark's own shuffles: one for each core."""


@dataclass(frozen=True, slots=True)
class Rate:
    """Of a query in its steady state, and the most that it kept between two micro-batches."""

    rows_per_s: float
    state_bytes: int = 0
    state_rows: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Bench:
    """A Spark session, and a folder for data and results.

    Rates are those of the steady state: the first micro-batches, in which workers start and kernels
    are compiled or loaded, are left out on both sides alike. All batches have the same number of rows.
    """

    folder: Path
    skipped: int
    spark: SparkSession

    @staticmethod
    def start(folder: Path, skipped: int) -> Bench:
        spark = start_spark("local[2]", name="benchmark")
        spark.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))
        return Bench(folder, skipped, spark)

    def ours(self, program: str, rows: int, out: str, *, buckets: int | None = None) -> Rate:
        """Our stages on Spark, results and state in files."""
        with Session(spark=self.spark, buckets=buckets) as session:
            running = session.sql(program, once=True, out=str(self.folder / out), format="parquet")
            assert running is not None
            running.wait()
            progress = running.progress()
            took = [step.seconds for step in progress.recent_steps if step.rows]
            return Rate(self.steady(took, rows), progress.peak_state_bytes, progress.peak_state_rows)

    def native(
        self, frame: DataFrame, rows: int, out: str, *, limit: float | None = None, batches: int | None = None
    ) -> Rate:
        """Spark's own operators, results in files.

        After `limit` seconds it is stopped, but not before it has finished a batch that counts; then the rate
        is that of the batches it has finished, of so many in all.
        """
        writer = frame.writeStream.format("parquet").option("path", str(self.folder / out))
        query = (
            writer.option("checkpointLocation", str(self.folder / f"{out}-checkpoint"))
            .outputMode("append")
            .trigger(availableNow=True)
            .start()
        )
        if limit is None:
            query.awaitTermination()
        else:
            self._stop_after(query, limit)
        kept = {
            figure: max((s[figure] for p in query.recentProgress for s in p["stateOperators"]), default=0)
            for figure in ("memoryUsedBytes", "numRowsTotal")
        }
        return Rate(self.steady(_finished(query), rows, batches), kept["memoryUsedBytes"], kept["numRowsTotal"])

    def _stop_after(self, query: StreamingQuery, limit: float) -> None:
        ended = query.awaitTermination(limit)  # type: ignore[arg-type]  # fractions are fine
        while not ended and len(_finished(query)) <= self.skipped:
            ended = query.awaitTermination(1)
        if not ended:
            self.spark.sparkContext.setLogLevel("OFF")  # that tasks were killed is no news
            query.stop()
            time.sleep(2)
            self.spark.sparkContext.setLogLevel("ERROR")

    def stream(self, folder: Path) -> DataFrame:
        """The files of a folder as a stream, one a micro-batch."""
        schema = self.spark.read.parquet(str(folder)).schema
        return self.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))

    def steady(self, lasted: list[float], rows: int, batches: int | None = None) -> float:
        """Rows per second of the batches after the first ones, or of `batches` in all if some were not finished.

        `lasted` has the seconds of each finished batch.
        """
        steady = lasted[self.skipped :]
        return rows / (batches or len(lasted)) * len(steady) / sum(steady)


def _finished(query: StreamingQuery) -> list[float]:
    """How many seconds each finished micro-batch with rows took."""
    return [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"] > 0]


def files(folder: Path) -> str:
    """Parquet files of a folder, for DuckDB."""
    return f"read_parquet('{folder}/*.parquet')"
