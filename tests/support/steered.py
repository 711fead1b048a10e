"""A tiny operator that is steered: each row says what its directive was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.catalog.constraints import ConstraintFinding
from tidegate.connectors.ranges import Source
from tidegate.connectors.sinks import FileSink
from tidegate.expressions.nodes import TRUE
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.control import ControlRecord, Directive, Report
from tidegate.physical.common.operator import Chunks, ControlTypes, PartitionKeys, Step
from tidegate.physical.common.plan import Apply, Read
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.job import Job
from tidegate.schema import Schema, Type

ROW = Schema.of(key=Type.BIGINT, value=Type.BIGINT)
OUTPUT = Schema.of(key=Type.BIGINT, seen=Type.BIGINT, arrived=Type.BIGINT)
OPERATOR, LAST = "1/0", "2/0"
"""The stages of both, and their numbers there."""


@dataclass(frozen=True)
class TallyDirective(Directive):
    seen: int


@dataclass(frozen=True)
class TallyReport(Report):
    rows: int
    known: int


@dataclass(frozen=True, kw_only=True)
class TallyRecord(ControlRecord):
    directive: TallyDirective
    seen: int
    steps: tuple[tuple[int, ...], ...]
    known: tuple[int, ...]


@dataclass(frozen=True)
class Tally:
    """Counts rows with its state and reports them; its directive is how many all buckets had in the steps before."""

    seen: int = 0
    arrived: int = 0
    schema: Schema = OUTPUT
    partition_keys: PartitionKeys = (("key",),)

    def describe(self) -> str:
        return "Tally"

    @staticmethod
    def control_types() -> ControlTypes:
        return ControlTypes(TallyDirective, TallyReport, TallyRecord)

    def with_directive(self, directive: TallyDirective | None, arrived: Mapping[str, int]) -> Tally:
        return replace(self, seen=directive.seen if directive else 0, arrived=arrived["s"])

    def decide(self, record: TallyRecord | None, reports: Sequence[TallyReport], seconds: float) -> TallyRecord:
        seen = (record.seen if record else 0) + sum(report.rows for report in reports)
        return TallyRecord(
            directive=TallyDirective(seen),
            found=(ConstraintFinding("s", "ordered by key", within=f"{seen} rows", in_use="yes"),),
            seen=seen,
            steps=(*(record.steps if record else ()), tuple(report.rows for report in reports)),
            known=tuple(report.known for report in reports),
        )

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        before = state["count"].column(0)[0].as_py() if state else 0
        known = before + len(batch)
        columns = [batch.column("key"), *(pa.array(np.full(len(batch), n)) for n in (self.seen, self.arrived))]
        output = batch.with_columns(pa.RecordBatch.from_arrays(columns, schema=OUTPUT.arrow))
        kept = {"count": pa.RecordBatch.from_pydict({"known": [known]})}
        return Step(kept, output, watermarks[0], report=TallyReport(len(batch), known))


@dataclass(frozen=True)
class Steered:
    """A job with that operator over a source `s`, and another one after an exchange."""

    source: Source
    buckets: int
    sinks: Mapping[str, FileSink] = field(default_factory=dict)

    @property
    def job(self) -> Job:
        first = Apply(Tally(), (Read("s", ROW, TRUE),))
        graph = cut_into_stages([("query", Apply(Tally(partition_keys=(("arrived",),)), (first,)))])
        return Job(graph, {"s": self.source}, self.sinks, self.buckets, {"queries": "tally"})
