"""Decide which distance to rely on, from recent observations of a constraint.

Observations are grouped in *blocks* of events. The distance in use follows from the worst of the last blocks. Together
these have the number of events that the settings ask for (W), some steps, and a span of twice the worst distance.

Rows are kept somewhat longer than the distance in use. If an observed distance exceeds the one in use, but not the one
kept, nothing is lost, and the greater distance is used from then on. Greater ones may follow such a rise, so more is
kept for a while. If a distance exceeds the one kept, no distance is used until that block is forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from tidegate.algebra.constraints import Monitoring

STEPS = 5
"""Fewest steps for a conclusion: one step may have thousands of events, all of the same moment."""

MARGIN = 0.04
"""Relative margin on the worst distance: spread distances now and then slightly exceed all before them."""

MOST_CHANGES = 20
"""Number of remembered changes of the distance in use."""

FACTOR_AFTER_RISE = 2.0
"""Least ratio of the distance kept to the distance in use, after a recent rise."""

_BLOCKS = 16
"""Number of blocks that W is divided into. The worst distance is forgotten up to one block late, and there are never
many more blocks than this.
"""

_NOTICEABLE = 0.1
"""Relative change below which a change is not remembered."""


@dataclass(frozen=True, slots=True)
class Block:
    """Number of events and steps, the greatest distance, and how far the position advanced.

    risen, exceeded: whether a distance was greater than the one in use, and than the one kept

    Only steps with events count, and only positions after the first event: before it nothing could be seen.
    """

    events: int
    greatest: int
    steps: int
    span: int
    risen: bool
    exceeded: bool


@dataclass(frozen=True, slots=True)
class DistanceTracker:
    """Recent blocks, the distance in use, and its recent changes as pairs of step and distance."""

    blocks: tuple[Block, ...] = ()
    used: int | None = None
    changes: tuple[tuple[int, int | None], ...] = ()

    @property
    def events(self) -> int:
        return sum(block.events for block in self.blocks)

    @property
    def steps(self) -> int:
        return sum(block.steps for block in self.blocks)

    @property
    def span(self) -> int:
        return sum(block.span for block in self.blocks)

    @property
    def worst(self) -> int:
        return max((block.greatest for block in self.blocks), default=0)

    @property
    def has_risen(self) -> bool:
        """Return whether a recent distance exceeded the one in use."""
        return any(block.risen for block in self.blocks)

    @property
    def is_exceeded(self) -> bool:
        """Return whether a recent distance exceeded the one kept."""
        return any(block.exceeded for block in self.blocks)


def update_tracker(
    before: DistanceTracker, step: int, events: int, greatest: int, span: int, settings: Monitoring, far: int = 0
) -> DistanceTracker:
    """Return the observations and the distance in use after a step.

    In the step, `events` had distances of at most `greatest`, and the position advanced by `span`. `far` is the
    distance that was kept; it is never less than the distance in use.

    Examples
    --------
    >>> followed, seen = DistanceTracker(), {"events": 20, "span": 100, "settings": Monitoring()}
    >>> for step in range(STEPS):
    ...     followed = update_tracker(followed, step, greatest=40, **seen)
    >>> followed.used
    42
    >>> update_tracker(followed, STEPS, greatest=50, far=50, **seen).used
    52
    >>> update_tracker(followed, STEPS, greatest=51, far=50, **seen).used is None
    True
    """
    if not events and not before.blocks:
        return before
    risen = before.used is not None and greatest > before.used
    passed = span if before.blocks else 0
    new = Block(events, greatest, min(events, 1), passed, risen, exceeded=risen and greatest > far)
    blocks = _drop_old_blocks(_with_block(before.blocks, new, settings), settings)
    now = replace(before, blocks=blocks)
    used = _reliable_distance(now, settings)
    return replace(now, used=used, changes=_with_change(before.changes, step, used))


def distance_to_keep(used: int, stride: int, settings: Monitoring, *, risen: bool = False) -> int:
    """Return the distance to keep and observe: more than the one in use, so that nothing is lost while distances grow.

    A distance exceeded in one step is corrected in the next, so at least two strides are added.
    """
    factor = max(settings.factor, FACTOR_AFTER_RISE) if risen else settings.factor
    return max(ceil(factor * used), used + 2 * stride)


def _reliable_distance(followed: DistanceTracker, settings: Monitoring) -> int | None:
    """Return the worst distance with its margin, or None if it is not known."""
    if followed.is_exceeded:
        return None
    worst = ceil((1 + MARGIN) * followed.worst)
    if not _has_enough(followed.blocks, max(settings.events, 1)):
        # No observation does not prove order: elements farther apart than the distance kept are not observed either.
        return None if followed.used is None else max(followed.used, worst)
    return worst


def _with_block(blocks: tuple[Block, ...], new: Block, settings: Monitoring) -> tuple[Block, ...]:
    if not blocks or _is_full(blocks[-1], max(block.greatest for block in blocks), settings):
        return (*blocks, new)
    last = blocks[-1]
    sums = (last.events + new.events, max(last.greatest, new.greatest), last.steps + new.steps, last.span + new.span)
    return (*blocks[:-1], Block(*sums, last.risen or new.risen, last.exceeded or new.exceeded))


def _is_full(block: Block, worst: int, settings: Monitoring) -> bool:
    return block.events * _BLOCKS >= settings.window and block.span * _BLOCKS >= 2 * worst


def _drop_old_blocks(blocks: tuple[Block, ...], settings: Monitoring) -> tuple[Block, ...]:
    """Drop the oldest blocks that are no longer needed."""
    while len(blocks) > 1 and _has_enough(blocks[1:], settings.window):
        blocks = blocks[1:]
    return blocks


def _has_enough(blocks: Sequence[Block], events: int) -> bool:
    """Return whether the blocks have enough events, steps and span. A short span cannot show greater distances."""
    steps, span = sum(block.steps for block in blocks), sum(block.span for block in blocks)
    long = steps >= STEPS and span >= 2 * max(block.greatest for block in blocks)
    return long and sum(block.events for block in blocks) >= events


def _with_change(
    changes: tuple[tuple[int, int | None], ...], step: int, used: int | None
) -> tuple[tuple[int, int | None], ...]:
    last = changes[-1][1] if changes else None
    if used == last or (used is not None and last is not None and abs(used - last) <= _NOTICEABLE * last):
        return changes
    return (*changes, (step, used))[-MOST_CHANGES:]
