"""The embedded runtime: it runs all stages and buckets in this process, step by step."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidegate.connectors.origins import file_of
from tidegate.connectors.source import Source, read_stream
from tidegate.errors import TidegateWarning
from tidegate.runtime.background import BackgroundRun
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.control import decode_records, encode_values
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.figures import add_figures
from tidegate.runtime.job import FINAL, Job, OnRows, QueryState, clear_sinks, count_reasons, remove_final_results
from tidegate.runtime.outputs import merge_by_output, output_rows
from tidegate.runtime.shedding import SHEDDING, shedding_step_rows
from tidegate.runtime.state import StateStore
from tidegate.runtime.watermarks import NO_STREAMS
from tidegate.time import BEGINNING

ROWS_PER_STEP = 250_000
IDLE_SECONDS = 0.5
CLOCK_EVERY = 1_000_000
"""Minimum microseconds between two steps in which the clock advances the watermarks of silent streams."""


class EmbeddedRun(BackgroundRun):
    """A job that runs in a thread of this process."""

    def __init__(
        self,
        job: Job,
        *,
        on_rows: OnRows,
        once: bool,
        checkpoint: str | None = None,
        rows_per_step: int = ROWS_PER_STEP,
    ) -> None:
        super().__init__()
        self.job, self.on_rows, self.once, self.rows_per_step = job, on_rows, once, rows_per_step
        self.checkpoint = Checkpoint(checkpoint) if checkpoint else None
        self.positions: dict[str, Any] = {}
        self._readers: dict[str, Iterator[tuple[pa.RecordBatch, Any]]] = {}
        self.engine = Engine(job, StateStore(checkpoint) if checkpoint else None)
        self._recover()
        self.engine.on_piece = self._emit_output
        self._label, self._tokens, self._parts = FINAL, dict[str, str](), 0
        self._silence = job.track_silence(self.engine.watermarks)
        self._time_passed = BEGINNING
        self._stopping = threading.Event()
        self._begin()

    def finish(self) -> None:
        self.once = True
        self.wait()

    def stop(self) -> None:
        self._stopping.set()
        self._ended.wait()

    def _work(self) -> QueryState:
        finishing = self.once
        while not self._stopping.is_set():
            if self.once and not finishing:
                finishing = True
                # Readers that are opened after `once` is set also read a last line without a line end.
                self._readers.clear()
            tables = self.job.tables_to_read(self.positions)
            again = [t for t in tables if t in self.positions]
            raw = {
                s: self._read_next(s, source) for s, source in self.job.sources.items() if not source.stream.is_table
            }
            raw |= {t: self._read_table(t) for t in tables}
            self.positions |= tables
            if any(raw.values()) or again:
                self._run_step(raw, again)
            elif self.job.idle_after and self._pass_time():
                continue
            elif finishing:
                self._open_outputs(FINAL)
                self._deliver(self.engine.finish(), 0)
                return QueryState.FINISHED
            else:
                self._stopping.wait(IDLE_SECONDS)
        return QueryState.STOPPED

    def _run_step(self, raw: Mapping[str, list[pa.RecordBatch]], again: Collection[str]) -> None:
        self._open_outputs(f"batch-{self.engine.step_number + 1:08d}")
        out, rows = self.engine.step(raw, self._idle_streams() if self.job.idle_after else NO_STREAMS, again)
        if self.job.idle_after:
            heard = [s for s, batches in raw.items() if batches]
            self._silence.note_rows(heard, self.engine.watermarks, self.job.clock())
        self._finish_step(out, rows)
        # Files that are still being read are checked once they have been read to the end.
        reading = [file_of(batch) for stream, batches in raw.items() if stream in self._readers for batch in batches]
        self._warn(self.engine.watch.warnings(but=[file for file in reading if file is not None]))

    def _idle_streams(self) -> dict[str, int]:
        return self._silence.idle_streams(self.job.clock(), by_clock=not self.once)

    def _pass_time(self) -> bool:
        """Advance the watermarks of silent streams; return whether there was any output."""
        now = self.job.clock()
        if now < self._time_passed + CLOCK_EVERY:
            return False
        self._time_passed = now
        out = self.engine.pass_time(self._idle_streams())
        self.progress.watermarks = self.engine.watermarks
        if out is not None:
            self._open_outputs(f"batch-{self.engine.step_number:08d}")
            self._finish_step(out, 0)
        return out is not None

    def _finish_step(self, out: Outbox, rows: int) -> None:
        if not self.progress.steps:
            remove_final_results(self.job.sinks)
        self._deliver(out, rows)
        self._write_record()

    def _warn(self, warnings: Iterable[TidegateWarning]) -> None:
        for warning in warnings:
            self.progress.warn(warning)

    def _read_next(self, stream: str, source: Source) -> list[pa.RecordBatch]:
        # A reader continues where it stopped. An exhausted reader is opened again, to find new rows.
        if stream not in self._readers:
            self._readers[stream] = iter(
                read_stream(
                    source,
                    self.positions.get(stream),
                    self.rows_per_step,
                    columns=self.job.graph.columns(stream),
                    growing=not self.once,
                )
            )
        found = next(self._readers[stream], None)
        if found is None:
            del self._readers[stream]
            self._warn(self.engine.watch.warnings(stream))
            return []
        batch, self.positions[stream] = found
        return [batch]

    def _read_table(self, table: str) -> list[pa.RecordBatch]:
        columns = self.job.graph.columns(table)
        return [batch for batch, _ in self.job.sources[table].read(None, self.rows_per_step, columns=columns)]

    def _open_outputs(self, label: str) -> None:
        """Begin the output of a step: set its label and get a token from each sink."""
        self._label, self._parts = label, 0
        self._tokens = {name: sink.begin(label) for name, sink in self.job.sinks.items()}

    def _emit_output(self, out: Outbox) -> None:
        """Write output to its sinks, or pass it to the callback. Sinks publish it at the end of the step."""
        self._write_outputs(list(output_rows(out, self.job.times)))
        for query, batch in out.results:
            self.progress.count_out(query, len(batch))
        for dead in out.dead:
            self.progress.count_dead(count_reasons(dead))
        add_figures(self.progress.operators, out.figures)

    def _write_outputs(self, leaving: Sequence[tuple[str, pa.RecordBatch]]) -> None:
        for name, output in leaving:
            if name in self._tokens:
                self.job.sinks[name].write(self._label, self._tokens[name], f"{self._parts:05d}", output)
                self._parts += 1
        for name, output in merge_by_output((name, output) for name, output in leaving if name not in self._tokens):
            self.on_rows(name, output)

    def _deliver(self, out: Outbox, rows: int) -> None:
        """Write the remaining output of a step, then publish all of it."""
        self._emit_output(out)
        if self.engine.control and self._label != FINAL and (shed := shedding_step_rows(self.engine.control)).num_rows:
            self._write_outputs([(SHEDDING, shed)])
        for name, token in self._tokens.items():
            self.job.sinks[name].publish(self._label, token)
        self._update_progress(rows)

    def _update_progress(self, rows: int) -> None:
        self.progress.rows_in += rows
        self.progress.steps += 1
        for stream, spread in self.engine.spreads.items():
            self.progress.note_times(self.job.sources[stream].stream, spread)
        self.progress.watermarks = self.engine.watermarks
        self.progress.control = self.engine.control
        self.progress.note_state(*self.engine.state_size())

    def _write_record(self) -> None:
        if self.checkpoint is None:
            return
        files = {f"{s}/{b}": v.file for (s, b), v in self.engine.state.items() if v.file}
        engine, positions = self.engine, dict(self.positions)
        control = encode_values(engine.control)
        record = Record(engine.step_number, engine.watermarks, files, positions, engine.arrived, control)
        self.checkpoint.write(record)

    def _last_record(self) -> Record | None:
        if self.checkpoint is None:
            return None
        self.checkpoint.claim({**self.job.identity, "buckets": self.job.buckets})
        return self.checkpoint.last_record()

    def _recover(self) -> None:
        record = self._last_record()
        if record is None:
            clear_sinks(self.job.sinks)
            return
        store = self.engine.store
        assert store is not None
        self.positions = dict(record.positions)
        state = {
            (int(stage), int(bucket)): store.load(int(stage), int(bucket), file)
            for (stage, bucket), file in ((key.split("/"), file) for key, file in record.state.items())
        }
        self.engine = replace(
            self.engine,
            watermarks=dict(record.watermarks),
            state=state,
            step_number=record.step,
            arrived=dict(record.arrived),
            control=decode_records(self.job.graph, record.control),
        )
        self.progress.control = self.engine.control
