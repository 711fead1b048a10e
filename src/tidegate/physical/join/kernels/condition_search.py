"""Find the pairs of two runs with equal hashes and overlapping validities for which a condition is true, or fails."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Bytes, Int, Ints, Positions
from tidegate.physical.common.batch import Times
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.condition_codes import SEGMENTS
from tidegate.physical.common.kernels.condition_masks import LANES
from tidegate.physical.common.kernels.condition_search import (
    ConditionInputs,
    Workspace,
    add_range,
    allocate_workspace,
    judge_stretches,
)
from tidegate.physical.join.kernels.runs import RunIndex
from tidegate.physical.join.kernels.search import first_after, group_of_hash, rows_of_group
from tidegate.time import FOREVER


class DecidedPairs(NamedTuple):
    """Pairs by position in the probing run and in the other, when both are valid, and failures (0: it is true).

    `done` is the number of rows of the probing run that have been searched.
    """

    probe: Positions
    row: Positions
    start: Times
    end: Times
    failures: Bytes
    done: int


def search_condition(
    probe: RunIndex, run: RunIndex, longest: int, condition: ConditionInputs, *, probe_member: int, most: int
) -> Iterator[DecidedPairs]:
    """Yield all pairs for which the condition is true or fails, about `most` at a time.

    The probing run is member 0 or 1 of the condition, the other run is the other one.
    """
    cursor, work = np.array([0, 0]), allocate_workspace(condition, 2)
    while cursor[0] < len(probe.hash):
        found, failures, filled = _search_condition(probe, run, longest, condition, work, probe_member, cursor, most)
        rows, others = found[:filled, probe_member], found[:filled, 1 - probe_member]
        start, end = np.maximum(probe.start[rows], run.start[others]), np.minimum(probe.end[rows], run.end[others])
        valid = end > start
        if valid.any():
            left, right = rows[valid].astype(np.int32), others[valid].astype(np.int32)
            yield DecidedPairs(left, right, start[valid], end[valid], failures[:filled][valid], int(cursor[1]))


@compiled
def _search_condition(
    probe: RunIndex,
    run: RunIndex,
    longest: int,
    condition: ConditionInputs,
    work: Workspace,
    probe_member: int,
    cursor: Ints,
    enough: int,
) -> tuple[Ints, Bytes, int]:
    """Return pairs, their failures and number; the cursor (group, row) says where to continue."""
    run_start, stretches, ranges, last = run.start, work.stretches, work.ranges, 1 - probe_member
    found, failures, filled = np.empty((1024, 2), np.int64), np.empty(1024, np.uint8), 0
    zero: Int = np.int64(0)
    segments, lanes = 0, zero
    for group in range(cursor[0], len(probe.hash)):
        at = group_of_hash(run.hash, run.slot, probe.hash[group])
        if at < 0:
            continue
        begin, stop = rows_of_group(run.first, at, len(run_start))
        row, after = rows_of_group(probe.first, group, len(probe.start))
        row = max(row, cursor[1])
        while row < after:
            if filled >= enough:
                if segments:
                    found, failures, filled = judge_stretches(condition, work, segments, last, found, failures, filled)
                cursor[0], cursor[1] = group, row
                return found, failures, filled
            start, end = probe.start[row], probe.end[row]
            if longest < FOREVER:
                begin = first_after(run_start, begin, stop, start - longest)
            until = stop if run_start[stop - 1] < end else first_after(run_start, begin, stop, end - 1)
            position = begin
            while position < until:
                stretches.rows[segments, probe_member] = row
                position, lanes = add_range(stretches, ranges, segments, lanes, last, position, until)
                segments += 1
                if lanes == LANES or segments == SEGMENTS:
                    found, failures, filled = judge_stretches(condition, work, segments, last, found, failures, filled)
                    segments, lanes = 0, zero
            row += 1
    if segments:
        found, failures, filled = judge_stretches(condition, work, segments, last, found, failures, filled)
    cursor[0], cursor[1] = len(probe.hash), len(probe.start)
    return found, failures, filled
