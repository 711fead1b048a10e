"""Piece of the batch method in several dimensions: boxes, and a position in the log up to which they are counted.

As in one dimension, similar subscriptions lie in one block, and the weight in the cover of a block determines which of
them are due. When a subscription is due, all elements since the start of the piece are counted for it. From time to
time all subscriptions are counted, and the start of the piece moves to the end of the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.journal import Journal
from tidegate.physical.subscriptions.kernels.batch_keys import order_for_blocks_by_key
from tidegate.physical.subscriptions.kernels.batch_model import GONE, BatchSettings, PieceCompletions, no_completions
from tidegate.physical.subscriptions.kernels.batch_saved import GONE_AIM, SavedParts, restore_saved_parts
from tidegate.physical.subscriptions.kernels.batch_sweep import completing_points, weights_by_key, weights_in
from tidegate.physical.subscriptions.kernels.boxes import (
    Boxes,
    Points,
    complete_repeating_boxes,
    order_for_blocks,
    take_boxes,
)

_LONGEST = 131_072
"""Number of elements in the log after which all subscriptions are counted."""


class Covers(NamedTuple):
    """For each block: the box around its boxes, the weight in that box since the start, and the least due weight."""

    low: Ints
    high: Ints
    weight: Ints
    least: Ints


@dataclass(slots=True, eq=False)
class BoxPiece:
    """Subscriptions with what they lacked at the start; `due` is the weight of the cover at which to check them."""

    number: int
    subscriptions: Boxes
    start: int
    """Position in the log of the first element that is not yet counted in `missing`."""
    covers: Covers
    due: Ints
    live_and_slack: Ints
    """Number of live subscriptions, and the weight that can arrive before any of them is due."""
    settings: BatchSettings
    keyed: bool
    repeats: bool
    saved: SavedParts

    @property
    def ids(self) -> Ints:
        return self.subscriptions.id

    @property
    def live(self) -> int:
        return int(self.live_and_slack[0])

    def copy(self) -> BoxPiece:
        covers = self.covers._replace(weight=self.covers.weight.copy(), least=self.covers.least.copy())
        queries = self.subscriptions._replace(missing=self.subscriptions.missing.copy())
        due, rest, saved = self.due.copy(), self.live_and_slack.copy(), self.saved.copy()
        return replace(self, subscriptions=queries, covers=covers, due=due, live_and_slack=rest, saved=saved)

    def absorb(self, points: Points, log: Journal) -> PieceCompletions:
        """Count the points, which are the last ones of the log."""
        self.covers.weight[:] += weights_in(self.covers.low, self.covers.high, points)
        self.live_and_slack[1] -= points.weight.sum()
        if self.live_and_slack[1] > 0:
            return no_completions()
        row = _due_rows(self.covers, self.due, self.settings.block)
        counted = self._weights(row, points_since(log, self.start))
        missing = self.subscriptions.missing[row] - counted
        complete = missing <= 0
        found = no_completions()
        if complete.any():
            found, missing[complete] = self._complete_rows(row[complete], missing[complete], points)
        if self.repeats:
            self._set_missing(row[complete], missing[complete] + counted[complete])
        else:
            self.saved.mark_gone(row[complete])
        _schedule_checks(self.covers, self.due, self.live_and_slack, row, missing, self.settings.block)
        return found

    def _complete_rows(self, row: Ints, missing: Ints, points: Points) -> tuple[PieceCompletions, Ints]:
        """Return where the points completed these rows, and what the rows lack afterwards.

        `missing` is zero or negative: the rows have got more than they lacked.
        """
        boxes = take_boxes(self.subscriptions, row)
        lacking = self._weights(row, points) + missing
        boxes = boxes._replace(missing=lacking)
        if not self.repeats:
            return PieceCompletions(row, *completing_points(boxes, points, keyed=self.keyed)), missing
        at, element, total = complete_repeating_boxes(boxes, points, np.zeros(len(row), np.int64))
        return PieceCompletions(row[at], element, total), boxes.missing

    def _weights(self, row: Ints, points: Points) -> Ints:
        """Return the weight of the points in the boxes of these rows."""
        low, high = self.subscriptions.low[:, row], self.subscriptions.high[:, row]
        return weights_by_key(low, high, points) if self.keyed else weights_in(low, high, points)

    def _set_missing(self, rows: Ints, missing: Ints) -> None:
        self.subscriptions.missing[rows] = missing
        self.saved.note_aims(rows, missing)

    def settle_if_due(self, log: Journal) -> BoxPiece:
        """Return the piece with the whole log counted in `missing`, if the log since its start is long enough."""
        patience = max(self.settings.cut, min(_LONGEST, int(self.settings.patience * self.live)))
        return self if log.end - self.start < patience else self.with_log_counted(log)

    def with_log_counted(self, log: Journal) -> BoxPiece:
        """Return the piece with the whole log counted in `missing`, which is expensive with many subscriptions."""
        if self.start == log.end:
            return self
        piece, row = self.copy(), np.flatnonzero(self.due != GONE)
        piece.subscriptions.missing[row] -= self._weights(row, points_since(log, self.start))
        piece.start, piece.saved = log.end, SavedParts(self.saved.constant, 0)
        _schedule_all_checks(piece, log)
        return piece

    def without_gone(self, number: int, log: Journal) -> BoxPiece:
        """Return the piece without subscriptions that are gone."""
        boxes = take_boxes(self.subscriptions, np.flatnonzero(self.due != GONE))
        kind = {"keyed": self.keyed, "repeats": self.repeats}
        return _build_piece(
            number, boxes, self.start, log, self.settings, SavedParts(_constant_parts(boxes), 0), **kind
        )

    def terminate_rows(self, rows: Ints) -> None:
        """Terminate these rows, which must be live."""
        self.due[rows] = GONE
        self.live_and_slack[0] -= len(rows)
        self.saved.mark_gone(rows)

    def are_live(self, rows: Ints) -> Mask:
        return self.due[rows] != GONE

    def live_boxes(self, log: Journal) -> Boxes:
        """Return the live subscriptions and what they lack."""
        return take_boxes(self.with_log_counted(log).subscriptions, np.flatnonzero(self.due != GONE))

    def to_columns(self, log: Journal) -> dict[str, Columns]:
        if self.saved.aims is None:
            self.saved.save_aims(self.subscriptions.missing, self.due == GONE)
        return self.saved.to_columns()


def points_since(log: Journal, begin: int) -> Points:
    """Return the elements of the log from a position on."""
    *axes, weight = log.columns_since(begin)
    return Points(np.stack(axes), np.require(weight, requirements=["C", "W"]))


def piece_of(
    number: int, boxes: Boxes, log: Journal, settings: BatchSettings, *, keyed: bool, repeats: bool
) -> BoxPiece:
    if keyed:
        order = order_for_blocks_by_key(boxes.low[0], np.vstack([boxes.low[1:], boxes.high[1:]]), settings.block)
    else:
        order = order_for_blocks(np.vstack([boxes.low, boxes.high]), settings.block)
    boxes = take_boxes(boxes, order)
    saved = SavedParts(_constant_parts(boxes), 0)
    return _build_piece(number, boxes, log.end, log, settings, saved, keyed=keyed, repeats=repeats)


def restore_piece(
    number: int,
    parts: Mapping[str, Columns],
    start: int,
    log: Journal,
    settings: BatchSettings,
    *,
    keyed: bool,
    repeats: bool,
) -> BoxPiece:
    saved, missing = restore_saved_parts(parts, ("queries",), start)
    columns = parts["queries"]
    axes = range((len(columns) - 2) // 2)
    low, high = (np.stack([columns[f"{end}{axis}"] for axis in axes]) for end in ("low", "high"))
    ids, threshold = (np.require(columns[name], requirements=["C", "W"]) for name in ("id", "threshold"))
    boxes = Boxes(ids, low, high, threshold, missing)
    return _build_piece(number, boxes, start, log, settings, saved, keyed=keyed, repeats=repeats)


def _constant_parts(boxes: Boxes) -> dict[str, Columns]:
    """Return the parts of the state that never change."""
    ends = {f"low{axis}": row for axis, row in enumerate(boxes.low)}
    ends |= {f"high{axis}": row for axis, row in enumerate(boxes.high)}
    return {"queries": {"id": boxes.id, "threshold": boxes.threshold, **ends}}


def _build_piece(
    number: int,
    boxes: Boxes,
    start: int,
    log: Journal,
    settings: BatchSettings,
    saved: SavedParts,
    *,
    keyed: bool,
    repeats: bool,
) -> BoxPiece:
    """Return a piece of boxes; those whose `missing` is LEFT are gone."""
    starts = np.arange(0, len(boxes.id), settings.block)
    low = np.minimum.reduceat(boxes.low, starts, axis=1)
    high = np.maximum.reduceat(boxes.high, starts, axis=1)
    due, gone = np.where(boxes.missing == GONE_AIM, GONE, 0), np.count_nonzero(boxes.missing == GONE_AIM)
    none = np.zeros(len(starts), np.int64)
    covers, rest = Covers(low, high, none, none.copy()), np.array([len(due) - gone, 0])
    piece = BoxPiece(number, boxes, start, covers, due, rest, settings, keyed, repeats, saved)
    _schedule_all_checks(piece, log)
    return piece


def _schedule_all_checks(piece: BoxPiece, log: Journal) -> None:
    """Make each subscription due once its cover has gained, since the start, what the subscription lacked then."""
    piece.covers.weight[:] = piece.covers.least[:] = 0
    row = np.flatnonzero(piece.due != GONE)
    _schedule_checks(
        piece.covers, piece.due, piece.live_and_slack, row, piece.subscriptions.missing[row], piece.settings.block
    )
    if piece.start < log.end:
        piece.covers.weight[:] = weights_in(piece.covers.low, piece.covers.high, points_since(log, piece.start))
        piece.live_and_slack[1] = 0


@compiled
def _due_rows(covers: Covers, due: Ints, block: int) -> Ints:
    found, out = np.empty(len(due), np.int64), 0
    for number in range(len(covers.least)):
        if covers.weight[number] >= covers.least[number]:
            for row in range(number * block, min((number + 1) * block, len(due))):
                if due[row] <= covers.weight[number]:
                    found[out] = row
                    out += 1
    return found[:out].copy()


@compiled
def _schedule_checks(covers: Covers, due: Ints, rest: Ints, rows: Ints, missing: Ints, block: int) -> None:
    """Set when to check these rows again; rows that lack nothing are gone."""
    for at in range(len(rows)):
        row = rows[at]
        if missing[at] <= 0:
            due[row] = GONE
            rest[0] -= 1
        else:
            cover = covers.weight[row // block]
            due[row] = cover + min(missing[at], GONE - 1 - cover)
    rest[1] = GONE
    for number in range(len(covers.least)):
        if covers.weight[number] >= covers.least[number]:
            least = GONE
            for row in range(number * block, min((number + 1) * block, len(due))):
                least = min(least, due[row])
            covers.least[number] = least
        rest[1] = min(rest[1], covers.least[number] - covers.weight[number])
