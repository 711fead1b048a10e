"""The Java process of Spark: check that it is alive, and end it.

PySpark starts it as a child of this process, with a pipe as its standard input. When this process
ends for any reason, the pipe is closed and the Java process ends by itself.
"""

from __future__ import annotations

import subprocess
from contextlib import suppress

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

LOST_JAVA_ERRORS = (Py4JError, PySparkException, OSError)
"""Exceptions that calls raise when the Java process has ended, among other causes."""

_SECONDS_TO_BE_SEEN = 2.0
"""A connection may break shortly before the end of the process is visible."""
_SECONDS_TO_END = 10.0


def java_process() -> subprocess.Popen[bytes] | None:
    """Return the Java process that this process started, if any."""
    process: subprocess.Popen[bytes] | None = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001
    return process


def has_lost_java(error: Exception) -> bool:
    """Return whether an error was raised because the Java process has ended."""
    process = java_process()
    if process is None:
        return isinstance(error, ConnectionError)
    if isinstance(error, PySparkException):
        return process.poll() is not None
    with suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS_TO_BE_SEEN)
    return process.poll() is not None


def end_java(spark: SparkSession) -> None:
    """Stop a session and end its Java process, if it still runs; then another session can be started."""
    process = java_process()
    if process is not None and process.poll() is not None:
        spark.sparkContext._jsc = None  # noqa: SLF001 - otherwise PySpark calls the dead process
    with suppress(*LOST_JAVA_ERRORS):
        spark.stop()
    discard_java()


def discard_java() -> None:
    """End the Java process, and reset PySpark so that it can start another."""
    process = java_process()
    if process is None:
        return
    _end_process(process)
    with suppress(*LOST_JAVA_ERRORS):
        SparkContext._gateway.shutdown()  # type: ignore[union-attr]  # noqa: SLF001
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None  # noqa: SLF001
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001


def kill_java() -> None:
    """Kill the Java process."""
    process = java_process()
    if process is not None:
        process.kill()


def _end_process(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()
    try:
        process.wait(_SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_SECONDS_TO_END)
