"""Bounds on the validities of the elements of a plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
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
)
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.algebra.threshold_alert import alarm_span
from tidegate.time import CHRONON
from tidegate.values import value

_LENGTH_THAT_KEEPS_ORDER = 2
"""Pieces of up to this length end in the order in which they start; longer pieces need not (erratum E-05)."""


@value
class ValidityExtent:
    """The extent of elements in time, and whether the valid elements fit in bounded space.

    `length` is the longest validity, None if unknown. `ends` is whether every validity ends eventually: rows of a
    table, or the last rows of a stream, may stay for ever and still be few.
    """

    length: int | None
    ends: bool
    bounded: bool


_UNKNOWN = ValidityExtent(None, ends=True, bounded=True)
_STAYS = ValidityExtent(None, ends=False, bounded=True)
_GROWS = ValidityExtent(None, ends=False, bounded=False)
_INSTANT = ValidityExtent(CHRONON, ends=True, bounded=True)


def is_source(plan: Plan) -> bool:
    """Return whether the elements are those of a source, with their original validities."""
    match plan:
        case Filter(source=source) | Map(source=source) | Stamp(source=source) | Sample(source=source):
            return is_source(source)
    return isinstance(plan, Scan)


def is_chronon(plan: Plan) -> bool:
    """Return whether every element of the output is known to be valid for one chronon only (PIPES, table 12.1).

    Grouping operators merge equal elements that are adjacent in time. The property is therefore not known for their
    output, even if it holds for their input.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> is_chronon(Scan("bid", Schema.of())), is_chronon(Window(Scan("bid", Schema.of()), 10))
    (True, False)
    """
    match plan:
        case Scan(validity=validity):
            return validity is Validity.INSTANT
        case Filter(source=source) | Map(source=source) | Sample(source=source):
            return is_chronon(source)
        case Stamp(source=source):
            return is_chronon(source) or (not is_source(source) and granule(source) == CHRONON)
        case Split(source=source, length=length):
            return length == CHRONON or is_chronon(source)
        case Window(size=size, slide=slide, whole=whole):
            return size == slide == 1 and not whole
        case Granularity(source=source, size=size) | Coalesce(source=source, length=size):
            return size == CHRONON and is_chronon(source)
        case Union(inputs=many):
            return all(is_chronon(each) for each in many)
        case Join(left=left, right=right) | SimilarityJoin(left=left, right=right):
            return is_chronon(left) or is_chronon(right)
        case KeyedJoin(inputs=many):
            return any(is_chronon(each) for each in many)
        case CountWindow() | Limit() | SemiJoin() | SetOperation() | Aggregate() | Distinct():
            return False
        case ThresholdJoin(inputs=many):
            return len(many) == 1
        case Changes() | TotalThreshold() | GroupedTotals() | RangeThreshold():
            return True


def ends_in_order(plan: Plan) -> bool:
    """Return whether elements end in the order in which they start (PIPES, table 12.1, and E-05)."""
    if is_chronon(plan):
        return True
    match plan:
        case Window(least=int()) | CountWindow(least=int()) | Granularity(coarsest=int()):
            return False  # an element may get a smaller size than the one before it (erratum E-44)
        case (
            Filter(source=source)
            | Map(source=source)
            | Stamp(source=source)
            | Sample(source=source)
            | Granularity(source=source)
        ):
            return ends_in_order(source)
        case Split(source=source, length=length):
            return length <= _LENGTH_THAT_KEEPS_ORDER and ends_in_order(source)
        case Window(source=source, size=size, whole=whole):
            return size is not None and (not whole or ends_in_order(source))
        case CountWindow(keys=keys) | Aggregate(keys=keys):
            return not keys
    return False


def have_common_validities(plan: Plan) -> bool:
    """Return whether many elements are likely to share one validity, because a window or time moves in steps."""
    match plan:
        case Filter(source=source) | Map(source=source):
            return have_common_validities(source)
        case Window(slide=step) | Granularity(size=step):
            return step > CHRONON
    return False


def validity_bound(plan: Plan) -> int | None:
    """Return the longest validity, in microseconds, of an element of the output; None if no bound is known.

    Operators may cut validities and merge equal elements that are adjacent in time. The bound ignores such merging,
    since it determines how long state is kept.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> validity_bound(Window(Scan("bid", Schema.of()), 10, 4))
    12
    """
    return validity_extent(plan).length


def is_bounded(plan: Plan) -> bool:
    """Return whether all elements valid at an instant fit in bounded space."""
    return validity_extent(plan).bounded


def validity_extent(plan: Plan) -> ValidityExtent:
    """Return how long elements are valid, whether they end, and whether the number of valid elements is bounded."""
    match plan:
        case Scan(validity=validity):
            return {Validity.INSTANT: _INSTANT, Validity.INTERVAL: _UNKNOWN, Validity.RELATION: _STAYS}[validity]
        case Window(size=None):
            return _GROWS
        case Window(source=source, size=int(size), slide=slide):
            # Slides start at multiples of the slide: an element is in at most ceil(size / slide) of them.
            return _extend(validity_extent(source), -(-size // slide) * slide - CHRONON)
        case CountWindow(rows=rows):
            return _GROWS if rows is None else _STAYS
        case Granularity(source=source):
            known, size = validity_extent(source), plan.coarsest or plan.size
            return known if known.length is None else replace(known, length=-(-known.length // size) * size)
        case Split(source=source, length=length):
            known = validity_extent(source)
            return ValidityExtent(min(length, known.length or length), ends=True, bounded=known.bounded)
        case Stamp(source=source) if not is_source(source):
            return validity_extent(Split(source, granule(source)))
        case Changes() | TotalThreshold() | GroupedTotals() | RangeThreshold():
            return _INSTANT
        case ThresholdJoin(alerts=alerts):
            return ValidityExtent(max(alarm_span(alert) for alert in alerts) + CHRONON, ends=True, bounded=True)
        case Join() | KeyedJoin() | SimilarityJoin():
            return reduce(_extent_of_overlap, map(validity_extent, inputs(plan)))
        case SetOperation(left=left, right=right, rule=SetRule.INTERSECT | SetRule.INTERSECT_ALL):
            return _extent_of_overlap(validity_extent(left), validity_extent(right))
        case SetOperation(rule=SetRule.MAX_UNION) | Union():
            return _extent_of_union([validity_extent(each) for each in inputs(plan)])
    # Differences and semi-joins yield elements of the left input, the others those of their source.
    return validity_extent(inputs(plan)[0])


def granule(plan: Plan) -> int:
    """Return the steps, in microseconds, in which the output can change (PIPES, section 20)."""
    match plan:
        case Scan() | Changes() | ThresholdJoin() | TotalThreshold() | GroupedTotals() | RangeThreshold():
            return CHRONON
        case Granularity(size=size):
            return size
        case Window(source=source, size=size, slide=slide):
            return math.gcd(granule(source), size or 0, 0 if slide == CHRONON else slide)
    return math.gcd(*(granule(each) for each in inputs(plan)))


def _extend(known: ValidityExtent, by: int) -> ValidityExtent:
    return known if known.length is None else replace(known, length=known.length + by)


def _extent_of_overlap(left: ValidityExtent, right: ValidityExtent) -> ValidityExtent:
    """Return the reach of overlaps of validities: an overlap ends when either validity ends."""
    known = [each.length for each in (left, right) if each.length is not None]
    few = any(each.bounded and each.ends for each in (left, right))
    return ValidityExtent(
        min(known, default=None), ends=left.ends or right.ends, bounded=few or (left.bounded and right.bounded)
    )


def _extent_of_union(many: Sequence[ValidityExtent]) -> ValidityExtent:
    known = [each.length for each in many if each.length is not None]
    length = max(known) if len(known) == len(many) else None
    return ValidityExtent(length, ends=all(each.ends for each in many), bounded=all(each.bounded for each in many))
