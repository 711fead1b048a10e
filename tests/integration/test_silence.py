"""Streams that fall silent: what is absent is reported although no row comes, on both runtimes."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pytest
from support.micros import in_micros
from support.paths import ROOT

from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import DEAD_LETTERS, Job, JobRun

SECOND = 1_000_000
START = 1_767_225_600  # 2026-01-01
MANUAL = (ROOT / "docs" / "language.md").read_text()


@dataclass
class Clock:
    """A clock that is set by hand."""

    now: int = 1_900_000_000 * SECOND

    def __call__(self) -> int:
        return self.now

    def go_on(self, seconds: int) -> None:
        self.now += seconds * SECOND


@dataclass
class Plant:
    """Readings of machines in a folder, and a clock; the query is that of the manual."""

    folder: Path
    clock: Clock = field(default_factory=Clock)
    rows: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.read(0, "")
        (self.folder / "machines.csv").write_text("id\n1\n2\n")

    def read(self, number: int, *readings: str) -> None:
        """Let readings arrive as a file; each is a machine and the second of its time."""
        lines = [f"{m},20.0,2026-01-01T00:{int(s) // 60:02}:{int(s) % 60:02}Z\n" for m, _, s in
                 (reading.partition("@") for reading in readings if reading)]  # fmt: skip
        path = self.folder / "readings" / f"{number}.csv"
        path.parent.mkdir(exist_ok=True)
        path.with_name("_part").write_text("machine,celsius,at\n" + "".join(lines))
        path.with_name("_part").rename(path)

    def job(self) -> Job:
        text = next(b for b in re.findall(r"^```sql\n(.*?)^```", MANUAL, re.MULTILINE | re.DOTALL) if "NOT EXISTS" in b)
        job = compile_job(bind(text.replace("data/", f"{self.folder}/")), sinks={})
        return replace(job, clock=self.clock)

    def take(self, name: str, rows: pa.RecordBatch) -> None:
        self.rows += [(name, row) for row in in_micros(rows).to_pylist()]

    @property
    def silent(self) -> list[tuple[int, int]]:
        """Machines that were reported, and the second in which they fell silent."""
        found = [(int(str(row["valid_from"])), row["id"]) for name, row in self.rows if name != DEAD_LETTERS]
        return [(begun // SECOND - START, int(str(machine))) for begun, machine in found]

    @property
    def late(self) -> int:
        return sum(name == DEAD_LETTERS and row["reason"] == "late" for name, row in self.rows)

    @contextmanager
    def embedded(self, checkpoint: str | None = None) -> Iterator[EmbeddedRun]:
        run = EmbeddedRun(self.job(), on_rows=self.take, once=False, checkpoint=checkpoint)
        yield run
        run.stop()


@pytest.fixture(params=["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Plant], JobRun]:
    if request.param == "embedded":
        return lambda plant: EmbeddedRun(plant.job(), on_rows=plant.take, once=False)
    from tidegate.runtime.spark.runner import SparkRun, SparkSettings

    spark, settings = request.getfixturevalue("spark"), SparkSettings(str(tmp_path / "checkpoint"), once=False)
    return lambda plant: SparkRun(plant.job(), spark, settings, on_rows=plant.take)


def until(run: JobRun, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not reached() and time.monotonic() < deadline:
        assert not run.wait(0.02)
    assert reached()


def watermark(run: JobRun) -> int:
    """The second that time has come to."""
    return (run.progress.watermark or 0) // SECOND - START


def test_a_machine_that_says_nothing_is_reported_without_a_further_row(
    start: Callable[[Plant], JobRun], tmp_path: Path
) -> None:
    plant = Plant(tmp_path)
    plant.read(1, "1@5", "2@20")
    run = start(plant)
    until(run, lambda: watermark(run) == 18)
    plant.clock.go_on(10 + 46)  # ten seconds until the stream counts as idle
    until(run, lambda: watermark(run) == 64)
    assert plant.silent == []
    plant.clock.go_on(2)
    until(run, lambda: plant.silent == [(65, 1)])
    plant.clock.go_on(60)
    until(run, lambda: plant.silent == [(65, 1), (80, 2)])
    plant.read(2, "1@90", "2@130")  # time has come to 126
    until(run, lambda: watermark(run) == 128)
    run.stop()
    assert plant.late == 1
    assert plant.silent == [(65, 1), (80, 2)]


def test_a_run_that_is_started_again_goes_on_from_the_time_it_had(tmp_path: Path) -> None:
    plant, checkpoint = Plant(tmp_path), str(tmp_path / "checkpoint")
    plant.read(1, "1@5", "2@20")
    with plant.embedded(checkpoint) as run:
        until(run, lambda: watermark(run) == 18)
        plant.clock.go_on(10 + 48)
        until(run, lambda: plant.silent == [(65, 1)])
        assert watermark(run) == 66
    plant.clock.go_on(86_400)
    with plant.embedded(checkpoint) as run:
        plant.clock.go_on(10 + 12)
        until(run, lambda: watermark(run) == 78)
        plant.read(2, "2@79")
        until(run, lambda: run.progress.rows_in == 1)
        plant.clock.go_on(10 + 62)
        until(run, lambda: plant.silent == [(65, 1), (139, 2)])
    assert plant.late == 0


def test_time_that_brings_nothing_out_is_not_written(tmp_path: Path) -> None:
    plant, checkpoint = Plant(tmp_path), tmp_path / "checkpoint"
    plant.read(1, "1@5", "2@20")
    with plant.embedded(str(checkpoint)) as run:
        until(run, lambda: watermark(run) == 18)
        plant.clock.go_on(10 + 90)
        until(run, lambda: len(plant.silent) == 2 and watermark(run) > 18)
        waited = plant.clock.now // SECOND - watermark(run)
        written: list[list[str]] = []
        for _ in range(4):
            plant.clock.go_on(3600)
            until(run, lambda: watermark(run) == plant.clock.now // SECOND - waited)
            # The step before is written by now: results are seen a moment earlier.
            written.append(sorted(path.name for path in checkpoint.rglob("*")))
        assert written[1:] == written[:1] * 3
