"""Where in time a plan can have rows, and where its relation can change."""

from __future__ import annotations

import math
from collections.abc import Iterable

from reference.members import Elements
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Changes,
    CountWindow,
    Filter,
    Granularity,
    Join,
    Map,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Stamp,
    Union,
    Validity,
    Window,
    inputs,
    walk,
)
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.time import BEGINNING, FOREVER


def is_chronon(plan: Plan) -> bool:
    """Whether the plan has rows only at instants at which elements of its raw streams start."""
    match plan:
        case Scan(validity=validity):
            return validity is Validity.INSTANT
        case Window(size=size, slide=slide):
            return size == slide == 1 and is_chronon(plan.source)
        case CountWindow() | Granularity() | Changes():
            return False
        case Join() | SimilarityJoin():
            return is_chronon(plan.left) or is_chronon(plan.right)
        case KeyedJoin():
            return any(is_chronon(each) for each in plan.inputs)
        case SemiJoin():
            return is_chronon(plan.left)
    return all(is_chronon(each) for each in inputs(plan))


def is_finite(plan: Plan) -> bool:
    """Whether the plan has rows at finitely many instants, if its streams are finite and their elements end."""
    match plan:
        case Scan(validity=validity):
            return validity is not Validity.RELATION
        case CountWindow() | Window(size=None):
            return False
        case Changes():
            return all(scan.validity is not Validity.RELATION for scan in scans(plan))
        case Join() | SimilarityJoin() | SetOperation(rule=SetRule.INTERSECT | SetRule.INTERSECT_ALL):
            return is_finite(plan.left) or is_finite(plan.right)
        case KeyedJoin():
            return any(is_finite(each) for each in plan.inputs)
        case SemiJoin() | SetOperation(rule=SetRule.EXCEPT | SetRule.EXCEPT_ALL | SetRule.STRICT_EXCEPT_ALL):
            return is_finite(plan.left)
    return all(is_finite(each) for each in inputs(plan))


def granule(plan: Plan) -> int:
    """How far apart the instants are at which a window looks at the plan (PIPES, section 20)."""
    match plan:
        case Granularity(size=size):
            return size
        case Window(size=size, slide=slide):
            return math.gcd(granule(plan.source), size or 0, slide if slide > 1 else 0)
        case Scan() | Changes():
            return 1
    return math.gcd(*(granule(each) for each in inputs(plan)))


def has_own_times(plan: Plan) -> bool:
    """Whether elements of the plan have a time of their own: each comes from one element, or pair, of its inputs."""
    match plan:
        case Scan() | Window() | CountWindow() | Split(length=1) | Stamp() | Sample() | Changes():
            return True
        case SemiJoin():
            return has_own_times(plan.left)
        case Filter() | Map() | Granularity() | Union() | Join() | KeyedJoin() | SimilarityJoin():
            return all(has_own_times(each) for each in inputs(plan))
    return False


def scans(plan: Plan) -> list[Scan]:
    return [node for node in walk(plan) if isinstance(node, Scan)]


def row_instants(plan: Plan, given: Elements, first: int | None, last: int) -> Iterable[int]:
    """The instants from `first` to `last` at which the plan can have rows, of those that a window looks at."""
    return [t for t in _all_row_instants(plan, given, first, last) if t % granule(plan) == 0]


def _all_row_instants(plan: Plan, given: Elements, first: int | None, last: int) -> Iterable[int]:
    if is_chronon(plan):
        times = {start for scan in scans(plan) for start, _, _ in given[scan.stream]}
        return sorted(t for t in times if t <= last and (first is None or first <= t))
    if first is not None:
        return range(first, last + 1)
    if not is_finite(plan):
        raise ValueError("no window holds all instants of an element that is valid for ever")
    points = change_points(plan, given)
    return range(min(points, default=0), min(last, max(points, default=0)) + 1)


def change_points(plan: Plan, given: Elements) -> set[int]:
    """At least all instants whose relation differs from that of the instant before."""
    if isinstance(plan, Scan):
        return {t for start, end, _ in given[plan.stream] for t in (start, end) if BEGINNING < t < FOREVER}
    below = {t for each in inputs(plan) for t in change_points(each, given)}
    match plan:
        case Window(size=int()) if is_chronon(plan.source):
            return {t for change in below for t in _slid(plan, change)}
        case Window(size=int(size), slide=slide) if granule(plan.source) > 1 and below:
            return set(range(min(below) - 1, max(below) + size + 2 * slide + 1))
        case Window(size=int(size), slide=slide):
            return {t for change in below for t in range(change - 1, change + size + 2 * slide)}
        case Window(slide=slide):
            return {t // slide * slide - 1 + step for t in _all_between(plan.source, below) for step in (0, slide)}
        case CountWindow() | Stamp():
            return _all_between(plan.source, below)
        case Granularity(size=size):
            return {-(-change // size) * size for change in below}
        case Changes():
            return {change + step for change in below for step in (-1, 0, 1)}
    return below


def _slid(window: Window, change: int) -> set[int]:
    """Where an element that begins, or ends, at the instant can begin and end in the window."""
    grid, size = window.slide, window.size or 0
    moved = [at + shift for at in (change - 1, change) for shift in (0, size)]
    return {t // grid * grid - 1 + step for t in moved for step in (0, grid)}


def _all_between(source: Plan, changes: set[int]) -> set[int]:
    """Where every instant of a validity counts, every instant from the first change to the last."""
    return changes if is_chronon(source) or not changes else set(range(min(changes), max(changes) + 1))
