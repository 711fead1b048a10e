"""A live session with a resource manager: queries of Table 24.1 come, and the load changes (PIPES, section 24.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.support.adaptation_kept import Kept, compare
from benchmarks.support.adaptation_runs import BEGIN, SECOND, Watched
from benchmarks.support.cost_queries import MINUTE, Mix, MixWriter
from tidegate.live.session import LiveSession
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adapt, Adaptation
from tidegate.runtime.embedded.live_runner import LiveEmbeddedRun
from tidegate.runtime.resources.manager import ResourceManager

T = TypeVar("T")

SURGE = 3.0
"""Factor by which all streams become faster for a while."""

COMPARISONS = 6
"""Moments of the last window of a span at which sizes are compared with the best ones."""

ROOM = 1.5
"""Limit for that, relative to what the worst sizes use then: a fifth of a limit is kept in reserve."""


class SteppedRun(LiveEmbeddedRun):
    """A run without a thread: one step for each file of each stream."""

    def _begin(self) -> None:
        pass

    def step(self) -> bool:
        """Run the next step; return whether there was one."""
        is_due = self._before_step()
        tables = self.job.tables_to_read(self.tables)
        found = {s: each.read_next(self.rows_per_step, growing=True) for s, each in self._inputs.items()}
        if not is_due and not tables and not any(each.batches for each in found.values()):
            return False
        self._run_step(found, self._intend_step(found, tables))
        return True

    def leave(self) -> None:
        self._release_lock()
        if self._events is not None:
            self._events.close()


class SteppedSession(LiveSession):
    """A live session that runs a step when it is asked to."""

    _run: SteppedRun

    def __init__(self, checkpoint: Path, adapt: Adapt) -> None:
        super().__init__(checkpoint=str(checkpoint), buckets=1, adapt=adapt, reoptimize=False)

    def _start_run(self) -> SteppedRun:
        job = self._live.make_job(self._sources, self._session.choose_buckets(self._root), self._adapt)
        version = self._live.version
        settings: dict[str, Any] = {"forgotten": version.forgotten, "moved": version.moved}
        settings |= {"checkpoint": self._root, "between": self._between_steps}
        return SteppedRun(job, on_rows=lambda *_: None, **settings)

    def _submit(self, change: Callable[[], T]) -> T:
        return change()

    def step(self) -> bool:
        return self._run.step()

    def close(self) -> None:
        """Leave the run, which has no thread that could end."""
        self._run.leave()
        self._session.close()


@dataclass(frozen=True, slots=True)
class Plan:
    """Sizes of the run: times are in steps."""

    queries: int
    longest: int
    step: int
    calm: int
    """Steps before the first new query comes."""
    rounds: int
    """Times at which new queries come."""
    pause: int
    """Steps between them."""
    new: int
    """Queries of a round."""
    settle: int
    """Steps after the last round."""
    burst: int
    """Queries that come at once then."""
    rest: int
    """Steps after the burst."""
    surge: int
    """Steps for which all rates are three times as large, and steps after that."""
    share: float
    """Limit, as a share of what the queries of the beginning need with their best sizes."""

    @property
    def window(self) -> float:
        """Return the length of the longest window, in seconds."""
        return self.longest / SECOND


def find_limit(folder: Path, plan: Plan, seed: int) -> float:
    """Return the share of the memory that the first queries use with full windows and without a limit."""
    return plan.share * _measure_memory(folder, plan, seed, lambda _: {})


def find_limit_of_surge(folder: Path, plan: Plan, seed: int) -> float:
    """Return a limit that the worst sizes can keep while rates are high: they use two thirds of it, on average."""
    return ROOM * _measure_memory(folder, plan, seed, _choose_worst, SURGE)


def _measure_memory(folder: Path, plan: Plan, seed: int, adapt: Adapt, surge: float = 1.0) -> float:
    """Return the memory of the first queries when windows have been full for as long as the longest one."""
    watched, writer = Watched(adapt), _write_mix(plan, seed)
    writer.surge = surge
    with SteppedSession(folder / "checkpoint", watched) as live:
        feeder = _Feeder(live, writer, folder / "rows", plan.step)
        queries = islice(writer.queries(), plan.queries)
        live.execute(";".join(f"CREATE QUERY q{number} AS {text}" for number, text in enumerate(queries)))
        window = plan.longest // plan.step
        feeder.run(2 * window)
    return float(np.mean([each.memory for each in watched.moments[-window:]]))


def _choose_worst(seen: Adaptation) -> Mapping[str, SizeHistory]:
    newest = {key: each.newest.size for key, each in seen.sizes.items()}
    worst = {key: each.bounds.worst for key, each in seen.windows.items()}
    return {key: seen.change(key, size) for key, size in worst.items() if newest[key] != size}


def _write_mix(plan: Plan, seed: int) -> MixWriter:
    queries = plan.queries + plan.rounds * plan.new + plan.burst
    return MixWriter(Mix(queries, longest=plan.longest, seed=seed, adapts=True))


def keep_limit(folder: Path, plan: Plan, limit: float, seed: int) -> Kept:
    """Run the mix within a limit while queries come."""
    with _managed(folder, plan, limit, seed) as run:
        run.register(plan.queries)
        run.feed(plan.calm, "calm")
        for _ in range(plan.rounds):
            run.register(plan.new)
            run.feed(plan.pause)
        run.feed(plan.settle, "rounds")
        run.register(plan.burst)
        run.feed(plan.rest, "burst")
    return run.kept


def keep_limit_in_surge(folder: Path, plan: Plan, limit: float, seed: int) -> Kept:
    """Run the first queries of the mix within a limit while all streams become faster, and slower again."""
    with _managed(folder, plan, limit, seed) as run:
        run.register(plan.queries)
        run.feed(plan.calm, "calm")
        for name, surge in (("surge", SURGE), ("after", 1.0)):
            run.change_rates(surge)
            run.feed(plan.surge, name)
    return run.kept


@contextmanager
def _managed(folder: Path, plan: Plan, limit: float, seed: int) -> Iterator[_ManagedRun]:
    # A run that is many times as fast as its rows would leave a manager with a clock no time.
    manager = ResourceManager(clock=lambda: 0.0)
    kept = Kept(limit, Watched(manager))
    with SteppedSession(folder / "checkpoint", kept.watched) as live:
        live.execute(f"SET memory_limit = {int(limit)}")
        feeder = _Feeder(live, _write_mix(plan, seed), folder / "rows", plan.step)
        yield _ManagedRun(feeder, manager, kept, plan.longest // plan.step)
        kept.warnings = len(live.progress().warnings)


class _ManagedRun:
    """A session with a manager, its rows and its queries, and what it does."""

    def __init__(self, feeder: _Feeder, manager: ResourceManager, kept: Kept, window: int) -> None:
        self._window = window
        self._live, self._writer, self._feeder = feeder.live, feeder.writer, feeder
        self._manager, self.kept = manager, kept
        texts = enumerate(feeder.writer.queries())
        self._queries = (f"CREATE QUERY q{number} AS {text}" for number, text in texts)

    def register(self, count: int) -> None:
        if texts := list(islice(self._queries, count)):
            self._live.execute(";".join(texts))
            self.kept.events.append(self.kept.now)

    def change_rates(self, surge: float) -> None:
        self._writer.surge = surge
        self.kept.events.append(self.kept.now)

    def feed(self, steps: int, name: str | None = None) -> None:
        """Run some steps; with a name, they end a span."""
        if name is None:
            self._feeder.run(steps)
            return
        pause = max(self._window // COMPARISONS, 1)
        self._feeder.run(steps - COMPARISONS * pause)
        compared = []
        for _ in range(COMPARISONS):
            self._feeder.run(pause)
            compared.append(compare(self._manager, self.kept.watched))
        self.kept.end_span(name, compared)


class _Feeder:
    """Writer of the rows of steps into files."""

    def __init__(self, live: SteppedSession, writer: MixWriter, folder: Path, step: int) -> None:
        self.live, self.writer, self.folder, self.length, self.steps = live, writer, folder, step, 0
        for number in range(len(writer.rates)):
            (folder / f"s{number}").mkdir(parents=True)
        live.execute(writer.streams().replace("FROM 's", f"FROM '{folder}/s").replace(".csv'", "/*.csv'"))
        # A stream that is read for the first time has all of its rows so far: those of these queries read it in time.
        reads = (
            f"CREATE QUERY r{number} AS SELECT v FROM s{number} WHERE v > 2" for number in range(len(writer.rates))
        )
        live.execute(";".join(reads))

    def run(self, steps: int) -> None:
        for _ in range(steps):
            begin = BEGIN + self.steps * self.length
            for stream, rows in self.writer.rows(begin, begin + self.length).items():
                if rows.num_rows:
                    self._write(stream, rows)
            while self.live.step():
                pass
            self.steps += 1

    def _write(self, stream: str, rows: pa.RecordBatch) -> None:
        part = self.folder / f"{stream}.part"
        csv.write_csv(pa.Table.from_batches([rows]), part)
        part.rename(self.folder / stream / f"{self.steps:06}.csv")


QUICK = Plan(12, 3 * MINUTE, 10 * SECOND, 54, 2, 3, 1, 45, 3, 45, 72, 1.6)
FULL = Plan(100, 10 * MINUTE, 15 * SECOND, 120, 10, 5, 1, 120, 15, 120, 160, 0.6)
