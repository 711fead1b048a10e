"""A class-data archive for the Java process of Spark, which then starts in about half the time.

Java loads and checks some twenty thousand classes when Spark starts. An archive has them as they are in memory. It is
made once by `tidegate prepare`, for one Java and one Spark; Java itself ignores an archive that does not fit.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

import pyspark

from tidegate.errors import DataError
from tidegate.runtime.spark.java import cache_folder

_QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xlog:class+path=off")
"""Java would warn about an archive that does not fit, and about classes that it leaves out."""


def archive_options(home: str) -> list[str]:
    """Return the options by which the Java in a home uses its archive; none if there is no archive."""
    archive = archive_path(home)
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto", *_QUIET] if archive.is_file() else []


def archive_path(home: str) -> Path:
    """Return the path of the archive for the Java in a home and this version of Spark.

    It is in the Python environment, with which it is removed, or else in the user's cache.
    """
    release = Path(home, "release")
    java = release.read_text(encoding="utf-8", errors="replace") if release.is_file() else home
    known = f"{java}\n{pyspark.__version__}\n{pyspark.__file__}"
    name = f"java-classes-{hashlib.sha256(known.encode()).hexdigest()[:12]}.jsa"
    environment = Path(sys.prefix)
    own = environment / "share" / "tidegate"
    return (own if os.access(environment, os.W_OK) else cache_folder()) / name


def make_archive() -> Path:
    """Start Spark, run a small query, and store the classes that Java has loaded by then; return the archive."""
    from tidegate.runtime.spark.gateway import java_process
    from tidegate.runtime.spark.java import ensure_java
    from tidegate.runtime.spark.session import start_spark

    archive = archive_path(ensure_java())
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_suffix(f".{os.getpid()}.part")
    spark = start_spark("local[2]", java_options=[f"-XX:ArchiveClassesAtExit={draft}", *_QUIET])
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


def _use_spark(spark: pyspark.sql.SparkSession) -> None:
    """Load the classes that steps need: jobs with broadcasts, shuffles and Python workers."""
    context = spark.sparkContext
    sent = context.broadcast(b"0")
    rows = context.parallelize(range(2), 2).mapPartitionsWithIndex(lambda i, _: [(i, sent.value)])
    rows.partitionBy(2, int).mapPartitionsWithIndex(lambda _, some: some).collect()
