"""A live session with a resource manager: queries of Table 24.1 come, and the load changes (PIPES, section 24.4)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.support.adaptation_runs import BEGIN, SECOND, Moment, Watched
from benchmarks.support.cost_queries import MINUTE, Mix, MixWriter
from tidegate.live.session import LiveSession
from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.embedded.live_runner import LiveEmbeddedRun
from tidegate.runtime.resources.choose_sizes import sizes_at
from tidegate.runtime.resources.decide import quality_of
from tidegate.runtime.resources.manager import ResourceManager

T = TypeVar("T")
FRACTIONS = np.linspace(0.0, 1.0, 101)


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
    share: float
    """Limit, as a share of what the queries of the beginning need with their best sizes."""

    @property
    def window(self) -> float:
        """Return the length of the longest window, in seconds."""
        return self.longest / SECOND


@dataclass(slots=True)
class Kept:
    """What a managed run did: its moments, its limit, and when load or queries changed, in seconds."""

    limit: float
    moments: list[Moment]
    changes: list[float]
    events: list[float] = field(default_factory=list)
    quality_vs_best: list[float] = field(default_factory=list)
    """Quality of the sizes in force relative to the best that fits, at the end of steady spans."""
    warnings: int = 0

    def is_steady(self, now: float, window: float) -> bool:
        """Return whether no event was in the last window."""
        return now >= window and not any(each <= now < each + window for each in self.events)

    def overshoot(self, window: float) -> float:
        """Return the most memory relative to the limit when the last change has had its effect."""
        return max(each.memory / self.limit for each in self.moments if self.is_steady(each.now, window))

    def changes_per_window(self, window: float) -> float:
        """Return how often sizes change in the time of the longest window while nothing else changes."""
        steady = [each.now for each in self.moments if self.is_steady(each.now, 2 * window)]
        step = self.moments[1].now - self.moments[0].now
        changed = [each for each in self.changes if self.is_steady(each, 2 * window)]
        return len(changed) * window / (step * max(len(steady), 1))


def find_limit(folder: Path, plan: Plan) -> float:
    """Return the share of the memory that the first queries use with full windows and without a limit."""
    watched, writer = Watched(lambda _: {}), _write_mix(plan)
    with SteppedSession(folder / "checkpoint", watched) as live:
        feeder = _Feeder(live, writer, folder / "rows", plan.step)
        live.execute(";".join(f"CREATE QUERY q{n} AS {text}" for n, text in enumerate(_take(writer, plan.queries))))
        window = plan.longest // plan.step
        feeder.run(2 * window)
    return plan.share * float(np.mean([each.memory for each in watched.moments[-window:]]))


def _write_mix(plan: Plan) -> MixWriter:
    return MixWriter(Mix(plan.queries + plan.rounds * plan.new + plan.burst, longest=plan.longest, adapts=True))


def _take(writer: MixWriter, count: int) -> list[str]:
    return list(islice(writer.queries(), count))


def keep_limit(folder: Path, plan: Plan, limit: float) -> Kept:
    """Run the mix within a limit while queries come."""
    writer = _write_mix(plan)
    manager = ResourceManager()
    watched = Watched(manager)
    with SteppedSession(folder / "checkpoint", watched) as live:
        live.execute(f"SET memory_limit = {int(limit)}")
        feeder = _Feeder(live, writer, folder / "rows", plan.step)
        queries = (f"CREATE QUERY q{number} AS {text}" for number, text in enumerate(writer.queries()))
        kept = Kept(limit, watched.moments, watched.changes)
        _register(live, queries, plan.queries, kept, 0.0)
        feeder.run(plan.calm)
        _note_quality(kept, watched, manager)
        for _ in range(plan.rounds):
            _register(live, queries, plan.new, kept, watched.moments[-1].now)
            feeder.run(plan.pause)
        feeder.run(plan.settle)
        _note_quality(kept, watched, manager)
        _register(live, queries, plan.burst, kept, watched.moments[-1].now)
        feeder.run(plan.rest)
        _note_quality(kept, watched, manager)
        kept.warnings = len(live.progress().warnings)
    return kept


def _register(live: LiveSession, queries: Iterator[str], count: int, kept: Kept, now: float) -> None:
    if texts := list(islice(queries, count)):
        live.execute(";".join(texts))
        kept.events.append(now)


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


def _note_quality(kept: Kept, watched: Watched, manager: ResourceManager) -> None:
    """Compare the sizes in force with the best of all common fractions that fit, of windows and of granules."""
    seen = watched.newest
    assert seen is not None
    bounds = {key: each.bounds for key, each in seen.windows.items()}
    planned = seen.limits.without_reserve()
    best = 0.0
    for granules in np.linspace(0.0, 1.0, 5):
        fixed = {key: size for key, size in sizes_at(bounds, float(granules)).items() if bounds[key].chain}
        for windows in FRACTIONS[::-1]:
            sizes = sizes_at(bounds, float(windows)) | fixed
            if manager.estimate(seen.graph, sizes).exceeds(planned) is None:
                best = max(best, quality_of(sizes, bounds))
                break
    now = {key: watched.moments[-1].sizes[key] for key in bounds}
    # If nothing better than the worst sizes fits, there is nothing to compare with.
    kept.quality_vs_best += [quality_of(now, bounds) / best] if best else []


QUICK = Plan(12, 3 * MINUTE, 10 * SECOND, 54, 2, 3, 1, 45, 3, 45, 1.6)
FULL = Plan(100, 10 * MINUTE, 15 * SECOND, 120, 10, 5, 1, 120, 15, 120, 0.6)
