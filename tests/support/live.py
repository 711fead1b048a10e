"""A live session whose steps are run one by one, in the thread of the test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from tidegate.live.session import LiveSession
from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.embedded.live_runner import LiveEmbeddedRun
from tidegate.runtime.job import DEAD_LETTERS, Job
from tidegate.runtime.quality import QUALITY
from tidegate.runtime.shedding import SHEDDING
from tidegate.runtime.spark.live_runner import LiveSparkRun
from tidegate.time import BEGINNING, FOREVER

T = TypeVar("T")
Row = tuple[int, int, tuple[object, ...]]


class SteppedRun(LiveEmbeddedRun):
    """A run without a thread."""

    def _begin(self) -> None:
        pass

    def repeat_interrupted(self) -> None:
        if self._interrupted is not None:
            self._repeat_step(self._interrupted)

    def step(self, *, is_abandoned: bool = False) -> bool:
        """Run the next step, as `_work` does, or write only its intent; return whether there was one."""
        is_due = self._before_step()
        tables = self.job.tables_to_read(self.tables)
        found = {s: each.read_next(self.rows_per_step, growing=True) for s, each in self._inputs.items()}
        if not is_due and not tables and not any(each.batches for each in found.values()):
            return False
        intent = self._intend_step(found, tables)
        if not is_abandoned:
            self._run_step(found, intent)
        return True

    def pass_time(self) -> None:
        """Let the clock advance the watermarks of silent streams, until it has no effect."""
        self._time_passed = BEGINNING
        while self._pass_time():
            self._time_passed = BEGINNING
            self._before_step()

    def abandon(self) -> None:
        """Leave everything as it is, as if the process were gone."""
        self._release_lock()
        assert self._events is not None
        self._events.close()


class SteppedSparkRun(LiveSparkRun):
    """A run on Spark without a thread."""

    def _begin(self) -> None:
        pass

    def repeat_interrupted(self) -> None:
        if self._interrupted is not None:
            self._run_step(self._interrupted, repeated=True)

    def step(self, *, is_abandoned: bool = False) -> bool:
        """Run the next step, as `_run_steps` does, or write only its intent; return whether there was one."""
        intent = self._next_intent(growing=True, is_due=self._before_step())
        if intent is None:
            return False
        self.checkpoint.intend(intent)
        if not is_abandoned:
            self._run_step(intent)
        return True

    def pass_time(self) -> None:
        """Let the clock advance the watermarks of silent streams, until it has no effect."""
        while self.step():
            pass

    def abandon(self) -> None:
        """Leave everything as it is, as if the process were gone."""
        self._release_lock()
        assert self._events is not None
        self._events.close()
        self._step_job.close()


class SteppedSession(LiveSession):
    """A live session that runs a step when the test asks for it, and collects all results."""

    def __init__(
        self, checkpoint: Path, results: dict[str, list[Row]], buckets: int = 1, adapt: Adapt | None = None
    ) -> None:
        self.results, self._is_abandoned = results, False
        self._run: SteppedRun | SteppedSparkRun
        # Queries move when the test asks for it.
        settings: dict[str, Any] = {"buckets": buckets, "adapt": adapt, "reoptimize": False, **self._settings()}
        super().__init__(checkpoint=str(checkpoint), **settings)
        self._run.repeat_interrupted()

    def _settings(self) -> dict[str, Any]:
        return {}

    def _start_run(self) -> SteppedRun | SteppedSparkRun:
        job = self._live.make_job(self._sources, self._session.choose_buckets(self._root), self._adapt)
        version = self._live.version
        settings: dict[str, Any] = {"forgotten": version.forgotten, "moved": version.moved}
        settings |= {"on_rows": self._on_rows, "checkpoint": self._root, "between": self._between_steps}
        return self._make_run(job, settings)

    def _make_run(self, job: Job, settings: dict[str, Any]) -> SteppedRun | SteppedSparkRun:
        return SteppedRun(job, **settings)

    def _submit(self, change: Callable[[], T]) -> T:
        return change()

    def _on_rows(self, name: str, rows: pa.RecordBatch) -> None:
        if name in (DEAD_LETTERS, SHEDDING):
            return
        if name == QUALITY:
            columns = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in rows.columns]
            changes: Any = zip(*(each.to_pylist() for each in columns), strict=True)
            self.results.setdefault(name, []).extend(changes)
            return
        start = rows.column(0).cast(pa.int64()).fill_null(BEGINNING).to_pylist()
        end = rows.column(1).cast(pa.int64()).fill_null(FOREVER).to_pylist()
        values = zip(*(column.to_pylist() for column in rows.columns[2:]), strict=True)
        self.results.setdefault(name, []).extend(zip(start, end, values, strict=True))

    def step(self) -> bool:
        return self._run.step()

    def pass_time(self) -> None:
        self._run.pass_time()

    def abandon(self, *, in_step: bool = False) -> None:
        if self._is_abandoned:
            return
        self._is_abandoned = True
        if in_step:
            self._run.step(is_abandoned=True)
        self._run.abandon()
        self._session.close()


class SteppedSparkSession(SteppedSession):
    """A stepped session on Spark."""

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: Path,
        results: dict[str, list[Row]],
        buckets: int = 1,
        adapt: Adapt | None = None,
    ) -> None:
        self._given = spark
        super().__init__(checkpoint, results, buckets, adapt)

    def _settings(self) -> dict[str, Any]:
        return {"runtime": "spark", "spark": self._given}

    def _make_run(self, job: Job, settings: dict[str, Any]) -> SteppedSparkRun:
        return SteppedSparkRun(job, self._given, **settings)
