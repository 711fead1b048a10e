"""What a runtime is given, and what it gives back: the same for all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.sinks import FileSink
from tidegate.connectors.source import Source, version_of
from tidegate.connectors.time_values import Spread, unlikely_unit
from tidegate.errors import TidegateWarning
from tidegate.physical.common.operator import Facts
from tidegate.runtime.control import Losses, losses
from tidegate.runtime.pieces import MOST_PAIRS
from tidegate.runtime.reload import is_reloadable
from tidegate.runtime.stage import StageGraph
from tidegate.runtime.stream_origins import meeting_streams
from tidegate.runtime.watermarks import Silence
from tidegate.time import BEGINNING, CHRONON, FOREVER, TimeFormat

DEAD_LETTERS = "dead_letters"
"""The output that holds what could not take part; beside the queries by name."""

FINAL = "final"
"""The label of what is brought out at the end, as if the streams had ended."""


def system_time() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1_000


@dataclass(frozen=True, slots=True)
class Job:
    """A compiled program: its stages, where rows come from and where results go.

    An output without a file sink is handed to `on_rows`, in the process that started the job.
    """

    graph: StageGraph
    sources: Mapping[str, Source]
    sinks: Mapping[str, FileSink]
    buckets: int = 1
    identity: Mapping[str, object] = field(default_factory=dict)
    clock: Callable[[], int] = system_time
    """Tells the time in microseconds since 1970."""
    awaited: Mapping[str, str] = field(default_factory=dict)
    """Where streams wait for their first file, by name."""
    warnings: tuple[TidegateWarning, ...] = ()
    """What the plans show that is probably not meant."""
    times: TimeFormat = "iso"
    """How times leave the job."""
    most_pairs: int = MOST_PAIRS
    """A step in which a join makes more pairs than this is done in pieces."""

    def decoder(self, stream: str) -> Decoder:
        return self.sources[stream].decoder(self.graph.columns(stream))

    @property
    def delays(self) -> dict[str, int]:
        return {s: self.sources[s].stream.delay for s in self.graph.streams}

    @property
    def idle_after(self) -> dict[str, int]:
        """After how long a silence streams are no longer waited for, where that was asked for."""
        after = {s: self.sources[s].stream.idle_after for s in self.graph.streams}
        return {s: a for s, a in after.items() if a is not None}

    @property
    def tables(self) -> tuple[str, ...]:
        """Sources that are read as a whole, and whose rows are always valid."""
        return tuple(s for s in self.graph.streams if self.sources[s].stream.is_table)

    def tables_to_read(self, known: Mapping[str, object]) -> dict[str, str]:
        """Tables that have not been read, or that have changed since and can be read again; with their versions."""
        versions = {t: version_of(self.sources[t]) for t in self.tables}
        return {
            table: version
            for table, version in versions.items()
            if table not in known or (known[table] != version and is_reloadable(self.graph, table, self.tables))
        }

    def first_watermarks(self) -> dict[str, int]:
        return {s: FOREVER if s in self.tables else BEGINNING for s in self.graph.streams}

    @property
    def meeting_streams(self) -> tuple[frozenset[str], ...]:
        """Source streams in groups that meet in a query."""
        return meeting_streams(self.graph)

    def silence(self, watermarks: Mapping[str, int]) -> Silence:
        """Begin to listen to the streams, which have these watermarks now.

        A stream without times of its own is at the clock before its first row comes.
        """
        now = self.clock()
        stood = {
            s: now if mark == BEGINNING and self.sources[s].stream.is_timed_by_arrival else mark
            for s, mark in watermarks.items()
        }
        return Silence(self.idle_after, now, self.meeting_streams, stood)

    def arrival(self, before: Mapping[str, int]) -> int:
        """The time of rows that have none of their own: now, and later than that of all rows before."""
        earlier = [before[s] for s in self.graph.streams if self.sources[s].stream.is_timed_by_arrival]
        return max([self.clock(), *(mark + CHRONON for mark in earlier)])


def clear(sinks: Mapping[str, FileSink]) -> None:
    """Remove what an earlier run published: a run from the beginning makes all of it anew."""
    for sink in sinks.values():
        sink.clear()


def take_back_final(sinks: Mapping[str, FileSink]) -> None:
    """Remove what an earlier run brought out at its end: with new rows it need not hold any more."""
    for sink in sinks.values():
        sink.publish(FINAL, sink.begin(FINAL))


OnRows = Callable[[str, pa.RecordBatch], None]
"""Takes rows of an output: the name of the query (or `DEAD_LETTERS`), and the rows."""


@dataclass(slots=True)
class Progress:
    """Running figures of a job, as shown to people and exported as metrics."""

    rows_in: int = 0
    rows_out: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    state_bytes: int = 0
    cold_bytes: int = 0
    """Of state that is kept in files only, where these are local; not among the other figures of state."""
    peak_state_bytes: int = 0
    peak_state_rows: int = 0
    steps: int = 0
    steering: Mapping[str, Facts] = field(default_factory=dict)
    """The newest order of each steered operator, by ``stage/operator``."""
    started: float = field(default_factory=time.monotonic)
    warnings: list[TidegateWarning] = field(default_factory=list)
    """What looks wrong in the data, each once, in the order in which it was noticed."""
    timed: set[str] = field(default_factory=set)
    """Streams whose times have been looked at."""

    def warn(self, warning: TidegateWarning) -> None:
        """Note a warning about the data, unless it was noted before."""
        if warning not in self.warnings:
            self.warnings.append(warning)

    def note_times(self, stream: SourceStream, spread: Spread) -> None:
        """Warn, for the first times of a stream, if they look as if they were counted in another unit."""
        if stream.name not in self.timed:
            self.timed.add(stream.name)
            if (warning := unlikely_unit(stream, spread)) is not None:
                self.warn(warning)

    @property
    def watermark(self) -> int | None:
        """The slowest stream's watermark, once every stream has begun."""
        slowest = min(self.watermarks.values(), default=BEGINNING)
        return slowest if BEGINNING < slowest < FOREVER else None

    @property
    def losses(self) -> Losses | None:
        """Results that are missing because a constraint did not hold, as far as is known; None where nothing can be."""
        return losses(self.steering)

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
    """How far a query is. Only a running query changes its state."""

    RUNNING = "running"
    FINISHED = "finished"
    """It has read all of its input and delivered every result."""
    STOPPED = "stopped"
    """It was told to end; there may be more to read."""
    FAILED = "failed"
    """An error ended it."""


class Run(Protocol):
    """A job that runs until it has read all, is stopped, or fails."""

    progress: Progress

    @property
    def state(self) -> QueryState:
        """How far it is; known without waiting."""
        ...

    @property
    def error(self) -> BaseException | None:
        """What ended the job badly, if something did."""
        ...

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end; answers whether it has come. Raises what ended the job badly."""
        ...

    def finish(self) -> None:
        """Take the inputs as finished: read all that is there, deliver every result, end."""
        ...

    def stop(self) -> None:
        """End after the current step; what it made is delivered."""
        ...


def count_reasons(dead: pa.RecordBatch) -> dict[str, int]:
    """How many dead letters there are of each reason."""
    return {c["values"]: c["counts"] for c in dead.column("reason").value_counts().to_pylist()}
