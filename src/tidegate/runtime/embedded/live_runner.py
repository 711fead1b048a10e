"""The embedded runtime of a live graph: queries come and go between its steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pyarrow as pa

from tidegate.connectors.ranges import START
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.checkpoint import Intent, Record
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.embedded.stream_input import StreamInput
from tidegate.runtime.job import FINAL, IsWanted, Job, OnRows, find_published_labels
from tidegate.runtime.live_run import RunMoment, fit_record, keep_figures, known_reaches, phases_to_flush
from tidegate.runtime.live_tables import current_readings, new_readers, readings_after, table_of
from tidegate.runtime.moved_states import NO_MOVES, MovedStates


class LiveEmbeddedRun(EmbeddedRun):
    """A live graph that runs in a thread of this process.

    `between` is called in that thread before each step; it may replace the job. `forgotten` has the streams that were
    dropped, each with the last step before that, and `moved` the states that were moved after the newest step.
    """

    def __init__(
        self,
        job: Job,
        *,
        on_rows: OnRows,
        checkpoint: str,
        between: Callable[[], None],
        forgotten: Mapping[str, int],
        moved: MovedStates = NO_MOVES,
        rows_per_step: int | None = None,
        is_wanted: IsWanted | None = None,
    ) -> None:
        self._between, self._forgotten, self._moved = between, forgotten, moved
        super().__init__(
            job,
            on_rows=on_rows,
            once=False,
            checkpoint=checkpoint,
            rows_per_step=rows_per_step,
            is_wanted=is_wanted,
        )

    # --- changes -------------------------------------------------------------------------------------

    def moment(self) -> RunMoment:
        read = {stream for stream, each in self._inputs.items() if each.position != START}
        step = self._last.step if self._last else 0
        known = frozenset(read | self._other_positions.keys())
        return RunMoment(step, self.engine.watermarks, known, self.engine.reaches, self._flushed)

    def swap_job(self, job: Job, queries: Collection[str], forgotten: Collection[str], moved: MovedStates) -> None:
        positions = {**self._other_positions, **{s: each.position for s, each in self._inputs.items()}}
        positions = {s: position for s, position in positions.items() if s not in forgotten}
        added = {name: sink for name, sink in job.sinks.items() if name not in self.job.sinks}
        self._published |= find_published_labels(added)
        self.engine = self.engine.with_job(job, forgotten)
        self.engine.reaches = known_reaches(self.engine.reaches, job, queries)
        self.engine.add_states(moved.files)
        self.tables = moved.add_readings(current_readings(job.graph, self.tables, forgotten), job.graph)
        inputs = {s: each for s, each in self._inputs.items() if self.job.sources[s] is job.sources.get(s)}
        keep_figures(self.progress, self.job, job)
        self.job = job
        self._follow_sizes(self._sizes, self._readers)
        self._inputs = {
            stream: inputs.get(stream) or StreamInput(source, positions.get(stream, START), job.graph.columns(stream))
            for stream, source in job.sources.items()
            if not source.stream.is_table
        }
        self._other_positions = {s: p for s, p in positions.items() if s not in self._inputs and p != START}
        self._flushed &= job.endings.keys()
        self._silence = job.track_silence(self.engine.watermarks)
        self._watch_files(job.sources.values())

    def stage_states(self, number: int) -> list[Chunks]:
        places = ((number, bucket) for bucket in range(self.job.buckets))
        return [self.engine.state[place].chunks if place in self.engine.state else NO_STATE for place in places]

    def wake(self) -> None:
        self._wake()

    # --- steps ---------------------------------------------------------------------------------------

    def _before_step(self) -> bool:
        self._between()
        return bool(phases_to_flush(self.job, self._last, self._flushed))

    def _is_time_counted(self, idle: Mapping[str, int]) -> bool:
        return bool(self.job.endings.keys() - self._flushed)

    def _step_engine(self, raw: Mapping[str, list[pa.RecordBatch]], intent: Intent) -> tuple[Outbox, int]:
        again = [table for table in intent.tables if table in self.tables and table == table_of(table)]
        tables = {table: self._read_table(table) for table in dict.fromkeys(map(table_of, intent.tables))}
        self.tables = readings_after(self.job.graph, self.tables, intent.tables)
        return self.engine.step({**raw, **tables}, intent.now, intent.idle, again, new_readers(intent.tables))

    def _deliver(self, out: Outbox, rows: int) -> None:
        """Deliver the output of a step, with what phases that are over still hold back."""
        over = phases_to_flush(self.job, self._last, self._flushed) if self._label != FINAL else {}
        for ending in over.values():
            out.results += self.engine.flush(ending.graph).results
        self._flushed |= over.keys()
        super()._deliver(out, rows)

    # --- records -------------------------------------------------------------------------------------

    def _last_record(self) -> Record | None:
        record = super()._last_record()
        if record is None:
            return None
        record = fit_record(record, self.job, self._forgotten, self._moved)
        streams = (stream for stream, source in self.job.sources.items() if not source.stream.is_table)
        reading = frozenset(streams)
        self._other_positions = {s: p for s, p in record.positions.items() if s not in reading}
        self._flushed = frozenset(record.flushed)
        return record
