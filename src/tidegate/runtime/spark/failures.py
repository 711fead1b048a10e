"""Convert failures of Spark to one error with a hint."""

from __future__ import annotations

import re

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from tidegate.errors import DataError, InternalError, TidegateError
from tidegate.runtime.spark.gateway import has_lost_java, java_process

RESTART_HINT = "start the same command again: with --checkpoint it resumes where it stopped"

UNEXPLAINED = "D401"
"""Code for an error of Spark whose cause is unknown."""

LOST_WORKERS = "D404"
"""Code for Python workers, or their daemon, that ended again and again."""

_OURS = re.compile(r"tidegate\.errors\.\w+: error\[(\w+)\]: (.*)(?:\n\s+= hint: (.*))?")


_LOST_WORKERS = re.compile(r"Python worker exited unexpectedly|daemon's stdout|failed to connect back")


def explain_failure(error: Exception) -> TidegateError | None:
    """Convert an error of PySpark or Py4J to a Tidegate error; return None for other errors."""
    if has_lost_java(error):
        return java_ended_error()
    return _explain_spark(error) if isinstance(error, (PySparkException, Py4JJavaError)) else None


def _explain_spark(error: Exception) -> TidegateError:
    """Return the Tidegate error that a task raised, else an error with Spark's reason."""
    text = str(error)
    if ours := _OURS.findall(text):
        code, message, hint = ours[-1]  # the others are its causes
        return (DataError if code.startswith("D") else InternalError)(code, message, hint=hint or None)
    if "No module named 'tidegate" in text:
        return missing_tidegate_error()
    if _LOST_WORKERS.search(text):
        message = "Python workers of Spark were killed or crashed several times in one step; the checkpoint is intact"
        hint = f"do they run out of memory? With more buckets each holds less. {RESTART_HINT.capitalize()}"
        return DataError(LOST_WORKERS, message, hint=hint)
    return DataError(UNEXPLAINED, f"Spark ended the query: {reason_of(error)}", hint=_LOG)


_LOG = "set TIDEGATE_SPARK_LOG=error to see Spark's log"


def java_ended_error() -> DataError:
    """Return the error for a Java process that ended during a query."""
    process = java_process()
    status = "" if process is None else f" ({_exit_status_text(process.returncode)})"
    message = f"the Java process of Spark ended while the query ran{status}; the checkpoint is intact"
    return DataError("D402", message, hint=f"{RESTART_HINT}. Did it run out of memory?")


def missing_tidegate_error() -> DataError:
    """Return the error for Python workers that cannot import Tidegate."""
    hint = (
        "install the same version of Tidegate in the Python of the workers (PYSPARK_PYTHON), "
        "or set spark.executorEnv.PYTHONPATH"
    )
    return DataError("D405", "the Python workers of Spark cannot import tidegate", hint=hint)


def not_started_error(master: str, reason: str) -> DataError:
    """Return the error for Spark not starting."""
    hint = "is the address right, and is the master running? --master 'local[*]' runs on this machine"
    return DataError("D403", f"Spark did not start on {master}: {reason}", hint=hint)


def _exit_status_text(code: int | None) -> str:
    return f"killed by signal {-code}" if code is not None and code < 0 else f"exit status {code}"


def reason_of(error: Exception) -> str:
    """Return the most informative line of an error: after a Python traceback the first that is not indented."""
    text = str(error)
    _, traceback, below = text.rpartition("Traceback (most recent call last):\n")
    lines = (below if traceback else text).splitlines()
    if traceback:
        telling = (line for line in lines if not line.startswith((" ", "\t")))
    else:
        telling = (line for line in lines if "Error" in line or "Exception" in line)
    return next(telling, text).strip()[:500]
