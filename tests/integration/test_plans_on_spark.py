"""A sample of random plans on Spark: the output is the meaning there too."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import relations_of
from reference.values import canonical_row
from strategies.plans import plans, sources
from strategies.streams import Sources
from support.examples import examples
from support.micros import in_micros

from tidegate.algebra.plan import Plan, Scan, Validity, walk
from tidegate.catalog.catalog import Catalog, Program, Query, SourceStream
from tidegate.runtime.spark import step_job
from tidegate.schema import Field, Schema, Type
from tidegate.session import Session

pytestmark = [pytest.mark.spark, pytest.mark.slow]

START, END = "start__", "end__"
TIMES = (Field(START, Type.BIGINT), Field(END, Type.BIGINT))
FILES = 2
LONGEST = 10
"""No raw element comes more than this after a later one."""


def written(source: Sources, name: str, folder: Path) -> SourceStream:
    """A source as files of Parquet that say when rows are valid."""
    schema, elements, validity = source.schemas[name], source.elements[name], source.validities[name]
    for number in range(FILES):
        rows = elements[number::FILES]
        columns = {f.name: pa.array([row[f.name] for _, _, row in rows], f.type.arrow) for f in schema}
        times = {START: pa.array([e[0] for e in rows], pa.int64()), END: pa.array([e[1] for e in rows], pa.int64())}
        pq.write_table(pa.table(columns | times), folder / f"{number}.parquet")
    is_table = validity is Validity.RELATION
    return SourceStream(
        name,
        schema + Schema(() if is_table else TIMES),
        str(folder),
        None if is_table else START,
        0 if is_table else LONGEST,
        validity=validity,
        end_column=END if validity is Validity.INTERVAL else None,
        options=(("files_per_batch", "1"),),
    )


def result(plan: Plan, source: Sources, spark: SparkSession, buckets: int) -> list[tuple[int, int, tuple[object, ...]]]:
    with tempfile.TemporaryDirectory() as folder, Session(spark=spark, buckets=buckets) as session:
        catalog = Catalog()
        for name in source.schemas:
            (Path(folder) / name).mkdir()
            catalog = catalog.with_stream(written(source, name, Path(folder) / name))
        running = session.run(Program(catalog, (Query("query", plan),)), once=True)
        assert running is not None
        running.wait()
        rows = in_micros(running.results()).to_pylist()
    return [(start, end, canonical_row(values)) for start, end, *values in (tuple(row.values()) for row in rows)]


@st.composite
def cases(draw):
    source = draw(sources())
    return draw(plans(source)), source, draw(st.sampled_from([1, 2])), draw(st.booleans())


@given(case=cases())
@settings(
    max_examples=examples(6),
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_output_on_spark_is_the_relation_at_every_instant(case, spark: SparkSession) -> None:
    plan, source, buckets, in_one_task = case
    scanned = {node.stream for node in walk(plan) if isinstance(node, Scan)}
    assume(any(source.validities[name] is not Validity.RELATION for name in scanned))
    with pytest.MonkeyPatch.context() as patch:
        if not in_one_task:  # as on a cluster
            patch.setattr(step_job, "is_one_process", lambda _: False)
            patch.setattr(step_job, "PARALLEL_FROM", 0)
        rows = result(plan, source, spark, buckets)
    instants = interesting_instants_of(plan, source.elements, rows)
    assert snapshots(rows, instants) == relations_of(plan, source.elements, instants)
