"""Decide which constraints a keyed join uses in the next step, once for all buckets, from their reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidegate.algebra.constraints import Reach
from tidegate.algebra.keyed_join import ConstraintKind
from tidegate.physical.keyed_join import losses, violations
from tidegate.physical.keyed_join.directive import KeyedJoinDirective, WatchLimits
from tidegate.physical.keyed_join.distances import DistanceTracker, distance_to_keep, update_tracker
from tidegate.physical.keyed_join.estimates import (
    FADING,
    Pace,
    Partners,
    advance_pace,
    counted_stream,
    greatest_distance,
)
from tidegate.physical.keyed_join.loss_bounds import add_step_counts, cap_estimate
from tidegate.physical.keyed_join.monitor import Watch, constraint_name
from tidegate.physical.keyed_join.never_joining import count_never_joining, streams_to_keep_no
from tidegate.physical.keyed_join.record import KeyedJoinRecord, PartnerCounts
from tidegate.physical.keyed_join.report import KeyedJoinReport
from tidegate.physical.keyed_join.sample_joins import MOST_HALVINGS, KeySample
from tidegate.physical.keyed_join.verdicts import (
    ConstraintChoice,
    ConstraintVerdict,
    judge_candidate,
    lesser,
    list_candidates,
)
from tidegate.time import FOREVER

__all__ = ["ConstraintChoice", "decide"]

MOST_WATCHED_ROWS = 2**14
"""Most rows kept to watch one edge and kind by keys, in all buckets together: 256 KiB."""

MOST_SAMPLED_ROWS = 2**14
"""Most rows of the sample that shows missing results of a join over unbounded windows, in all buckets together."""

_LEAST_SHARE = 2.0**-16
"""Smallest share of keys to watch."""


def decide(
    choice: ConstraintChoice, record: KeyedJoinRecord | None, reports: Sequence[KeyedJoinReport]
) -> KeyedJoinRecord | None:
    """Return the record of a step, from the record of the step before and the reports of all buckets."""
    if not reports:
        return record
    step = record.step + 1 if record else 1
    before = record.pace if record else Pace.beginning(len(choice.streams))
    pace = advance_pace(before, reports)
    trackers = {w.name: _update_distance(w, choice, record, (before, pace), reports, step) for w in choice.watches}
    partners = {watch.name: _count_partners(watch, choice, record, reports) for watch in choice.watches}
    lost = losses.add_lost_counts(record.lost if record else None, reports)
    late = violations.add_late_counts(record.broken if record else {}, reports)
    found = _judge_candidates(choice, record, pace, trackers, partners)
    within = _reaches_in_force(found)
    never = count_never_joining(
        choice,
        record.never if record else None,
        record.directive if record else None,
        pace.time - FADING * before.time,
        pace,
        reports,
    )
    totals = add_step_counts(record.totals if record else None, reports, in_use=bool(within))
    halvings = _halvings_before(record)
    estimate = losses.estimate_missing(lost, KeySample(choice.settings.monitoring.sample, halvings))
    return KeyedJoinRecord(
        directive=KeyedJoinDirective(
            within,
            streams_to_keep_no(choice, pace, within, trackers, never),
            {w.name: _watch_limits(w, choice, record, pace, trackers[w.name], reports) for w in choice.watches},
            _next_halvings(halvings, choice, reports),
        ),
        found=violations.mark_broken(list_candidates(choice, trackers), found, late, lost, alone=not choice.watches),
        losses=cap_estimate(estimate, choice.graph, totals),
        step=step,
        pace=pace,
        trackers=trackers,
        partners=partners,
        never=never,
        lost=lost,
        broken=late,
        totals=totals,
    )


def _halvings_before(record: KeyedJoinRecord | None) -> int:
    return record.directive.halvings if record else 0


def _next_halvings(halvings: int, choice: ConstraintChoice, reports: Sequence[KeyedJoinReport]) -> int:
    """Return how often the sample of keys is halved. Windows with a bound limit it already."""
    kept = sum(report.losses.kept for report in reports if report.losses is not None)
    return min(halvings + (bool(choice.unbounded) and kept > MOST_SAMPLED_ROWS), MOST_HALVINGS)


def _reaches_in_force(found: Sequence[ConstraintVerdict]) -> dict[str, Reach]:
    """Return the reaches in force by name. If a constraint has several, the least of each unit counts."""
    within: dict[str, Reach] = {}
    for each in found:
        if each.reach is not None:
            before = within.get(each.name, Reach())
            within[each.name] = Reach(lesser(before.rows, each.reach.rows), lesser(before.time, each.reach.time))
    return within


def _judge_candidates(
    choice: ConstraintChoice,
    record: KeyedJoinRecord | None,
    pace: Pace,
    trackers: Mapping[str, DistanceTracker],
    partners: Mapping[str, PartnerCounts],
) -> list[ConstraintVerdict]:
    all_ = list_candidates(choice, trackers)
    known = {each.name for each in all_ if each.has_reach}
    used = record.directive.within if record else {}
    return [
        judge_candidate(each, choice, pace, _partners_of_edge(each.edge, partners), known, before=each.name in used)
        for each in all_
    ]


# --- watches -----------------------------------------------------------------------------------------


def _merge_observations(reports: Sequence[KeyedJoinReport], name: str) -> tuple[int, int, int]:
    """Return the events, the greatest distance and the rows kept, over all buckets."""
    watched = [report.watched[name] for report in reports]
    return sum(w.events for w in watched), max(w.greatest for w in watched), sum(w.size for w in watched)


def _limits_before(record: KeyedJoinRecord | None, watch: Watch) -> WatchLimits | None:
    """Return the limits of a watch in the last step, if there were any."""
    return record.directive.watch.get(watch.name) if record else None


def _share_of_keys(record: KeyedJoinRecord | None, watch: Watch) -> float:
    """Return the share of keys that was watched in the last step."""
    limits = _limits_before(record, watch)
    return limits.keys if limits else 1.0


def _update_distance(
    watch: Watch,
    choice: ConstraintChoice,
    record: KeyedJoinRecord | None,
    paces: tuple[Pace, Pace],
    reports: Sequence[KeyedJoinReport],
    step: int,
) -> DistanceTracker:
    before, after = paces
    events, greatest, _ = _merge_observations(reports, watch.name)
    so_far = record.trackers.get(watch.name, DistanceTracker()) if record else DistanceTracker()
    span = (after.now or 0) - ((after.began or 0) if before.now is None else before.now)
    if watch.in_rows:
        stream = counted_stream(choice.graph, watch.edge, watch.kind)
        span = after.counters[stream] - before.counters[stream]
    limits = _limits_before(record, watch)
    far = limits.kept if limits else 0
    return update_tracker(so_far, step, events, greatest, span, choice.settings.monitoring, far)


def _count_partners(
    watch: Watch, choice: ConstraintChoice, record: KeyedJoinRecord | None, reports: Sequence[KeyedJoinReport]
) -> PartnerCounts:
    """Return the counts of an edge's parents after a step, with older steps fading."""
    parents = sum(report.arrivals.elements[choice.edges[watch.edge].parent] for report in reports)
    seen = _merge_observations(reports, watch.name)[0] / _share_of_keys(record, watch)
    before = record.partners.get(watch.name, PartnerCounts()) if record else PartnerCounts()
    return PartnerCounts(FADING * before.parents + parents, FADING * before.seen + seen)


def _partners_of_edge(edge: int, partners: Mapping[str, PartnerCounts]) -> Partners:
    joined, repeated = (
        partners.get(constraint_name(edge, kind)) for kind in (ConstraintKind.ARRIVING, ConstraintKind.CLUSTERED)
    )
    parents = (joined or repeated or PartnerCounts()).parents
    return Partners(parents, joined.seen if joined else None, repeated.seen if repeated else None)


def _watch_limits(
    watch: Watch,
    choice: ConstraintChoice,
    record: KeyedJoinRecord | None,
    pace: Pace,
    tracker: DistanceTracker,
    reports: Sequence[KeyedJoinReport],
) -> WatchLimits:
    """Return the distances to watch: for all keys as far as rows are kept, for a sample as long as rows are valid."""
    stream = counted_stream(choice.graph, watch.edge, watch.kind)
    far, stride = greatest_distance(choice.graph, watch.edge, watch.kind, pace), pace.stride
    if watch.in_rows:
        far, stride = int(2 * far * pace.row_rate(stream)) or FOREVER, pace.row_strides[stream]
    far = min(far, FOREVER)
    settings = choice.settings.monitoring
    near = far
    if tracker.used is not None:
        near = min(distance_to_keep(tracker.used, int(stride), settings, risen=tracker.has_risen), far)
    if watch.kind in (ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN):
        return WatchLimits(near, near, 0.0)
    size = _merge_observations(reports, watch.name)[2]
    return WatchLimits(near, far, settings.sample, _next_share(_share_of_keys(record, watch), size))


def _next_share(keys: float, size: int) -> float:
    """Return the share of keys to watch next, if the share `keys` gives `size` rows."""
    while size > MOST_WATCHED_ROWS and keys > _LEAST_SHARE:
        keys, size = keys / 2, size // 2
    return min(2 * keys, 1.0) if 8 * size < MOST_WATCHED_ROWS else keys
