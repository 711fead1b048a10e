"""Alarms of an alert on one stream by definition: the readings that are needed, when that is certain, and incidents."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

Reading = tuple[Hashable, int, float]
"""A key, a time and a value."""

OneStreamAlarm = tuple[Hashable, int, float, int, int]
"""A key, a time, a value, the start of the incident, and the number within it."""


@dataclass(frozen=True)
class Represents:
    """How far apart two readings may be to represent those between them, and on which sides they must be."""

    span: int
    above: bool
    below: bool

    @property
    def signs(self) -> tuple[int, ...]:
        return (1,) * self.above + (-1,) * self.below


def certain_from(reading: Reading, readings: Sequence[Reading], by: Represents) -> int | None:
    """The watermark that shows that a reading is needed; None if it is not.

    It is not needed if on each side two readings, one not later and one not earlier and near enough, are beyond it.
    That they are not is certain once no reading can come that is near enough to the last one that is not later.
    """
    key, time, value = reading
    shown = [] if by.signs else [time + 1]
    for sign in by.signs:
        beyond = [t for k, t, v in readings if k == key and sign * v > sign * value]
        before, after = [t for t in beyond if t <= time], [t for t in beyond if t >= time]
        if not before:
            shown.append(time + 1)
        elif not any(b >= a - by.span for a in after for b in before):
            shown.append(max(time, max(before) + by.span) + 1)
    return min(shown, default=None)


def alarms_of_one_stream(
    readings: Sequence[Reading], by: Represents, crosses: Callable[[float], bool], pause: int
) -> list[OneStreamAlarm]:
    """All alarms. In an incident, no two neighbouring alarms of a key are further apart than `pause`.

    Alarms of an incident are numbered in the order in which they are certain, then in the order of time.
    """
    needed = [(c, r) for r in readings if (c := certain_from(r, readings, by)) is not None and crosses(r[2])]
    found: list[OneStreamAlarm] = []
    for key in {key for _, (key, _, _) in needed}:
        mine = sorted((r[1], c, r) for c, r in needed if r[0] == key)
        began, last, incidents = 0, None, dict[int, list[tuple[int, int, float]]]()
        for time, certain, (_, _, value) in mine:
            if last is None or time > last + pause:
                began = time
            last = time
            incidents.setdefault(began, []).append((certain, time, value))
        for start, members in incidents.items():
            found += [(key, t, v, start, n) for n, (_, t, v) in enumerate(sorted(members), 1)]
    return found
