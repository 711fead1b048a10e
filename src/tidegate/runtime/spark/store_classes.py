"""Make the class-data archive of Spark's Java process."""

from __future__ import annotations

import os
from pathlib import Path

from pyspark.sql import SparkSession

from tidegate.errors import DataError
from tidegate.runtime.spark.class_archive import QUIET, archive_path
from tidegate.runtime.spark.gateway import java_process
from tidegate.runtime.spark.java import ensure_java
from tidegate.runtime.spark.session import start_spark


def store_classes() -> Path:
    """Start Spark, run a small query, and store the classes that Java has loaded by then; return the archive."""
    archive = archive_path(ensure_java())
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_suffix(f".{os.getpid()}.part")
    spark = start_spark("local[2]", java_options=[f"-XX:ArchiveClassesAtExit={draft}", *QUIET])
    process = java_process()
    if process is None or process.stdin is None:
        raise DataError("D411", "the classes of a Java process that this process did not start cannot be stored")
    _use_spark(spark)
    spark.stop()
    process.stdin.close()  # Java ends, and writes the archive
    process.wait()
    if not draft.is_file():
        raise DataError("D411", f"Java wrote no class archive to {archive.parent}", hint="is there enough space?")
    draft.replace(archive)
    return archive


def _use_spark(spark: SparkSession) -> None:
    """Load the classes that steps need: jobs with broadcasts, shuffles and Python workers."""
    context = spark.sparkContext
    sent = context.broadcast(b"0")
    rows = context.parallelize(range(2), 2).mapPartitionsWithIndex(lambda i, _: [(i, sent.value)])
    rows.partitionBy(2, int).mapPartitionsWithIndex(lambda _, some: some).collect()
