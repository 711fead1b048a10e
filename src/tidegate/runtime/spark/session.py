"""Start Spark sessions with the settings that stages need: small, quiet, and in UTC."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidegate.errors import DataError
from tidegate.runtime.spark.class_archive import archive_options
from tidegate.runtime.spark.failures import (
    LOST_WORKERS,
    explain_failure,
    missing_tidegate_error,
    not_started_error,
    reason_of,
)
from tidegate.runtime.spark.gateway import LOST_JAVA_ERRORS, discard_java, kill_java
from tidegate.runtime.spark.java import ensure_java, quiet_home
from tidegate.runtime.spark.master import (
    check_master,
    is_on_loopback,
    is_standalone,
    seconds_to_answer,
    wait_for_executor,
    with_attempts,
)

LOG = "TIDEGATE_SPARK_LOG"
"""Environment variable with the level of Spark's log on standard error."""
LOG_LEVELS = ("off", "error", "warn", "info", "debug")
UI = "TIDEGATE_SPARK_UI"
"""Environment variable with the port of Spark's own page on this machine; without it there is none."""

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Buckets are partitions, so Spark must not merge or reorder partitions.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.python.daemon.module": "tidegate.runtime.spark.daemon",
    # Over TCP, Java and Python wait 40 ms for each other in most jobs: until a delayed acknowledgement.
    "spark.python.unix.domain.socket.enabled": str(hasattr(socket, "AF_UNIX")).lower(),
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Spark writes several files per batch for its own logs of a query: write no checksum file for each.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}

# The driver runs on this machine with every master.
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
DRIVER_OPTIONS = (
    # Without Hadoop's native library each file operation forks a process; VFORK makes that cheap.
    "-Djdk.lang.Process.launchMechanism=VFORK",
    "-XX:+UseParallelGC",
    f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
)

# On one machine, Java only moves rows between Python workers. Its second compiler would take longer than it saves.
LOCAL_OPTIONS = ("-XX:TieredStopAtLevel=1",)
LOCAL_SETTINGS = {"spark.driver.memory": "2g"}

LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# A worker that has ended is noticed by its closed connections. These settings detect one that does not respond.
CLUSTER_SETTINGS = {
    "spark.executor.heartbeatInterval": "5s",
    "spark.network.timeout": "60s",
    "spark.shuffle.io.retryWait": "2s",
}


_starting: list[threading.Thread] = []
"""The thread that starts the first Python worker of the newest session."""

_equipped: set[str] = set()
"""IDs of Spark applications whose workers are known to have Tidegate."""


def start_spark(
    master: str = "local[*]", *, name: str = "tidegate", java_options: Sequence[str] | None = None
) -> SparkSession:
    """Start a session on the given master, by default on this machine, or return the active one.

    `java_options` are for the Java process of the driver; by default, those that use the class-data archive.
    """
    _check_log_level()
    check_master(master)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = {"spark.master": with_attempts(master), "spark.app.name": name, **settings_for(master)}
    is_new = SparkContext._active_spark_context is None  # noqa: SLF001
    home = ensure_java() if is_new else ""  # to find Java takes as long as a step
    if is_new:
        more = archive_options(home) if java_options is None else java_options
        settings[JAVA_OPTIONS] = " ".join([settings[JAVA_OPTIONS], *more])
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    with _keep_interrupt_handler(), _convert_start_errors(master, is_new=is_new):
        with _set_environment(JAVA_HOME=quiet_home(home)) if is_new else nullcontext():
            SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001 - start Java first, so that it can be killed
        with _require_answer(master) if is_new and is_standalone(master) else nullcontext():
            context = SparkContext.getOrCreate(conf)
            if is_new and master.startswith("local"):
                _start_first_worker(context)
            spark = SparkSession.builder.config(conf=conf).getOrCreate()
        if is_new:
            wait_for_executor(spark, master)
    if is_new and master.startswith("local"):
        _equipped.add(spark.sparkContext.applicationId)
    _silence_accumulators(spark)
    return spark


def _start_first_worker(context: SparkContext) -> None:
    """Run a job that does nothing: a Python worker starts, and imports, while the rest of the session is made."""

    def run_job() -> None:
        with suppress(Exception):  # a session that fails or ends meanwhile needs no workers
            context.parallelize([0], 1).map(bool).collect()

    _starting[:] = [threading.Thread(target=run_job, name="tidegate-workers", daemon=True)]
    _starting[0].start()


def wait_for_first_worker() -> None:
    """Wait until the first Python worker has started; otherwise Spark would start another one.

    Spark gives tasks to idle workers in turn, and each of them would have to load kernels and state.
    """
    for thread in _starting:
        thread.join()


def check_workers(spark: SparkSession, module: str = "tidegate") -> None:
    """Refuse a session whose Python workers cannot import Tidegate; each task would fail with a long message."""
    context = spark.sparkContext
    if context.applicationId in _equipped:
        return
    tasks = min(64, context.defaultParallelism)
    # Only use functions of the standard library: workers can run them without Tidegate.
    try:
        found = context.parallelize([module] * tasks, tasks).map(find_spec).map(bool).collect()
    except LOST_JAVA_ERRORS as error:
        told = explain_failure(error)
        if told is None:
            raise
        # A daemon that ends before its first task could not import Tidegate.
        raise (missing_tidegate_error() if told.code == LOST_WORKERS else told) from error
    if not all(found):
        raise missing_tidegate_error()
    _equipped.add(context.applicationId)


def settings_for(master: str) -> dict[str, str]:
    """Return all settings of a session on the master."""
    is_local = master.startswith("local")
    settings = SETTINGS | (LOCAL_SETTINGS if is_local else CLUSTER_SETTINGS)
    settings[JAVA_OPTIONS] = " ".join(DRIVER_OPTIONS + (LOCAL_OPTIONS if is_local else ()))
    if port := os.environ.get(UI):
        settings |= {"spark.ui.enabled": "true", "spark.ui.port": port}
    return settings | LOOPBACK_SETTINGS if is_on_loopback(master) else settings


def _check_log_level() -> None:
    level = os.environ.get(LOG, "off")
    if level.lower() not in LOG_LEVELS:
        raise DataError("D407", f"{LOG} is '{level}'", hint=f"available: {', '.join(LOG_LEVELS)}")


@contextmanager
def _convert_start_errors(master: str, *, is_new: bool) -> Iterator[None]:
    """Convert failures to start into one error, and end the Java process."""
    try:
        yield
    except LOST_JAVA_ERRORS as error:
        if is_new:
            discard_java()
        raise not_started_error(master, reason_of(error)) from error
    except DataError:
        if is_new:
            discard_java()
        raise


@contextmanager
def _require_answer(master: str) -> Iterator[None]:
    """Raise an error if a standalone master does not answer in time.

    The thread kills the Java process, which makes the waiting call fail.
    """
    is_over, has_expired = threading.Event(), threading.Event()

    def watch() -> None:
        begun, launched = time.monotonic(), None
        while not is_over.wait(0.1):
            passed = time.monotonic() - begun
            if launched is None and SparkContext._gateway is not None:  # noqa: SLF001 - Java has started
                launched = passed
            if launched is not None and passed > launched + seconds_to_answer(launched):
                has_expired.set()
                kill_java()
                return

    thread = threading.Thread(target=watch, name="tidegate-master", daemon=True)
    thread.start()
    try:
        yield
    except LOST_JAVA_ERRORS as error:
        if has_expired.is_set():
            raise not_started_error(master, "it accepts connections, but does not answer") from error
        raise
    finally:
        is_over.set()


@contextmanager
def _keep_interrupt_handler() -> Iterator[None]:
    """Keep the current handler of Ctrl-C: PySpark's handler cancels the step and prints tracebacks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _set_environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _silence_accumulators(spark: SparkSession) -> None:
    """Keep PySpark's accumulator server from printing a traceback when the Java process ends."""
    server = spark.sparkContext._accumulatorServer  # noqa: SLF001
    if server is not None:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
