"""Runs: immutable elements of one side of a join, grouped by the hash of their key.

The rows of a run are sorted by (hash, start); each hash has its *group* of rows. Groups are found through *slots*: a
run of g groups has g slots, and slot s holds the groups whose hash lies in the s-th of g equal parts of all hashes,
about one group. A run consists of two chunks, written once:

    rows     valid_from, valid_to, then the columns given by the operator
    groups   hash; first: first row of the group; slot: first group at or after slot number i
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Int, Ints, Positions
from tidegate.physical.common.batch import Batch, Times, concat_columns, take
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.hashing import Hashes, fixed_width_values
from tidegate.time import FOREVER

Groups = tuple[Hashes, Positions, Positions]
"""Columns of the groups of a run: hash, first row, and slot."""

SAMPLE = 512
"""Number of ends of a run that are sampled, at most, to predict when most of its rows will have expired."""


class RunIndex(NamedTuple):
    """Columns of a run that kernels read."""

    start: Times
    end: Times
    hash: Hashes
    first: Positions
    slot: Positions


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Run, its longest validity, when all of it has expired, and when enough has expired that a rewrite pays."""

    rows: pa.RecordBatch
    groups: pa.RecordBatch
    longest: int
    last_end: int
    stale: int

    def __len__(self) -> int:
        count: int = self.rows.num_rows
        return count

    @property
    def index(self) -> RunIndex:
        start, end = (fixed_width_values(self.rows.column(i), np.int64) for i in range(2))
        hash_, first, slot = self.groups.columns
        return RunIndex(
            start,
            end,
            fixed_width_values(hash_, np.uint64),
            fixed_width_values(first, np.int32),
            fixed_width_values(slot, np.int32),
        )


def build_run(elements: Batch, hashes: Hashes) -> Run:
    """Sort the elements into a run; there must be at least one."""
    order, groups = _sort_into_groups(hashes, _order_by_start(elements.start))
    return _make_run(elements.take(order), groups)


def merge_runs(runs: Sequence[Run], watermark: int) -> Run | None:
    """Merge the rows that are valid at or after the watermark into one run; None if there are none."""
    indexes = [run.index for run in runs]
    sizes = np.array([len(run) for run in runs])
    order, groups = _merge(
        np.concatenate([i.start for i in indexes]),
        np.concatenate([i.end for i in indexes]),
        np.concatenate([i.hash for i in indexes]),
        np.concatenate([i.first + base for i, base in zip(indexes, np.cumsum(sizes) - sizes, strict=True)]),
        np.cumsum(sizes),
        np.cumsum([len(i.hash) for i in indexes]),
        watermark,
    )
    if not len(order):
        return None
    return _make_run(Batch.from_arrow(take(concat_columns([run.rows for run in runs]), order)), groups)


def _make_run(sorted_rows: Batch, groups: Groups) -> Run:
    start, end = sorted_rows.start, sorted_rows.end
    return Run(
        rows=sorted_rows.to_arrow(),
        groups=pa.RecordBatch.from_arrays([pa.array(g) for g in groups], ["hash", "first", "slot"]),
        longest=_longest_validity(start, end),
        last_end=int(end.max()),
        stale=_stale_time(end),
    )


def _longest_validity(start: Times, end: Times) -> int:
    """Return the longest validity, at most FOREVER, because the whole of time does not fit into 64 bits."""
    lengths = end - start
    return FOREVER if lengths.min() < 0 else min(int(lengths.max()), FOREVER)


def _stale_time(end: Times) -> int:
    """Return when three quarters of the rows have expired, if the others live on for longer than that takes.

    Otherwise, return when all have expired.
    """
    sample = np.sort(end[:: -(-len(end) // SAMPLE)])
    first, most, last = int(sample[0]), int(sample[len(sample) * 3 // 4]), int(end.max())
    return most if last - most > most - first else last


def _order_by_start(start: Times) -> Positions:
    """Return the order by start; most streams are in this order already."""
    if (start[1:] >= start[:-1]).all():
        return np.arange(len(start), dtype=np.int32)
    return np.argsort(start, kind="stable").astype(np.int32)


@inlined
def slot_of(hash_: np.uint64, slots: int) -> Int:
    """Return which of `slots` equal parts of all hashes a hash lies in."""
    return np.int64(((hash_ >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))


@compiled
def _sort_into_groups(hashes: Hashes, by_start: Positions) -> tuple[Positions, Groups]:
    """Return the order of rows by (hash, start), and the groups."""
    count = len(hashes)
    bounds = np.zeros(count + 1, np.int32)
    for row in range(count):
        bounds[slot_of(hashes[row], count)] += 1
    for slot in range(count):
        bounds[slot + 1] += bounds[slot]
    order, ordered = np.empty(count, np.int32), np.empty(count, np.uint64)
    for at in range(count - 1, -1, -1):
        row = by_start[at]
        target = slot_of(hashes[row], count)
        bounds[target] -= 1
        order[bounds[target]], ordered[bounds[target]] = row, hashes[row]
    for slot in range(count):
        for at in range(bounds[slot] + 1, bounds[slot + 1]):
            if ordered[at] < ordered[at - 1]:
                _sort_slot(order[bounds[slot] : bounds[slot + 1]], ordered[bounds[slot] : bounds[slot + 1]])
                break
    return order, _find_groups(ordered)


@compiled
def _sort_slot(order: Positions, ordered: Hashes) -> None:
    """Sort the rows of a slot by hash, keeping the order within each hash; a slot has very few hashes."""
    rows, hashes = order.copy(), ordered.copy()
    done, least = 0, hashes[0]
    for hash_ in hashes:
        least = min(least, hash_)
    while done < len(rows):
        following = np.uint64(0xFFFFFFFFFFFFFFFF)
        for i in range(len(rows)):
            if hashes[i] == least:
                order[done], ordered[done] = rows[i], least
                done += 1
            elif hashes[i] > least:
                following = min(following, hashes[i])
        least = following


@compiled
def _find_groups(ordered: Hashes) -> Groups:
    """Return hash and first row of each group, given the ascending hashes of the rows, and the slots."""
    count = 0
    for row in range(len(ordered)):
        count += row == 0 or ordered[row] != ordered[row - 1]
    hash_, first = np.empty(count, np.uint64), np.empty(count, np.int32)
    group = 0
    for row in range(len(ordered)):
        if row == 0 or ordered[row] != ordered[row - 1]:
            hash_[group], first[group] = ordered[row], row
            group += 1
    return hash_, first, _slots_of_groups(hash_)


@compiled
def _slots_of_groups(hash_: Hashes) -> Positions:
    """Return the first group at or after each slot, given the ascending hashes of the groups."""
    slots = np.empty(len(hash_), np.int32)
    filled = 0
    for group in range(len(hash_)):
        slot = slot_of(hash_[group], len(hash_))
        while filled <= slot:
            slots[filled] = group
            filled += 1
    for slot in range(filled, len(slots)):
        slots[slot] = len(hash_)
    return slots


@compiled
def _merge(
    start: Times, end: Times, hash_: Hashes, first: Ints, row_ends: Ints, group_ends: Ints, watermark: int
) -> tuple[Positions, Groups]:
    """Return the order of the rows of several concatenated runs by (hash, start), without expired ones; and the groups.

    The rows and groups of each run end before those of `row_ends` and `group_ends`.
    """
    runs = len(row_ends)
    group, row, stop = np.zeros(runs, np.int64), np.zeros(runs, np.int64), np.zeros(runs, np.int64)
    for run in range(1, runs):
        group[run] = group_ends[run - 1]
    order, ordered = np.empty(len(start), np.int32), np.empty(len(start), np.uint64)
    count: Int = np.int64(0)
    while True:
        least, found = np.uint64(0), False
        for run in range(runs):
            if group[run] < group_ends[run] and (not found or hash_[group[run]] < least):
                least, found = hash_[group[run]], True
        if not found:
            return order[:count], _find_groups(ordered[:count])
        for run in range(runs):
            row[run], stop[run] = 0, 0
            if group[run] < group_ends[run] and hash_[group[run]] == least:
                row[run] = first[group[run]]
                group[run] += 1
                stop[run] = first[group[run]] if group[run] < group_ends[run] else row_ends[run]
        after = _merge_rows(start, end, row, stop, watermark, order, count)
        for at in range(count, after):
            ordered[at] = least
        count = after


@compiled
def _merge_rows(start: Times, end: Times, row: Ints, stop: Ints, watermark: int, order: Positions, count: Int) -> Int:
    """Append the rows of one group of each run, by start; return the new number of rows."""
    while True:
        best = -1
        for run in range(len(row)):
            while row[run] < stop[run] and end[row[run]] <= watermark:
                row[run] += 1
            if row[run] < stop[run] and (best < 0 or start[row[run]] < start[row[best]]):
                best = run
        if best < 0:
            return count
        order[count] = row[best]
        row[best] += 1
        count += 1
