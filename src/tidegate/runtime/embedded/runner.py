"""The embedded runtime: it runs all stages and buckets in this process, step by step."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter, time

import pyarrow as pa

from tidegate.catalog.limits import NO_LIMITS
from tidegate.connectors.origins import place_of
from tidegate.connectors.ranges import START, SourcePosition
from tidegate.connectors.source import read_all
from tidegate.errors import TidegateWarning
from tidegate.physical.common.sizes import SizeHistories
from tidegate.runtime.adaptation import Adaptation, decide_sizes, known_sizes, sizes_to_follow, trim_sizes
from tidegate.runtime.background import BackgroundRun
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.checkpoint import Checkpoint, Intent, Record, step_label
from tidegate.runtime.control import decode_records, encode_values
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.embedded.stream_input import StepInput, StreamInput
from tidegate.runtime.figures import OperatorPlace, add_figures
from tidegate.runtime.freed_memory import keep_freed_memory
from tidegate.runtime.job import (
    FINAL,
    IsWanted,
    Job,
    OnRows,
    QueryState,
    StepTime,
    clear_sinks,
    count_reasons,
    find_published_labels,
    remove_final_results,
)
from tidegate.runtime.outputs import merge_by_output, output_rows
from tidegate.runtime.quality import QUALITY, Readers, quality_rows, readers_of
from tidegate.runtime.sampling import SampledStream, sampled_streams
from tidegate.runtime.shedding import SHEDDING, shedding_step_rows
from tidegate.runtime.state import StateSize, StateStore
from tidegate.runtime.step_size import rows_to_read
from tidegate.runtime.threads import map_in_threads
from tidegate.runtime.watermarks import NO_STREAMS
from tidegate.time import BEGINNING

ROWS_PER_STEP = 250_000
"""Number of rows that a step reads of a stream, unless fewer are available."""
ROWS_PER_BUCKET = 16_000
"""Steps with many buckets read more, about as many rows for each bucket: a bucket costs something by itself."""
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
        rows_per_step: int | None = None,
        is_wanted: IsWanted | None = None,
    ) -> None:
        super().__init__()
        keep_freed_memory()
        self._is_wanted = is_wanted
        self.job, self.on_rows, self.once = job, on_rows, once
        self.rows_per_step = rows_per_step or max(ROWS_PER_STEP, ROWS_PER_BUCKET * job.buckets)
        self.checkpoint = Checkpoint(checkpoint) if checkpoint else None
        self.tables: dict[str, str] = {}
        """Version of each table that was read."""
        self._other_positions: dict[str, SourcePosition] = {}
        """Positions in streams that no query reads at the moment; only in a live graph."""
        self._flushed: frozenset[int] = frozenset()
        """Phases that are over and whose results were emitted; only in a live graph."""
        self._sizes: SizeHistories = {}
        """Histories of the sizes of all adaptable windows, as recorded."""
        self._sampled: tuple[SampledStream, ...] = ()
        """The samples of the last step, with the rates that it began with."""
        self._readers: Readers = {}
        self._label, self._tokens, self._parts = FINAL, dict[str, str](), 0
        self._time_passed = BEGINNING
        self._rows_before = self.rows_per_step
        """Rows that the step before has read."""
        self._stopping = threading.Event()
        with self._hold_lock(checkpoint):
            self.engine = Engine(job, StateStore(checkpoint) if checkpoint else None)
            last = self._recover()
            self._last = last
            if job.adjusted:
                self._follow_sizes(last.sizes if last else {}, last.readers if last else {})
            self._published = find_published_labels(job.sinks)
            self._inputs = self._open_inputs(last)
            self._interrupted = self.checkpoint.interrupted_intent(last) if self.checkpoint else None
            self.engine.on_piece = self._emit_output
            self._silence = job.track_silence(self.engine.watermarks)
            self._watch_files(job.sources.values())
            self._begin()

    def _open_inputs(self, last: Record | None) -> dict[str, StreamInput]:
        """Return the input of each stream, at the position of the newest record."""
        positions = last.positions if last else {}
        return {
            stream: StreamInput(source, positions.get(stream, START), self.job.graph.columns(stream))
            for stream, source in self.job.sources.items()
            if not source.stream.is_table
        }

    def size_histories(self) -> SizeHistories:
        return self._sizes

    def state_sizes(self) -> Mapping[OperatorPlace, StateSize]:
        return self.engine.state_sizes()

    def finish(self) -> None:
        self.once = True
        self._wake()
        self.wait()

    def stop(self) -> None:
        self._stopping.set()
        self._wake()
        self._ended.wait()

    def _work(self) -> QueryState:
        finishing = self.once
        if self._interrupted is not None and not self._stopping.is_set():
            self._repeat_step(self._interrupted)
        while not self._stopping.is_set():
            is_due = self._before_step()
            if self.once and not finishing:
                finishing = True
                # Ranges that are listed after `once` is set also have a last line without a line end.
                for each in self._inputs.values():
                    each.forget_listing()
            if self._read_and_step(growing=not finishing, is_due=is_due):
                continue
            self._warn(self.engine.watch.warnings())
            if self.job.idle_after and self._pass_time():
                continue
            if finishing:
                self._open_outputs(FINAL)
                self._deliver(self.engine.finish(), 0)
                return QueryState.FINISHED
            self._wait_for_input()
        return QueryState.STOPPED

    def _read_and_step(self, *, growing: bool, is_due: bool) -> bool:
        """Run a step if there is anything to read, or if it `is_due` anyway; return whether a step was run."""
        self.engine.phases.take()
        with self.engine.phases.measure("read"):
            tables = self.job.tables_to_read(self.tables)
            rows = self.rows_per_step
            if self.job.limits != NO_LIMITS or self.job.sheds:
                rows = rows_to_read(self.job, rows, once=self.once)
            read = partial(StreamInput.read_next, rows=rows, growing=growing)
            # After a step with many rows, many more are probably waiting.
            parts = map_in_threads(read, list(self._inputs.values()), rows=self._rows_before)
            found = dict(zip(self._inputs, parts, strict=True))
            self._rows_before = sum(batch.num_rows for each in parts for batch in each.batches)
        if not is_due and not tables and not any(each.batches for each in found.values()):
            return False
        self._run_step(found, self._intend_step(found, tables))
        return True

    def _before_step(self) -> bool:
        """Do what is due between two steps; return whether a step is due even if there is nothing to read."""
        return False

    def _intend_step(self, found: Mapping[str, StepInput], tables: Mapping[str, str]) -> Intent:
        """Return the intent of a step, after it is stored."""
        idle = self._idle_streams() if self.job.idle_after else NO_STREAMS
        ranges = {stream: each.ranges for stream, each in found.items() if each.ranges}
        now = self.job.arrival_time(self.engine.watermarks)
        intent = Intent(self.engine.step_number + 1, now, ranges, tables, idle)
        if self.checkpoint is not None:
            with self.engine.phases.measure("record"):
                self.checkpoint.intend(intent)
        return intent

    def _repeat_step(self, intent: Intent) -> None:
        """Run a step that was interrupted, with the same input."""
        with self.engine.phases.measure("read"):
            found = {s: self._inputs[s].read_again(ranges, self.rows_per_step) for s, ranges in intent.ranges.items()}
        self._run_step(found, intent)

    def _run_step(self, found: Mapping[str, StepInput], intent: Intent) -> None:
        self._check_lock()
        began = perf_counter()
        self._open_outputs(step_label(intent.step))
        raw, before = {s: each.batches for s, each in found.items()}, self.engine.arrived
        out, rows = self._step_engine(raw, intent)
        if self.job.idle_after:
            heard = [s for s, batches in raw.items() if batches]
            self._silence.note_rows(heard, self.engine.watermarks, self.job.clock())
        arrived = {s: self.engine.arrived[s] - before.get(s, 0) for s in self.job.graph.streams}
        self._finish_step(out, rows, arrived, perf_counter() - began)
        seconds = perf_counter() - began
        took = StepTime(intent.step, time() - seconds, rows, seconds, self.engine.phases.take())
        self.progress.note_step(took, arrived)
        # Files that are still being read are checked once they have been read to the end.
        unread = {each.reading for each in self._inputs.values()} - {None}
        reading = [
            file
            for each in found.values()
            for batch in each.batches
            if (file := place_of(batch).file) is not None and any(file.endswith(f"/{part}") for part in unread)
        ]
        self._warn(self.engine.watch.warnings(but=reading))

    def _step_engine(self, raw: Mapping[str, list[pa.RecordBatch]], intent: Intent) -> tuple[Outbox, int]:
        """Run the step over raw rows of streams and the tables that it reads; return the output and the input rows."""
        again = [t for t in intent.tables if t in self.tables]
        tables = {t: self._read_table(t) for t in intent.tables}
        self.tables |= intent.tables
        return self.engine.step({**raw, **tables}, intent.now, intent.idle, again)

    def _idle_streams(self) -> dict[str, int]:
        return self._silence.idle_streams(self.job.clock(), by_clock=not self.once)

    def _pass_time(self) -> bool:
        """Advance the watermarks of silent streams; return whether there was any output."""
        now = self.job.clock()
        if now < self._time_passed + CLOCK_EVERY:
            return False
        self._time_passed = now
        idle = self._idle_streams()
        out = self.engine.pass_time(idle, is_counted=self._is_time_counted(idle))
        self.progress.watermarks = self.engine.watermarks
        if out is not None:
            if self.checkpoint is not None:
                self.checkpoint.intend(Intent(self.engine.step_number, now, idle=idle))
            self._open_outputs(step_label(self.engine.step_number))
            self._finish_step(out, 0)
        return out is not None

    def _is_time_counted(self, idle: Mapping[str, int]) -> bool:
        """Return whether a step in which only time passes is written even if it has no output."""
        del idle
        return False

    def _finish_step(
        self, out: Outbox, rows: int, arrived: Mapping[str, int] = NO_STREAMS, seconds: float = 0.0
    ) -> None:
        self._sampled = sampled_streams(self.job.graph, self._sizes)
        if self.job.adjusted or self.job.adapt is not None:
            self._change_sizes(arrived, seconds)
        if FINAL in self._published:
            remove_final_results(self.job.sinks)
            self._published.remove(FINAL)
        with self.engine.phases.measure("publish"):
            self._deliver(out, rows)
        with self.engine.phases.measure("record"):
            self._write_record()

    def _change_sizes(self, arrived: Mapping[str, int], seconds: float) -> None:
        """Decide sizes after the step that has just run, and output those that change or have new readers."""
        engine, windows = self.engine, self.job.adjusted
        adaptation = Adaptation(
            engine.step_number,
            self.job.graph,
            engine.watermarks,
            self.job.source_streams,
            windows,
            self._sizes,
            engine.arrived,
            arrived,
            engine.state_size(),
            seconds,
            engine.phases.so_far(),
            self.progress.operators,
            engine.state_sizes,
            self.job.limits,
            self.progress.warn,
        )
        decided = decide_sizes(self.job.adapt, adaptation)
        rows = quality_rows(windows, self._sizes, self._readers, decided, self.job.times)
        if rows.num_rows:
            self._write_outputs([(QUALITY, rows)])
        self._sizes, self._readers = trim_sizes(decided, windows, engine.watermarks), readers_of(windows)
        engine.sizes = sizes_to_follow(windows, self._sizes)

    def _follow_sizes(self, sizes: SizeHistories, readers: Readers) -> None:
        """Go on with recorded histories; those of windows without a reader are forgotten."""
        self._sizes = known_sizes(self.job.adjusted, sizes, self.engine.watermarks)
        self._readers = {key: each for key, each in readers.items() if key in self._sizes}
        self.engine.sizes = sizes_to_follow(self.job.adjusted, self._sizes)

    def _warn(self, warnings: Iterable[TidegateWarning]) -> None:
        for warning in warnings:
            self.progress.warn(warning)

    def _read_table(self, table: str) -> list[pa.RecordBatch]:
        columns = self.job.graph.columns(table)
        rows_of = read_all(self.job.sources[table], START, self.rows_per_step, columns=columns)
        with self.engine.phases.measure("read"):
            return [batch for batch, _ in rows_of]

    def _open_outputs(self, label: str) -> None:
        """Begin the output of a step: set its label and get a token from each sink."""
        self._label, self._parts = label, 0
        self._tokens = {name: sink.begin(label) for name, sink in self.job.sinks.items()}

    def _emit_output(self, out: Outbox) -> None:
        """Write output to its sinks, or pass it to the callback. Sinks publish it at the end of the step."""
        names = dict.fromkeys(query for query, _ in out.results if query not in self._tokens)
        # To sort and convert results without a reader may take most of a step.
        unread = {query for query in names if self._is_wanted is not None and not self._is_wanted(query)}
        read = [each for each in out.results if each[0] not in unread]
        self._write_outputs(list(output_rows(Outbox(results=read, dead=out.dead), self.job.times)))
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
        if (self.engine.control or self._sampled) and self._label != FINAL:
            shed = shedding_step_rows(self.engine.control, self._sampled, self.engine.step_number)
            if shed.num_rows:
                self._write_outputs([(SHEDDING, shed)])
        is_new = self._label not in self._published
        for name, token in self._tokens.items():
            self.job.sinks[name].publish(self._label, token, is_new=is_new)
        self._update_progress(rows)

    def _update_progress(self, rows: int) -> None:
        self.progress.rows_in += rows
        self.progress.steps += 1
        for stream, spread in self.engine.spreads.items():
            self.progress.note_times(self.job.sources[stream].stream, spread)
        self.progress.watermarks = self.engine.watermarks
        self.progress.control = self.engine.control
        self.progress.samples = sampled_streams(self.job.graph, self._sizes)
        self.progress.note_state(*self.engine.state_size()[:3])

    def _write_record(self) -> None:
        if self.checkpoint is None:
            return
        files = {f"{s}/{b}": v.file for (s, b), v in self.engine.state.items() if v.file}
        engine, positions = self.engine, {stream: each.position for stream, each in self._inputs.items()}
        control = encode_values(engine.control)
        tables = dict(self.tables)
        self._last = Record(
            engine.step_number,
            engine.watermarks,
            files,
            {**self._other_positions, **positions},
            tables,
            engine.arrived,
            control,
            engine.reaches if self.job.is_live else {},
            tuple(sorted(self._flushed)),
            self._sizes,
            {key: tuple(queries) for key, queries in self._readers.items()},
        )
        self.checkpoint.write(self._last)

    def _last_record(self) -> Record | None:
        if self.checkpoint is None:
            return None
        self.checkpoint.claim({**self.job.identity, "buckets": self.job.buckets})
        return self.checkpoint.last_record()

    def _recover(self) -> Record | None:
        """Continue from the newest record, and return it; without one, remove what an earlier run published."""
        record = self._last_record()
        if record is None:
            clear_sinks(self.job.sinks)
            return None
        store = self.engine.store
        assert store is not None
        self.tables = dict(record.tables)
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
            reaches=dict(record.reaches),
        )
        self.progress.control = self.engine.control
        self.progress.samples = sampled_streams(self.job.graph, self._sizes)
        return record
