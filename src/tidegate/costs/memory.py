"""Elements and bytes that operators keep (formulas 22.13 to 22.51 for memory).

Filters, maps, unions, granularity conversions and time windows keep nothing (22.13, 22.16, 22.45, 22.47).
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.costs.characteristics import Characteristics, count_instants
from tidegate.costs.variables import GroupSizes


def count_kept_by_join(left: Characteristics, right: Characteristics) -> tuple[float, float]:
    """Return the elements of each side that a join keeps: the valid ones, and those not yet purged (22.18)."""
    return (
        left.valid_rows + right.distance / (2.0 * left.distance),
        right.valid_rows + left.distance / (2.0 * right.distance),
    )


def bytes_of_join(left: Characteristics, right: Characteristics, sizes: tuple[float, float]) -> float:
    """Return the bytes of a join with these bytes of an element of each side (22.18)."""
    kept = count_kept_by_join(left, right)
    return kept[0] * sizes[0] + kept[1] * sizes[1]


def bytes_of_distinct(source: Characteristics, size: float) -> float:
    """Return the bytes of duplicate elimination (22.24)."""
    return source.valid_rows * size


def count_parts(source: Characteristics) -> float:
    """Return the partial aggregates that an aggregation keeps (22.30): only ends split them."""
    if source.distance >= source.length:
        return 1.0
    return count_instants(source.length, source.granule, source.valid_rows)


def bytes_of_aggregate(source: Characteristics, size: float) -> float:
    """Return the bytes of an aggregation without groups (22.30)."""
    return count_parts(source) * size


def count_parts_of_groups(source: Characteristics, groups: float) -> float:
    """Return the partial aggregates of all groups (first part of 22.35)."""
    of_group = replace(source, distance=source.distance * groups)
    return groups * count_parts(of_group) if of_group.distance < source.length else 1.0


def bytes_of_groups(source: Characteristics, groups: float, sizes: GroupSizes) -> float:
    """Return the bytes of an aggregation of groups (22.35)."""
    parts = count_parts_of_groups(source, groups) * sizes.part
    if groups * source.distance < source.length:
        return parts + groups * (sizes.entry + sizes.identifier + sizes.final)
    return parts + groups * sizes.entry + sizes.identifier + sizes.final


def count_kept_by_split(source: Characteristics, length: float) -> float:
    """Return the elements that a split keeps (22.40)."""
    return source.valid_rows + source.length / (2.0 * length) if length < source.length else 0.0


def bytes_of_count_window(rows: float, size: float) -> float:
    """Return the bytes of a count window (22.49)."""
    return rows * size


def bytes_of_partitioned_window(rows: float, groups: float, size: float, entry: float, identifier: float) -> float:
    """Return the bytes of a partitioned window (22.51)."""
    return groups * (rows * size + entry + identifier + size)
