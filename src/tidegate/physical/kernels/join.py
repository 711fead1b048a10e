"""Find the pairs of two runs: equal hashes, overlapping validities, and terms that hold.

A *term* compares something computed from one value of each side with a constant, or the two values
with each other. All comparisons that SQL knows come down to `low <= x <= high`, or the contrary,
with x = shift + factor · (value of the run): one loop without branches that the compiler turns into
vector instructions. NaN lies outside of every range, and is greater than every number: what is
*not* at most c is greater than c, or NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from numba import njit

from tidegate.physical.kernels.hashing import fixed_values
from tidegate.physical.kernels.runs import Index, Positions, slot_of

MOST_TERMS = 3
"""So many terms are tested while searching."""

FEW = 1024
"""There is room for so many pairs at least: more is rarely needed for few elements, and memory must be fetched."""

LANE = 64
"""So many rows of a run are tested in one go."""


class Combine(IntEnum):
    """What a term makes of the two values."""

    NOTHING = 0  # it compares the one with the other
    SUM = 1
    PRODUCT = 2
    MAGNITUDE = 3  # of the sum


class Compare(IntEnum):
    """How a term compares; the greatest of all numbers is NaN."""

    EQUAL = 0
    UNEQUAL = 1
    LESS = 2
    AT_MOST = 3
    GREATER = 4
    AT_LEAST = 5


class Term(NamedTuple):
    """A comparison of x with a constant, or of the run's value with the probing one."""

    combine: int
    compare: int
    probe_sign: float
    run_sign: float
    constant: float


class Operands(NamedTuple):
    """What the terms read of a run: a column for each of them.

    A row passes untested where one of the bits (Arrow's validity) is 0; no bits: all are 1.
    """

    first: npt.NDArray[np.float64]
    second: npt.NDArray[np.float64]
    third: npt.NDArray[np.float64]
    first_bits: npt.NDArray[np.uint8]
    second_bits: npt.NDArray[np.uint8]
    third_bits: npt.NDArray[np.uint8]


class Searched(NamedTuple):
    """A run in which pairs are searched; `longest` is the longest validity of its rows."""

    index: Index
    operands: Operands
    longest: int


class Probe(NamedTuple):
    """A run that searches: for each row and term shift, factor, low, high, and 1 if x must lie outside."""

    index: Index
    ranges: npt.NDArray[np.float64]


class Found(NamedTuple):
    """Pairs by position in the probing run and in the other, and when both are valid."""

    probe: Positions
    row: Positions
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]


def make_probe(index: Index, columns: Sequence[pa.Array], terms: Sequence[Term]) -> Probe:
    """Prepare a run for searching; it has one column of doubles for each term, NULL where it is not to be tested."""
    ranges = np.empty((len(index.start), len(terms), 5))
    for number, (column, term) in enumerate(zip(columns, terms, strict=True)):
        _fill(ranges, number, fixed_values(column, np.float64), *term)
    for column in columns:
        if column.null_count:
            ranges[column.is_null().to_numpy(zero_copy_only=False)] = (0.0, 0.0, np.inf, -np.inf, 1.0)
    return Probe(index, ranges)


def search(probe: Probe, run: Searched, *, most: int) -> Iterator[Found]:
    """All pairs of rows that have equal hashes, overlap, and fulfil the terms; at `most` so many at a time."""
    cursor = np.array([0, -1, -1])
    size = max(FEW, len(probe.index.start))
    while cursor[0] < len(probe.index.hash):
        found = Found(*(np.empty(min(size, most), t) for t in (np.int32, np.int32, np.int64, np.int64)))
        size *= 8  # where many pairs have been found there may be more
        count = _search(probe.index, run.index, run.longest, probe.ranges, run.operands, cursor, found)
        if count:
            yield Found(*(column[:count] for column in found))


@njit(cache=True, nogil=True)
def _search(probe: Any, run: Any, longest: Any, ranges: Any, operands: Any, cursor: Any, found: Any) -> Any:
    """Fill the block and say how full it is; the cursor (group, row, position) says where to go on."""
    run_start, run_end, first = run.start, run.end, operands.first
    terms, room, count = ranges.shape[1], len(found.probe), 0
    all_tested = len(operands.first_bits) + len(operands.second_bits) + len(operands.third_bits) == 0
    for group in range(cursor[0], len(probe.hash)):
        at = _find(run.hash, run.slot, probe.hash[group])
        if at < 0:
            continue
        begin, stop = _rows(run.first, at, len(run_start))
        row, last = _rows(probe.first, group, len(probe.start))
        row, cursor[1] = max(row, cursor[1]), -1
        while row < last:
            start, end = probe.start[row], probe.end[row]
            begin = _after(run_start, begin, stop, start - longest)
            until = stop if run_start[stop - 1] < end else _after(run_start, begin, stop, end - 1)
            position, cursor[2] = max(begin, cursor[2]), -1
            while position < until:
                upto = min(position + LANE, until, position + room)
                ends = run_end[position:upto]
                if terms and all_tested and not _any(ends, start, first[position:upto], ranges[row, 0]):
                    position = upto
                    continue
                if count + upto - position > room:
                    cursor[0], cursor[1], cursor[2] = group, row, position
                    return count
                if not terms:
                    after = _append_valid(found.row, count, position, ends, start)
                elif all_tested:
                    after = _append(found.row, count, position, ends, start, first[position:upto], ranges[row, 0])
                    if terms > 1:
                        after = _retain(found.row, count, after, operands.second, ranges[row, 1])
                    if terms > 2:  # noqa: PLR2004 - the third
                        after = _retain(found.row, count, after, operands.third, ranges[row, 2])
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


@njit(cache=True, nogil=True)
def _rows(first: Any, group: Any, rows: Any) -> Any:
    """The rows of a group: the first, and the one after the last."""
    return np.int64(first[group]), np.int64(first[group + 1]) if group + 1 < len(first) else np.int64(rows)


@njit(cache=True, nogil=True)
def _any(ends: Any, start: Any, values: Any, range_: Any) -> Any:
    """Whether a term holds for a row that is still valid: mostly none, and this can be vectorised."""
    shift, factor, low, high, outside = range_[0], range_[1], range_[2], range_[3], range_[4] != 0
    count = 0
    for i in range(len(values)):
        x = shift + factor * values[i]
        count += (((x >= low) & (x <= high)) != outside) & (ends[i] > start)
    return count > 0


@njit(cache=True, nogil=True)
def _append_valid(rows: Any, count: Any, position: Any, ends: Any, start: Any) -> Any:
    """Append the rows that are still valid; how many there are then."""
    for i in range(len(ends)):
        rows[count] = position + i
        count += ends[i] > start
    return count


@njit(cache=True, nogil=True)
def _append(rows: Any, count: Any, position: Any, ends: Any, start: Any, values: Any, range_: Any) -> Any:
    """Append those of them for which a term holds."""
    shift, factor, low, high, outside = range_[0], range_[1], range_[2], range_[3], range_[4] != 0
    for i in range(len(ends)):
        x = shift + factor * values[i]
        rows[count] = position + i
        count += (((x >= low) & (x <= high)) != outside) & (ends[i] > start)
    return count


@njit(cache=True, nogil=True)
def _retain(rows: Any, begin: Any, end: Any, values: Any, range_: Any) -> Any:
    """Leave out appended rows for which a term does not hold."""
    kept = begin
    for i in range(begin, end):
        rows[kept] = rows[i]
        kept += _holds(values[rows[i]], range_)
    return kept


@njit(cache=True, nogil=True)
def _append_doubtful(
    rows: Any, count: Any, position: Any, ends: Any, start: Any, operands: Any, ranges: Any
) -> Any:
    """Append valid rows for which all terms hold, or which are not to be tested."""
    terms = len(ranges)
    for i in range(len(ends)):
        row = rows[count] = position + i
        held = _holds(operands.first[row], ranges[0])
        held &= terms < 2 or _holds(operands.second[row], ranges[1])  # noqa: PLR2004 - the second
        held &= terms < 3 or _holds(operands.third[row], ranges[2])  # noqa: PLR2004 - the third
        held |= _is_clear(operands.first_bits, row) | _is_clear(operands.second_bits, row)
        held |= _is_clear(operands.third_bits, row)
        count += held & (ends[i] > start)
    return count


@njit(cache=True, nogil=True)
def _holds(value: Any, range_: Any) -> Any:
    x = range_[0] + range_[1] * value
    return ((x >= range_[2]) & (x <= range_[3])) != (range_[4] != 0)


@njit(cache=True, nogil=True)
def _is_clear(bits: Any, row: Any) -> Any:
    return len(bits) > 0 and bits[row >> 3] & np.uint8(1 << (row & 7)) == 0


@njit(cache=True, nogil=True)
def _find(hashes: Any, slots: Any, hash_: Any) -> Any:
    """The group of a hash, or -1."""
    groups = len(hashes)
    group = np.int64(slots[slot_of(hash_, groups)])
    while group < groups and hashes[group] < hash_:
        group += 1
    return group if group < groups and hashes[group] == hash_ else -1


@njit(cache=True, nogil=True)
def _after(times: Any, low: Any, high: Any, limit: Any) -> Any:
    """The first position in [low, high) with a time after the limit; it is looked for near `low` first."""
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


@njit(cache=True, nogil=True)
def _fill(
    ranges: Any, term: Any, values: Any, combine: Any, compare: Any, probe_sign: Any, run_sign: Any, constant: Any
) -> None:
    """Write the ranges of one term."""
    low, high, outside = _range(compare, constant)
    if combine == Combine.MAGNITUDE:
        low = -high
    for row in range(len(values)):
        if combine == Combine.NOTHING:
            shift, factor = 0.0, 1.0
            low, high, outside = _range(compare, values[row])
        elif combine == Combine.PRODUCT:
            shift, factor = 0.0, values[row]
        else:
            shift, factor = probe_sign * values[row], run_sign
        ranges[row, term, 0], ranges[row, term, 1] = shift, factor
        ranges[row, term, 2], ranges[row, term, 3], ranges[row, term, 4] = low, high, outside


@njit(cache=True, nogil=True)
def _range(compare: Any, constant: Any) -> Any:
    """The range in which x compares so with the constant, and whether it is rather outside of it."""
    negated = compare in (Compare.UNEQUAL, Compare.GREATER, Compare.AT_LEAST)
    if compare in (Compare.EQUAL, Compare.UNEQUAL):
        if np.isnan(constant):
            return -np.inf, np.inf, not negated
        return constant, constant, negated
    if compare in (Compare.AT_MOST, Compare.GREATER):
        if np.isnan(constant):  # everything is at most NaN
            return np.inf, -np.inf, not negated
        return -np.inf, constant, negated
    if np.isnan(constant):  # all numbers are less than NaN
        return -np.inf, np.inf, negated
    if constant == -np.inf:
        return np.inf, -np.inf, negated
    return -np.inf, np.nextafter(constant, -np.inf), negated
