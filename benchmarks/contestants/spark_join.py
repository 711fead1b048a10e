"""Spark's own join of two streams. It is slow, so its rate is that of the micro-batches after the first of one run."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from benchmarks.contestants.protocol import Answer, Task, read_task, write_answer
from tidegate.runtime.spark.session import start_spark

SCHEMA = "id BIGINT, key INT, value DOUBLE, at BIGINT"


def join(spark: SparkSession, task: Task) -> DataFrame:
    """One file of each stream is a micro-batch. A row of the last instant of a batch may be in the next one."""
    a, b = (
        spark.readStream.schema(SCHEMA)
        .option("header", value=True)
        .option("maxFilesPerTrigger", 1)
        .csv(f"{task.whole.folder}/{stream}")
        .select(*(F.col(c).alias(f"{stream}_{c}") for c in ("id", "key", "value")), _time(stream))
        .withWatermark(f"{stream}_ts", "1 second")
        for stream in "ab"
    )
    near = f"INTERVAL {task.distance // 1_000_000} SECONDS"
    condition = (
        f"a_key = b_key AND a_ts <= b_ts + {near} AND b_ts <= a_ts + {near} AND a_value + b_value > {task.threshold}"
    )
    return a.join(b, F.expr(condition)).select("a_id", "b_id")


def _time(stream: str) -> F.Column:
    return F.timestamp_micros("at").alias(f"{stream}_ts")


def main() -> None:
    task = read_task()
    spark = start_spark("local[2]", name="benchmark")
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    with TemporaryDirectory(prefix="tidegate-bench-") as folder:
        began = time.time()
        query = (
            join(spark, task)
            .writeStream.format("parquet")
            .option("path", f"{folder}/out")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        lasted = [p["durationMs"]["triggerExecution"] / 1000 for p in query.recentProgress if p["numInputRows"]]
        alarms = [
            (row[0], row[1]) for row in spark.read.schema("a_id BIGINT, b_id BIGINT").parquet(f"{folder}/out").collect()
        ]
    batches = len(list(Path(task.whole.folder, "a").iterdir()))
    rows = task.whole.rows // batches * (batches - 1)
    write_answer(Answer(began - task.spawned + lasted[0], rows, sum(lasted[1:]), alarms))
    spark.stop()


if __name__ == "__main__":
    main()
