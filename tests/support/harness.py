"""Run plans through the real operators, stages and the embedded runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from reference.semantics import Elements
from reference.values import canonical_row
from strategies.streams import Delivery, Sources, Streams

from tidegate.algebra.own_times import stamp_own_times
from tidegate.algebra.plan import Plan, Scan, walk
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.optimizer.optimize import optimize
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.plan import PhysicalPlan
from tidegate.physical.lower import lower
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.held_back import holds_back
from tidegate.runtime.job import Job
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING, FOREVER

TIME = "t__"
OutputRow = tuple[int, int, tuple[Any, ...]]


def job_of(plan: Plan, source: Streams, *, buckets: int, delay: int = 0, optimized: bool = True, **more: Any) -> Job:
    """A job for one plan over streams of memory, with a time column of its own."""
    physical = lower(optimize(plan)[0] if optimized else stamp_own_times(plan))
    return job_of_physical(physical, source, buckets=buckets, delay=delay, **more)


def job_of_physical(physical: PhysicalPlan, source: Streams, *, buckets: int, delay: int = 0, **more: Any) -> Job:
    """The same for a physical plan."""
    graph = cut_into_stages([("query", physical)])
    sources = {
        name: MemorySource(_stream(name, schema, delay), _table(schema, [])) for name, schema in source.schemas.items()
    }
    return Job(graph, {s: sources[s] for s in graph.streams}, {}, buckets, **more)


def run(plan: Plan, source: Streams, delivery: Delivery, *, delay: int, optimized: bool = True) -> list[Outbox]:
    """What comes out of each arrival, and at the end."""
    engine = Engine(job_of(plan, source, buckets=delivery.buckets, delay=delay, optimized=optimized))
    outboxes = []
    for arrival in delivery.arrivals[:-1]:
        raw = {
            name: _table(source.schemas[name], elements).to_batches()
            for name, elements in arrival.elements.items()
            if name in engine.watermarks
        }
        outboxes.append(engine.step(raw)[0])
    ending = engine.finish()
    assert holds_back(engine.job.graph) or not (ending.results or ending.dead)
    return [*outboxes, ending]


def run_sources(
    plan: Plan, source: Sources, delivery: Delivery, *, optimized: bool = True, **more: Any
) -> list[Outbox]:
    """The same for elements that bring validities, and for tables: nothing is decoded."""
    engine = Engine(job_of(plan, Streams(source.schemas, {}), buckets=delivery.buckets, optimized=optimized, **more))
    outboxes = []
    for arrival in delivery.arrivals:
        batches = [(name, batch_of(source.schemas[name], arrival.elements[name])) for name in engine.watermarks]
        outboxes.append(engine.advance(batches, {name: arrival.watermarks[name] for name in engine.watermarks}))
    return outboxes


def run_elements(plan: Plan, given: Elements, *, buckets: int, cuts: int) -> list[Outbox]:
    """The plan over elements with validities, in order of their starts, cut into so many steps."""
    schemas = {scan.stream: scan.schema for scan in walk(plan) if isinstance(scan, Scan)}
    engine = Engine(job_of(plan, Streams(schemas, {}), buckets=buckets, optimized=False))
    starts = sorted({start for name in schemas for start, _, _ in given[name]})
    limits = [starts[len(starts) * i // cuts] for i in range(1, cuts)] + [FOREVER]
    outboxes = []
    for low, high in zip([BEGINNING, *limits], limits, strict=False):
        chosen = {name: [e for e in given[name] if low <= e[0] < high] for name in schemas}
        batches = [(name, batch_of(schemas[name], elements)) for name, elements in chosen.items()]
        outboxes.append(engine.advance(batches, dict.fromkeys(schemas, high)))
    return outboxes


def batch_of(schema: Schema, elements: Sequence[tuple[int, int, Mapping[str, object]]]) -> Batch:
    columns = [pa.array([row[f.name] for _, _, row in elements], f.type.arrow) for f in schema]
    start, end = (np.array([e[i] for e in elements], np.int64) for i in (0, 1))
    return Batch(start, end, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def rows_of(outboxes: Sequence[Outbox]) -> list[OutputRow]:
    """Output rows as (start, end, values), values in canonical form."""
    return [
        (start, end, canonical_row(values.values()))
        for outbox in outboxes
        for _, batch in outbox.results
        for start, end, values in zip(
            batch.start.tolist(), batch.end.tolist(), batch.columns.to_pylist() or [{}] * len(batch), strict=True
        )
    ]


def _stream(name: str, schema: Schema, delay: int) -> SourceStream:
    return SourceStream(name, schema + Schema((Field(TIME, Type.BIGINT),)), f"dataframe://{name}", TIME, delay)


def _table(schema: Schema, elements: Sequence[tuple[int, Mapping[str, object]]]) -> pa.Table:
    columns = {f.name: pa.array([row[f.name] for _, row in elements], f.type.arrow) for f in schema}
    return pa.table({**columns, TIME: pa.array([t for t, _ in elements], pa.int64())})
