"""Characteristics of streams, and of the outputs of operators (formulas 22.1 to 22.12 and derived ones)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import expm1, inf, log1p

from tidegate.values import value


@value
class Characteristics:
    """Average distance of starts, average length of validities, and granule, in microseconds of application time.

    A stream without rows has an infinite distance.
    """

    distance: float
    length: float
    granule: float = 1.0

    @property
    def rate(self) -> float:
        """Return the elements that start in a microsecond."""
        return 1.0 / self.distance

    @property
    def valid_rows(self) -> float:
        """Return the elements that are valid at an instant."""
        return self.length / self.distance


NO_ROWS = Characteristics(inf, 1.0)


def count_instants(length: float, granule: float, times: float) -> float:
    """Return how many distinct instants a number of random times hit in a span (Cardenas)."""
    instants = length / granule
    if instants == inf:
        return times
    if instants <= 1.0:
        return min(times, 1.0)
    return -instants * expm1(times * log1p(-1.0 / instants))


# ---- operators without state


def filter_rows(source: Characteristics, selectivity: float) -> Characteristics:
    """Return the output of a filter (22.1)."""
    return replace(source, distance=source.distance / selectivity if selectivity > 0 else inf)


def map_rows(source: Characteristics) -> Characteristics:
    """Return the output of a map (22.2)."""
    return source


def unite(sources: Sequence[Characteristics]) -> Characteristics:
    """Return the output of a union (22.3), with the finest granule."""
    rate = sum(each.rate for each in sources)
    granule = min(each.granule for each in sources)
    if not rate:
        return replace(NO_ROWS, length=max(each.length for each in sources), granule=granule)
    return Characteristics(1.0 / rate, sum(each.valid_rows for each in sources) / rate, granule)


def split(source: Characteristics, length: float) -> Characteristics:
    """Return the output of a split into elements of at most a length (22.8)."""
    if length >= source.length:
        return source
    return replace(source, distance=source.distance * length / source.length, length=length)


def coarsen(source: Characteristics, granule: float) -> Characteristics:
    """Return the output of a granularity conversion (22.9)."""
    if source.length >= granule:
        return replace(source, granule=granule)
    if granule == source.granule:
        return source
    return Characteristics(source.distance * granule / source.length, granule, granule)


def extend(source: Characteristics, size: float) -> Characteristics:
    """Return the output of a time window (22.10).

    For elements longer than a granule, derived: an element is valid until its last granule leaves the window.
    """
    return replace(source, length=source.length - source.granule + size if source.length > source.granule else size)


def slide(source: Characteristics, size: float, step: float) -> Characteristics:
    """Return the output of a time window that moves in steps.

    Derived: an element is in size / step positions of the window on average, each of which lasts for a step. If steps
    are longer than the window, only the share size / step of the elements is in any position, for one step.
    """
    length = extend(source, size).length
    granule = max(step, source.granule)
    if length >= step:
        return Characteristics(source.distance, length, granule)
    return Characteristics(source.distance * step / length, step, granule)


# ---- joins


def combine(left: Characteristics, right: Characteristics, selectivity: float = 1.0) -> Characteristics:
    """Return the output of a Cartesian product (22.4), of which a join keeps a share (22.1)."""
    granule = max(left.granule, right.granule)
    rate = selectivity * (left.valid_rows * right.rate + right.valid_rows * left.rate)
    length = left.length * right.length / (left.length + right.length)
    return Characteristics(1.0 / rate if rate > 0 else inf, length, granule)


def semi_join(
    left: Characteristics, pairs: Characteristics, rows: float, share: float, *, anti: bool = False
) -> Characteristics:
    """Return the output of a semi-join or an anti-join.

    Derived: left rows and pairs are counted by row (22.7, with that number of different rows), and of the resulting
    elements those with a match, or those without one, are kept (22.1). `share` is the part of them with a match.
    """
    return filter_rows(group(unite([left, pairs]), rows), 1.0 - share if anti else share)


# ---- operators that merge elements


def remove_duplicates(source: Characteristics, rows: float) -> Characteristics:
    """Return the output of duplicate elimination over a number of different rows (22.5)."""
    return replace(source, length=min(rows * source.distance, source.length))


def aggregate(source: Characteristics) -> Characteristics:
    """Return the output of an aggregation without groups (22.6)."""
    if source.distance >= source.length:
        return source
    distance = _mean_piece(source)
    return Characteristics(distance, distance, source.granule)


def aggregate_regular(source: Characteristics) -> Characteristics:
    """Return the output of an aggregation if distances and lengths are constant, and multiples (remark 22.1)."""
    return replace(source, length=source.distance)


def group(source: Characteristics, groups: float) -> Characteristics:
    """Return the output of an aggregation of a number of groups (22.7)."""
    of_group = replace(source, distance=source.distance * groups)
    if of_group.distance >= source.length:
        return source
    length = _mean_piece(of_group)
    return Characteristics(length / groups, length, source.granule)


def _mean_piece(source: Characteristics) -> float:
    """Return the mean time between two instants at which an element of a stream starts or ends."""
    return source.length / count_instants(source.length, source.granule, 2.0 * source.valid_rows)


def subtract(left: Characteristics, right: Characteristics, rows: float, share: float) -> Characteristics:
    """Return the output of a set operation such as EXCEPT.

    Derived: both sides are counted by row (22.3, then 22.7), and each resulting element is repeated as the operation
    says: on average `share` times, which acts as a selectivity (22.1).
    """
    return filter_rows(group(unite([left, right]), rows), share)


def coalesce(source: Characteristics, pieces: float, longest: float = inf) -> Characteristics:
    """Return the output of a coalesce that merges a number of adjacent pieces on average.

    Derived: the relation is the same at every instant, so distance and length grow by the same factor. It is at most
    the number of pieces that fit into the longest element.
    """
    factor = max(1.0, min(pieces, longest / source.length))
    return replace(source, distance=source.distance * factor, length=source.length * factor)


def find_changes(source: Characteristics, share: float = 1.0) -> Characteristics:
    """Return the output of ISTREAM or DSTREAM.

    Derived: each element begins once and ends once, and each change is one granule. `share` is the part of the
    elements that do not continue an equal one.
    """
    return replace(filter_rows(source, share), length=source.granule)


def limit(source: Characteristics, count: float) -> Characteristics:
    """Return the output of LIMIT.

    Derived: of N valid elements, `count` are shown. A new element is among them with probability count / N, and
    replaces one; one of them ends with the same probability, and is replaced. So one element in N / (2 count) begins to
    be shown, for half a length, and count elements are shown at any instant.
    """
    if count >= source.valid_rows:
        return source
    if count <= 0:
        return replace(source, distance=inf)
    distance = source.distance * source.valid_rows / (2.0 * count)
    return replace(source, distance=distance, length=count * distance)


def window_rows(source: Characteristics, rows: float) -> Characteristics:
    """Return the output of a count window (22.11)."""
    return source if source.distance == inf else replace(source, length=rows * source.distance)


def window_rows_by_group(source: Characteristics, rows: float, groups: float) -> Characteristics:
    """Return the output of a partitioned window (22.12)."""
    return source if source.distance == inf else replace(source, length=groups * rows * source.distance)
