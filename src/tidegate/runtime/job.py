"""Interface of all runtimes: the job they run, and the handle on the run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Protocol

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.limits import NO_LIMITS, ResourceLimits
from tidegate.connectors.decode import Decoder
from tidegate.connectors.ranges import Source
from tidegate.connectors.sinks import FileSink
from tidegate.connectors.source import version_of
from tidegate.connectors.time_values import Spread, unlikely_unit_warning
from tidegate.errors import TidegateWarning
from tidegate.physical.common.control import Losses
from tidegate.runtime.adaptation import Adapt, AdjustedWindows
from tidegate.runtime.control import NO_RECORDS, ControlRecords, total_losses
from tidegate.runtime.ending_phase import EndingPhase
from tidegate.runtime.figures import FiguresByPlace, Metadata, SourceFigures, StepPhases
from tidegate.runtime.live_tables import live_readings
from tidegate.runtime.pieces import MOST_PAIRS
from tidegate.runtime.reload import tables_to_read_again
from tidegate.runtime.sampling import SampledStream
from tidegate.runtime.source_distances import NO_DISTANCE, ObservedDistance
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.stream_origins import meeting_streams
from tidegate.runtime.watermarks import SilenceTracker
from tidegate.time import BEGINNING, CHRONON, FOREVER, TimeFormat

DEAD_LETTERS = "dead_letters"
"""Name of the output of rows that could not be processed. The other outputs are named by query."""

FINAL = "final"
"""Label of the results that are emitted at the end of a run, as if the streams had ended."""


def system_time() -> int:
    """Return the current time in microseconds since 1970."""
    return time.time_ns() // 1_000


@dataclass(frozen=True)  # no slots: what follows from a job is computed once and cached
class Job:
    """A compiled program: its stages, sources and sinks.

    An output without a file sink goes to the callback `on_rows`, in the process that started the job.
    """

    graph: StageGraph
    sources: Mapping[str, Source]
    sinks: Mapping[str, FileSink]
    buckets: int = 1
    identity: Mapping[str, object] = field(default_factory=dict)
    clock: Callable[[], int] = system_time
    """Returns the current time in microseconds since 1970."""
    awaited: Mapping[str, str] = field(default_factory=dict)
    """Locations at which streams wait for their first file, by stream."""
    warnings: tuple[TidegateWarning, ...] = ()
    """Warnings about the plans."""
    times: TimeFormat = "iso"
    """Format of times in the output."""
    is_live: bool = False
    """Whether queries come and go while the job runs."""
    endings: Mapping[int, EndingPhase] = field(default_factory=dict)
    """Phases of a live graph that end, by number."""
    most_pairs: int = MOST_PAIRS
    """A step in which a join makes more pairs than this runs in pieces."""
    adjusted: AdjustedWindows = field(default_factory=dict)
    """Windows and granularities whose size may change, by the keys of their histories."""
    limits: ResourceLimits = NO_LIMITS
    """Limits on what the job uses."""
    sheds: bool = False
    """Whether joins or alerts of the job may leave out comparisons."""
    adapt: Adapt | None = None
    """Hook that decides sizes after each step; without it, they are always the best ones."""

    def decoder(self, stream: str) -> Decoder:
        return self.sources[stream].decoder(self.graph.columns(stream))

    @cached_property
    def source_streams(self) -> dict[str, SourceStream]:
        return {s: self.sources[s].stream for s in self.graph.streams}

    @cached_property
    def delays(self) -> dict[str, int]:
        return {s: self.sources[s].stream.delay for s in self.graph.streams}

    @cached_property
    def idle_after(self) -> dict[str, int]:
        """Silence in microseconds after which a stream is idle, for the streams that declare it."""
        after = {s: self.sources[s].stream.idle_after for s in self.graph.streams}
        return {s: a for s, a in after.items() if a is not None}

    @cached_property
    def tables(self) -> tuple[str, ...]:
        """Names of the sources that are tables: they are read as a whole, and their rows are always valid."""
        return tuple(s for s in self.graph.streams if self.sources[s].stream.is_table)

    def tables_to_read(self, known: Mapping[str, object]) -> dict[str, str]:
        """Return the tables that are new, or that have changed and can be read again, with their versions.

        `known` has the versions of the tables that were read before. In a live graph, a new reader of a known table
        has an entry of its own (`live_tables.py`).
        """
        if not self.tables:
            return {}
        versions = {t: version_of(self.sources[t]) for t in self.tables}
        if self.is_live:
            return live_readings(self.graph, self.tables, versions, known)
        changed = [t for t, version in versions.items() if t in known and known[t] != version]
        again = tables_to_read_again(self.graph, changed, self.tables)
        return {table: version for table, version in versions.items() if table not in known or table in again}

    def first_watermarks(self) -> dict[str, int]:
        return {s: FOREVER if s in self.tables else BEGINNING for s in self.graph.streams}

    @cached_property
    def meeting_streams(self) -> tuple[frozenset[str], ...]:
        """Groups of source streams that meet in a query."""
        return meeting_streams(self.graph)

    def track_silence(self, watermarks: Mapping[str, int]) -> SilenceTracker:
        """Start to track the silence of the streams, which have these watermarks now.

        A stream that is timed by arrival starts at the current time of the clock.
        """
        now = self.clock()
        stood = {
            s: now if watermarks[s] == BEGINNING and self.sources[s].stream.is_timed_by_arrival else watermarks[s]
            for s in self.graph.streams
        }
        return SilenceTracker(self.idle_after, now, self.meeting_streams, stood)

    def arrival_time(self, before: Mapping[str, int]) -> int:
        """Return the time of new rows that are timed by arrival: now, but later than all earlier rows."""
        return max([self.clock(), *(before[s] + CHRONON for s in self._timed_by_arrival)])

    @cached_property
    def _timed_by_arrival(self) -> tuple[str, ...]:
        return tuple(s for s in self.graph.streams if self.sources[s].stream.is_timed_by_arrival)


def instant_after(job: Job, key: str, watermarks: Mapping[str, int]) -> int:
    """Return the first instant at which a change of a window's size may take effect, given the newest watermarks."""
    return job.adjusted[key].instant_after(watermarks, job.delays)


def clear_sinks(sinks: Mapping[str, FileSink]) -> None:
    """Remove everything that an earlier run published, because a run from the beginning publishes it again."""
    for sink in sinks.values():
        sink.clear()


def find_published_labels(sinks: Mapping[str, FileSink]) -> set[str]:
    """Return the labels under which an earlier run published something: a step with one of them replaces it."""
    return {label for sink in sinks.values() for label in sink.published_labels()}


def remove_final_results(sinks: Mapping[str, FileSink]) -> None:
    """Remove the final results of an earlier run, because new rows may make them wrong."""
    for sink in sinks.values():
        sink.withdraw(FINAL)


OnRows = Callable[[str, pa.RecordBatch], None]
"""Callback that takes the name of an output (a query, `DEAD_LETTERS`, "shedding" or "quality") and its rows."""


IsWanted = Callable[[str], bool]
"""Function that returns whether an output without a sink has a reader."""


class StepTime(NamedTuple):
    """When a step began, how many raw rows it had, and how many seconds it took, from its intent to its record."""

    step: int
    began: float
    """Seconds since 1970."""
    rows: int
    seconds: float
    phases: StepPhases = StepPhases()


KEPT_STEP_TIMES = 1000


@dataclass(slots=True)
class Progress:
    """Current figures of a job, for display."""

    rows_in: int = 0
    rows_out: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    state_bytes: int = 0
    cold_bytes: int = 0
    """Bytes of cold state. The other figures of state do not include it."""
    peak_state_bytes: int = 0
    peak_state_rows: int = 0
    steps: int = 0
    recent_steps: deque[StepTime] = field(default_factory=lambda: deque(maxlen=KEPT_STEP_TIMES))
    """Times of the last steps."""
    control: ControlRecords = field(default_factory=lambda: NO_RECORDS)
    """The newest record of each steered operator, by ``stage/operator``."""
    samples: tuple[SampledStream, ...] = ()
    """The samples of streams, with their newest rates."""
    phases: StepPhases = field(default_factory=StepPhases)
    """Seconds of each phase, in all steps of this process."""
    operators: FiguresByPlace = field(default_factory=dict)
    """Figures of all operators since the start of this process."""
    sources: dict[str, SourceFigures] = field(default_factory=dict)
    """Rows and rates of the sources since the start of this process."""
    distances: dict[str, ObservedDistance] = field(default_factory=dict)
    """Distances of the elements of the sources."""
    started: float = field(default_factory=time.monotonic)
    warnings: list[TidegateWarning] = field(default_factory=list)
    """Warnings about the data, each once, in the order of discovery."""
    timed: set[str] = field(default_factory=set)
    """Streams whose times have been checked."""

    def warn(self, warning: TidegateWarning) -> None:
        """Add a warning about the data, unless it is known."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def note_times(self, stream: SourceStream, spread: Spread) -> None:
        """Add a warning if the first times of a stream look as if they were in another unit."""
        if stream.name not in self.timed:
            self.timed.add(stream.name)
            if (warning := unlikely_unit_warning(stream, spread)) is not None:
                self.warn(warning)

    @property
    def watermark(self) -> int | None:
        """The lowest watermark of all streams; None until every stream has begun, and after all have ended."""
        slowest = min(self.watermarks.values(), default=BEGINNING)
        return slowest if BEGINNING < slowest < FOREVER else None

    @property
    def losses(self) -> Losses | None:
        """Estimate of the results that are missing because a constraint did not hold; None if none can be missing."""
        return total_losses(self.control)

    @property
    def omitted_rows(self) -> int:
        """Number of elements that were dropped because they cannot change whether an alarm is raised."""
        return sum(figures.omitted for figures in self.operators.values())

    def note_step(self, step: StepTime, arrived: Mapping[str, int]) -> None:
        """Note a step that ends now, and the rows of each source in it."""
        self.recent_steps.append(step)
        self.phases = self.phases.plus(step.phases)
        now = time.monotonic()
        for source, rows in arrived.items():
            self.sources[source] = self.sources.get(source, SourceFigures(now - step.seconds)).after(rows, now)
            known = self.distances.get(source, NO_DISTANCE)
            self.distances[source] = known.after(rows, self.watermarks.get(source, BEGINNING))

    def note_state(self, size: int, rows: int, cold: int = 0) -> None:
        self.state_bytes, self.cold_bytes = size, cold
        self.peak_state_bytes = max(size, self.peak_state_bytes)
        self.peak_state_rows = max(rows, self.peak_state_rows)

    def count_dead(self, reasons: Mapping[str, int]) -> None:
        for reason, count in reasons.items():
            self.dead[reason] = self.dead.get(reason, 0) + count

    def count_out(self, query: str, rows: int) -> None:
        self.rows_out[query] = self.rows_out.get(query, 0) + rows


class QueryState(StrEnum):
    """State of a query. Only a running query changes its state."""

    RUNNING = "running"
    FINISHED = "finished"
    """The query has processed all input and delivered every result."""
    STOPPED = "stopped"
    """The user stopped the query; there may be more input."""
    FAILED = "failed"
    """An error ended the query."""


class JobRun(Protocol):
    """A job that runs until it has processed all input, is stopped, or fails."""

    progress: Progress

    @property
    def state(self) -> QueryState:
        """State of the job. Never waits."""
        ...

    @property
    def error(self) -> BaseException | None:
        """Error that ended the job, if any."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end of the job and return whether it has ended. Raise its error if it failed."""
        ...

    def metadata(self, query: str | None = None) -> Metadata:
        """Return the metadata of the run, or of what one of its queries uses."""
        ...

    def explain(self, query: str) -> str:
        """Show the stages of a query with what they do."""
        ...

    def explain_cost(self, query: str) -> str:
        """Show the stages of a query with what they are estimated to need, and what they do."""
        ...

    def finish(self) -> None:
        """Process all available input as if the streams had ended, deliver every result, then end."""
        ...

    def stop(self) -> None:
        """Stop after the current step, whose results are delivered."""
        ...


def count_reasons(dead: pa.RecordBatch) -> dict[str, int]:
    """Return the number of dead letters by reason."""
    return {c["values"]: c["counts"] for c in dead.column("reason").value_counts().to_pylist()}
