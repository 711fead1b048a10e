"""Runs within limits: sizes fall when the load rises, and rise again when it falls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.limits import NO_LIMITS
from tidegate.connectors.memory import MemorySource
from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import Flow
from tidegate.language.bind.program import bind
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adaptation
from tidegate.runtime.compile import compile_job
from tidegate.runtime.costs.knowledge import USUAL_SOURCE, Knowledge
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.resources.knowledge import assume_unread
from tidegate.runtime.resources.managed_job import manage_job
from tidegate.runtime.resources.manager import ResourceManager

SECOND = 1_000_000
BEGIN = 1_767_225_600 * SECOND
STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, at BIGINT) FROM '{name}.csv' TIMESTAMP BY at;\n" for name in "ab"
)
WINDOW = "WINDOW(RANGE MIN 10 SECONDS, MAX 60 SECONDS)"
JOIN = f"SELECT a.v AS x, b.v AS y FROM a {WINDOW}, b {WINDOW} WHERE a.k = b.k"
LOAD = [100] * 200 + [300] * 400 + [100] * 400
"""Rows a second: the load triples, then falls."""


def rows(rates: Sequence[int], seed: int) -> pa.Table:
    random = np.random.default_rng(seed)
    at = np.concatenate([np.sort(random.integers(s * SECOND, (s + 1) * SECOND, rate)) for s, rate in enumerate(rates)])
    keys = pa.array(random.integers(0, 2000, len(at)), pa.int32())
    return pa.table({"k": keys, "v": random.random(len(at)), "at": BEGIN + at})


class Watched:
    """A resource manager, with what it saw and decided."""

    def __init__(self, manager) -> None:
        self.manager = manager
        self.seen: list[tuple[float, int, list[int]]] = []
        """Seconds since the beginning, bytes of state, and sizes in seconds."""
        self.changed: list[float] = []

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        found = self.manager(seen)
        now = (min(seen.watermarks.values()) - BEGIN) / SECOND
        sizes = [each.newest.size // SECOND for each in {**seen.sizes, **found}.values()]
        self.seen.append((now, seen.state.bytes, sizes))
        self.changed += [now] if found else []
        return found

    def between(self, begin: float, end: float) -> list[tuple[float, int, list[int]]]:
        return [each for each in self.seen if begin <= each[0] < end]


def run(text: str, rates: Sequence[int]) -> tuple[Watched, EmbeddedRun]:
    program = bind(text)
    named = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
    sources = {each.name: MemorySource(each, rows(rates, seed)) for seed, each in enumerate(named)}
    # A clock that stands still: when the manager may decide does not depend on the speed of the machine.
    job = manage_job(compile_job(program, sinks={}, sources=sources), ResourceManager(clock=lambda: 0.0))
    watched = Watched(job.adapt)
    made = EmbeddedRun(
        replace(job, adapt=watched), on_rows=lambda *_: None, once=True, rows_per_step=400, is_wanted=lambda _: False
    )
    made.wait()
    return watched, made


def test_a_run_keeps_its_memory_limit_and_gets_its_quality_back():
    watched, made = run(f"SET memory_limit = '1 MB';\n{STREAMS}{JOIN}", LOAD)
    assert all(sizes == [60, 60] for _, _, sizes in watched.between(0, 200))
    # A change has its full effect when the elements of before are gone.
    assert max(size for _, size, _ in watched.between(200 + 130, 600)) <= 1.1e6
    assert max(size for _, size, _ in watched.between(0, 1000)) <= 1.5e6
    assert all(10 <= size < 60 for _, _, sizes in watched.between(260, 600) for size in sizes)
    assert watched.seen[-1][2] >= [57, 57]
    pauses = np.diff(watched.changed)
    assert all(pauses >= 59)
    assert made.progress.warnings == []


def test_processor_time_is_limited_in_the_same_way():
    watched, _ = run(f"SET memory_limit = none; SET cpu_limit = 0.000001;\n{STREAMS}{JOIN}", [100] * 100)
    assert watched.seen[-1][2] == [10, 10]


def test_a_limit_that_cannot_be_kept_is_a_warning():
    fixed = JOIN.replace(WINDOW, "WINDOW(RANGE 60 SECONDS)")
    for query in (JOIN, fixed):
        _, made = run(f"SET memory_limit = '2 kB';\n{STREAMS}{query}", [100] * 100)
        assert [each.code for each in made.progress.warnings] == ["W340"]


def test_without_limits_nothing_is_decided():
    program = bind(f"{STREAMS}{JOIN}")
    named = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
    sources = {each.name: MemorySource(each, rows([1], 0)) for each in named}
    job = compile_job(program, sinks={}, sources=sources)
    assert job.adapt is None
    assert job.limits == NO_LIMITS


@pytest.mark.parametrize(
    ("setting", "limits"),
    [
        ("memory_limit = '1.5 MB'", (1_500_000, None, None)),
        ("memory_limit = 4096", (4096, None, None)),
        ("cpu_limit = 0.5", (None, 0.5, None)),
        ("cpu_limit = '150 %'", (None, 1.5, None)),
        ("target_delay = '2 seconds'", (None, None, 2_000_000)),
    ],
)
def test_limits_are_set(setting, limits):
    found = bind(f"SET {setting}").catalog.limits
    assert (found.memory, found.cpu, found.delay) == limits
    assert bind(f"SET {setting}; SET memory_limit = none; SET cpu_limit = none").catalog.limits.memory is None


def test_a_stream_that_nothing_reads_is_assumed_to_be_as_fast_as_those_that_are_read():
    slow, table = Characteristics(30.0 * SECOND, 1.0), Characteristics(2.0**62 / 50, 2.0**62)
    unread = Flow.of(USUAL_SOURCE.characteristics, 5_000.0)
    sources = {"a": Flow.of(slow, 31.0 * SECOND), "t": Flow.of(table, -(2.0**62)), "b": unread}
    known = Knowledge(sources, assumed=frozenset("ab"))
    found = assume_unread(known, ("a", "t"))
    assert [found.source(each) for each in "at"] == [known.source(each) for each in "at"]
    assert found.source("b").characteristics.distance == pytest.approx(30 * SECOND)
    assert found.source("b").mark == pytest.approx(30 * SECOND + 4_000)
    assert assume_unread(known, ("t",)) == known
