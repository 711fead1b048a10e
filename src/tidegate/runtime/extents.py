"""Which elements of a step run in one piece, and which wait for the next."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from tidegate.physical.common.batch import Batch, Times, concat
from tidegate.physical.common.operator import TooManyPairs
from tidegate.runtime.work import Address, Inbox
from tidegate.time import BEGINNING, FOREVER

GROWTH = 1.25
"""A piece is larger than the one before by this factor at least: part of its pairs may not depend on its size."""

AIM = 0.7
"""Pieces are made so large that they come to this part of the bound."""

FEWER = 0.75
"""Cutting a piece helps if what is left makes at most this part of its pairs."""

MOST_USELESS_CUTS = 3
"""Number of cuts without effect after which the rest runs at once."""

FEW = 1 / 64
"""If a piece comes to less than this part of the bound, all that waits is tried at once."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a piece has of a step: the elements that start before `until`, of these the first `rows` by start.

    Watermarks go no further than `until`, nor than elements that wait.
    """

    until: int | None = None
    rows: int | None = None
    gives_up: bool = False
    """Cutting does not help: however many pairs it makes."""

    @property
    def is_bounded(self) -> bool:
        """Whether it can be cut further: a single element cannot, and makes as many pairs as it must."""
        return self.rows != 1 and not self.gives_up


ALL, REST = Extent(), Extent(gives_up=True)


@dataclass(frozen=True, slots=True)
class Trials:
    """Pieces that were too large, each cut out of the one before, and how often cutting did not help.

    Aggregates below other operators report all their groups in every piece, however short: if these alone make too
    many pairs, smaller pieces make more of them altogether.
    """

    pairs: float = math.inf
    in_vain: int = 0

    def after(self, reason: Exception) -> Trials:
        """The trials with one more that failed."""
        pairs = reason.pairs if isinstance(reason, TooManyPairs) else 0.0
        return Trials(pairs, self.in_vain + 1 if pairs > FEWER * self.pairs else 0)

    @property
    def are_futile(self) -> bool:
        return self.in_vain >= MOST_USELESS_CUTS


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Elements and watermarks that run together, and what is left; None: it is the last piece."""

    extent: Extent
    inboxes: tuple[Inbox, ...]
    rest: Waiting | None

    @property
    def starts(self) -> Times:
        return _starts(self.inboxes)

    @property
    def furthest(self) -> int:
        """How far its watermarks go."""
        return max((mark for inbox in self.inboxes for mark in inbox.watermarks.values()), default=BEGINNING)


@dataclass(frozen=True, slots=True, eq=False)
class Waiting:
    """What has not run yet, by bucket.

    Its watermarks hold after all of it; those that hold by now are `reached`. Pieces before went to the time `at`.
    """

    inboxes: tuple[Inbox, ...]
    reached: Mapping[Address, int]
    at: int = BEGINNING

    @staticmethod
    def of(inboxes: Sequence[Inbox], stages: AbstractSet[int]) -> Waiting:
        """All that has arrived for some stages."""
        return Waiting(tuple(_select(inbox, stages) for inbox in inboxes), {})

    def after(self, marks: Mapping[Address, int]) -> Waiting:
        """The same, after a step with these watermarks."""
        return replace(self, reached=marks)

    def cut(self, extent: Extent) -> Piece:
        """Take a piece out of what waits."""
        if extent in (ALL, REST):
            return Piece(extent, self.inboxes, None)
        taken, left = [], []
        for inbox, batches in zip(self.inboxes, self._divided(extent), strict=True):
            rest = {address: [after] for address, (_, after) in batches.items() if len(after)}
            marks = {address: self._mark(inbox, address, rest, extent) for address in inbox.watermarks}
            taken.append(_with(inbox, {address: [before] for address, (before, _) in batches.items()}, marks))
            left.append(_with(inbox, rest, inbox.watermarks))
        if not any(inbox.batches for inbox in left) and [i.watermarks for i in taken] == [i.watermarks for i in left]:
            return Piece(extent, tuple(taken), None)
        reached = {a: min(inbox.watermarks[a] for inbox in taken) for a in taken[0].watermarks}
        at = self.at if extent.until is None else extent.until
        return Piece(extent, tuple(taken), Waiting(tuple(left), reached, at))

    def smaller(self, piece: Piece, cut: int | None) -> Extent:
        """Choose less than a piece that was too large; `cut` is the time that an operator advises."""
        starts, until = np.sort(piece.starts), piece.extent.until
        is_less = cut is not None and cut < max(piece.furthest, starts.max(initial=BEGINNING) + 1)
        if cut is not None and is_less and self.at < cut < (FOREVER if until is None else until):
            return Extent(cut)
        if len(starts) < 2:
            return Extent(until, 1)
        middle = int(starts[len(starts) // 2])
        return Extent(middle) if middle > starts[0] else Extent(until, len(starts) // 2)

    def following(self, piece: Piece, used: float) -> Extent:
        """Choose the piece after one that came to the part `used` of the bound."""
        assert piece.rest is not None
        if used < FEW:
            return ALL
        factor, until, rows = max(GROWTH, min(4.0, AIM / used)), piece.extent.until, piece.extent.rows
        if rows is not None and (until is None or (_starts(piece.rest.inboxes) < until).any()):
            return Extent(until, max(1, int(rows * factor)))
        assert until is not None
        starts = piece.starts
        if not len(starts):  # only time goes on, perhaps to FOREVER: not in equal steps
            span, factor = until - self.at, max(factor, 2.0)
        else:
            span = until - max(self.at, int(starts.min()))
        after = until + max(span + 1, int(span * factor))
        return Extent(after) if after < FOREVER else ALL

    def _divided(self, extent: Extent) -> list[dict[Address, tuple[Batch, Batch]]]:
        """The elements of each bucket and port: those that are part of the extent, and those that wait."""
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

    def _mark(self, inbox: Inbox, address: Address, rest: Mapping[Address, list[Batch]], extent: Extent) -> int:
        """The watermark of a port after a piece: those that wait start at or after it."""
        last = inbox.watermarks[address]
        upto = last if extent.until is None else min(last, extent.until)
        later = [int(batch.start.min()) for batch in rest.get(address, [])]
        return max(self.reached.get(address, BEGINNING), min([upto, *later]))


def _select(inbox: Inbox, stages: AbstractSet[int]) -> Inbox:
    batches = {address: some for address, some in inbox.batches.items() if address[0] in stages}
    return _with(inbox, batches, {address: m for address, m in inbox.watermarks.items() if address[0] in stages})


def _with(inbox: Inbox, batches: Mapping[Address, list[Batch]], watermarks: Mapping[Address, int]) -> Inbox:
    return replace(inbox, batches=dict(batches), watermarks=dict(watermarks))


def _starts(inboxes: Sequence[Inbox]) -> Times:
    """When elements start, in the order of buckets and ports."""
    batches = (batch for inbox in inboxes for some in inbox.batches.values() for batch in some)
    return np.concatenate([np.empty(0, np.int64), *(batch.start for batch in batches)])
