"""Subscriptions in chunks: data that never changes, and their totals.

Subscriptions of a chunk are in the order of key and low end; a second order sorts them by high end. So one pass over
sorted elements counts for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.subscriptions.kernels.sliding_model import LAST, Counted, Looked, axes_of, by_axis
from tidegate.physical.subscriptions.kernels.sliding_weights import (
    Line,
    covered,
    from_number,
    line_of,
    merged,
    weights_in_boxes,
)


class Settled(NamedTuple):
    """State of counting: totals include the elements before `number`, as of `time`.

    No subscription can be complete before a weight of `slack` has arrived since then.
    """

    number: int
    time: int
    slack: int


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Subscriptions with their totals; arrays are replaced, never changed."""

    number: int
    ids: Ints
    queries: Looked
    key: Ints
    """Key of each subscription; 0 without keys."""
    by_high: Ints
    gone: Mask
    live: int
    keyed: bool
    settled: Settled
    parts: Mapping[str, Columns]
    """State by name; a part stays the same object as long as it is equal."""

    def weights(self, counted: Counted, line: Line) -> Ints:
        """Return the weight that each subscription counts of the elements; `line` has them in order."""
        low, high, axis = self.queries.low, self.queries.high, int(self.keyed)
        if len(low) > 1 + axis:
            total = weights_in_boxes(low, high, counted.points, keyed=self.keyed)
        else:
            total = merged(line, self.key, low[axis], high[axis], self.by_high)
        return from_number(total, low, high, self.queries.since, counted, keyed=self.keyed)

    def mark(self, line: Line, answer: Mask) -> None:
        """Mark the elements that may be in one of the ranges."""
        axis = int(self.keyed)
        covered(line, self.key, self.queries.low[axis], self.queries.high[axis], self.by_high, answer)

    def with_totals(self, total: Ints) -> Chunk:
        parts = {**self.parts, "totals": {"total": total}}
        return replace(self, queries=self.queries._replace(total=total), parts=parts)

    def put_off(self, weight: int) -> Chunk:
        """Defer counting elements of this weight, which complete no subscription."""
        return replace(self, settled=self.settled._replace(slack=self.settled.slack - weight))

    def settled_at(self, number: int, time: int) -> Chunk:
        """Return the chunk with its totals declared valid up to this number and time."""
        slack = _least_lacking(self.queries.total, self.queries.threshold, self.gone)
        return replace(self, settled=Settled(number, time, slack))

    def counted(self, added: Counted, expired: Counted) -> Chunk:
        """Return the chunk with the added elements counted and the expired ones subtracted."""
        change = np.zeros(len(self.ids), np.int64)
        if len(added.number):
            change += self.weights(added, line_of(added.points, keyed=self.keyed))
        if len(expired.number):
            change -= self.weights(expired, line_of(expired.points, keyed=self.keyed))
        return self.with_totals(self.queries.total + change) if change.any() else self

    def stepped(self, more: Ints, less: Ints) -> tuple[Chunk, Ints]:
        """Return the chunk with what is added and what expires, and the rows that may become complete.

        The totals of these rows stay unchanged.
        """
        queries = self.queries
        total, rows, changed = _stepped(queries.total, queries.threshold, self.gone, more, less)
        return self.with_totals(total) if changed else self, rows

    def with_since(self, since: Ints) -> Chunk:
        parts = {**self.parts, "since": {"since": since}}
        return replace(self, queries=self.queries._replace(since=since), parts=parts)

    def without(self, rows: Ints) -> Chunk:
        """Return the chunk with these live rows marked as gone."""
        gone = self.gone.copy()
        gone[rows] = True
        return replace(self, gone=gone, live=self.live - len(rows), parts={**self.parts, "gone": {"gone": gone}})

    def rest(self) -> tuple[Ints, Looked]:
        """Return the live subscriptions, and their ids first."""
        rows = np.flatnonzero(~self.gone)
        return self.ids[rows], self.queries.taken(rows)

    def found(self, by_id: Ints, ids: Ints) -> Ints:
        """Return the live rows that have the ids, or -1."""
        return _found(self.ids, by_id, self.gone, np.ascontiguousarray(ids, np.int64))


def chunk_of(number: int, rest: list[tuple[Ints, Looked]], settled: Settled, *, keyed: bool) -> Chunk:
    """Return a chunk of live subscriptions."""
    ids = np.concatenate([each for each, _ in rest])
    queries = Looked(*(np.concatenate(columns, axis=-1) for columns in zip(*(each for _, each in rest), strict=True)))
    order = _ordered(queries.low, keyed=keyed)
    ids, queries = ids[order], queries.taken(order)
    by_high = _ordered(np.vstack([queries.low[0], queries.high[1:]]) if keyed else queries.high, keyed=keyed)
    gone = np.zeros(len(ids), np.bool_)
    same = {"id": ids, **by_axis("low", queries.low), **by_axis("high", queries.high)}
    parts = {
        "queries": {**same, "threshold": queries.threshold, "by_high": by_high},
        "since": {"since": queries.since},
        "totals": {"total": queries.total},
        "gone": {"gone": gone},
    }
    return Chunk(number, ids, queries, _keys(queries.low, keyed=keyed), by_high, gone, len(ids), keyed, settled, parts)


def chunk_from(number: int, parts: Mapping[str, Columns], settled: Settled, dimensions: int, *, keyed: bool) -> Chunk:
    same = parts["queries"]
    ends = axes_of("low", same, dimensions), axes_of("high", same, dimensions)
    own = [same["threshold"], parts["totals"]["total"], parts["since"]["since"], same["id"]]
    threshold, total, since, ids = (np.require(column, np.int64, ["C", "W"]) for column in own)
    gone = np.require(parts["gone"]["gone"], np.bool_, ["C", "W"])
    by_high = np.require(same["by_high"], np.int32, ["C", "W"])
    live = len(gone) - int(np.count_nonzero(gone))
    queries = Looked(*ends, threshold, total, since)
    return Chunk(number, ids, queries, _keys(queries.low, keyed=keyed), by_high, gone, live, keyed, settled, parts)


def _keys(low: Ints, *, keyed: bool) -> Ints:
    return low[0] if keyed else np.zeros(low.shape[1], np.int64)


def _ordered(ends: Ints, *, keyed: bool) -> Ints:
    order = np.lexsort((ends[1], ends[0])) if keyed else np.argsort(ends[0], kind="stable")
    return order.astype(np.int32)


@compiled
def _stepped(total: Ints, threshold: Ints, gone: Mask, more: Ints, less: Ints) -> tuple[Ints, Ints, bool]:
    new, rows, out, changed = np.empty(len(total), np.int64), np.empty(len(total), np.int32), 0, False
    for row in range(len(total)):
        new[row] = total[row] + more[row] - less[row]
        if total[row] + more[row] >= threshold[row] and not gone[row]:
            new[row] = total[row]
            rows[out] = row
            out += 1
        changed |= new[row] != total[row]
    return new, rows[:out].astype(np.int64), changed


@compiled
def _least_lacking(total: Ints, threshold: Ints, gone: Mask) -> int:
    least = LAST
    for row in range(len(total)):
        if not gone[row]:
            least = min(least, threshold[row] - total[row])
    return least


@compiled
def _found(ids: Ints, by_id: Ints, gone: Mask, wanted: Ints) -> Ints:
    rows = np.full(len(wanted), -1, np.int64)
    for each in range(len(wanted)):
        begin, end = 0, len(by_id)
        while begin < end:
            middle = (begin + end) // 2
            if ids[by_id[middle]] < wanted[each]:
                begin = middle + 1
            else:
                end = middle
        # A subscription that is gone may have had the same id.
        while begin < len(by_id) and ids[by_id[begin]] == wanted[each] and rows[each] < 0:
            rows[each] = -1 if gone[by_id[begin]] else by_id[begin]
            begin += 1
    return rows
