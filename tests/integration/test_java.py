"""Spark starts on a machine that has no Java."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = ("bash", "sh", "env", "dirname", "cat", "chmod", "ls", "id", "uname", "ps", "readlink", "rm", "mkdir")

PROGRAM = """
import os
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from tidegate.runtime.spark.java import ensure_java

assert ensure_java() == os.environ["JAVA_HOME"]
settings = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "1",
}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()

def double(batches):
    for batch in batches:
        yield pa.record_batch({"twice": pc.multiply(batch["id"], 2)})

rows = spark.range(1000).mapInArrow(double, "twice long").groupBy().sum("twice").collect()
print(os.environ["JAVA_HOME"], spark._jvm.System.getProperty("java.version"), rows[0][0], sep="|")
spark.stop()
"""


def path_without_java(folder: Path) -> str:
    """Give a PATH of the tools that Spark's scripts call, and no others."""
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        if found:
            (folder / tool).symlink_to(found)
    return str(folder)


@pytest.mark.spark
def test_spark_runs_on_the_wheels_java_where_there_is_no_other(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {
        "PATH": path_without_java(tmp_path / "bin"),
        "XDG_CACHE_HOME": str(tmp_path / "a cache"),
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,  # else workers are whatever python3 the PATH has
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    assert shutil.which("java", path=environment["PATH"]) is None
    ran = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    home, version, total = ran.stdout.strip().splitlines()[-1].split("|")
    assert Path(home).parent == tmp_path / "a cache" / "tidegate"
    assert version.split(".")[0] == "25"
    assert int(total) == 2 * sum(range(1000))
