"""How far the streams have come: watermarks after a step, and streams that have fallen silent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.time import FOREVER


def advanced(
    before: Mapping[str, int],
    latest: Mapping[str, int],
    delays: Mapping[str, int],
    idle: Collection[str] = (),
) -> dict[str, int]:
    """Watermarks after a step in which these were the largest times of the streams.

    A stream that is idle, and brought nothing in this step either, follows the slowest of the
    others, so that it does not hold them back; where all are silent, all follow the furthest. Should
    a stream wake up, older rows of it are late.

    Examples
    --------
    >>> advanced({"a": 5, "b": 3}, {"a": 20}, {"a": 2, "b": 0})
    {'a': 18, 'b': 3}
    >>> advanced({"a": 5, "b": 3}, {"a": 20}, {"a": 2, "b": 0}, idle=["b"])
    {'a': 18, 'b': 18}
    """
    marks = {s: max(mark, latest[s] - delays[s]) if s in latest else mark for s, mark in before.items()}
    silent = {s for s in idle if s not in latest}
    moving = {s: mark for s, mark in marks.items() if mark < FOREVER}  # tables do not wait for anybody
    awake = [mark for s, mark in moving.items() if s not in silent]
    leader = min(awake, default=max(moving.values(), default=FOREVER))
    return {s: max(mark, leader) if s in silent else mark for s, mark in marks.items()}


@dataclass(slots=True)
class Silence:
    """When each stream was last heard of, in the time of the system."""

    idle_after: Mapping[str, int]
    began: int
    heard: dict[str, int] = field(default_factory=dict)

    def hear(self, streams: Collection[str], now: int) -> None:
        self.heard.update(dict.fromkeys(streams, now))

    def idle(self, now: int) -> tuple[str, ...]:
        """Streams that have been silent for so long that nobody waits for them any more."""
        return tuple(s for s, after in self.idle_after.items() if now - self.heard.get(s, self.began) >= after)
