"""The Spark runtime: the driver runs the steps of a job, each as one Spark job."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, time

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.connectors.ranges import START
from tidegate.connectors.source import read_all
from tidegate.errors import DataError, deep_recursion
from tidegate.physical.common.sizes import SizeHistories
from tidegate.runtime.adaptation import Adaptation, decide_sizes, known_sizes, sizes_to_follow, trim_sizes
from tidegate.runtime.background import BackgroundRun
from tidegate.runtime.checkpoint import Checkpoint, Intent, Record, next_step, step_label
from tidegate.runtime.control import decode_records, directives_of, encode_values
from tidegate.runtime.data_warnings import FileWatch, from_report, merge_facts
from tidegate.runtime.figures import OperatorPlace, PhaseClock, add_figures
from tidegate.runtime.held_back import holds_back
from tidegate.runtime.job import (
    DEAD_LETTERS,
    FINAL,
    Job,
    OnRows,
    QueryState,
    StepTime,
    clear_sinks,
    find_published_labels,
    remove_final_results,
)
from tidegate.runtime.outputs import merge_by_output
from tidegate.runtime.quality import QUALITY, quality_rows, readers_of
from tidegate.runtime.sampling import sampled_streams
from tidegate.runtime.shedding import SHEDDING, shedding_step_rows
from tidegate.runtime.spark.directives import Setup, StepDirective, StepStart
from tidegate.runtime.spark.failures import explain_failure
from tidegate.runtime.spark.gateway import LOST_JAVA_ERRORS
from tidegate.runtime.spark.listing_ahead import ListingAhead
from tidegate.runtime.spark.outcome import Outcome
from tidegate.runtime.spark.rows import Row
from tidegate.runtime.spark.session import wait_for_first_worker
from tidegate.runtime.spark.sources import FrameFeed, inboxes_of, start_feeds
from tidegate.runtime.spark.step_job import StepJob
from tidegate.runtime.spark.step_ranges import ROWS_PER_STEP, RangeQueue
from tidegate.runtime.spark.task_output import ROWS_PER_BATCH
from tidegate.runtime.spark.tasks import read_table
from tidegate.runtime.state import StateSize, StateStore, add_sizes
from tidegate.runtime.step_size import rows_to_read
from tidegate.runtime.watermarks import advance_watermarks

CLOCK_EVERY = 1.0
"""Minimum seconds between two steps in which the clock advances the watermarks of silent streams."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of a run on Spark."""

    checkpoint: str
    once: bool
    rows_per_step: int = ROWS_PER_STEP


class SparkRun(BackgroundRun):
    """A job that runs on a Spark session: a thread of this process starts a Spark job for each step."""

    def __init__(self, job: Job, spark: SparkSession, settings: SparkSettings, *, on_rows: OnRows) -> None:
        super().__init__()
        inboxes = inboxes_of(job, settings.checkpoint)
        if len(job.tables) == len(job.sources) and not job.is_live:
            message = "the query reads only tables: without a stream, time does not advance"
            raise DataError("D107", message, hint="run it with --runtime embedded")
        self.settings, self.on_rows, self.spark = settings, on_rows, spark
        self.checkpoint = Checkpoint(settings.checkpoint)
        self._inboxes = inboxes
        self._watch = FileWatch()
        self._phases = PhaseClock()
        self._listing = ListingAhead()
        self._state_sizes: Mapping[OperatorPlace, StateSize] = {}
        self._finishing = settings.once
        self._stopping = threading.Event()
        self._time_passed = perf_counter()
        with self._hold_lock(settings.checkpoint):
            self._last = self._recover(job)
            self._interrupted = self.checkpoint.interrupted_intent(self._last)
            self._silence = job.track_silence(self._last.watermarks if self._last else job.first_watermarks())
            self._feeds = self._start(job, spark)
            self._watch_files(job.sources.values())
            self._begin()

    def _recover(self, job: Job) -> Record | None:
        """Return the newest record; without one, remove what an earlier run published."""
        self.checkpoint.claim({**job.identity, "buckets": job.buckets})
        last = self._last_record(job)
        if last is None:
            clear_sinks(job.sinks)
        else:
            self.progress.control = decode_records(job.graph, last.control)
        self._published = find_published_labels(job.sinks)
        return last

    def _last_record(self, job: Job) -> Record | None:
        del job
        return self.checkpoint.last_record()

    @deep_recursion()
    def _start(self, job: Job, spark: SparkSession) -> list[FrameFeed]:
        """Send the job to Spark, and start to fill the inboxes."""
        self.job = replace(job, sources={**job.sources, **self._inboxes})
        self.setup = make_setup(self.job, self.settings.checkpoint)
        positions = self._last.positions if self._last else {}
        self._queues = {
            stream: RangeQueue(source, positions.get(stream, START))
            for stream, source in self.job.sources.items()
            if not source.stream.is_table
        }
        try:
            queries = ", ".join(dict.fromkeys(stage.query for stage in job.graph.stages))
            self._step_job = StepJob(spark, self.setup, queries)
            return start_feeds(job, self._inboxes, once=self.settings.once, wake=self._wake)
        except LOST_JAVA_ERRORS as error:
            raise explain_failure(error) or error from error

    def size_histories(self) -> SizeHistories:
        recorded = self._last.sizes if self._last else {}
        return known_sizes(self.job.adjusted, recorded, self._watermarks_before)

    def state_sizes(self) -> Mapping[OperatorPlace, StateSize]:
        return self._state_sizes

    def finish(self) -> None:
        self._finishing = True
        self._wake()
        self.wait()

    def stop(self) -> None:
        self._stopping.set()
        self._wake()
        self._ended.wait()

    # --- which steps to run --------------------------------------------------------------------------

    def _work(self) -> QueryState:
        try:
            return self._run_steps()
        except LOST_JAVA_ERRORS as error:
            raise explain_failure(error) or error from error
        finally:
            for feed in self._feeds:
                feed.stop()

    @deep_recursion()
    def _run_steps(self) -> QueryState:
        wait_for_first_worker()
        if self._interrupted is not None and not self._stopping.is_set():
            self._run_step(self._interrupted, repeated=True)
        is_last_listing = self.settings.once
        while not self._stopping.is_set():
            is_due = self._before_step()
            if self._finishing and not is_last_listing:
                is_last_listing = True
                self._list_for_the_last_time()
            is_fed = all(feed.is_over for feed in self._feeds)  # asked before listing: a delivery may come after it
            intent = self._next_intent(growing=not is_last_listing, is_due=is_due)
            if intent is not None:
                with self._phases.measure("record"):
                    self.checkpoint.intend(intent)
                self._run_step(intent)
            elif is_last_listing and is_fed:
                self._emit_final_results()
                return QueryState.FINISHED
            else:
                self._wait_for_input()
        return QueryState.STOPPED

    def _before_step(self) -> bool:
        """Do what is due between two steps; return whether a step is due even if there is nothing to read."""
        return False

    def _list_for_the_last_time(self) -> None:
        """Take everything that is available now, and also last lines without a line end."""
        for feed in self._feeds:
            feed.finish()
        for queue in self._queues.values():
            queue.forget_listing()

    def _next_intent(self, *, growing: bool, is_due: bool = False) -> Intent | None:
        """Return the intent of the next step; None if there is nothing to do and no step `is_due`."""
        for queue in self._queues.values():
            queue.list_ranges(growing=growing)
        usual = self.settings.rows_per_step
        rows = rows_to_read(self.job, usual, once=self.settings.once)
        taken = {stream: queue.take(rows, in_parts=rows < usual) for stream, queue in self._queues.items()}
        ranges = {stream: some for stream, some in taken.items() if some}
        tables = self.job.tables_to_read(self._last.tables if self._last else {})
        is_due = is_due or bool(ranges) or bool(tables)
        if not is_due and not self._is_time_to_pass():
            return None
        before = self._watermarks_before
        idle = self._silence.idle_streams(self.job.clock(), by_clock=not self.settings.once)
        if not is_due and not self._would_advance(idle):
            return None
        return Intent(next_step(self._last), self.job.arrival_time(before), ranges, tables, idle)

    def _is_time_to_pass(self) -> bool:
        """Return whether the clock may advance watermarks now."""
        return bool(self.job.idle_after) and perf_counter() >= self._time_passed + CLOCK_EVERY

    def _would_advance(self, idle: Mapping[str, int]) -> bool:
        self._time_passed = perf_counter()
        before = self._watermarks_before
        return advance_watermarks(before, {}, self.job.delays, idle, self.job.meeting_streams) != before

    @property
    def _watermarks_before(self) -> dict[str, int]:
        return dict(self._last.watermarks) if self._last else self.job.first_watermarks()

    # --- one step ------------------------------------------------------------------------------------

    def _run_step(self, intent: Intent, *, repeated: bool = False) -> None:
        """Run a step. After a crash it is repeated, with the same result."""
        self._check_lock()
        began = perf_counter()
        before = self._last or Record(0, self.job.first_watermarks())
        if not self.progress.steps:
            remove_final_results(self.job.sinks)
        again = tuple(table for table in intent.tables if table in before.tables)
        directive = self._direct_step(before, intent, step_label(intent.step))
        directive = replace(directive, again=again, repeated=repeated)
        outcome = self._run_job(before, directive, intent, began)
        self._emit_shedding_rows(outcome, before)
        sizes = self._change_sizes(outcome, before) if self.job.adjusted or self.job.adapt is not None else {}
        self._flush(before, outcome)
        with self._phases.measure("publish"):
            self._publish(directive)
        for stream, ends in outcome.ends.items():
            self._queues[stream].settle(ends, outcome.rows[stream])
        with self._phases.measure("record"):
            self._last = self._make_record(outcome, before, intent)
            self._last = replace(self._last, sizes=sizes, readers=readers_of(self.job.adjusted))
            self.checkpoint.write(self._last)
        self._silence.note_rows(outcome.heard, outcome.watermarks, self.job.clock())
        for stream, inbox in self._inboxes.items():
            inbox.forget(self._queues[stream].position.of_part("").point.offset - 1)
        self._update_progress(outcome)
        seconds, phases = perf_counter() - began, outcome.phases.plus(self._phases.take())
        took = StepTime(intent.step, time() - seconds, outcome.rows.total(), seconds, phases)
        self.progress.note_step(took, outcome.rows)

    def _flush(self, before: Record, outcome: Outcome) -> None:
        """Add to the outcome what queries that end with this step still hold back."""

    def _make_record(self, outcome: Outcome, before: Record, intent: Intent) -> Record:
        positions = {stream: queue.position for stream, queue in self._queues.items()}
        return outcome.record(positions, {**before.tables, **intent.tables})

    def _emit_final_results(self) -> None:
        """Emit the output that is still held back, as if the streams had ended. The checkpoint does not change."""
        before = self._last
        if before is None or not holds_back(self.job.graph):
            return
        intent = Intent(before.step + 1, self.job.arrival_time(before.watermarks))
        directive = replace(self._direct_step(before, intent, FINAL), finishing=True)
        outcome = self._run_job(before, directive, intent, perf_counter())
        self._publish(directive)
        self._update_progress(outcome)

    def _direct_step(self, before: Record, intent: Intent, label: str) -> StepDirective:
        tokens = {name: sink.begin(label) for name, sink in self.job.sinks.items()}
        sizes = sizes_to_follow(self.job.adjusted, before.sizes)
        return StepDirective(
            intent.step, label, before.watermarks, tokens, intent.now, intent.idle, arrived=before.arrived, sizes=sizes
        )

    def _run_job(self, before: Record, directive: StepDirective, intent: Intent, began: float) -> Outcome:
        control = decode_records(self.job.graph, before.control)
        start = StepStart(before.state, encode_values(directives_of(control)))
        tables = self._read_tables(directive, intent)
        # The queues do not know what a repeated step reads.
        queues = () if directive.repeated or directive.finishing else self._queues.values()
        with self._listing.during_job(queues, growing=not self._finishing):
            received = self._step_job.run(directive, start, intent.ranges, tables)
        return Outcome(self.setup, before, directive, received, lambda: perf_counter() - began)

    def _read_tables(self, directive: StepDirective, intent: Intent) -> list[Row]:
        return [row for table in intent.tables for row in self._read_table(directive, table)]

    def _read_table(self, directive: StepDirective, table: str, only: Collection[int] | None = None) -> Sequence[Row]:
        """Read a table in the driver, and run the stages that read it, or only some of them."""
        source, columns = self.job.sources[table], self.job.graph.columns(table)
        batches = (batch for batch, _ in read_all(source, START, ROWS_PER_BATCH, columns=columns))
        return read_table(self.setup, directive, table, batches, only)

    # --- what leaves a step --------------------------------------------------------------------------

    def _publish(self, directive: StepDirective) -> None:
        is_new = not directive.finishing and directive.label not in self._published
        for name, token in directive.tokens.items():
            self.job.sinks[name].publish(directive.label, token, is_new=is_new)

    def _emit_shedding_rows(self, outcome: Outcome, before: Record) -> None:
        """Output the figures on shedding of a step."""
        sampled, step = sampled_streams(self.job.graph, before.sizes), outcome.directive.step
        self._emit_rows(SHEDDING, shedding_step_rows(outcome.control, sampled, step), outcome.directive)

    def _emit_rows(self, name: str, rows: pa.RecordBatch, directive: StepDirective) -> None:
        """Output rows that the driver made, if there are any."""
        if not rows.num_rows:
            return
        if name in directive.tokens:
            self.job.sinks[name].write(directive.label, directive.tokens[name], name, rows)
        else:
            self.on_rows(name, rows)

    def _change_sizes(self, outcome: Outcome, before: Record) -> SizeHistories:
        """Decide sizes after a step, output those that change or have new readers, and return all histories."""
        windows = self.job.adjusted
        adaptation = Adaptation(
            outcome.directive.step,
            self.job.graph,
            outcome.watermarks,
            self.job.source_streams,
            windows,
            known_sizes(windows, before.sizes, before.watermarks),
            outcome.arrived,
            outcome.rows,
            add_sizes(outcome.state_sizes.values()),
            outcome.seconds(),
            outcome.phases.plus(self._phases.so_far()),
            self.progress.operators,
            lambda: outcome.state_sizes,
            self.job.limits,
            self.progress.warn,
        )
        decided = decide_sizes(self.job.adapt, adaptation)
        rows = quality_rows(windows, before.sizes, before.readers, decided, self.job.times)
        self._emit_rows(QUALITY, rows, outcome.directive)
        return trim_sizes(decided, windows, outcome.watermarks)

    def _update_progress(self, outcome: Outcome) -> None:
        for name, rows in merge_by_output(outcome.results):
            self.on_rows(name, rows)
        progress = self.progress
        progress.steps += 1
        self._watch.add(merge_facts(from_report(report["found"]) for report in outcome.reports))
        for warning in self._watch.warnings():
            progress.warn(warning)
        for report in outcome.reports:
            progress.rows_in += report["rows"]
            progress.count_dead(report["dead"])
            add_figures(progress.operators, report["operators"])
            for query, count in report["out"].items():
                progress.count_out(query, count)
        for stream, spread in outcome.spreads.items():
            progress.note_times(self.job.sources[stream].stream, spread)
        if not outcome.directive.finishing:
            progress.watermarks = outcome.watermarks
            progress.control = outcome.control
            progress.samples = sampled_streams(self.job.graph, self._last.sizes if self._last else {})
            self._state_sizes = outcome.state_sizes
            progress.note_state(*add_sizes(self._state_sizes.values())[:3])


def make_setup(job: Job, checkpoint: str) -> Setup:
    return Setup(
        graph=job.graph,
        buckets=job.buckets,
        streams=job.graph.streams,
        sources=job.sources,
        delays=job.delays,
        outputs=(*dict.fromkeys(o.query for s in job.graph.stages for o in s.outlets), DEAD_LETTERS),
        sinks=job.sinks,
        store=StateStore(checkpoint),
        tables=job.tables,
        meeting_streams=job.meeting_streams,
        times=job.times,
        is_live=job.is_live,
        most_pairs=job.most_pairs,
    )
