"""Registry of live subscriptions: their rows, found by number, or by id and keys.

Rows lie in runs in the order of their numbers, which are consecutive. A run never changes. Rows of subscriptions that
have ended stay until runs are merged, or until they outnumber the live ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import concat_columns, take
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.common.kernels.order_codes import order_codes
from tidegate.physical.common.operator import Chunks
from tidegate.physical.common.state_cache import StateCache

NUMBER, GROUP = "range:number", "range:group"
"""Columns of a run before those of the subscription: its number, and the number of its keys."""

_MOST_RUNS = 8
_SLACK = 1024
"""Number of dead rows that are always tolerated."""

LiveCheck = Callable[[Ints], Mask]
"""Function that returns which numbers are live."""


class SubscriptionIndex(NamedTuple):
    """Rows of a run in the order of a hash of id and group; among equal hashes, the newest row is last."""

    hashes: npt.NDArray[np.uint64]
    row: Ints


_INDEXES: StateCache[SubscriptionIndex] = StateCache()
"""Indexes of runs, built when an id is first looked up."""


@dataclass(frozen=True, slots=True, eq=False)
class Registry:
    """Runs by name, oldest first; `made` counts all runs ever made, so that each gets a unique name."""

    id: str
    runs: tuple[tuple[str, pa.RecordBatch], ...]
    made: int
    next_number: int

    @staticmethod
    def load(id_: str, chunks: Chunks, figures: dict[str, int]) -> Registry:
        runs = sorted(((n, c) for n, c in chunks.items() if n.startswith("run.")), key=_first_number)
        return Registry(id_, tuple(runs), figures.get("runs", 0), figures.get("subscriptions", 0))

    def chunks(self) -> Chunks:
        return dict(self.runs)

    def figures(self) -> dict[str, int]:
        return {"runs": self.made, "subscriptions": self.next_number}

    def __len__(self) -> int:
        """Return the number of rows, including those of ended subscriptions."""
        return sum(run.num_rows for _, run in self.runs)

    def find(self, group: Ints, ids: pa.Array, known: LiveCheck) -> Ints:
        """Return the numbers of the live subscriptions with these ids and groups, or -1."""
        found = np.full(len(ids), -1)
        hashes = _hashes(group, ids)
        for _, run in reversed(self.runs):
            open_ = np.flatnonzero(found < 0)
            if len(open_):
                row = _find_rows(run, self.id, hashes[open_], group[open_], ids.take(pa.array(open_)))
                number = np.array(run.column(NUMBER))[row]
                found[open_] = np.where(row >= 0, number, -1)
        live = np.zeros(len(ids), np.bool_)
        live[found >= 0] = known(found[found >= 0])
        return np.where(live, found, -1)

    def rows(self, numbers: Ints) -> pa.RecordBatch:
        """Return the rows with these numbers, all of which must exist."""
        joined = [self._rows_in(run, numbers) for _, run in self.runs]
        place = np.concatenate([np.empty(0, np.int64), *(positions for _, positions in joined)])
        back = np.empty(len(numbers), np.int64)
        back[place] = np.arange(len(numbers))
        return take(concat_columns([rows for rows, _ in joined]), back)

    def _rows_in(self, run: pa.RecordBatch, numbers: Ints) -> tuple[pa.RecordBatch, Ints]:
        """Return the rows of a run that have one of these numbers, and the positions of their numbers."""
        own = np.array(run.column(NUMBER))
        row = np.minimum(np.searchsorted(own, numbers), len(own) - 1)
        here = np.flatnonzero(own[row] == numbers)
        return take(run, row[here]), here

    def with_rows(self, rows: pa.RecordBatch, given: int, known: LiveCheck) -> Registry:
        """Return the registry with new rows; `given` is how many numbers were assigned in this step."""
        after = replace(self, next_number=self.next_number + given)
        if not rows.num_rows:
            return after
        after = after.with_run([*self.runs], [rows])
        if len(after.runs) <= _MOST_RUNS:
            return after
        sizes = [run.num_rows for _, run in after.runs]
        first = next(i for i, size in enumerate(sizes) if size <= 2 * sum(sizes[i + 1 :]) or i == len(sizes) - 2)
        return after.with_run([*after.runs[:first]], [_live_rows(run, known) for _, run in after.runs[first:]])

    def without_dead(self, live: int, known: LiveCheck) -> Registry:
        """Drop rows of ended subscriptions if they outnumber the live ones; keep runs that are mostly live."""
        if len(self) <= 2 * live + _SLACK:
            return self
        slim, runs = replace(self, runs=()), [(name, run, _live_rows(run, known)) for name, run in self.runs]
        for name, run, alive in runs:
            if 2 * alive.num_rows > run.num_rows:
                slim = replace(slim, runs=(*slim.runs, (name, run)))
            elif alive.num_rows:
                slim = slim.with_run([*slim.runs], [alive])
        return slim

    def groups(self) -> Ints:
        """Return the groups that have rows, ascending."""
        return np.unique(np.concatenate([np.empty(0, np.int64), *(np.array(r.column(GROUP)) for _, r in self.runs)]))

    def with_run(self, runs: Sequence[tuple[str, pa.RecordBatch]], new: Sequence[pa.RecordBatch]) -> Registry:
        """Return a registry of these runs and one new run that is made of `new`."""
        run = (f"run.{self.made}", concat_columns(list(new)))
        return replace(self, runs=(*runs, run), made=self.made + 1)


def _first_number(run: tuple[str, pa.RecordBatch]) -> int:
    return int(run[1].column(NUMBER)[0].as_py())


def _live_rows(run: pa.RecordBatch, known: LiveCheck) -> pa.RecordBatch:
    return run.filter(pa.array(known(np.array(run.column(NUMBER)))))


def _find_rows(run: pa.RecordBatch, id_: str, hashes: npt.NDArray[np.uint64], group: Ints, ids: pa.Array) -> Ints:
    """Return the newest row of a run with each id and group, or -1."""
    index = _index_of_run(run, id_)
    place = np.searchsorted(index.hashes, hashes, side="right") - 1
    found = np.full(len(hashes), -1)
    left = np.flatnonzero((place >= 0) & (index.hashes[place] == hashes))
    own_ids, own_group = run.column(id_), np.array(run.column(GROUP))
    while len(left):
        row = index.row[place[left]]
        # Different ids may have equal hashes.
        same = _equal_values(own_ids.take(pa.array(row)), ids.take(pa.array(left))) & (own_group[row] == group[left])
        found[left[same]] = row[same]
        left = left[~same]
        place[left] -= 1
        left = left[(place[left] >= 0) & (index.hashes[place[left]] == hashes[left])]
    return found


def _index_of_run(run: pa.RecordBatch, id_: str) -> SubscriptionIndex:
    index = _INDEXES.get(run)
    if index is None:
        hashes = _hashes(np.array(run.column(GROUP)), run.column(id_))
        row = np.argsort(hashes, kind="stable")
        index = SubscriptionIndex(hashes[row], row)
        _INDEXES.put(run, index)
    return index


def _equal_values(some: pa.Array, others: pa.Array) -> Mask:
    left, right = order_codes([some, others]).codes
    return np.equal(left, right)


def _hashes(group: Ints, ids: pa.Array) -> npt.NDArray[np.uint64]:
    return hash_columns([ids, pa.array(group)])
