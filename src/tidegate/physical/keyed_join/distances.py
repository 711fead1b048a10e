"""Which distance is counted on, decided from what was observed of a constraint in the last steps.

Observations are kept in *blocks* of some events each. The worst of the last blocks counts, which together have the
events that the settings ask for (W), some steps, and took twice as long as the worst. More is kept than is counted
on: when a distance is more than what is counted on, but not more than what was kept, nothing is lost, and it is
counted on from then on; where it has risen like this, still greater ones may follow, so more is kept for a while.
When it is more than was kept, nothing is counted on until that block is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, NamedTuple

from tidegate.algebra.constraints import Monitoring

STEPS = 5
"""A worst of fewer steps says little: there may be thousands of events in one, all of the same moment."""

MARGIN = 0.04
"""Where distances are spread, now and then one is a little greater than all before it."""

CHANGES = 20
"""So many changes of what was counted on are remembered."""

RISEN = 2.0
"""So many times what is counted on is kept, at least, where that has risen lately."""

_BLOCKS = 16
"""A block is full with one of so many parts of W; so much later than it should, the worst is forgotten. There are
never many more blocks than that."""

_NOTICEABLE = 0.1
"""A change by less than this part is not remembered as one."""


class Block(NamedTuple):
    """So many events in so many steps, the greatest distance, and how far the place went on.

    risen, exceeded: whether a distance was more than what was counted on, and more than what was kept

    Only steps with events count, and places after the first of them: before there was nothing to be seen.
    """

    events: int
    greatest: int
    steps: int
    span: int
    risen: bool
    exceeded: bool


@dataclass(frozen=True, slots=True)
class Followed:
    """The last blocks, what is counted on, and the last changes of it: step and distance."""

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
    def risen(self) -> bool:
        """Whether more than was counted on has been seen lately."""
        return any(block.risen for block in self.blocks)

    @property
    def exceeded(self) -> bool:
        """Whether more than was kept has been seen lately."""
        return any(block.exceeded for block in self.blocks)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Followed:
        blocks = tuple(Block(*block) for block in told["blocks"])
        return cls(blocks, told["used"], tuple((step, used) for step, used in told["changes"]))


def follow(
    before: Followed, step: int, events: int, greatest: int, span: int, settings: Monitoring, far: int = 0
) -> Followed:
    """What to count on after a step in which so much was observed while the place went on by the span.

    `far` is how far was kept; never less than what was counted on.

    Examples
    --------
    >>> followed, seen = Followed(), {"events": 20, "span": 100, "settings": Monitoring()}
    >>> for step in range(STEPS):
    ...     followed = follow(followed, step, greatest=40, **seen)
    >>> followed.used
    42
    >>> follow(followed, STEPS, greatest=50, far=50, **seen).used
    52
    >>> follow(followed, STEPS, greatest=51, far=50, **seen).used is None
    True
    """
    if not events and not before.blocks:
        return before
    risen = before.used is not None and greatest > before.used
    passed = span if before.blocks else 0
    new = Block(events, greatest, min(events, 1), passed, risen, exceeded=risen and greatest > far)
    blocks = _last(_with(before.blocks, new, settings), settings)
    now = replace(before, blocks=blocks)
    used = _counted_on(now, settings)
    return replace(now, used=used, changes=_changed(before.changes, step, used))


def kept(used: int, stride: int, settings: Monitoring, *, risen: bool = False) -> int:
    """How far is kept and observed: more than is counted on, so that nothing is lost while distances grow.

    What is exceeded in a step is answered in the next one, so it is at least as far as two steps go.
    """
    factor = max(settings.factor, RISEN) if risen else settings.factor
    return max(ceil(factor * used), used + 2 * stride)


def _counted_on(followed: Followed, settings: Monitoring) -> int | None:
    """The worst, if it is known."""
    if followed.exceeded:
        return None
    worst = ceil((1 + MARGIN) * followed.worst)
    if not _suffice(followed.blocks, max(settings.events, 1)):
        # Nothing seen is no sign of order: what comes farther apart than is kept is not seen either.
        return None if followed.used is None else max(followed.used, worst)
    return worst


def _with(blocks: tuple[Block, ...], new: Block, settings: Monitoring) -> tuple[Block, ...]:
    if not blocks or _full(blocks[-1], max(block.greatest for block in blocks), settings):
        return (*blocks, new)
    last = blocks[-1]
    sums = (last.events + new.events, max(last.greatest, new.greatest), last.steps + new.steps, last.span + new.span)
    return (*blocks[:-1], Block(*sums, last.risen or new.risen, last.exceeded or new.exceeded))


def _full(block: Block, worst: int, settings: Monitoring) -> bool:
    return block.events * _BLOCKS >= settings.window and block.span * _BLOCKS >= 2 * worst


def _last(blocks: tuple[Block, ...], settings: Monitoring) -> tuple[Block, ...]:
    """The blocks that still count."""
    while len(blocks) > 1 and _suffice(blocks[1:], settings.window):
        blocks = blocks[1:]
    return blocks


def _suffice(blocks: Sequence[Block], events: int) -> bool:
    """Whether there are so many events, and they took long enough: what is farther apart cannot have been seen."""
    steps, span = sum(block.steps for block in blocks), sum(block.span for block in blocks)
    long = steps >= STEPS and span >= 2 * max(block.greatest for block in blocks)
    return long and sum(block.events for block in blocks) >= events


def _changed(
    changes: tuple[tuple[int, int | None], ...], step: int, used: int | None
) -> tuple[tuple[int, int | None], ...]:
    last = changes[-1][1] if changes else None
    if used == last or (used is not None and last is not None and abs(used - last) <= _NOTICEABLE * last):
        return changes
    return (*changes, (step, used))[-CHANGES:]
