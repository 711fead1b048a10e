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
from tidegate.physical.subscriptions.kernels.sliding_model import (
    LAST,
    NumberedElements,
    SubscriptionTotals,
    axes_of,
    columns_by_axis,
)
from tidegate.physical.subscriptions.kernels.sliding_weights import (
    Line,
    line_of,
    mark_covered,
    reduce_to_since,
    weights_by_merge,
    weights_in_boxes,
)


class CountingState(NamedTuple):
    """State of counting: totals include the elements before `number`, as of `time`.

    No subscription can be complete before a weight of `slack` has arrived since then.
    """

    number: int
    time: int
    slack: int


@dataclass(frozen=True, slots=True, eq=False)
class SubscriptionChunk:
    """Subscriptions with their totals; arrays are replaced, never changed."""

    number: int
    ids: Ints
    subscriptions: SubscriptionTotals
    key: Ints
    """Key of each subscription; 0 without keys."""
    by_high: Ints
    gone: Mask
    live: int
    keyed: bool
    settled: CountingState
    parts: Mapping[str, Columns]
    """State by name; a part stays the same object as long as it is equal."""

    def weights(self, counted: NumberedElements, line: Line) -> Ints:
        """Return the weight that each subscription counts of the elements; `line` has them in order."""
        low, high, axis = self.subscriptions.low, self.subscriptions.high, int(self.keyed)
        if len(low) > 1 + axis:
            total = weights_in_boxes(low, high, counted.points, keyed=self.keyed)
        else:
            total = weights_by_merge(line, self.key, low[axis], high[axis], self.by_high)
        return reduce_to_since(total, low, high, self.subscriptions.since, counted, keyed=self.keyed)

    def mark_elements(self, line: Line, answer: Mask) -> None:
        """Mark the elements that may be in one of the ranges."""
        axis = int(self.keyed)
        mark_covered(line, self.key, self.subscriptions.low[axis], self.subscriptions.high[axis], self.by_high, answer)

    def with_totals(self, total: Ints) -> SubscriptionChunk:
        parts = {**self.parts, "totals": {"total": total}}
        return replace(self, subscriptions=self.subscriptions._replace(total=total), parts=parts)

    def defer_weight(self, weight: int) -> SubscriptionChunk:
        """Defer counting elements of this weight, which complete no subscription."""
        return replace(self, settled=self.settled._replace(slack=self.settled.slack - weight))

    def mark_settled_at(self, number: int, time: int) -> SubscriptionChunk:
        """Return the chunk with its totals declared valid up to this number and time."""
        slack = _least_lacking(self.subscriptions.total, self.subscriptions.threshold, self.gone)
        return replace(self, settled=CountingState(number, time, slack))

    def with_changes(self, added: NumberedElements, expired: NumberedElements) -> SubscriptionChunk:
        """Return the chunk with the added elements counted and the expired ones subtracted."""
        change = np.zeros(len(self.ids), np.int64)
        if len(added.number):
            change += self.weights(added, line_of(added.points, keyed=self.keyed))
        if len(expired.number):
            change -= self.weights(expired, line_of(expired.points, keyed=self.keyed))
        return self.with_totals(self.subscriptions.total + change) if change.any() else self

    def apply_weights(self, more: Ints, less: Ints) -> tuple[SubscriptionChunk, Ints]:
        """Return the chunk with what is added and what expires, and the rows that may become complete.

        The totals of these rows stay unchanged.
        """
        queries = self.subscriptions
        total, rows, changed = _apply_weights(queries.total, queries.threshold, self.gone, more, less)
        return self.with_totals(total) if changed else self, rows

    def with_since(self, since: Ints) -> SubscriptionChunk:
        parts = {**self.parts, "since": {"since": since}}
        return replace(self, subscriptions=self.subscriptions._replace(since=since), parts=parts)

    def without_rows(self, rows: Ints) -> SubscriptionChunk:
        """Return the chunk with these live rows marked as gone."""
        gone = self.gone.copy()
        gone[rows] = True
        return replace(self, gone=gone, live=self.live - len(rows), parts={**self.parts, "gone": {"gone": gone}})

    def live_subscriptions(self) -> tuple[Ints, SubscriptionTotals]:
        """Return the live subscriptions, and their ids first."""
        rows = np.flatnonzero(~self.gone)
        return self.ids[rows], self.subscriptions.take(rows)

    def find_rows(self, by_id: Ints, ids: Ints) -> Ints:
        """Return the live rows that have the ids, or -1."""
        return _find_rows(self.ids, by_id, self.gone, np.ascontiguousarray(ids, np.int64))


def chunk_of(
    number: int, rest: list[tuple[Ints, SubscriptionTotals]], settled: CountingState, *, keyed: bool
) -> SubscriptionChunk:
    """Return a chunk of live subscriptions."""
    ids = np.concatenate([each for each, _ in rest])
    queries = SubscriptionTotals(
        *(np.concatenate(columns, axis=-1) for columns in zip(*(each for _, each in rest), strict=True))
    )
    order = _order_by_ends(queries.low, keyed=keyed)
    ids, queries = ids[order], queries.take(order)
    by_high = _order_by_ends(np.vstack([queries.low[0], queries.high[1:]]) if keyed else queries.high, keyed=keyed)
    gone = np.zeros(len(ids), np.bool_)
    same = {"id": ids, **columns_by_axis("low", queries.low), **columns_by_axis("high", queries.high)}
    parts = {
        "queries": {**same, "threshold": queries.threshold, "by_high": by_high},
        "since": {"since": queries.since},
        "totals": {"total": queries.total},
        "gone": {"gone": gone},
    }
    return SubscriptionChunk(
        number, ids, queries, _keys(queries.low, keyed=keyed), by_high, gone, len(ids), keyed, settled, parts
    )


def restore_chunk(
    number: int, parts: Mapping[str, Columns], settled: CountingState, dimensions: int, *, keyed: bool
) -> SubscriptionChunk:
    same = parts["queries"]
    ends = axes_of("low", same, dimensions), axes_of("high", same, dimensions)
    own = [same["threshold"], parts["totals"]["total"], parts["since"]["since"], same["id"]]
    threshold, total, since, ids = (np.require(column, np.int64, ["C", "W"]) for column in own)
    gone = np.require(parts["gone"]["gone"], np.bool_, ["C", "W"])
    by_high = np.require(same["by_high"], np.int32, ["C", "W"])
    live = len(gone) - int(np.count_nonzero(gone))
    queries = SubscriptionTotals(*ends, threshold, total, since)
    return SubscriptionChunk(
        number, ids, queries, _keys(queries.low, keyed=keyed), by_high, gone, live, keyed, settled, parts
    )


def _keys(low: Ints, *, keyed: bool) -> Ints:
    return low[0] if keyed else np.zeros(low.shape[1], np.int64)


def _order_by_ends(ends: Ints, *, keyed: bool) -> Ints:
    order = np.lexsort((ends[1], ends[0])) if keyed else np.argsort(ends[0], kind="stable")
    return order.astype(np.int32)


@compiled
def _apply_weights(total: Ints, threshold: Ints, gone: Mask, more: Ints, less: Ints) -> tuple[Ints, Ints, bool]:
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
def _find_rows(ids: Ints, by_id: Ints, gone: Mask, wanted: Ints) -> Ints:
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
