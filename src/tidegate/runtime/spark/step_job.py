"""One step as one Spark job, over RDDs of a few large rows.

DataFrames would cost more than twice as much for such a job: Spark plans and compiles each of them, and passes rows
between Python functions through Java.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark import RDD
from pyspark.sql import SparkSession

from tidegate.connectors.ranges import SourceRange
from tidegate.runtime.spark.directives import Setup, ShippedSetup, StepDirective, StepStart
from tidegate.runtime.spark.master import is_one_process
from tidegate.runtime.spark.rows import Row
from tidegate.runtime.spark.step_folder import StepFolder
from tidegate.runtime.spark.step_ranges import divide, total_bytes
from tidegate.runtime.spark.tasks import KeyedRow, LevelTask, ReadTask, WholeStep, WholeTask

PARALLEL_FROM = 8 << 20
"""On a cluster with a single bucket, one task reads everything if that is fewer bytes."""

THREADS_FROM = 1 << 20
"""On one machine, one thread reads everything if that is fewer bytes."""

MOST_THREADS = 8
"""On one machine with more cores, large steps run in several tasks: threads of Python wait for each other."""


class StepJob:
    """Runs the steps of a job in a Spark session. It takes over from the one `before` what is the same for all jobs."""

    def __init__(self, spark: SparkSession, setup: Setup, queries: str, before: StepJob | None = None) -> None:
        self.context, self.setup, self.queries = spark.sparkContext, setup, queries
        self.shipped = ShippedSetup.of(self.context, setup)
        self.cores: int = before.cores if before else self.context.defaultParallelism  # asks Java
        self.partitions: dict[int, RDD[Any]] = before.partitions if before else {}
        self._in_folder: tuple[StepFolder, RDD[Any]] | None = None

    def close(self) -> None:
        """Release what was sent to the workers."""
        self.shipped.sent.unpersist()

    def run(
        self,
        directive: StepDirective,
        start: StepStart,
        ranges: Mapping[str, Sequence[SourceRange]],
        tables: Sequence[Row],
    ) -> list[Row]:
        """Run a step; return the rows that its tasks send to the driver."""
        self.context.setJobDescription(f"tidegate: {self.queries}: {directive.label}")
        setup = self.setup
        levels = range(1, setup.graph.levels)
        if (threads := self._threads_of_whole_step(total_bytes(setup.sources, ranges))) > 0:
            return self._run_whole(WholeStep(directive, start, divide(setup.sources, ranges, threads), tables))
        rows = self._read(directive, ranges, tables)
        for some in [levels] if setup.buckets == 1 and levels else [range(level, level + 1) for level in levels]:
            task = LevelTask(self.shipped, directive, start, some)
            rows = rows.partitionBy(setup.buckets, int).mapPartitionsWithIndex(task)
        return [row for _, row in rows.collect()]

    def _run_whole(self, step: WholeStep) -> list[Row]:
        if not is_one_process(self.context.master or ""):
            task = WholeTask(self.shipped, step)
            return [row for _, row in self._make_partitions(1).mapPartitionsWithIndex(task).collect()]
        if self._in_folder is None:
            folder = StepFolder()
            self._in_folder = folder, self._make_partitions(1).mapPartitionsWithIndex(folder.task(self.shipped))
        folder, rdd = self._in_folder
        key = folder.put(step)
        rdd._jrdd.count()  # noqa: SLF001 - PySpark's own `count` makes another RDD each time
        return folder.take(key)

    def _threads_of_whole_step(self, size: int) -> int:
        """Return the number of threads that read in the one task of a step of some bytes; 0: it has several tasks."""
        if not is_one_process(self.context.master or ""):
            return 1 if self.setup.buckets == 1 and size < PARALLEL_FROM else 0
        if size < THREADS_FROM:
            return 1
        return self.cores if self.cores <= MOST_THREADS or size < PARALLEL_FROM else 0

    def _read(
        self, directive: StepDirective, ranges: Mapping[str, Sequence[SourceRange]], tables: Sequence[Row]
    ) -> RDD[KeyedRow]:
        shares = divide(self.setup.sources, ranges, self.cores)
        task = ReadTask(self.shipped, directive, shares or [[]])
        rows = self._make_partitions(len(task.ranges)).mapPartitionsWithIndex(task)
        if tables:
            rows = rows.union(self.context.parallelize([(row.bucket, row) for row in tables], 1))
        return rows

    def _make_partitions(self, number: int) -> RDD[Any]:
        """Return an RDD with a number of partitions; it is made once, as that takes as long as a small job."""
        if number not in self.partitions:
            self.partitions[number] = self.context.parallelize(range(number), number)
        return self.partitions[number]
