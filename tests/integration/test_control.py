"""Steered operators on Spark: told the same in every bucket, and the same as elsewhere, whatever is restarted."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from support import steered

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.source import open_source
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.control import encode_values
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import JobRun
from tidegate.runtime.spark.runner import SparkRun, SparkSettings
from tidegate.schema import Field, Schema, Type
from tidegate.session import Session

pytestmark = pytest.mark.spark

SCHEMA = steered.ROW + Schema((Field("at", Type.BIGINT),))
FILES = [[1, 2, 3, 4], [0, 5, 6], [7, 8, 9, 9, 9]]
"""The times of the rows of each file; one row is late."""
ROWS = 12


@pytest.fixture(autouse=True)
def _known_to_workers() -> Iterator[None]:
    """Python workers do not have the folder of the tests on their path."""
    cloudpickle.register_pickle_by_value(steered)
    yield
    cloudpickle.unregister_pickle_by_value(steered)


def put(folder: Path, number: int) -> None:
    rows = [{"key": time % 5, "value": time, "at": time} for time in FILES[number]]
    path = folder / f"{number}.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA.arrow), path)
    os.utime(path, (1_700_000_000 + number,) * 2)


def ended(spark: SparkSession | None, folder: Path, checkpoint: Path, buckets: int) -> Record:
    """The last record of a run over the files that are there, one in each step."""
    stream = SourceStream("s", SCHEMA, str(folder), "at", options=(("files_per_batch", "1"),))
    job = steered.Steered(open_source(stream), buckets).job
    run: JobRun
    if spark is None:
        run = EmbeddedRun(job, on_rows=lambda *_: None, once=True, checkpoint=str(checkpoint))
    else:
        run = SparkRun(job, spark, SparkSettings(str(checkpoint), once=True), on_rows=lambda *_: None)
    run.wait()
    last = Checkpoint(str(checkpoint)).last_record()
    assert last is not None
    assert encode_values(run.progress.control) == last.control
    return last


def as_if_killed(checkpoint: Path, step: int) -> None:
    """Take back what was written last of a step: it will be done again, over the state that it left."""
    (checkpoint / "steps" / f"{step:010d}.json").unlink()


@pytest.mark.parametrize("buckets", [1, 2])
def test_records_are_those_of_the_embedded_runtime_with_a_step_done_again(spark, tmp_path, buckets):
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(2):
        put(rows, number)
    ended(spark, rows, tmp_path / "spark", buckets)
    as_if_killed(tmp_path / "spark", 2)
    put(rows, 2)
    found = ended(spark, rows, tmp_path / "spark", buckets)
    expected = ended(None, rows, tmp_path / "embedded", buckets)
    assert found.arrived == expected.arrived == {"s": ROWS}
    assert found.control == expected.control
    assert found.control[steered.LAST]["seen"] == ROWS - 1


def test_rows_that_spark_leaves_out_have_arrived_as_well(spark, tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for number in range(len(FILES)):
        put(rows, number)
    frame = spark.readStream.schema("key BIGINT, value BIGINT, at BIGINT").parquet(str(rows))
    with Session(spark=spark, buckets=2) as session:
        session.stream("s", frame, time="at")
        query = "SELECT key, COUNT(*) AS n FROM s WINDOW(RANGE 5) WHERE value = 3 GROUP BY key"
        session.sql(query, once=True, checkpoint=str(tmp_path / "checkpoint")).wait()
    assert Checkpoint(str(tmp_path / "checkpoint")).last_record().arrived == {"s": ROWS}
