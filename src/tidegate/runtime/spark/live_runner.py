"""The Spark runtime of a live graph: queries come and go between its steps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from tidegate.connectors.ranges import START, SourcePosition
from tidegate.errors import deep_recursion
from tidegate.physical.common.control import Directive
from tidegate.physical.common.operator import Chunks
from tidegate.runtime.checkpoint import Intent, Record
from tidegate.runtime.control import directives_of, encode_values
from tidegate.runtime.ending_phase import EndingPhase
from tidegate.runtime.job import IsWanted, Job, OnRows, find_published_labels
from tidegate.runtime.live_run import RunMoment, fit_record, keep_figures, known_reaches, phases_to_flush
from tidegate.runtime.live_tables import current_readings, new_readers, readings_after, table_of
from tidegate.runtime.moved_states import NO_MOVES, MovedStates
from tidegate.runtime.spark.directives import StepDirective, StepStart
from tidegate.runtime.spark.outcome import Outcome
from tidegate.runtime.spark.rows import Row
from tidegate.runtime.spark.runner import SparkRun, SparkSettings, make_setup
from tidegate.runtime.spark.step_job import StepJob
from tidegate.runtime.spark.step_ranges import RangeQueue
from tidegate.runtime.state import StateStore


class LiveSparkRun(SparkRun):
    """A live graph on a Spark session. `between`, `forgotten` and `moved` are as for `LiveEmbeddedRun`."""

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        *,
        on_rows: OnRows,
        checkpoint: str,
        between: Callable[[], None],
        forgotten: Mapping[str, int],
        moved: MovedStates = NO_MOVES,
        is_wanted: IsWanted | None = None,
    ) -> None:
        self._is_wanted = is_wanted
        self._between, self._forgotten, self._moved = between, forgotten, moved
        self._other_positions: dict[str, SourcePosition] = {}
        self._flushed: frozenset[int] = frozenset()
        super().__init__(job, spark, SparkSettings(checkpoint, once=False), on_rows=on_rows)

    # --- changes -------------------------------------------------------------------------------------

    def moment(self) -> RunMoment:
        read = {stream for stream, queue in self._queues.items() if queue.position != START}
        step, reaches = (self._last.step, self._last.reaches) if self._last else (0, {})
        known = frozenset(read | self._other_positions.keys())
        return RunMoment(step, self._watermarks_before, known, reaches, self._flushed)

    @deep_recursion()
    def swap_job(self, job: Job, queries: Collection[str], forgotten: Collection[str], moved: MovedStates) -> None:
        positions = {**self._other_positions, **{s: queue.position for s, queue in self._queues.items()}}
        positions = {s: position for s, position in positions.items() if s not in forgotten}
        added = {name: sink for name, sink in job.sinks.items() if name not in self.job.sinks}
        self._published |= find_published_labels(added)
        if self._last is not None:
            last = fit_record(self._last, job, dict.fromkeys(forgotten, self._last.step), moved)
            self._last = replace(last, reaches=known_reaches(last.reaches, job, queries))
        queues = {s: queue for s, queue in self._queues.items() if self.job.sources[s] is job.sources.get(s)}
        keep_figures(self.progress, self.job, job)
        self.job = job
        self._queues = {
            stream: queues.get(stream) or RangeQueue(source, positions.get(stream, START))
            for stream, source in job.sources.items()
            if not source.stream.is_table
        }
        self._other_positions = {s: p for s, p in positions.items() if s not in self._queues and p != START}
        self._flushed &= job.endings.keys()
        self._silence = job.track_silence(self._watermarks_before)
        before, self.setup = self._step_job, make_setup(job, self.settings.checkpoint)
        self._step_job = StepJob(self.spark, self.setup, "live graph", before)
        before.close()
        self._watch_files(job.sources.values())

    def stage_states(self, number: int) -> list[Chunks]:
        files = self._last.state if self._last is not None else {}
        store = StateStore(self.settings.checkpoint)
        places = range(self.job.buckets)
        return [store.load(number, bucket, files.get(f"{number}/{bucket}")).chunks for bucket in places]

    def wake(self) -> None:
        self._wake()

    # --- steps ---------------------------------------------------------------------------------------

    def _before_step(self) -> bool:
        self._between()
        return bool(phases_to_flush(self.job, self._last, self._flushed))

    def _direct_step(self, before: Record, intent: Intent, label: str) -> StepDirective:
        named = (name for name in self.setup.outputs if name not in self.job.sinks)
        unread = frozenset(n for n in named if self._is_wanted is not None and not self._is_wanted(n))
        return replace(super()._direct_step(before, intent, label), unread=unread)

    def _read_tables(self, directive: StepDirective, intent: Intent) -> list[Row]:
        only = new_readers(intent.tables)
        tables = dict.fromkeys(map(table_of, intent.tables))
        return [row for table in tables for row in self._read_table(directive, table, only.get(table))]

    def _flush(self, before: Record, outcome: Outcome) -> None:
        over = phases_to_flush(self.job, before, self._flushed)
        for ending in over.values():
            self._flush_phase(ending, outcome)
        self._flushed |= over.keys()

    def _flush_phase(self, ending: EndingPhase, outcome: Outcome) -> None:
        """Run the stages of a phase once more, as if the streams had ended; their state does not change."""
        if ending.graph.levels == 1:
            return
        record = outcome.record({}, {})
        setup = make_setup(replace(self.job, graph=ending.graph), self.settings.checkpoint)
        directive = replace(outcome.directive, watermarks=record.watermarks, finishing=True, again=())
        start = StepStart(record.state, encode_values(_directives_in(ending, outcome)))
        job = StepJob(self.spark, setup, "live graph", self._step_job)
        received = job.run(directive, start, {}, [])
        job.close()
        flushed = Outcome(setup, record, directive, received, lambda: 0.0)
        queries = {stage.query for stage in ending.graph.stages}
        outcome.results += [(name, rows) for name, rows in flushed.results if name in queries]
        for report in flushed.reports:
            for query, count in report["out"].items():
                self.progress.count_out(query, count)

    # --- records -------------------------------------------------------------------------------------

    def _make_record(self, outcome: Outcome, before: Record, intent: Intent) -> Record:
        positions = {stream: queue.position for stream, queue in self._queues.items()}
        tables = readings_after(self.job.graph, before.tables, intent.tables)
        record = outcome.record({**self._other_positions, **positions}, tables)
        arrived, flushed = {**before.arrived, **record.arrived}, tuple(sorted(self._flushed))
        return replace(record, arrived=arrived, reaches=outcome.reaches, flushed=flushed)

    def _last_record(self, job: Job) -> Record | None:
        record = super()._last_record(job)
        if record is None:
            return None
        record = fit_record(record, job, self._forgotten, self._moved)
        reading = {stream for stream, source in job.sources.items() if not source.stream.is_table}
        self._other_positions = {s: p for s, p in record.positions.items() if s not in reading}
        self._flushed = frozenset(record.flushed)
        return replace(record, tables=current_readings(job.graph, record.tables, ()))


def _directives_in(ending: EndingPhase, outcome: Outcome) -> dict[str, Directive]:
    numbers = ending.graph.numbers
    directives = directives_of(outcome.control)
    return {place: each for place, each in directives.items() if int(place.partition("/")[0]) in numbers}
