"""A Spark session with settings that suit stages: small, quiet, and in UTC."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

from pyspark.sql import SparkSession

from tidegate.runtime.spark.java import ensure_java

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    # Buckets are partitions: nobody may merge or reorder them behind our back.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "200000",
    "spark.sql.streaming.checkpoint.fileChecksum.enabled": "false",
    # Spark's own logs of a query, several files a batch, without a checksum file beside each.
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}

# The driver runs here, whatever the master.
DRIVER_SETTINGS = {
    "spark.driver.extraJavaOptions": " ".join(
        [
            # Without Hadoop's native library each file operation forks a process; VFORK makes that cheap.
            "-Djdk.lang.Process.launchMechanism=VFORK",
            "-XX:+UseParallelGC",
            f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
        ]
    ),
}

LOCAL_SETTINGS = {"spark.driver.memory": "2g"}

LOOPBACK_SETTINGS = {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}

# A worker that is gone is noticed by its closed connections; these are for one that is silent.
CLUSTER_SETTINGS = {
    "spark.executor.heartbeatInterval": "5s",
    "spark.network.timeout": "60s",
    "spark.shuffle.io.retryWait": "2s",
}


def start_spark(master: str = "local[*]", *, name: str = "tidegate") -> SparkSession:
    """A session on the given master; on this machine unless told otherwise."""
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if is_on_loopback(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in settings_for(master).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def settings_for(master: str) -> dict[str, str]:
    """All that is set for a session on the master."""
    settings = SETTINGS | DRIVER_SETTINGS
    settings |= LOCAL_SETTINGS if master.startswith("local") else CLUSTER_SETTINGS
    return settings | LOOPBACK_SETTINGS if is_on_loopback(master) else settings


def is_on_loopback(master: str) -> bool:
    """Whether only this machine takes part, so that no address of it need be known elsewhere.

    Examples
    --------
    >>> [is_on_loopback(m) for m in ("local[2]", "spark://127.0.0.1:7077", "spark://head:7077", "yarn")]
    [True, True, False, False]
    """
    return master.startswith("local") or urlsplit(master).hostname in ("127.0.0.1", "localhost", "::1")
