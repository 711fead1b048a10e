"""A live session with a resource manager: queries of Table 24.1 come, and the load changes (PIPES, section 24.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.support.adaptation_kept import Kept
from benchmarks.support.adaptation_runs import BEGIN, SECOND, Watched
from benchmarks.support.cost_queries import MINUTE, Mix, MixWriter
from tidegate.live.session import LiveSession
from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.embedded.live_runner import LiveEmbeddedRun
from tidegate.runtime.resources.manager import ResourceManager

T = TypeVar("T")

SURGE = 3.0
"""Factor by which all streams become faster for a while."""


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
    watched, writer = Watched(lambda _: {}), _write_mix(plan, seed)
    with SteppedSession(folder / "checkpoint", watched) as live:
        feeder = _Feeder(live, writer, folder / "rows", plan.step)
        queries = islice(writer.queries(), plan.queries)
        live.execute(";".join(f"CREATE QUERY q{number} AS {text}" for number, text in enumerate(queries)))
        window = plan.longest // plan.step
        feeder.run(2 * window)
    return plan.share * float(np.mean([each.memory for each in watched.moments[-window:]]))


def _write_mix(plan: Plan, seed: int) -> MixWriter:
    return MixWriter(
        Mix(plan.queries + plan.rounds * plan.new + plan.burst, longest=plan.longest, seed=seed, adapts=True)
    )


def keep_limit(folder: Path, plan: Plan, limit: float, seed: int) -> Kept:
    """Run the mix within a limit while queries come, and while all streams become three times as fast for a while."""
    # A run that is many times as fast as its rows would leave a manager with a clock no time.
    writer, manager = _write_mix(plan, seed), ResourceManager(clock=lambda: 0.0)
    kept = Kept(limit, Watched(manager))
    with SteppedSession(folder / "checkpoint", kept.watched) as live:
        live.execute(f"SET memory_limit = {int(limit)}")
        feeder = _Feeder(live, writer, folder / "rows", plan.step)
        queries = (f"CREATE QUERY q{number} AS {text}" for number, text in enumerate(writer.queries()))

        def register(count: int) -> None:
            if texts := list(islice(queries, count)):
                live.execute(";".join(texts))
                kept.events.append(kept.now)

        register(plan.queries)
        feeder.run(plan.calm)
        kept.end_span("calm", manager)
        for _ in range(plan.rounds):
            register(plan.new)
            feeder.run(plan.pause)
        feeder.run(plan.settle)
        kept.end_span("rounds", manager)
        register(plan.burst)
        feeder.run(plan.rest)
        kept.end_span("burst", manager)
        for name, surge in (("surge", SURGE), ("after", 1.0)):
            writer.surge = surge
            kept.events.append(kept.now)
            feeder.run(plan.surge)
            kept.end_span(name, manager)
        kept.warnings = len(live.progress().warnings)
    return kept


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
