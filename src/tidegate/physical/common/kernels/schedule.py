"""Rows that wait for their time: a few sorted runs, consumed from the front.

A run never changes once it is made; an offset says how much of it was consumed. So only new rows have to be written,
and a step reads only the rows whose time has come.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

import numpy as np
import pyarrow as pa

MOST_RUNS = 8
"""Number of runs above which runs are merged."""


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleRun:
    """Rows in ascending order of their first column, a time; those before `consumed` are gone."""

    name: str
    rows: pa.RecordBatch
    consumed: int = 0

    @property
    def waiting_count(self) -> int:
        return int(self.rows.num_rows) - self.consumed

    def waiting_rows(self) -> pa.RecordBatch:
        return self.rows.slice(self.consumed)

    def count_rows_before(self, time: int) -> int:
        """Return the number of rows before the time."""
        return int(np.searchsorted(self.rows.column(0).to_numpy(), time))


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Runs, oldest first; `made` counts all runs ever made, so that each gets a unique name."""

    name: str
    runs: tuple[ScheduleRun, ...] = ()
    made: int = 0

    @staticmethod
    def load(name: str, chunks: Mapping[str, pa.RecordBatch], figures: Mapping[str, int]) -> Schedule:
        """Restore the runs of a schedule from chunks; `figures` are those of `figures()`."""
        named = sorted((n for n in figures if n.startswith(f"{name}.")), key=lambda n: int(n.rpartition(".")[2]))
        return Schedule(name, tuple(ScheduleRun(n, chunks[n], figures[n]) for n in named), figures.get(name, 0))

    def figures(self) -> dict[str, int]:
        return {self.name: self.made, **{run.name: run.consumed for run in self.runs}}

    def chunks(self) -> dict[str, pa.RecordBatch]:
        return {run.name: run.rows for run in self.runs}

    def with_rows(self, rows: pa.RecordBatch) -> Schedule:
        """Add rows, in any order."""
        if not rows.num_rows:
            return self
        more = self._with_run(self.runs, [rows])
        return more if len(more.runs) <= MOST_RUNS else more.with_merged_runs()

    def take_before(self, time: int) -> tuple[Schedule, list[pa.RecordBatch]]:
        """Split off the rows before a time: sorted, one batch from each run."""
        ends = [run.count_rows_before(time) for run in self.runs]
        due = [r.rows.slice(r.consumed, e - r.consumed) for r, e in zip(self.runs, ends, strict=True) if e > r.consumed]
        if not due:
            return self, []
        left = (replace(run, consumed=end) for run, end in zip(self.runs, ends, strict=True))
        return replace(self, runs=tuple(run for run in left if run.waiting_count)), due

    def without_gaps(self) -> Schedule:
        """Rewrite the runs of which most rows are gone, so that the rows that wait bound the size."""
        if all(2 * run.waiting_count >= run.rows.num_rows for run in self.runs):
            return self
        names = (f"{self.name}.{number}" for number in count(self.made))
        runs = tuple(
            run if 2 * run.waiting_count >= run.rows.num_rows else ScheduleRun(next(names), run.waiting_rows())
            for run in self.runs
        )
        return replace(self, runs=runs, made=self.made + len(runs))

    def _with_run(self, runs: Iterable[ScheduleRun], parts: Sequence[pa.RecordBatch]) -> Schedule:
        run = ScheduleRun(f"{self.name}.{self.made}", _sort_by_time(pa.concat_batches(parts)))
        return replace(self, runs=(*runs, run), made=self.made + 1)

    def with_merged_runs(self) -> Schedule:
        """Merge the newest runs, at least two, so that sizes grow geometrically."""
        first = len(self.runs) - count_newest_to_merge([run.waiting_count for run in self.runs])
        return self._with_run(self.runs[:first], [run.waiting_rows() for run in self.runs[first:]])


def count_newest_to_merge(sizes: Sequence[float]) -> int:
    """Return how many of the newest runs of these sizes to merge: down to one as large as those after it."""
    first = next((i for i, size in enumerate(sizes[:-1]) if size <= sum(sizes[i + 1 :])), len(sizes) - 2)
    return len(sizes) - first


def _sort_by_time(rows: pa.RecordBatch) -> pa.RecordBatch:
    times = rows.column(0).to_numpy()
    if (times[:-1] <= times[1:]).all():
        return rows
    return rows.take(pa.array(np.argsort(times, kind="stable")))
