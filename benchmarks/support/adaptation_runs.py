"""Runs of which the sizes of windows follow a script, for the benchmark of adaptation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adapt, Adaptation
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.figures import figures_of_operators
from tidegate.runtime.warm import warm_up

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND

STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, at BIGINT) FROM '{name}.csv' TIMESTAMP BY at;\n" for name in "ab"
)


@dataclass(frozen=True, slots=True)
class Moment:
    """What a run has kept and done when its time is `now`, in seconds."""

    now: float
    memory: float
    cpu: float
    """Seconds of all operators so far."""
    rows_out: int
    """Elements that the last operator has given so far."""
    sizes: Mapping[str, int]


@dataclass(slots=True)
class Watched:
    """A hook that notes what a run uses and asks another one what changes."""

    adapt: Adapt
    moments: list[Moment] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    newest: Adaptation | None = None

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        found = self.adapt(seen)
        now = (max(seen.watermarks.values()) - BEGIN) / SECOND
        figures = figures_of_operators(seen.figures.copy())
        sizes = {key: each.newest.size for key, each in {**seen.sizes, **found}.items()}
        cpu = sum(each.seconds for each in figures.values())
        rows_out = figures[max(figures)].rows_out if figures else 0
        self.moments.append(Moment(now, float(seen.state.bytes), cpu, rows_out, sizes))
        self.changes += [now] if found else []
        self.newest = seen
        return found

    def between(self, begin: float, end: float) -> list[Moment]:
        return [each for each in self.moments if begin <= each.now < end]

    def memory(self, begin: float, end: float) -> float:
        """Return the average memory of a span."""
        return float(np.mean([each.memory for each in self.between(begin, end)]))

    def cpu(self, begin: float, end: float) -> float:
        """Return the processor seconds for each second of a span."""
        span = self.between(begin, end)
        return (span[-1].cpu - span[0].cpu) / (span[-1].now - span[0].now)


def follow_script(script: Mapping[float, float]) -> Adapt:
    """Return a hook that gives all windows a share of their range of sizes at some times, in seconds."""
    given: set[float] = set()

    def adapt(seen: Adaptation) -> Mapping[str, SizeHistory]:
        now = (max(seen.watermarks.values()) - BEGIN) / SECOND
        due = [time for time in script if time <= now + 1e-3 and time not in given]
        if not due:
            return {}
        given.update(due)
        best = script[due[-1]]
        bounds = {key: each.bounds for key, each in seen.windows.items()}
        sizes = {key: each.best if best else each.worst for key, each in bounds.items()}
        return {key: seen.change(key, size, "script") for key, size in sizes.items()}

    return adapt


def make_rows(seconds: int, rate: int, seed: int, keys: int) -> pa.Table:
    """Return elements at random times, as many in each second."""
    random = np.random.default_rng(seed)
    times = [BEGIN + np.sort(random.integers(s * SECOND, (s + 1) * SECOND, rate)) for s in range(seconds)]
    count = rate * seconds
    found = {"k": pa.array(random.integers(0, keys, count), pa.int32()), "v": random.random(count)}
    return pa.table({**found, "at": np.concatenate(times)})


def run_with(
    text: str, tables: Mapping[str, pa.Table], adapt: Adapt, rows_per_step: int,
    on_rows: Callable[[str, pa.RecordBatch], None] = lambda *_: None,
) -> Watched:  # fmt: skip
    """Run a program over tables, and return what was noted after each step."""
    program = bind(text)
    named = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
    empty = next(iter(tables.values())).slice(0, 0)
    sources = {each.name: MemorySource(each, tables.get(each.name, empty)) for each in named}
    job = compile_job(program, sinks={}, sources=sources)
    warm_up(job.graph)
    watched = Watched(adapt)
    run = EmbeddedRun(replace(job, adapt=watched), on_rows=on_rows, once=True, rows_per_step=rows_per_step)
    run.wait()
    return watched
