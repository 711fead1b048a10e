"""Watermarks after a step, also of streams that are silent."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tidegate.time import BEGINNING, FOREVER

NO_STREAMS: Mapping[str, int] = {}
"""Empty set of idle streams."""


def advance_watermarks(
    before: Mapping[str, int],
    latest: Mapping[str, int],
    delays: Mapping[str, int],
    idle: Mapping[str, int] = NO_STREAMS,
    groups: Collection[frozenset[str]] | None = None,
) -> dict[str, int]:
    """Return the watermarks after a step, given the largest time of each stream in the step.

    `idle` has the streams that have been silent for long enough, with the time to which the clock has
    advanced each (see `SilenceTracker`). An idle stream without rows in this step follows the slowest awake
    stream that it meets in a query, so that it does not hold the query back. If all streams of a group
    are silent, they follow the furthest of them, and the clock. Streams that never meet (different
    `groups`) do not affect each other.

    Examples
    --------
    >>> advance_watermarks({"a": 5, "b": 3}, {"a": 20}, {"a": 2, "b": 0})
    {'a': 18, 'b': 3}
    >>> advance_watermarks({"a": 5, "b": 3}, {"a": 20}, {"a": 2, "b": 0}, idle={"b": 40})
    {'a': 18, 'b': 18}
    >>> advance_watermarks({"a": 5, "b": 3}, {}, {"a": 2, "b": 0}, idle={"a": 40, "b": 40})
    {'a': 40, 'b': 40}
    """
    marks = {s: max(mark, latest[s] - delays[s]) if s in latest else mark for s, mark in before.items()}
    silent = {s: clock for s, clock in idle.items() if s not in latest}
    for group in [frozenset(marks)] if groups is None else groups:
        leader = _leading_watermark({s: marks[s] for s in group}, silent)
        marks |= {s: max(marks[s], leader) for s in group if s in silent}
    return marks


def _leading_watermark(marks: Mapping[str, int], silent: Mapping[str, int]) -> int:
    """Return the watermark that the silent streams of a group follow."""
    moving = {s: mark for s, mark in marks.items() if mark < FOREVER}  # the watermark of tables is FOREVER
    awake = [mark for s, mark in moving.items() if s not in silent]
    if awake or not moving:
        return min(awake, default=FOREVER)
    return max(*moving.values(), *(silent[s] for s in moving))


@dataclass(slots=True)
class SilenceTracker:
    """Clock times of the last rows of each stream, to find idle streams and advance their watermarks.

    When all streams of a group have been silent for as long as they declare, the clock advances their
    watermarks, starting from the furthest when the last row came. A restarted run counts silence from
    its start, so watermarks neither jump nor go back, however long the pause was.
    """

    idle_after: Mapping[str, int]
    began: int
    groups: tuple[frozenset[str], ...]
    last_watermarks: dict[str, int]
    """Watermark of each stream when its group last received rows."""
    last_heard: dict[str, int] = field(default_factory=dict)

    def note_rows(self, streams: Collection[str], watermarks: Mapping[str, int], now: int) -> None:
        """Note that these streams had rows in a step, and the watermarks after it."""
        known = [s for s in streams if s in self.idle_after]
        self.last_heard.update(dict.fromkeys(known, now))
        for group in self.groups:
            if not group.isdisjoint(known):
                self.last_watermarks |= {s: watermarks[s] for s in group}

    def idle_streams(self, now: int, *, by_clock: bool = True) -> dict[str, int]:
        """Return the idle streams, each with the time to which the clock has advanced it."""
        silent = {s for s in self.idle_after if now >= self._idle_from(s)}
        found: dict[str, int] = {}
        for group in self.groups:
            clock = (
                self._clock_watermark(group, now) if by_clock and self._moving_streams(group) <= silent else BEGINNING
            )
            found |= dict.fromkeys(group & silent, clock)
        return found

    def _clock_watermark(self, group: frozenset[str], now: int) -> int:
        moving = self._moving_streams(group)
        furthest = max((self.last_watermarks[s] for s in moving), default=BEGINNING)
        if furthest == BEGINNING:
            return BEGINNING  # the clock does not count before the first row
        return furthest + now - max(self._idle_from(s) for s in moving)

    def _moving_streams(self, group: frozenset[str]) -> frozenset[str]:
        return frozenset(s for s in group if self.last_watermarks[s] < FOREVER)

    def _idle_from(self, stream: str) -> int:
        return self.last_heard.get(stream, self.began) + self.idle_after[stream]
