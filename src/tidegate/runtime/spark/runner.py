"""The Spark runtime: one streaming query whose micro-batches run all stages as one Spark job."""

from __future__ import annotations

import math
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from time import perf_counter
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from tidegate.errors import DataError, InternalError, TidegateError
from tidegate.physical.operator import Facts
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.port import DEAD_LETTERS, FINAL, Job, OnRows, Progress, clear, take_back_final
from tidegate.runtime.shedding import SHEDDING, shed_rows
from tidegate.runtime.spark.orders import Orders, Setup, arrived_after, watermarks_after
from tidegate.runtime.spark.rows import TRAVELLING, Kind, read_rows
from tidegate.runtime.spark.sources import heartbeats, nothing, travelling_rows
from tidegate.runtime.spark.tasks import ROWS_PER_BATCH, read_table, run_levels
from tidegate.runtime.state import StateStore
from tidegate.runtime.steering import decided
from tidegate.runtime.watermarks import Silence

NOWHERE: Mapping[str, str] = {}
WORTH_A_SHUFFLE = 0.2
"""If tasks read for longer than so many seconds in the step before, they read at the same time, and shuffle."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to run on Spark."""

    checkpoint: str
    once: bool
    trigger: str = "0 seconds"


class SparkRun:
    """A job as one streaming query of a Spark session."""

    def __init__(self, job: Job, spark: SparkSession, settings: SparkSettings, *, on_rows: OnRows) -> None:
        self.job, self.spark, self.settings, self.on_rows = job, spark, settings, on_rows
        self.progress = Progress()
        self.checkpoint = Checkpoint(settings.checkpoint)
        self.checkpoint.claim({**job.identity, "buckets": job.buckets})
        if (last := self.checkpoint.last()) is None:
            clear(job.sinks)
        else:
            self.progress.steering = last.orders
        self.setup = _setup(job, settings.checkpoint)
        self._silence = Silence(job.idle_after, job.clock())
        self._error: TidegateError | None = None
        self._finished = False
        self._seconds_reading = math.inf  # there may be much to read at first
        self._began = perf_counter()
        self.query = self._start()

    def _start(self) -> StreamingQuery:
        rows: DataFrame | None = None
        for stream in (s for s in self.job.graph.streams if s not in self.job.tables):
            one = travelling_rows(self.spark, self.job, self.setup, stream)
            rows = one if rows is None else rows.union(one)
        if rows is None:
            message = "all that is read are tables: there is no stream that would make time go on"
            raise DataError("D107", message, hint="run it with --runtime embedded")
        if self.job.idle_after and not self.settings.once:
            rows = rows.union(heartbeats(self.spark, self.job.buckets))
        writer = rows.writeStream.foreachBatch(self._batch).option(
            "checkpointLocation", posixpath.join(self.settings.checkpoint, "spark")
        )
        trigger = (
            writer.trigger(availableNow=True)
            if self.settings.once
            else writer.trigger(processingTime=self.settings.trigger)
        )
        return trigger.start()

    def wait(self, timeout: float | None = None) -> bool:
        with self._told():
            ended = self.query.awaitTermination(timeout)  # type: ignore[arg-type]  # fractions are fine
            if ended is False:
                return False
            if self.settings.once and not self._finished:
                self._finish()
            return True

    def finish(self) -> None:
        with self._told():
            if not self.settings.once:
                self.query.processAllAvailable()
                self.query.stop()
            self.wait()
            if not self._finished:
                self._finish()

    def stop(self) -> None:
        self.query.stop()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Raise what went wrong as an error of ours."""
        try:
            yield
        except PySparkException as error:
            raise self._error or _explained(error) from error

    def _batch(self, rows: DataFrame, step: int) -> None:
        """One micro-batch. Whatever was done of it before a crash is done again, to the same end."""
        self._began = perf_counter() - self._outside()
        try:
            if not self.progress.steps:
                take_back_final(self.job.sinks)
            before = self.checkpoint.read(step - 1) if step else Record(-1, self.job.first_watermarks())
            tables = self.job.tables_to_read(before.positions)
            orders = replace(
                self._orders(before, step, f"batch-{step:08d}"), again=tuple(t for t in tables if t in before.positions)
            )
            self._step(orders, self._with_tables(orders, rows, tables), {**before.positions, **tables})
        except TidegateError as error:
            self._error = error
            raise

    def _finish(self) -> None:
        """Bring out what is still held back, as if the streams had ended; the checkpoint stays."""
        self._finished = True
        before = self.checkpoint.last()
        if before is None or self.job.graph.levels == 1:
            return
        orders = replace(self._orders(before, before.step + 1, FINAL), finishing=True)
        self._step(orders, nothing(self.spark.range(0, self.job.buckets, 1, 1), "cast(id AS INT)"))

    def _orders(self, before: Record, step: int, label: str) -> Orders:
        tokens = {name: sink.begin(label) for name, sink in self.job.sinks.items()}
        idle = self._silence.idle(self.job.clock())
        return Orders(
            step,
            label,
            before.watermarks,
            tokens,
            before.state,
            self.job.arrival(before.watermarks),
            idle,
            arrived=before.arrived,
            steering=before.orders,
        )

    def _with_tables(self, orders: Orders, rows: DataFrame, tables: Iterable[str]) -> DataFrame:
        """The rows of a step and those of tables, which are read here."""
        for name in tables:
            source, columns = self.job.sources[name], self.job.graph.columns(name)
            batches = [batch for batch, _ in source.read(None, ROWS_PER_BATCH, columns=columns)]
            made = read_table(self.setup, orders, name, self.job.decoder(name), batches)
            rows = rows.union(self.spark.createDataFrame(made, TRAVELLING))
        return rows

    def _step(self, orders: Orders, rows: DataFrame, positions: Mapping[str, str] = NOWHERE) -> None:
        orders.announce(self.spark.sparkContext)
        for levels in self._exchanges():
            running = run_levels(self.setup, orders, levels)
            rows = self._exchanged(rows).mapInArrow(running, TRAVELLING)
        outcome = _Outcome(self.setup, orders, rows.toArrow().to_batches(), lambda: perf_counter() - self._began)
        if not orders.finishing:
            self._tell_shed(outcome)
        for name, token in orders.tokens.items():
            self.job.sinks[name].publish(orders.label, token)
        if not orders.finishing:
            self.checkpoint.write(outcome.record(positions))
        self._silence.hear(outcome.latest, self.job.clock())
        self._account(outcome)
        self._seconds_reading = sum(report["seconds_reading"] for report in outcome.reports)

    def _tell_shed(self, outcome: _Outcome) -> None:
        """Say with the results of a step which share they are."""
        rows, orders = shed_rows(outcome.steering), outcome.orders
        if not rows.num_rows:
            return
        if SHEDDING in orders.tokens:
            self.job.sinks[SHEDDING].write(orders.label, orders.tokens[SHEDDING], SHEDDING, rows)
        else:
            self.on_rows(SHEDDING, rows)

    def _outside(self) -> float:
        """Seconds that Spark took for the batch before besides running it: it will take as long again."""
        last = self.query.lastProgress if hasattr(self, "query") else None  # a batch may begin before it is known here
        took = last["durationMs"] if last is not None else {}
        return max(0.0, float(took.get("triggerExecution", 0) - took.get("addBatch", 0)) / 1000)

    def _exchanged(self, rows: DataFrame) -> DataFrame:
        """Rows by their bucket. For one bucket, one task that reads everything is faster, if it is not much."""
        if self.job.buckets > 1 or self._seconds_reading > WORTH_A_SHUFFLE:
            return rows.repartitionById(self.job.buckets, "bucket")
        return rows.coalesce(1)

    def _exchanges(self) -> list[range]:
        """The levels to run after each shuffle. Where all elements are in one bucket, one shuffle is enough."""
        levels = range(1, self.job.graph.levels)
        if self.job.buckets == 1:
            return [levels] if levels else []
        return [range(level, level + 1) for level in levels]

    def _account(self, outcome: _Outcome) -> None:
        for name, rows in outcome.results:
            self.on_rows(name, rows)
        progress = self.progress
        progress.steps += 1
        for report in outcome.reports:
            progress.rows_in += report["rows"]
            progress.count_dead(report["dead"])
            for query, count in report["out"].items():
                progress.count_out(query, count)
        if not outcome.orders.finishing:
            progress.watermarks = outcome.watermarks
            progress.steering = outcome.steering
            figures = ("state_bytes", "state_rows", "cold_bytes")
            progress.note_state(*(sum(report[figure] for report in outcome.reports) for figure in figures))


def _setup(job: Job, checkpoint: str) -> Setup:
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
    )


class _Outcome:
    """What came back of all tasks of a step."""

    def __init__(
        self, setup: Setup, orders: Orders, batches: Iterable[pa.RecordBatch], seconds: Callable[[], float]
    ) -> None:
        self.setup, self.orders, self.seconds = setup, orders, seconds
        reports: list[tuple[int, Mapping[str, Any]]] = []
        self.results: list[tuple[str, pa.RecordBatch]] = []
        latest: dict[str, int] = {}
        rows = Counter[str]()
        for row in read_rows(batches):
            match row.kind:
                case Kind.REPORT:
                    reports.append((row.bucket, row.value))
                case Kind.RESULT:
                    self.results.append((setup.outputs[row.number], row.batch))
                case Kind.LATEST:
                    stream = setup.streams[row.number]
                    latest[stream] = max(row.value, latest.get(stream, row.value))
                case Kind.ARRIVED:
                    # Every bucket was told: one of them has it all.
                    rows[setup.streams[row.number]] += row.value if row.bucket == 0 else 0
                case Kind.NOTHING:
                    pass
                case _:
                    raise AssertionError(row.kind)
        self.reports = [report for _, report in sorted(reports, key=itemgetter(0))]
        self.latest = latest
        self.watermarks = watermarks_after(setup, orders, latest)
        self.arrived = arrived_after(setup, orders, rows)

    @cached_property
    def steering(self) -> dict[str, Facts]:
        """What steered operators are told in the next step."""
        reports = (report["steering"] for report in self.reports)
        return decided(self.setup.graph, self.orders.steering, reports, self.seconds())

    def record(self, positions: Mapping[str, str]) -> Record:
        files = {key: file for report in self.reports for key, file in report["files"].items()}
        state = {**self.orders.files, **files}
        return Record(self.orders.step, self.watermarks, state, positions, self.arrived, self.steering)


_OURS = re.compile(r"tidegate\.errors\.\w+: error\[(\w+)\]: (.*)(?:\n\s+= hint: (.*))?")


def _explained(error: PySparkException) -> TidegateError:
    """What a task of ours said, in its own words; else what Spark says."""
    text = str(error)
    if told := _OURS.search(text):
        code, message, hint = told.groups()
        return (DataError if code.startswith("D") else InternalError)(code, message, hint=hint)
    return DataError("D401", f"Spark ended the query: {_reason(text).strip()[:500]}")


def _reason(text: str) -> str:
    """The line that tells: under a traceback of Python the first that is not indented."""
    _, traceback, below = text.rpartition("Traceback (most recent call last):\n")
    if traceback:
        return next((line for line in below.splitlines() if not line.startswith((" ", "\t"))), text)
    return next((line for line in text.splitlines() if "Error" in line or "Exception" in line), text)
