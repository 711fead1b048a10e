"""Elements that can never join (No): count the parents that they stop, and decide whether to remember them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

from tidegate.algebra.constraints import Reach
from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.distances import STEPS, DistanceTracker, distance_to_keep
from tidegate.physical.keyed_join.estimates import FADING, Pace, reach_duration
from tidegate.physical.keyed_join.monitor import constraint_name
from tidegate.physical.keyed_join.report import KeyedJoinReport
from tidegate.physical.keyed_join.verdicts import ConstraintChoice

KEY_BYTES = 8
"""Bytes of a key. An element that is No keeps the keys of its parents, and its expiry."""

GROWTH = 0.1
"""Relative growth per step above which a size is not stable yet."""

TRIAL_THRESHOLD = 0.1
"""Bytes of waiting rows, relative to the bytes of the keys of all possible children, above which a trial pays."""

TRIAL_SHARE = 1 / 16
"""Share of the parents' lifetime; a trial remembers elements that never join for twice that, to count their hits."""

CONCLUSIVE_RATIO = 4
"""Ratio above which a partial sample is conclusive."""

_FOR_CHILDREN = (ConstraintKind.ARRIVING, ConstraintKind.ORDERED_CHILDREN)
"""Kinds that limit how long a parent waits for its child."""


@dataclass(frozen=True, slots=True)
class NeverJoining:
    """Counts of elements that are No. A stream is counted only while it remembers them."""

    hits: tuple[float, ...]
    """By edge, the new parents whose child is remembered as No; older steps fade."""
    time: tuple[float, ...]
    """By edge, the time that this took, faded alike."""
    size: tuple[float, ...]
    """By stream, the number of these elements."""
    more: tuple[float, ...]
    """By stream, how much they grew in the last step."""
    steps: tuple[float, ...]
    """By stream, the number of steps for which it has remembered them."""
    since: tuple[float, ...]
    """By stream, the time for which it has remembered them."""

    @classmethod
    def beginning(cls, edges: int, streams: int) -> NeverJoining:
        of_edges, of_streams = (0.0,) * edges, (0.0,) * streams
        return cls(of_edges, of_edges, of_streams, of_streams, of_streams, of_streams)


def streams_to_keep_no(
    choice: ConstraintChoice,
    pace: Pace,
    within: Mapping[str, Reach],
    trackers: Mapping[str, DistanceTracker],
    never: NeverJoining,
) -> tuple[int, ...]:
    """Return the streams that are to remember elements that never join in the next step."""
    return tuple(s for s in _child_streams(choice) if not _can_drop_no(s, choice, pace, within, trackers, never))


def count_never_joining(
    choice: ConstraintChoice,
    before: NeverJoining | None,
    directive: KeyedJoinDirective | None,
    passed: float,
    pace: Pace,
    reports: Sequence[KeyedJoinReport],
) -> NeverJoining:
    """Return the counts after a step in which some time passed; streams that remember none keep their last counts."""
    known = before or NeverJoining.beginning(len(choice.edges), len(choice.streams))
    keeping = _streams_keeping_no(choice, directive)
    hits, time, size, more = list(known.hits), list(known.time), list(known.size), list(known.more)
    steps, since = list(known.steps), list(known.since)
    for stream in _child_streams(choice):
        if stream not in keeping:
            steps[stream] = since[stream] = 0.0
            continue
        now = float(pace.sizes[stream].no)
        more[stream], size[stream] = now - size[stream], now
        steps[stream] += 1
        since[stream] += passed
        for edge in choice.graph.above[stream]:
            hits[edge] = FADING * hits[edge] + sum(report.hits[edge] for report in reports)
            time[edge] = FADING * time[edge] + passed
    return NeverJoining(tuple(hits), tuple(time), tuple(size), tuple(more), tuple(steps), tuple(since))


def _child_streams(choice: ConstraintChoice) -> list[int]:
    """Return the streams that may remember elements that never join: those whose elements end some time."""
    return [stream for stream, above in enumerate(choice.graph.above) if above and stream not in choice.unbounded]


def _streams_keeping_no(choice: ConstraintChoice, directive: KeyedJoinDirective | None) -> Collection[int]:
    """Return the streams that remembered elements that never join in the last step.

    At first these are children of an edge without a declared bound, as their parents would wait long.
    """
    if directive is not None:
        return directive.keeps_no
    bounded = {each.edge for each in choice.declared if each.unused is None and each.kind in _FOR_CHILDREN}
    return [stream for stream in _child_streams(choice) if not bounded.issuperset(choice.graph.above[stream])]


def _needs_trial(stream: int, choice: ConstraintChoice, pace: Pace) -> bool:
    """Return whether so much waits that remembering elements that never join may pay. A trial then shows how much."""
    above = choice.graph.above[stream]
    parents = {choice.edges[edge].parent for edge in above}
    waiting = sum(choice.row_bytes[parent] * pace.sizes[parent].unknown for parent in parents)
    return waiting > TRIAL_THRESHOLD * pace.elements_in_lifetime(stream) * KEY_BYTES * (len(above) + 1)


def _can_drop_no(
    stream: int,
    choice: ConstraintChoice,
    pace: Pace,
    within: Mapping[str, Reach],
    trackers: Mapping[str, DistanceTracker],
    never: NeverJoining,
) -> bool:
    """Return whether parents that wait unnecessarily take less memory than the keys that would stop them.

    While the keys of No still grow, or are young, their hits are underestimated, so the difference must be clear.
    Parents on an edge without a distance in use wait until they expire: if many do, the keys are remembered again.
    """
    above, waiting, longest = choice.graph.above[stream], 0.0, 0.0
    for edge in above:
        names = [constraint_name(edge, kind) for kind in _FOR_CHILDREN]
        reaches = [within[name] for name in names if name in within]
        seen = [each.used for name in names if (each := trackers.get(name)) is not None and each.used is not None]
        is_again = not never.steps[stream] and _needs_trial(stream, choice, pace)
        is_unknown = not reaches and not seen
        if not reaches and is_again:
            return False
        if not never.time[edge]:
            return not is_unknown and not _needs_trial(stream, choice, pace)
        parent = choice.edges[edge].parent
        long = min([reach_duration(reach, pace, stream) for reach in reaches], default=float(pace.lifetime(parent)))
        hits = never.hits[edge]
        hits += 2 * sqrt(hits) + 1
        waiting += hits / never.time[edge] * long * choice.row_bytes[parent]
        if is_unknown:
            longest = max(longest, TRIAL_SHARE * long)
        else:
            longest = max(
                longest, long if reaches else distance_to_keep(min(seen), int(pace.stride), choice.settings.monitoring)
            )
    steps, since, size = never.steps[stream], never.since[stream], never.size[stream]
    if steps and since < 2 * longest:
        return False
    is_young = steps and (steps < STEPS or never.more[stream] > GROWTH * size)
    return waiting * (CONCLUSIVE_RATIO if is_young else 1) < size * KEY_BYTES * (len(above) + 1)
