"""Which constraints a join makes use of in the next step: decided once for all buckets, from what they report.

    order = decide(choice, order, reports)            # `NO_FACTS` before anything is decided

`reports` are those that `watching` tells how to make, one of each bucket. An order has, besides what the next
decision starts from,

    within     by name (`watching.name_of`): {"rows": n | None, "time": d | None}, each of which holds; what is not
               there is not made use of
    keeps_no   streams, by position, that remember the keys of elements that can never join
    watch      by name: how far, and for which keys, is watched
    found      of each constraint that is declared or watched, for SHOW CONSTRAINTS, in words:
               stream, constraint, within, in_use (or why not), used, history (the last 20 changes), saves;
               and for programs: name; declared: whether it is; declaration: which one (`catalog.constraints.identity`);
               late: how many rows are known to have broken it; reach: that in force, or None;
               distance: what is counted on; worst: what was seen of late; rows: how many fewer are, or would be,
               kept; why: why it is not made use of
    losses     in MODE lean: what is missing, with low and high (see `losses`)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from tidegate.algebra.constraints import Reach
from tidegate.algebra.keyed_join import Kind
from tidegate.physical.common.operator import Facts
from tidegate.physical.keyed_join import losses, violations
from tidegate.physical.keyed_join.distances import STEPS, Followed, follow, kept
from tidegate.physical.keyed_join.loss_bounds import capped, went_on
from tidegate.physical.keyed_join.monitor import Watch, name_of
from tidegate.physical.keyed_join.savings import FADING, Pace, Partners, counted, duration, farthest, go_on
from tidegate.physical.keyed_join.verdicts import Choice, candidates, judged, lesser
from tidegate.time import FOREVER

__all__ = ["Choice", "decide"]

ROOM = 2**14
"""So many rows are kept of what is watched by keys, for an edge and kind, in all buckets together: 256 KiB."""

KEY_BYTES = 8
"""What a key takes in memory; what is No has those of its parents, and when it expires."""

GROWTH = 0.1
"""What grows by more than this part in a step has not come to its size yet."""

TRIAL = 0.1
"""Waiting rows are worth a trial if they take this part of what the keys of all possible children would."""

TRIED = 1 / 16
"""What never joins is remembered for twice this part of the time that parents are valid, to see how many it stops."""

CLEARLY = 4
"""So many times as much is clearly more, though not all has been seen yet."""

_FOR_CHILDREN = (Kind.ARRIVING, Kind.ORDERED_CHILDREN)
"""Kinds that say for how long to wait for a child."""

_FEWEST = 2.0**-16
"""Not fewer than this share of keys is watched."""


def decide(choice: Choice, order: Facts, reports: Sequence[Facts]) -> Facts:
    """The order after a step, from the one that it had and what was reported in each bucket."""
    reports = [report for report in reports if report]
    if not reports:
        return order
    step = order.get("step", 0) + 1
    before = Pace.from_json(order["pace"]) if order else Pace.beginning(len(choice.streams))
    pace = go_on(before, reports)
    followed = {w.name: _followed(w, choice, order, (before, pace), reports, step) for w in choice.watches}
    partners = {watch.name: _partners(watch, choice, order, reports) for watch in choice.watches}
    lost, late = (
        losses.added(order.get("lost", {}), reports),
        violations.added(order.get(violations.BROKEN, {}), reports),
    )
    found = _found(choice, order, pace, followed, partners)
    within = _within(found)
    found = violations.said(candidates(choice, followed), found, late, lost, alone=not choice.watches)
    never = _never(choice, order, pace.time - FADING * before.time, pace, reports)
    so_far = went_on(order.get("so_far", {}), reports, in_use=bool(within))
    return {
        "step": step,
        "within": within,
        "keeps_no": [s for s in _children(choice) if not _drops_no(s, choice, pace, within, followed, never)],
        "watch": {w.name: _limits(w, choice, order, pace, followed[w.name], reports) for w in choice.watches},
        "found": found,
        "losses": capped(losses.estimated(lost, choice.settings.monitoring.sample), choice.graph, so_far),
        "pace": pace.to_json(),
        "followed": {name: each.to_json() for name, each in followed.items()},
        "partners": partners,
        "never": never,
        "lost": lost,
        violations.BROKEN: late,
        "so_far": so_far,
    }


def _within(found: Sequence[Facts]) -> dict[str, dict[str, int | None]]:
    """The reaches in force by name; of several, all hold."""
    within: dict[str, dict[str, int | None]] = {}
    for each in found:
        if each["reach"] is not None:
            before = within.get(each["name"], {})
            within[each["name"]] = {unit: lesser(before.get(unit), far) for unit, far in each["reach"].items()}
    return within


def _found(
    choice: Choice,
    order: Facts,
    pace: Pace,
    followed: dict[str, Followed],
    partners: Mapping[str, Sequence[float]],
) -> list[Facts]:
    all_ = candidates(choice, followed)
    known = {each.name for each in all_ if each.known}
    used = order.get("within", {})
    return [judged(each, choice, pace, _of_edge(each.edge, partners), known, before=each.name in used) for each in all_]


# --- what is watched --------------------------------------------------------------------------------


def _seen(reports: Sequence[Facts], name: str) -> tuple[int, int, int]:
    """Events, the greatest distance and the rows kept, of all buckets."""
    told = [report["watched"][name] for report in reports]
    return sum(t["events"] for t in told), max(t["greatest"] for t in told), sum(t["size"] for t in told)


def _followed(
    watch: Watch, choice: Choice, order: Facts, paces: tuple[Pace, Pace], reports: Sequence[Facts], step: int
) -> Followed:
    before, after = paces
    events, greatest, _ = _seen(reports, watch.name)
    told = order.get("followed", {}).get(watch.name)
    so_far = Followed() if told is None else Followed.from_json(told)
    span = (after.now or 0) - ((after.began or 0) if before.now is None else before.now)
    if watch.in_rows:
        stream = counted(choice.graph, watch.edge, watch.kind)
        span = after.counters[stream] - before.counters[stream]
    far = order.get("watch", {}).get(watch.name, {}).get("kept", 0)
    return follow(so_far, step, events, greatest, span, choice.settings.monitoring, far)


def _partners(watch: Watch, choice: Choice, order: Facts, reports: Sequence[Facts]) -> list[float]:
    """Parents, and how many of them have been seen to join or to repeat a key, of about the last steps."""
    parents = sum(report["elements"][choice.edges[watch.edge].parent] for report in reports)
    keys = order.get("watch", {}).get(watch.name, {}).get("keys", 1.0)
    before = order.get("partners", {}).get(watch.name, (0.0, 0.0))
    return [FADING * before[0] + parents, FADING * before[1] + _seen(reports, watch.name)[0] / keys]


def _of_edge(edge: int, partners: Mapping[str, Sequence[float]]) -> Partners:
    joined, repeated = (partners.get(name_of(edge, kind)) for kind in (Kind.ARRIVING, Kind.CLUSTERED))
    parents = (joined or repeated or [0.0])[0]
    return Partners(parents, joined[1] if joined else None, repeated[1] if repeated else None)


def _limits(
    watch: Watch, choice: Choice, order: Facts, pace: Pace, followed: Followed, reports: Sequence[Facts]
) -> dict[str, Any]:
    """How far is watched: as far as is kept, and, for a sample, as long as rows are valid."""
    stream = counted(choice.graph, watch.edge, watch.kind)
    far, stride = farthest(choice.graph, watch.edge, watch.kind, pace), pace.stride
    if watch.in_rows:
        far, stride = int(2 * far * pace.row_rate(stream)) or FOREVER, pace.row_strides[stream]
    far = min(far, FOREVER)
    settings = choice.settings.monitoring
    near = far
    if followed.used is not None:
        near = min(kept(followed.used, int(stride), settings, risen=followed.risen), far)
    if watch.kind in (Kind.ORDERED_PARENTS, Kind.ORDERED_CHILDREN):
        return {"kept": near, "sampled": near, "sample": 0.0, "keys": 1.0}
    keys = order.get("watch", {}).get(watch.name, {}).get("keys", 1.0)
    return {
        "kept": near,
        "sampled": far,
        "sample": settings.sample,
        "keys": _share(keys, _seen(reports, watch.name)[2]),
    }


def _share(keys: float, size: int) -> float:
    """Which share of keys is watched, if with this one so many rows are kept."""
    while size > ROOM and keys > _FEWEST:
        keys, size = keys / 2, size // 2
    return min(2 * keys, 1.0) if 8 * size < ROOM else keys


# --- what is remembered of those that never join ----------------------------------------------------


def _children(choice: Choice) -> list[int]:
    return [stream for stream, above in enumerate(choice.graph.above) if above]


def _keeping(choice: Choice, order: Facts) -> list[int]:
    """Streams that remember; at first those that have parents of which nothing is declared: they would wait long."""
    if order:
        keeps: list[int] = order["keeps_no"]
        return keeps
    bounded = {each.edge for each in choice.declared if each.unused is None and each.kind in _FOR_CHILDREN}
    return [stream for stream in _children(choice) if not bounded.issuperset(choice.graph.above[stream])]


def _never(choice: Choice, order: Facts, passed: float, pace: Pace, reports: Sequence[Facts]) -> dict[str, list[float]]:
    """Of what is No: how many parents hit it on each edge, in which time, and how much there is of each stream.

    That can be counted only while it is remembered; else it is as it was then. `steps` and `since`: for how long it
    has been remembered; `more`: by how much it has grown.
    """
    zeros = {"hits": choice.edges, "time": choice.edges, "size": choice.streams, "more": choice.streams}
    zeros |= {"steps": choice.streams, "since": choice.streams}
    now = {name: list(order.get("never", {}).get(name, [0.0] * len(each))) for name, each in zeros.items()}
    for stream in _children(choice):
        if stream not in _keeping(choice, order):
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


def _is_worth_trying(stream: int, choice: Choice, pace: Pace) -> bool:
    """Whether so many parents wait that it may help to tell them what will never come; how much is then seen."""
    above = choice.graph.above[stream]
    parents = {choice.edges[edge].parent for edge in above}
    waiting = sum(choice.row_bytes[parent] * pace.sizes[parent][1] for parent in parents)
    return waiting > TRIAL * pace.filled(stream) * KEY_BYTES * (len(above) + 1)


def _drops_no(
    stream: int,
    choice: Choice,
    pace: Pace,
    within: Mapping[str, Any],
    followed: Mapping[str, Followed],
    never: Mapping[str, Sequence[float]],
) -> bool:
    """Whether parents that wait in vain, as nobody tells them, take less than the keys that would tell them.

    Of a No that still grows, or has not been there for long, parents have not told yet how often they will hit it:
    then the difference must be clear. Parents of which no distance is made use of wait to their end: if it turns
    out that many do, what never joins is remembered again.
    """
    above, waiting, longest = choice.graph.above[stream], 0.0, 0.0
    for edge in above:
        names = [name_of(edge, kind) for kind in _FOR_CHILDREN]
        reaches = [Reach(**within[name]) for name in names if name in within]
        seen = [each.used for name in names if (each := followed.get(name)) is not None and each.used is not None]
        is_again = not never["steps"][stream] and _is_worth_trying(stream, choice, pace)
        is_unknown = not reaches and not seen
        if not reaches and is_again:
            return False
        if not never["time"][edge]:
            return not is_unknown and not _is_worth_trying(stream, choice, pace)
        parent = choice.edges[edge].parent
        long = min([duration(reach, pace, stream) for reach in reaches], default=float(pace.lifetime(parent)))
        hits = never["hits"][edge]
        hits += 2 * sqrt(hits) + 1
        waiting += hits / never["time"][edge] * long * choice.row_bytes[parent]
        if is_unknown:
            longest = max(longest, TRIED * long)
        else:
            longest = max(longest, long if reaches else kept(min(seen), int(pace.stride), choice.settings.monitoring))
    steps, since, size = (never[name][stream] for name in ("steps", "since", "size"))
    if steps and since < 2 * longest:
        return False
    is_young = steps and (steps < STEPS or never["more"][stream] > GROWTH * size)
    return waiting * (CLEARLY if is_young else 1) < size * KEY_BYTES * (len(above) + 1)
