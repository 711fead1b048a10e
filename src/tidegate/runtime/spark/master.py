"""The Spark master: check its name and that it can be reached."""

from __future__ import annotations

import os
import re
import socket
import time
from contextlib import suppress
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from tidegate.errors import DataError
from tidegate.runtime.spark.failures import not_started_error

SECONDS_TO_CONNECT = 3.0
SECONDS_TO_ANSWER = 20.0
"""Time limit for the answer of a standalone master."""
MOST_PATIENCE = 5.0
"""Greatest factor by which a busy machine gets more time to answer."""
SECONDS_TO_GRANT = 45.0
"""Time limit for the first executor of a standalone cluster."""

ATTEMPTS = 3
"""Number of attempts at a task, because a Python worker may be killed. Spark's local default is one."""

_MASTER = re.compile(r"local(\[[^\]]*\])?$|local-cluster\[|spark://|yarn$|k8s://")
_LOCAL = re.compile(r"local(?:\[\s*(\*|\d+)\s*\])?")


def with_attempts(master: str) -> str:
    """Return the master, with several attempts per task if it is local; clusters retry by default.

    Examples
    --------
    >>> [with_attempts(m) for m in ("local", "local[2]", "local[*]", "local[2,1]", "spark://head:7077")]
    ['local[1,3]', 'local[2,3]', 'local[*,3]', 'local[2,1]', 'spark://head:7077']
    """
    local = _LOCAL.fullmatch(master)
    return f"local[{local[1] or 1},{ATTEMPTS}]" if local else master


def is_one_process(master: str) -> bool:
    """Return whether the tasks of a session run on this machine, for one Java process.

    Examples
    --------
    >>> [is_one_process(m) for m in ("local", "local[2]", "local[*,3]", "local-cluster[2,1,1024]", "yarn")]
    [True, True, True, False, False]
    """
    return master == "local" or master.startswith("local[")


def is_standalone(master: str) -> bool:
    """Return whether the master is that of a standalone Spark cluster."""
    return master.startswith("spark://")


def is_on_loopback(master: str) -> bool:
    """Return whether Spark runs on this machine only, so that the driver can use the loopback address.

    Examples
    --------
    >>> [is_on_loopback(m) for m in ("local[2]", "spark://127.0.0.1:7077", "spark://head:7077", "yarn")]
    [True, True, False, False]
    """
    return master.startswith("local") or urlsplit(master).hostname in ("127.0.0.1", "localhost", "::1")


def check_master(master: str) -> None:
    """Refuse an invalid master, and a standalone one that cannot be reached: Spark would try for a minute."""
    if not _MASTER.match(master):
        hint = "available: local[*], local[N], spark://host:port, yarn, k8s://address"
        raise DataError("D403", f"'{master}' is not a Spark master", hint=hint)
    if not is_standalone(master):
        return
    failures = []
    for address in master.removeprefix("spark://").split(","):
        failure = _failure_to_connect(address)
        if failure is None:
            return
        failures.append(failure)
    raise not_started_error(master, "; ".join(failures))


def seconds_to_answer(launch: float) -> float:
    """Return how long to wait for the answer of a master, given the seconds in which Java was launched.

    A machine on which Java starts slowly, or on which more processes run than it has cores, is busy, and so may be
    its master.
    """
    load = os.getloadavg()[0] / (os.cpu_count() or 1) if hasattr(os, "getloadavg") else 1.0
    return max(SECONDS_TO_ANSWER, 4 * launch) * min(max(load, 1.0), MOST_PATIENCE)


def wait_for_executor(spark: SparkSession, master: str) -> None:
    """Wait until a standalone cluster has granted an executor; without one, a query would wait forever."""
    if not is_standalone(master):
        return
    context = spark.sparkContext
    until = time.monotonic() + SECONDS_TO_GRANT
    while context._jsc.sc().getExecutorMemoryStatus().size() < 2:  # noqa: SLF001 - the driver is one of them
        if time.monotonic() > until:
            hint = "does it have workers with free cores and memory? Its web page shows who uses them"
            raise DataError("D406", f"{master} has granted no executor in {SECONDS_TO_GRANT:.0f} seconds", hint=hint)
        time.sleep(0.1)


def _failure_to_connect(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        return f"'{address}' is not host:port"
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), SECONDS_TO_CONNECT)
    except TimeoutError:
        return f"{address} does not answer"
    except (OSError, OverflowError) as error:
        return f"{address} cannot be reached ({getattr(error, 'strerror', None) or error})"
    with suppress(OSError):
        connection.close()
    return None
