"""A program that runs over rows of memory, step by step, to measure what its operators do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job, source_stream_of
from tidegate.runtime.costs.knowledge import Knowledge, know_sources, know_streams
from tidegate.runtime.costs.learn import RunSample, RunSpan, span_between
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.figures import FiguresByPlace, add_figures, figures_of_operators
from tidegate.runtime.job import Job
from tidegate.runtime.state import sizes_of_operators
from tidegate.runtime.warm import warm_up


class MeasuredRun:
    """A run of a program in this thread; it counts what operators do, and discards results."""

    def __init__(self, text: str, *, buckets: int = 1) -> None:
        program = bind(text)
        named = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
        sources = {stream.name: MemorySource(stream, _empty_table(stream)) for stream in named}
        self.job: Job = compile_job(program, buckets=buckets, sinks={}, sources=sources)
        self.streams = {name: source_stream_of(program.catalog, name) for name in self.job.graph.streams}
        self.engine = Engine(self.job)
        self.figures: FiguresByPlace = {}
        self.began: RunSample | None = None
        warm_up(self.job.graph)

    def step(self, rows: Mapping[str, pa.RecordBatch]) -> None:
        """Process new rows of streams."""
        raw = {stream: [batch] for stream, batch in rows.items() if stream in self.streams}
        out, _ = self.engine.step(raw)
        add_figures(self.figures, out.figures)
        self.began = self.began or self.sample()

    def sample(self) -> RunSample:
        """Return what the run knows of itself now."""
        return RunSample(
            figures_of_operators(self.figures),
            sizes_of_operators(self.engine.state_sizes()),
            dict(self.engine.watermarks),
            dict(self.engine.arrived),
            self.engine.step_number,
        )

    def span_since(self, before: RunSample) -> RunSpan:
        """Return what happened since a moment; application time must have advanced."""
        span = span_between(before, self.sample())
        assert span is not None
        return span

    def know(self) -> Knowledge:
        """Return what is known of the run before anything is learnt of its operators."""
        known = know_streams(self.streams, buckets=self.job.buckets)
        span = None if self.began is None else span_between(self.began, self.sample())
        if span is None:
            return known
        distances = {stream: span.time / max(rows, 0.5) for stream, rows in span.rows.items()}
        sources = know_sources(self.streams, distances, {})
        return replace(known, sources=sources, assumed=frozenset())


def _empty_table(stream: SourceStream) -> pa.Table:
    return pa.table({each.name: pa.array([], each.type.arrow) for each in stream.schema})
