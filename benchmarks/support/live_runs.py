"""Runs of a live session for the benchmark of live queries."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.support.live_queries import (
    STAYING,
    create_query,
    create_stream,
    live_queries,
    readings,
    write_readings,
)
from benchmarks.support.report import say
from tidegate.live.feeds import ResultFeed
from tidegate.live.session import LiveSession
from tidegate.runtime import bucket_step, pieces
from tidegate.runtime.embedded import engine, runner
from tidegate.runtime.figures import PhaseClock
from tidegate.runtime.job import StepTime
from tidegate.runtime.state import NO_SIZE
from tidegate.session import RuntimeName

ROOT = Path(__file__).resolve().parents[2]
BEGIN = 1_767_225_600_000_000
ROWS_PER_FILE = 50_000
ALIVE = 50
"""Number of queries that run while others come and go."""
PATIENCE = 300
"""Seconds after which a run that does not go on never will."""


def wait_for(live: LiveSession, holds: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not holds():
        if live.error is not None or time.monotonic() - began > PATIENCE:
            raise RuntimeError("the run does not go on") from live.error
        time.sleep(0.005)


class FileFeeder:
    """Readings in files of one second each; a file is one step."""

    def __init__(self, live: LiveSession, folder: Path) -> None:
        self.live, self.folder, self.files = live, folder, 0
        folder.mkdir()
        live.execute(create_stream(folder))

    def feed(self, during: Callable[[], object] | None = None) -> float:
        """Let the run read a file; return the processor time of that. `during` is called when it has been read."""
        rows = readings(ROWS_PER_FILE, BEGIN + self.files * 1_000_000, ROWS_PER_FILE, self.files)
        steps = self.live.progress().steps
        write_readings(self.folder / "next.tmp", rows)
        began = time.process_time()
        (self.folder / "next.tmp").rename(self.folder / f"{self.files:05}.csv")
        self.files += 1
        wait_for(self.live, lambda: len(self.live.progress().recent_steps) >= self.files)
        assert self.live.progress().steps == steps + 1
        if during is not None:
            during()
        return time.process_time() - began


# ---- (a) many queries


def measure_cost(folder: Path, queries: int, files: int, warm: int) -> float:
    """Return the processor seconds per row of a session with a number of queries."""
    with LiveSession(checkpoint=str(folder / f"cost-{queries}"), buckets=1) as live:
        feeder = FileFeeder(live, folder / f"readings-{queries}")
        live.execute(";".join(create_query(*each) for each in live_queries(queries)))
        for _ in range(warm):
            feeder.feed()
        cost = float(np.median([feeder.feed() for _ in range(files)])) / ROWS_PER_FILE
        out = sum(live.progress().rows_out.values()) / feeder.files / ROWS_PER_FILE
    say(f"{queries:>6,} queries: {cost * 1e6:,.2f} µs of processor time per row, {out:,.1f} results per row")
    return cost


# ---- (b) queries that come and go


@dataclass(frozen=True, slots=True)
class Changes:
    """Milliseconds of registrations and drops, steps meanwhile, and whether the query that stayed is right."""

    registered: Sequence[float]
    dropped: Sequence[float]
    steps: Sequence[StepTime]
    rows_per_s: float
    right: bool

    @property
    def median_step(self) -> float:
        return float(np.median([step.seconds for step in self.steps]))

    @property
    def longest_gap(self) -> float:
        """The longest time between two steps, in steps of median length."""
        pairs = zip(self.steps, self.steps[1:], strict=False)
        return max(after.began - step.began - step.seconds for step, after in pairs) / self.median_step


def measure_changes(folder: Path, runtime: RuntimeName, rows_per_s: int, queries: int) -> Changes:
    """Register and drop queries, one by one, while rows flow."""
    folder.mkdir()
    path = folder / "all.csv"
    path.write_text(f"at,room,sensor,celsius,watt\n{BEGIN},0,0,0.0,0.0\n", encoding="utf-8")
    with LiveSession(checkpoint=str(folder / "state"), runtime=runtime, master="local[2]", buckets=1) as live:
        live.execute(create_stream(folder))
        _, feed = live.follow(create_query("staying", STAYING))
        collected = _collect(feed)
        live.execute(";".join(create_query(f"first_{name}", text) for name, text in live_queries(10)))
        wait_for(live, lambda: live.progress().rows_in > 0)
        with _writer(path, rows_per_s):
            wait_for(live, lambda: live.progress().rows_in > 4 * rows_per_s)  # kernels are loaded
            gc.collect()
            gc.freeze()  # as the service does when it starts
            began, rows = time.monotonic(), live.progress().rows_in
            first = live.progress().steps
            registered, dropped = _come_and_go(live, queries)
            rate = (live.progress().rows_in - rows) / (time.monotonic() - began)
            steps = [step for step in list(live.progress().recent_steps) if step.step > first]
        rows = path.read_bytes().count(b"\n") - 1
        wait_for(live, lambda: live.progress().rows_in >= rows and live.progress().steps > 0)
        live.close()
    return Changes(registered, dropped, steps, rate, _is_right(folder, rows, collected()))


def _come_and_go(live: LiveSession, queries: int) -> tuple[list[float], list[float]]:
    registered, dropped, waiting = list[float](), list[float](), list[str]()
    for name, text in live_queries(queries):
        registered.append(_milliseconds(live, create_query(name, text)))
        waiting.append(name)
        if len(waiting) > ALIVE:
            dropped.append(_milliseconds(live, f"DROP QUERY {waiting.pop(0)}"))
    dropped += [_milliseconds(live, f"DROP QUERY {name}") for name in waiting]
    return registered, dropped


def _milliseconds(live: LiveSession, statement: str) -> float:
    began = time.perf_counter()
    live.execute(statement)
    return (time.perf_counter() - began) * 1000


@contextmanager
def _writer(path: Path, rows_per_s: int) -> Iterator[None]:
    command = [str(path), str(rows_per_s), str(time.time() + 3)]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "benchmarks.contestants.readings_writer", *command], env={"PYTHONPATH": str(ROOT)}
    ) as writer:
        try:
            yield
        finally:
            writer.terminate()


def _collect(feed: ResultFeed) -> Callable[[], pa.Table]:
    """Collect the rows of a feed in a thread; return the function that waits for its end and returns them."""
    batches: list[pa.RecordBatch] = []
    thread = threading.Thread(target=lambda: batches.extend(feed), daemon=True)
    thread.start()

    def collected() -> pa.Table:
        thread.join()
        assert not feed.dropped
        return pa.Table.from_batches(batches, schema=feed.schema)

    return collected


def _is_right(folder: Path, rows: int, found: pa.Table) -> bool:
    """Return whether the query that stayed has the results that it has alone, over the same rows."""
    with LiveSession(checkpoint=str(folder / "alone"), buckets=1) as live:
        live.execute(create_stream(folder))
        _, feed = live.follow(create_query("staying", STAYING))
        collected = _collect(feed)
        wait_for(live, lambda: live.progress().rows_in >= rows and bool(live.progress().recent_steps))
        live.close()
    expected = collected()
    say(f"          the query that stayed: {found.num_rows:,} results, {expected.num_rows:,} alone")
    order = [(name, "ascending") for name in expected.column_names]
    return bool(expected.num_rows > 0 and found.sort_by(order).equals(expected.sort_by(order)))


# ---- (c) metadata


def measure_metadata(folder: Path, queries: int, rounds: int) -> dict[str, float]:
    """Return the processor seconds of a step without figures, with them, and with a reader after every step."""
    with LiveSession(checkpoint=str(folder / "metadata"), buckets=1) as live:
        feeder = FileFeeder(live, folder / "watched")
        live.execute(";".join(create_query(*each) for each in live_queries(queries)))
        for _ in range(5):
            feeder.feed()
        gc.collect()
        gc.freeze()  # as the service does when it starts
        took: dict[str, list[float]] = {"off": [], "on": [], "subscribed": []}
        random = np.random.default_rng(0)
        for _ in range(rounds):
            # In a fixed order, each mode would pay for what the one before it left to the collector of garbage.
            for mode in random.permutation(list(took)).tolist():
                with without_figures() if mode == "off" else nullcontext():
                    took[mode].append(feeder.feed(live.metadata if mode == "subscribed" else None))
    return {mode: float(np.median(seconds)) for mode, seconds in took.items()}


@contextmanager
def without_figures() -> Iterator[None]:
    """Let the embedded runtime count nothing, to see what counting costs."""
    with (
        patch.object(bucket_step, "add_figures", lambda *_: None),
        patch.object(pieces, "add_figures", lambda *_: None),
        patch.object(engine, "add_figures", lambda *_: None),
        patch.object(runner, "add_figures", lambda *_: None),
        patch.object(engine.Engine, "state_size", lambda _: NO_SIZE),
        patch.object(PhaseClock, "measure", lambda *_: nullcontext()),
        patch("tidegate.runtime.stage.perf_counter", lambda: 0.0),
    ):
        yield
