"""Empty jobs in a session with Spark's own settings: each of one task that does nothing. Prints their milliseconds.

The argument is the number of jobs that count; as many run before them.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator

from pyspark.sql import SparkSession


def nothing(_partition: int, _rows: Iterable[int]) -> Iterator[int]:
    return iter(())


def run_jobs(spark: SparkSession, jobs: int) -> Iterator[float]:
    """Run jobs of one task that does nothing; each gives its milliseconds."""
    for _ in range(jobs):
        began = time.perf_counter()
        spark.sparkContext.parallelize(range(1), 1).mapPartitionsWithIndex(nothing).collect()
        yield (time.perf_counter() - began) * 1000


if __name__ == "__main__":
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    bare = SparkSession.builder.master("local[2]").config("spark.ui.enabled", value=False).getOrCreate()
    count = int(sys.argv[1])
    list(run_jobs(bare, count))
    print(json.dumps(list(run_jobs(bare, count))), flush=True)
    bare.stop()
