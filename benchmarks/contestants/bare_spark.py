"""The least that a PySpark program can do: start a session and run one `mapInArrow`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession


def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", value=False).getOrCreate()
    print(spark.range(9).mapInArrow(same, "id BIGINT").collect(), flush=True)
    spark.stop()
