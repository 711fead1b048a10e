"""Decide which constraints a keyed join uses in the next step, once for all buckets, from their reports.

    order = decide(choice, order, reports)            # `NO_FACTS` before the first decision

`reports` has one report of each bucket, as `monitor` makes it. Besides the input of the next decision, an order has

    within     by name (`monitor.constraint_name`): {"rows": n | None, "time": d | None}, both of which hold;
               constraints that are absent are not used
    keeps_no   streams, by position, that remember the keys of elements that can never join
    watch      by name: up to which distance, and for which share of keys, to watch
    found      each constraint that is declared or watched.
               For SHOW CONSTRAINTS, as text: stream, constraint, within, in_use (or why not), used, history (the last
               20 changes), saves.
               For programs: name; declared: whether it is; declaration: which one (`catalog.constraints.identity`);
               late: the number of rows known to have broken it; reach: the one in force, or None;
               distance: the distance in use; worst: the greatest distance seen lately; rows: how many fewer rows are,
               or would be, kept; why: the reason if it is not used
    losses     in MODE lean: missing results, with low and high (see `losses`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from tidegate.algebra.constraints import Reach
from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join import losses, violations
from tidegate.physical.keyed_join.distances import STEPS, DistanceTracker, distance_to_keep, update_tracker
from tidegate.physical.keyed_join.estimates import (
    FADING,
    Pace,
    Partners,
    advance_pace,
    counted_stream,
    greatest_distance,
    reach_duration,
)
from tidegate.physical.keyed_join.loss_bounds import add_step_counts, cap_estimate
from tidegate.physical.keyed_join.monitor import Watch, constraint_name
from tidegate.physical.keyed_join.verdicts import ConstraintChoice, judge_candidate, lesser, list_candidates
from tidegate.time import FOREVER

__all__ = ["ConstraintChoice", "decide"]

MOST_WATCHED_ROWS = 2**14
"""Most rows kept to watch one edge and kind by keys, in all buckets together: 256 KiB."""

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

_LEAST_SHARE = 2.0**-16
"""Smallest share of keys to watch."""


def decide(choice: ConstraintChoice, order: Facts, reports: Sequence[Facts]) -> Facts:
    """Return the order for the next step, from the current order and the reports of all buckets."""
    reports = [report for report in reports if report]
    if not reports:
        return order
    step = order.get("step", 0) + 1
    before = Pace.from_json(order["pace"]) if order else Pace.beginning(len(choice.streams))
    pace = advance_pace(before, reports)
    followed = {w.name: _update_distance(w, choice, order, (before, pace), reports, step) for w in choice.watches}
    partners = {watch.name: _count_partners(watch, choice, order, reports) for watch in choice.watches}
    lost, late = (
        losses.add_lost_counts(order.get("lost", {}), reports),
        violations.add_late_counts(order.get(violations.BROKEN, {}), reports),
    )
    found = _judge_candidates(choice, order, pace, followed, partners)
    within = _reaches_in_force(found)
    found = violations.mark_broken(list_candidates(choice, followed), found, late, lost, alone=not choice.watches)
    never = _count_never_joining(choice, order, pace.time - FADING * before.time, pace, reports)
    so_far = add_step_counts(order.get("so_far", {}), reports, in_use=bool(within))
    return {
        "step": step,
        "within": within,
        "keeps_no": [s for s in _child_streams(choice) if not _can_drop_no(s, choice, pace, within, followed, never)],
        "watch": {w.name: _watch_limits(w, choice, order, pace, followed[w.name], reports) for w in choice.watches},
        "found": found,
        "losses": cap_estimate(losses.estimate_missing(lost, choice.settings.monitoring.sample), choice.graph, so_far),
        "pace": pace.to_json(),
        "followed": {name: each.to_json() for name, each in followed.items()},
        "partners": partners,
        "never": never,
        "lost": lost,
        violations.BROKEN: late,
        "so_far": so_far,
    }


def _reaches_in_force(found: Sequence[Facts]) -> dict[str, dict[str, int | None]]:
    """Return the reaches in force by name. If a constraint has several, the least of each unit counts."""
    within: dict[str, dict[str, int | None]] = {}
    for each in found:
        if each["reach"] is not None:
            before = within.get(each["name"], {})
            within[each["name"]] = {unit: lesser(before.get(unit), far) for unit, far in each["reach"].items()}
    return within


def _judge_candidates(
    choice: ConstraintChoice,
    order: Facts,
    pace: Pace,
    followed: dict[str, DistanceTracker],
    partners: Mapping[str, Sequence[float]],
) -> list[Facts]:
    all_ = list_candidates(choice, followed)
    known = {each.name for each in all_ if each.has_reach}
    used = order.get("within", {})
    return [
        judge_candidate(each, choice, pace, _partners_of_edge(each.edge, partners), known, before=each.name in used)
        for each in all_
    ]


# --- watches -----------------------------------------------------------------------------------------


def _merge_observations(reports: Sequence[Facts], name: str) -> tuple[int, int, int]:
    """Return the events, the greatest distance and the rows kept, over all buckets."""
    told = [report["watched"][name] for report in reports]
    return sum(t["events"] for t in told), max(t["greatest"] for t in told), sum(t["size"] for t in told)


def _update_distance(
    watch: Watch, choice: ConstraintChoice, order: Facts, paces: tuple[Pace, Pace], reports: Sequence[Facts], step: int
) -> DistanceTracker:
    before, after = paces
    events, greatest, _ = _merge_observations(reports, watch.name)
    told = order.get("followed", {}).get(watch.name)
    so_far = DistanceTracker() if told is None else DistanceTracker.from_json(told)
    span = (after.now or 0) - ((after.began or 0) if before.now is None else before.now)
    if watch.in_rows:
        stream = counted_stream(choice.graph, watch.edge, watch.kind)
        span = after.counters[stream] - before.counters[stream]
    far = order.get("watch", {}).get(watch.name, {}).get("kept", 0)
    return update_tracker(so_far, step, events, greatest, span, choice.settings.monitoring, far)


def _count_partners(watch: Watch, choice: ConstraintChoice, order: Facts, reports: Sequence[Facts]) -> list[float]:
    """Return the number of parents, and of those seen to join or to repeat a key, with older steps fading."""
    parents = sum(report["elements"][choice.edges[watch.edge].parent] for report in reports)
    keys = order.get("watch", {}).get(watch.name, {}).get("keys", 1.0)
    before = order.get("partners", {}).get(watch.name, (0.0, 0.0))
    return [FADING * before[0] + parents, FADING * before[1] + _merge_observations(reports, watch.name)[0] / keys]


def _partners_of_edge(edge: int, partners: Mapping[str, Sequence[float]]) -> Partners:
    joined, repeated = (
        partners.get(constraint_name(edge, kind)) for kind in (ConstraintKind.ARRIVING, ConstraintKind.CLUSTERED)
    )
    parents = (joined or repeated or [0.0])[0]
    return Partners(parents, joined[1] if joined else None, repeated[1] if repeated else None)


def _watch_limits(
    watch: Watch,
    choice: ConstraintChoice,
    order: Facts,
    pace: Pace,
    followed: DistanceTracker,
    reports: Sequence[Facts],
) -> dict[str, Any]:
    """Return the distances to watch: for all keys as far as rows are kept, for a sample as long as rows are valid."""
    stream = counted_stream(choice.graph, watch.edge, watch.kind)
    far, stride = greatest_distance(choice.graph, watch.edge, watch.kind, pace), pace.stride
    if watch.in_rows:
        far, stride = int(2 * far * pace.row_rate(stream)) or FOREVER, pace.row_strides[stream]
    far = min(far, FOREVER)
    settings = choice.settings.monitoring
    near = far
    if followed.used is not None:
        near = min(distance_to_keep(followed.used, int(stride), settings, risen=followed.has_risen), far)
    if watch.kind in (ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN):
        return {"kept": near, "sampled": near, "sample": 0.0, "keys": 1.0}
    keys = order.get("watch", {}).get(watch.name, {}).get("keys", 1.0)
    return {
        "kept": near,
        "sampled": far,
        "sample": settings.sample,
        "keys": _next_share(keys, _merge_observations(reports, watch.name)[2]),
    }


def _next_share(keys: float, size: int) -> float:
    """Return the share of keys to watch next, if the share `keys` gives `size` rows."""
    while size > MOST_WATCHED_ROWS and keys > _LEAST_SHARE:
        keys, size = keys / 2, size // 2
    return min(2 * keys, 1.0) if 8 * size < MOST_WATCHED_ROWS else keys


# --- elements that never join ------------------------------------------------------------------------


def _child_streams(choice: ConstraintChoice) -> list[int]:
    return [stream for stream, above in enumerate(choice.graph.above) if above]


def _streams_keeping_no(choice: ConstraintChoice, order: Facts) -> list[int]:
    """Return the streams that remember elements that never join.

    At first these are children of an edge without a declared bound, as their parents would wait long.
    """
    if order:
        keeps: list[int] = order["keeps_no"]
        return keeps
    bounded = {each.edge for each in choice.declared if each.unused is None and each.kind in _FOR_CHILDREN}
    return [stream for stream in _child_streams(choice) if not bounded.issuperset(choice.graph.above[stream])]


def _count_never_joining(
    choice: ConstraintChoice, order: Facts, passed: float, pace: Pace, reports: Sequence[Facts]
) -> dict[str, list[float]]:
    """Count the elements that are No: their hits by parents on each edge, the time this took, and their size.

    A stream can be counted only while it remembers them; otherwise the last counts stay. `steps` and `since` are how
    long it has remembered them, `more` is how much they grew in the last step.
    """
    zeros = {"hits": choice.edges, "time": choice.edges, "size": choice.streams, "more": choice.streams}
    zeros |= {"steps": choice.streams, "since": choice.streams}
    now = {name: list(order.get("never", {}).get(name, [0.0] * len(each))) for name, each in zeros.items()}
    for stream in _child_streams(choice):
        if stream not in _streams_keeping_no(choice, order):
            now["steps"][stream] = now["since"][stream] = 0.0
            continue
        size = float(pace.sizes[stream][2])
        now["more"][stream], now["size"][stream] = size - now["size"][stream], size
        now["steps"][stream] += 1
        now["since"][stream] += passed
        for edge in choice.graph.above[stream]:
            now["hits"][edge] = FADING * now["hits"][edge] + sum(report["hits"][edge] for report in reports)
            now["time"][edge] = FADING * now["time"][edge] + passed
    return now


def _needs_trial(stream: int, choice: ConstraintChoice, pace: Pace) -> bool:
    """Return whether so much waits that remembering elements that never join may pay. A trial then shows how much."""
    above = choice.graph.above[stream]
    parents = {choice.edges[edge].parent for edge in above}
    waiting = sum(choice.row_bytes[parent] * pace.sizes[parent][1] for parent in parents)
    return waiting > TRIAL_THRESHOLD * pace.elements_in_lifetime(stream) * KEY_BYTES * (len(above) + 1)


def _can_drop_no(
    stream: int,
    choice: ConstraintChoice,
    pace: Pace,
    within: Mapping[str, Any],
    followed: Mapping[str, DistanceTracker],
    never: Mapping[str, Sequence[float]],
) -> bool:
    """Return whether parents that wait unnecessarily take less memory than the keys that would stop them.

    While the keys of No still grow, or are young, their hits are underestimated, so the difference must be clear.
    Parents on an edge without a distance in use wait until they expire: if many do, the keys are remembered again.
    """
    above, waiting, longest = choice.graph.above[stream], 0.0, 0.0
    for edge in above:
        names = [constraint_name(edge, kind) for kind in _FOR_CHILDREN]
        reaches = [Reach(**within[name]) for name in names if name in within]
        seen = [each.used for name in names if (each := followed.get(name)) is not None and each.used is not None]
        is_again = not never["steps"][stream] and _needs_trial(stream, choice, pace)
        is_unknown = not reaches and not seen
        if not reaches and is_again:
            return False
        if not never["time"][edge]:
            return not is_unknown and not _needs_trial(stream, choice, pace)
        parent = choice.edges[edge].parent
        long = min([reach_duration(reach, pace, stream) for reach in reaches], default=float(pace.lifetime(parent)))
        hits = never["hits"][edge]
        hits += 2 * sqrt(hits) + 1
        waiting += hits / never["time"][edge] * long * choice.row_bytes[parent]
        if is_unknown:
            longest = max(longest, TRIAL_SHARE * long)
        else:
            longest = max(
                longest, long if reaches else distance_to_keep(min(seen), int(pace.stride), choice.settings.monitoring)
            )
    steps, since, size = (never[name][stream] for name in ("steps", "since", "size"))
    if steps and since < 2 * longest:
        return False
    is_young = steps and (steps < STEPS or never["more"][stream] > GROWTH * size)
    return waiting * (CONCLUSIVE_RATIO if is_young else 1) < size * KEY_BYTES * (len(above) + 1)
