"""Find the pairs of two runs: equal hashes, overlapping validities, and terms that hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Floats, Int, Ints, Positions
from tidegate.physical.common.batch import Times
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.hashing import Hashes
from tidegate.physical.join.kernels.runs import RunIndex, slot_of
from tidegate.physical.join.kernels.terms import Ranges
from tidegate.time import FOREVER

LEAST_ROOM = 1024
"""Least room for pairs; it is not larger because fresh memory has to be fetched."""

LANE = 64
"""Number of rows of a run that are tested in one go."""


class Operands(NamedTuple):
    """Columns of a run that the terms read, one for each.

    A row passes untested where one of the bits (Arrow's validity) is 0. Empty bits mean that all are 1.
    """

    first: Floats
    second: Floats
    third: Floats
    first_bits: Bytes
    second_bits: Bytes
    third_bits: Bytes


@dataclass(frozen=True, slots=True, eq=False)
class Probe:
    """Run whose rows search for partners."""

    index: RunIndex
    ranges: Floats


@dataclass(frozen=True, slots=True, eq=False)
class SearchTarget:
    """Run in which partners are searched; `longest` is the longest validity of its rows."""

    index: RunIndex
    operands: Operands
    longest: int


class FoundPairs(NamedTuple):
    """Pairs by position in the probing run and in the other, and when both are valid."""

    probe: Positions
    row: Positions
    start: Times
    end: Times


def search(probe: Probe, run: SearchTarget, *, most: int) -> Iterator[FoundPairs]:
    """Yield all pairs of rows that have equal hashes, overlap, and fulfil the terms; at most `most` at a time."""
    cursor = np.array([0, -1, -1])
    size = max(LEAST_ROOM, len(probe.index.start))
    while cursor[0] < len(probe.index.hash):
        found = _empty_pairs(min(size, most))
        size *= 8  # after many pairs, more are likely
        count = _search(probe.index, run.index, run.longest, probe.ranges, run.operands, cursor, found)
        if count:
            yield FoundPairs(found.probe[:count], found.row[:count], found.start[:count], found.end[:count])


def _empty_pairs(size: int) -> FoundPairs:
    return FoundPairs(
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int64), np.empty(size, np.int64)
    )


@compiled
def _search(
    probe: RunIndex,
    run: RunIndex,
    longest: int,
    ranges: Ranges,
    operands: Operands,
    cursor: Ints,
    found: FoundPairs,
) -> Int:
    """Fill the block and return the number of pairs; the cursor (group, row, position) says where to continue."""
    # One long loop: with the appending of rows in a function of its own, searches took up to twice as long.
    run_start, run_end, first = run.start, run.end, operands.first
    terms, room = ranges.shape[1], len(found.probe)
    count: Int = np.int64(0)
    all_tested = len(operands.first_bits) + len(operands.second_bits) + len(operands.third_bits) == 0
    for group in range(cursor[0], len(probe.hash)):
        at = group_of_hash(run.hash, run.slot, probe.hash[group])
        if at < 0:
            continue
        begin, stop = rows_of_group(run.first, at, len(run_start))
        row, last = rows_of_group(probe.first, group, len(probe.start))
        row = max(row, cursor[1])
        while row < last:
            start, end = probe.start[row], probe.end[row]
            if longest < FOREVER:
                begin = first_after(run_start, begin, stop, start - longest)
            until = stop if run_start[stop - 1] < end else first_after(run_start, begin, stop, end - 1)
            position, cursor[2] = max(begin, cursor[2]), -1
            while position < until:
                upto = min(position + LANE, until, position + room)
                ends = run_end[position:upto]
                if terms and all_tested and not _has_any_match(ends, start, first[position:upto], ranges[row, 0]):
                    position = upto
                    continue
                if count + upto - position > room:
                    cursor[0], cursor[1], cursor[2] = group, row, position
                    return count
                if not terms:
                    after = _append_valid(found.row, count, position, ends, start)
                elif all_tested:
                    values = first[position:upto]
                    after = _append_matching(found.row, count, position, ends, start, values, ranges[row, 0])
                    if terms > 1:
                        after = _retain_matching(found.row, count, after, operands.second, ranges[row, 1])
                    if terms > 2:
                        after = _retain_matching(found.row, count, after, operands.third, ranges[row, 2])
                else:
                    after = _append_doubtful(found.row, count, position, ends, start, operands, ranges[row])
                for pair in range(count, after):
                    other = found.row[pair]
                    found.probe[pair] = row
                    found.start[pair], found.end[pair] = max(start, run_start[other]), min(end, run_end[other])
                count, position = after, upto
            row += 1
    cursor[0] = len(probe.hash)
    return count


@inlined
def rows_of_group(first: Positions, group: Int, rows: int) -> tuple[Int, Int]:
    """Return the rows of a group: the first, and the one after the last."""
    return np.int64(first[group]), np.int64(first[group + 1]) if group + 1 < len(first) else np.int64(rows)


@inlined
def _has_any_match(ends: Times, start: int, values: Floats, range_: Ranges) -> bool:
    """Return whether a term holds for any row that is still valid.

    Mostly it holds for none, and this loop can be vectorised.
    """
    shift, factor, low, high, outside = range_[0], range_[1], range_[2], range_[3], range_[4] != 0
    count = 0
    for i in range(len(values)):
        compared = shift + factor * values[i]
        count += (((compared >= low) & (compared <= high)) != outside) & (ends[i] > start)
    return count > 0


@inlined
def _append_valid(rows: Positions, count: Int, position: Int, ends: Times, start: int) -> Int:
    """Append the rows that are still valid; return the new count."""
    for i in range(len(ends)):
        rows[count] = position + i
        count += ends[i] > start
    return count


@inlined
def _append_matching(
    rows: Positions, count: Int, position: Int, ends: Times, start: int, values: Floats, range_: Ranges
) -> Int:
    """Append the rows that are still valid and for which a term holds; return the new count."""
    shift, factor, low, high, outside = range_[0], range_[1], range_[2], range_[3], range_[4] != 0
    for i in range(len(ends)):
        compared = shift + factor * values[i]
        rows[count] = position + i
        count += (((compared >= low) & (compared <= high)) != outside) & (ends[i] > start)
    return count


@inlined
def _retain_matching(rows: Positions, begin: Int, end: Int, values: Floats, range_: Ranges) -> Int:
    """Remove appended rows for which a term does not hold; return the new count."""
    kept = begin
    for i in range(begin, end):
        rows[kept] = rows[i]
        kept += _holds(values[rows[i]], range_)
    return kept


@inlined
def _append_doubtful(
    rows: Positions, count: Int, position: Int, ends: Times, start: int, operands: Operands, ranges: Ranges
) -> Int:
    """Append valid rows for which all terms hold, or which cannot be tested; return the new count."""
    terms = len(ranges)
    for i in range(len(ends)):
        row = rows[count] = position + i
        held = _holds(operands.first[row], ranges[0])
        held &= terms < 2 or _holds(operands.second[row], ranges[1])
        held &= terms < 3 or _holds(operands.third[row], ranges[2])
        held |= _is_clear(operands.first_bits, row) | _is_clear(operands.second_bits, row)
        held |= _is_clear(operands.third_bits, row)
        count += held & (ends[i] > start)
    return count


@inlined
def _holds(value: float, range_: Ranges) -> bool:
    """Return whether a term holds for a value."""
    compared = range_[0] + range_[1] * value
    return ((compared >= range_[2]) & (compared <= range_[3])) != (range_[4] != 0)


@inlined
def _is_clear(bits: Bytes, row: Int) -> bool:
    """Return whether the bit of a row is 0."""
    return len(bits) > 0 and bits[row >> 3] & np.uint8(1 << (row & 7)) == 0


@inlined
def group_of_hash(hashes: Hashes, slots: Positions, hash_: np.uint64) -> Int:
    """Return the group of a hash, or -1."""
    groups = len(hashes)
    group = np.int64(slots[slot_of(hash_, groups)])
    while group < groups and hashes[group] < hash_:
        group += 1
    return group if group < groups and hashes[group] == hash_ else -1


@inlined
def first_after(times: Times, low: Int, high: Int, limit: Int) -> Int:
    """Return the first position in [low, high) with a time after the limit, searching near `low` first."""
    step = 1
    while low + step < high and times[low + step] <= limit:
        low += step
        step *= 2
    high = min(high, low + step)
    while low < high:
        middle = (low + high) >> 1
        if times[middle] <= limit:
            low = middle + 1
        else:
            high = middle
    return low
