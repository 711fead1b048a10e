"""Choose which elements of a step run in the next piece and which wait."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from tidegate.physical.common.batch import Batch, Times, concat
from tidegate.physical.common.operator import TooManyPairs
from tidegate.runtime.bucket_step import Inbox
from tidegate.runtime.stage import Address
from tidegate.time import BEGINNING, FOREVER

MIN_GROWTH = 1.25
"""Minimum factor by which a piece grows over the previous one: part of its pairs may not depend on its size."""

TARGET_SHARE = 0.7
"""Share of the bound on pairs that the next piece should reach."""

HELPFUL_SHARE = 0.75
"""A cut helps if the smaller piece makes at most this share of the pairs."""

MOST_USELESS_CUTS = 3
"""Number of consecutive useless cuts after which everything that waits runs at once."""

TRY_ALL_BELOW = 1 / 64
"""If a piece reaches less than this share of the bound, everything that waits is tried at once."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Bounds of a piece: elements that start before `until`, and of these the first `rows` by start.

    Watermarks advance neither past `until` nor past elements that wait.
    """

    until: int | None = None
    rows: int | None = None
    gives_up: bool = False
    """Run without a bound on pairs, because cuts do not help."""

    @property
    def is_bounded(self) -> bool:
        """Return whether the bound on pairs applies. It does not to a single element, which cannot be cut."""
        return self.rows != 1 and not self.gives_up


ALL, REST = Extent(), Extent(gives_up=True)


@dataclass(frozen=True, slots=True)
class Trials:
    """Consecutive attempts that were too large: the pairs of the last one, and the number of useless cuts.

    Aggregates below other operators report all their groups in every piece, however short. If these groups alone make
    too many pairs, smaller pieces make more pairs in total.
    """

    pairs: float = math.inf
    useless_cuts: int = 0

    def after(self, reason: Exception) -> Trials:
        """Return the trials after another failed attempt."""
        pairs = reason.pairs if isinstance(reason, TooManyPairs) else 0.0
        return Trials(pairs, self.useless_cuts + 1 if pairs > HELPFUL_SHARE * self.pairs else 0)

    @property
    def is_futile(self) -> bool:
        return self.useless_cuts >= MOST_USELESS_CUTS


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Elements and watermarks that run together, and the rest, which is None for the last piece."""

    extent: Extent
    inboxes: tuple[Inbox, ...]
    rest: WaitingElements | None

    @property
    def starts(self) -> Times:
        return _starts(self.inboxes)

    @property
    def furthest(self) -> int:
        """The largest watermark of the piece."""
        return max((mark for inbox in self.inboxes for mark in inbox.watermarks.values()), default=BEGINNING)


@dataclass(frozen=True, slots=True, eq=False)
class WaitingElements:
    """Elements of a step that have not run yet, by bucket.

    The watermarks in `inboxes` hold once all elements have run; `reached` are those that hold now. Earlier pieces
    reached up to the time `at`.
    """

    inboxes: tuple[Inbox, ...]
    reached: Mapping[Address, int]
    at: int = BEGINNING

    @staticmethod
    def of(inboxes: Sequence[Inbox], stages: AbstractSet[int]) -> WaitingElements:
        """Return everything that has arrived for some stages."""
        return WaitingElements(tuple(_select_stages(inbox, stages) for inbox in inboxes), {})

    def with_watermarks(self, marks: Mapping[Address, int]) -> WaitingElements:
        """Return the same elements after a step with these watermarks."""
        return replace(self, reached=marks)

    def cut(self, extent: Extent) -> Piece:
        """Split off a piece with the given extent."""
        if extent in (ALL, REST):
            return Piece(extent, self.inboxes, None)
        taken, left = [], []
        for inbox, batches in zip(self.inboxes, self._split_batches(extent), strict=True):
            rest = {address: [after] for address, (_, after) in batches.items() if len(after)}
            marks = {address: self._watermark_after(inbox, address, rest, extent) for address in inbox.watermarks}
            taken.append(
                _replace_contents(inbox, {address: [before] for address, (before, _) in batches.items()}, marks)
            )
            left.append(_replace_contents(inbox, rest, inbox.watermarks))
        if not any(inbox.batches for inbox in left) and [i.watermarks for i in taken] == [i.watermarks for i in left]:
            return Piece(extent, tuple(taken), None)
        reached = {a: min(inbox.watermarks[a] for inbox in taken) for a in taken[0].watermarks}
        at = self.at if extent.until is None else extent.until
        return Piece(extent, tuple(taken), WaitingElements(tuple(left), reached, at))

    def smaller_extent(self, piece: Piece, cut: int | None) -> Extent:
        """Return a smaller extent after a piece that was too large; `cut` is a time that an operator proposes."""
        starts, until = np.sort(piece.starts), piece.extent.until
        is_less = cut is not None and cut < max(piece.furthest, starts.max(initial=BEGINNING) + 1)
        if cut is not None and is_less and self.at < cut < (FOREVER if until is None else until):
            return Extent(cut)
        if len(starts) < 2:
            return Extent(until, 1)
        middle = int(starts[len(starts) // 2])
        return Extent(middle) if middle > starts[0] else Extent(until, len(starts) // 2)

    def next_extent(self, piece: Piece, used: float) -> Extent:
        """Return the extent after a piece that reached the share `used` of the bound."""
        assert piece.rest is not None
        if used < TRY_ALL_BELOW:
            return ALL
        factor, until, rows = max(MIN_GROWTH, min(4.0, TARGET_SHARE / used)), piece.extent.until, piece.extent.rows
        if rows is not None and (until is None or (_starts(piece.rest.inboxes) < until).any()):
            return Extent(until, max(1, int(rows * factor)))
        assert until is not None
        starts = piece.starts
        if not len(starts):  # only watermarks advance, perhaps to FOREVER: equal spans would take too many pieces
            span, factor = until - self.at, max(factor, 2.0)
        else:
            span = until - max(self.at, int(starts.min()))
        after = until + max(span + 1, int(span * factor))
        return Extent(after) if after < FOREVER else ALL

    def _split_batches(self, extent: Extent) -> list[dict[Address, tuple[Batch, Batch]]]:
        """Split the elements of each bucket and port into those within the extent and those that wait."""
        until = FOREVER if extent.until is None else extent.until
        whole = [{address: concat(batches) for address, batches in i.batches.items()} for i in self.inboxes]
        starts = _starts(self.inboxes)
        chosen = starts < until if extent.until is not None else np.ones(len(starts), np.bool_)
        if extent.rows is not None:
            first = np.flatnonzero(chosen)
            first = first[np.argsort(starts[first], kind="stable")][: extent.rows]
            chosen = np.zeros(len(starts), np.bool_)
            chosen[first] = True
        parts: list[dict[Address, tuple[Batch, Batch]]] = []
        at = 0
        for each in whole:
            parts.append({})
            for address, batch in each.items():
                mask, at = chosen[at : at + len(batch)], at + len(batch)
                parts[-1][address] = batch.filter(mask), batch.filter(~mask)
        return parts

    def _watermark_after(
        self, inbox: Inbox, address: Address, rest: Mapping[Address, list[Batch]], extent: Extent
    ) -> int:
        """Return the watermark of a port after a piece: elements that wait start at or after it."""
        last = inbox.watermarks[address]
        upto = last if extent.until is None else min(last, extent.until)
        later = [int(batch.start.min()) for batch in rest.get(address, [])]
        return max(self.reached.get(address, BEGINNING), min([upto, *later]))


def _select_stages(inbox: Inbox, stages: AbstractSet[int]) -> Inbox:
    batches = {address: some for address, some in inbox.batches.items() if address[0] in stages}
    return _replace_contents(
        inbox, batches, {address: m for address, m in inbox.watermarks.items() if address[0] in stages}
    )


def _replace_contents(inbox: Inbox, batches: Mapping[Address, list[Batch]], watermarks: Mapping[Address, int]) -> Inbox:
    return replace(inbox, batches=dict(batches), watermarks=dict(watermarks))


def _starts(inboxes: Sequence[Inbox]) -> Times:
    """Return the start times of all elements, in the order of buckets and ports."""
    batches = (batch for inbox in inboxes for some in inbox.batches.values() for batch in some)
    return np.concatenate([np.empty(0, np.int64), *(batch.start for batch in batches)])
