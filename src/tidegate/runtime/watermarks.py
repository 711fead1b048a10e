"""Watermarks after a step, and how time goes on for streams that have fallen silent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.time import BEGINNING, FOREVER

NO_STREAMS: Mapping[str, int] = {}
"""No stream is idle."""


def advanced(
    before: Mapping[str, int],
    latest: Mapping[str, int],
    delays: Mapping[str, int],
    idle: Mapping[str, int] = NO_STREAMS,
    groups: Collection[frozenset[str]] | None = None,
) -> dict[str, int]:
    """Return the watermarks after a step in which these were the largest times of the streams.

    `idle` has the streams that have been silent for long enough, and how far the clock has moved time
    on for each (see `Silence`). An idle stream that brought nothing in this step either follows the
    slowest awake stream that it meets in a query, so that it does not hold it back. Where all are
    silent, all follow the furthest, and the clock. Streams that never meet (different `groups`) do
    not affect each other.

    Examples
    --------
    >>> advanced({"a": 5, "b": 3}, {"a": 20}, {"a": 2, "b": 0})
    {'a': 18, 'b': 3}
    >>> advanced({"a": 5, "b": 3}, {"a": 20}, {"a": 2, "b": 0}, idle={"b": 40})
    {'a': 18, 'b': 18}
    >>> advanced({"a": 5, "b": 3}, {}, {"a": 2, "b": 0}, idle={"a": 40, "b": 40})
    {'a': 40, 'b': 40}
    """
    marks = {s: max(mark, latest[s] - delays[s]) if s in latest else mark for s, mark in before.items()}
    silent = {s: clock for s, clock in idle.items() if s not in latest}
    for group in [frozenset(marks)] if groups is None else groups:
        leader = _leader({s: marks[s] for s in group}, silent)
        marks |= {s: max(marks[s], leader) for s in group if s in silent}
    return marks


def _leader(marks: Mapping[str, int], silent: Mapping[str, int]) -> int:
    """Return the watermark that the silent streams among these follow."""
    moving = {s: mark for s, mark in marks.items() if mark < FOREVER}  # tables wait for no stream
    awake = [mark for s, mark in moving.items() if s not in silent]
    if awake or not moving:
        return min(awake, default=FOREVER)
    return max(*moving.values(), *(silent[s] for s in moving))


@dataclass(slots=True)
class Silence:
    """Keeps when each stream was last heard, by the clock, and tells how far time has come since.

    Once all streams of a group have been silent for as long as they declare, time goes on with the
    clock, from where it stood when the last of them was heard. A run that is started again counts
    silence from its start, so time neither jumps nor goes back, however long the pause was.
    """

    idle_after: Mapping[str, int]
    began: int
    groups: tuple[frozenset[str], ...]
    stood: dict[str, int]
    """The watermark of each stream when a stream of its group was last heard."""
    heard: dict[str, int] = field(default_factory=dict)

    def hear(self, streams: Collection[str], watermarks: Mapping[str, int], now: int) -> None:
        """Note that rows of these streams came in a step after which these are the watermarks."""
        known = [s for s in streams if s in self.idle_after]
        self.heard.update(dict.fromkeys(known, now))
        for group in self.groups:
            if not group.isdisjoint(known):
                self.stood |= {s: watermarks[s] for s in group}

    def idle(self, now: int, *, by_clock: bool = True) -> dict[str, int]:
        """Return the streams that are not waited for any more, and how far the clock has moved time on for each."""
        silent = {s for s in self.idle_after if now >= self._idle_from(s)}
        found: dict[str, int] = {}
        for group in self.groups:
            clock = self._clock(group, now) if by_clock and self._moving(group) <= silent else BEGINNING
            found |= dict.fromkeys(group & silent, clock)
        return found

    def _clock(self, group: frozenset[str], now: int) -> int:
        moving = self._moving(group)
        furthest = max((self.stood[s] for s in moving), default=BEGINNING)
        if furthest == BEGINNING:
            return BEGINNING  # time begins with the first row
        return furthest + now - max(self._idle_from(s) for s in moving)

    def _moving(self, group: frozenset[str]) -> frozenset[str]:
        return frozenset(s for s in group if self.stood[s] < FOREVER)

    def _idle_from(self, stream: str) -> int:
        return self.heard.get(stream, self.began) + self.idle_after[stream]
