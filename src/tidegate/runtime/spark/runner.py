"""The Spark runtime: one streaming query whose micro-batches run all stages as one Spark job."""

from __future__ import annotations

import math
import posixpath
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic, perf_counter, sleep

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.errors import DataError, InternalError, TidegateError, deep_recursion
from tidegate.runtime.background import BackgroundRun
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.control import decode_records, directives_of, encode_values
from tidegate.runtime.data_warnings import FileWatch, from_report, merge_facts
from tidegate.runtime.figures import OperatorFigures, add_figures
from tidegate.runtime.job import DEAD_LETTERS, FINAL, Job, OnRows, QueryState, clear_sinks, remove_final_results
from tidegate.runtime.outputs import merge_by_output
from tidegate.runtime.shedding import SHEDDING, shedding_step_rows
from tidegate.runtime.spark.directives import Setup, StepDirective, StepStart
from tidegate.runtime.spark.failures import UNEXPLAINED, explain_failure
from tidegate.runtime.spark.gateway import LOST_JAVA_ERRORS, has_lost_java
from tidegate.runtime.spark.outcome import Outcome
from tidegate.runtime.spark.rows import TRAVELLING
from tidegate.runtime.spark.sources import heartbeats, removed_source_error, rows_without_payload, travelling_rows
from tidegate.runtime.spark.tasks import ROWS_PER_BATCH, read_table, run_levels
from tidegate.runtime.state import StateStore

NO_POSITIONS: Mapping[str, str] = {}
SHUFFLE_FROM_SECONDS = 0.2
"""If reading took longer than this in the previous step (seconds), tasks read in parallel and shuffle."""

SECONDS_TO_COMMIT = 5.0
"""Time limit for Spark to commit the last step on `stop`. A step without a commit is repeated, with the same result."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of a run on Spark."""

    checkpoint: str
    once: bool
    trigger: str = "0 seconds"


class SparkRun(BackgroundRun):
    """A job that runs as one streaming query of a Spark session."""

    def __init__(self, job: Job, spark: SparkSession, settings: SparkSettings, *, on_rows: OnRows) -> None:
        super().__init__()
        self.job, self.spark, self.settings, self.on_rows = job, spark, settings, on_rows
        self.checkpoint = Checkpoint(settings.checkpoint)
        self.checkpoint.claim({**job.identity, "buckets": job.buckets})
        if (last := self.checkpoint.last_record()) is None:
            clear_sinks(job.sinks)
        else:
            self.progress.control = decode_records(job.graph, last.control)
        self._silence = job.track_silence(last.watermarks if last else job.first_watermarks())
        self.setup = _make_setup(job, settings.checkpoint)
        self._watch = FileWatch()
        self._cause: Exception | None = None  # raised by Tidegate or the callback, before Spark wraps it
        self._finishing = settings.once
        self._stopping = False
        self._refused = False
        """True if Spark has begun a step after `stop`, which is refused."""
        self._in_step = threading.RLock()
        self._seconds_reading = math.inf  # the first step may read much
        self._began = perf_counter()
        try:
            self.query = self._start_query()
        except LOST_JAVA_ERRORS as error:
            raise self._explain_error(error) from error
        self._begin()

    @deep_recursion()
    def _start_query(self) -> StreamingQuery:
        rows: DataFrame | None = None
        for stream in (s for s in self.job.graph.streams if s not in self.job.tables):
            one = travelling_rows(self.spark, self.job, self.setup, stream)
            rows = one if rows is None else rows.union(one)
        if rows is None:
            message = "the query reads only tables: without a stream, time does not advance"
            raise DataError("D107", message, hint="run it with --runtime embedded")
        if self.job.idle_after and not self.settings.once:
            rows = rows.union(heartbeats(self.spark, self.job.buckets))
        writer = rows.writeStream.foreachBatch(self._run_batch).option(
            "checkpointLocation", posixpath.join(self.settings.checkpoint, "spark")
        )
        trigger = (
            writer.trigger(availableNow=True)
            if self.settings.once
            else writer.trigger(processingTime=self.settings.trigger)
        )
        return trigger.start()

    def finish(self) -> None:
        if not self.settings.once and self.state is QueryState.RUNNING:
            self._read_all()
            self._finishing = True
            with suppress(*LOST_JAVA_ERRORS):
                self.query.stop()
        self.wait()

    def stop(self) -> None:
        self._stopping = True
        with self._in_step:
            pass  # wait for the end of the current step
        with suppress(*LOST_JAVA_ERRORS):
            self._wait_for_commit()
            self.query.stop()
        self._ended.wait()

    def _wait_for_commit(self) -> None:
        """Wait until Spark has committed the last step: then it begins another, or waits for data."""
        until = monotonic() + SECONDS_TO_COMMIT
        while (
            self.query.isActive and self.query.status["isTriggerActive"] and not self._refused and monotonic() < until
        ):
            sleep(0.02)

    def _read_all(self) -> None:
        """Wait until all available rows are processed, or until the query has failed."""
        try:
            self.query.processAllAvailable()
        except LOST_JAVA_ERRORS as error:
            if not has_lost_java(error) and self.query.isActive:
                raise self._explain_error(error) from error

    def _work(self) -> QueryState:
        try:
            self.query.awaitTermination()
            if self._stopping or not self._finishing:
                return QueryState.STOPPED
            self._emit_final_results()
        except LOST_JAVA_ERRORS as error:
            if self._refused:
                return QueryState.STOPPED
            raise self._explain_error(error) from error
        return QueryState.FINISHED

    def _explain_error(self, error: Exception) -> Exception:
        """Return the error to raise for an error of Spark: its cause, if known."""
        cause = self._cause or explain_failure(error) or error
        if isinstance(cause, TidegateError) and cause.code == UNEXPLAINED:
            return removed_source_error(self.job) or cause
        return cause

    def _run_batch(self, rows: DataFrame, step: int) -> None:
        """Run one micro-batch. After a crash Spark repeats it, with the same result."""
        with self._in_step:
            if not self._stopping:
                self._try_step(rows, step)
                return
        self._refused = True
        raise InternalError("I304", "the query was stopped")  # otherwise Spark would commit the step

    def _try_step(self, rows: DataFrame, step: int) -> None:
        self._began = perf_counter() - self._spark_overhead()
        try:
            if not self.progress.steps:
                remove_final_results(self.job.sinks)
            before = self.checkpoint.read(step - 1) if step else Record(-1, self.job.first_watermarks())
            tables = self.job.tables_to_read(before.positions)
            again = tuple(t for t in tables if t in before.positions)
            directive = replace(self._direct_step(before, step, f"batch-{step:08d}"), again=again)
            rows = self._with_tables(directive, rows, tables)
            self._run_step(before, directive, rows, {**before.positions, **tables})
        except TidegateError as error:
            self._cause = error
            raise

    def _emit_final_results(self) -> None:
        """Emit the output that is still held back, as if the streams had ended. The checkpoint does not change."""
        before = self.checkpoint.last_record()
        if before is None or self.job.graph.levels == 1:
            return
        directive = replace(self._direct_step(before, before.step + 1, FINAL), finishing=True)
        rows = rows_without_payload(self.spark.range(0, self.job.buckets, 1, 1), "cast(id AS INT)")
        self._run_step(before, directive, rows)

    def _direct_step(self, before: Record, step: int, label: str) -> StepDirective:
        tokens = {name: sink.begin(label) for name, sink in self.job.sinks.items()}
        idle = self._silence.idle_streams(self.job.clock(), by_clock=not self.settings.once)
        now = self.job.arrival_time(before.watermarks)
        return StepDirective(step, label, before.watermarks, tokens, now, idle, arrived=before.arrived)

    def _with_tables(self, directive: StepDirective, rows: DataFrame, tables: Iterable[str]) -> DataFrame:
        """Add the rows of tables, which the driver reads, to the rows of a step."""
        for name in tables:
            source, columns = self.job.sources[name], self.job.graph.columns(name)
            batches = [batch for batch, _ in source.read(None, ROWS_PER_BATCH, columns=columns)]
            made = read_table(self.setup, directive, name, self.job.decoder(name), batches)
            rows = rows.union(self.spark.createDataFrame(made, TRAVELLING))
        return rows

    @deep_recursion()
    def _run_step(
        self, before: Record, directive: StepDirective, rows: DataFrame, positions: Mapping[str, str] = NO_POSITIONS
    ) -> None:
        directive.announce(self.spark.sparkContext)
        control = decode_records(self.job.graph, before.control)
        start = StepStart(before.state, encode_values(directives_of(control)))
        for levels in self._levels_per_shuffle():
            running = run_levels(self.setup, start, levels)
            rows = self._shuffle_rows(rows).mapInArrow(running, TRAVELLING)
        made = rows.toArrow().to_batches()
        outcome = Outcome(self.setup, before, directive, made, lambda: perf_counter() - self._began)
        if not directive.finishing:
            self._emit_shedding_rows(outcome)
        for name, token in directive.tokens.items():
            self.job.sinks[name].publish(directive.label, token)
        if not directive.finishing:
            self.checkpoint.write(outcome.record(positions))
        self._silence.note_rows(outcome.heard, outcome.watermarks, self.job.clock())
        self._update_progress(outcome)
        self._seconds_reading = sum(report["seconds_reading"] for report in outcome.reports)

    def _call_on_rows(self, name: str, rows: pa.RecordBatch) -> None:
        try:
            self.on_rows(name, rows)
        except Exception as error:
            self._cause = error
            raise

    def _emit_shedding_rows(self, outcome: Outcome) -> None:
        """Output the figures on shedding of a step."""
        rows, directive = shedding_step_rows(outcome.control), outcome.directive
        if not rows.num_rows:
            return
        if SHEDDING in directive.tokens:
            self.job.sinks[SHEDDING].write(directive.label, directive.tokens[SHEDDING], SHEDDING, rows)
        else:
            self._call_on_rows(SHEDDING, rows)

    def _spark_overhead(self) -> float:
        """Return Spark's overhead in the last batch in seconds, used as the estimate for the next."""
        last = self.query.lastProgress if hasattr(self, "query") else None  # the first batch may begin before it is set
        took = last["durationMs"] if last is not None else {}
        return max(0.0, float(took.get("triggerExecution", 0) - took.get("addBatch", 0)) / 1000)

    def _shuffle_rows(self, rows: DataFrame) -> DataFrame:
        """Shuffle rows by bucket. With one bucket and little to read, a single task that reads everything is faster."""
        if self.job.buckets > 1 or self._seconds_reading > SHUFFLE_FROM_SECONDS:
            return rows.repartitionById(self.job.buckets, "bucket")
        return rows.coalesce(1)

    def _levels_per_shuffle(self) -> list[range]:
        """Return the levels to run after each shuffle. With one bucket, a single shuffle is enough."""
        levels = range(1, self.job.graph.levels)
        if self.job.buckets == 1:
            return [levels] if levels else []
        return [range(level, level + 1) for level in levels]

    def _update_progress(self, outcome: Outcome) -> None:
        for name, rows in merge_by_output(outcome.results):
            self._call_on_rows(name, rows)
        progress = self.progress
        progress.steps += 1
        self._watch.add(merge_facts(from_report(report["found"]) for report in outcome.reports))
        for warning in self._watch.warnings():
            progress.warn(warning)
        for report in outcome.reports:
            progress.rows_in += report["rows"]
            progress.count_dead(report["dead"])
            add_figures(progress.operators, {key: OperatorFigures(*each) for key, each in report["operators"].items()})
            for query, count in report["out"].items():
                progress.count_out(query, count)
        for stream, spread in outcome.spreads.items():
            progress.note_times(self.job.sources[stream].stream, spread)
        if not outcome.directive.finishing:
            progress.watermarks = outcome.watermarks
            progress.control = outcome.control
            figures = ("state_bytes", "state_rows", "cold_bytes")
            progress.note_state(*(sum(report[figure] for report in outcome.reports) for figure in figures))


def _make_setup(job: Job, checkpoint: str) -> Setup:
    streams = job.graph.streams
    return Setup(
        graph=job.graph,
        buckets=job.buckets,
        streams=streams,
        delays=job.delays,
        outputs=(*dict.fromkeys(s.query for s in job.graph.stages), DEAD_LETTERS),
        sinks=job.sinks,
        store=StateStore(checkpoint),
        tables=job.tables,
        meeting_streams=job.meeting_streams,
        times=job.times,
        most_pairs=job.most_pairs,
    )
