"""Processing costs of operators per microsecond, in the unit of the cost variables (formulas 22.14 to 22.56).

They reproduce the dissertation, whose operators process one element at a time. What Tidegate's operators cost follows
from their work in batches (`work.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.costs.characteristics import (
    Characteristics,
    aggregate,
    coarsen,
    count_instants,
    filter_rows,
    group,
    unite,
)
from tidegate.costs.variables import (
    AggregateVariables,
    CountWindowVariables,
    DistinctVariables,
    FilterVariables,
    GranularityVariables,
    GroupVariables,
    JoinVariables,
    MapVariables,
    PartitionedWindowVariables,
    SplitVariables,
    UnionVariables,
    WindowVariables,
)


def cost_of_filter(source: Characteristics, selectivity: float, cost: FilterVariables) -> float:
    """Return the cost of a filter (22.14)."""
    return cost.predicate * source.rate + cost.append * filter_rows(source, selectivity).rate


def cost_of_map(source: Characteristics, cost: MapVariables) -> float:
    """Return the cost of a map (22.15)."""
    return (cost.function + cost.create + cost.append) * source.rate


def cost_of_union(sources: Sequence[Characteristics], cost: UnionVariables) -> float:
    """Return the cost of a union (22.17)."""
    return cost.append * unite(sources).rate


def cost_of_join(
    left: Characteristics,
    right: Characteristics,
    selectivity: float,
    buckets: tuple[float, float],
    cost: JoinVariables,
    *,
    as_printed: bool = False,
) -> float:
    """Return the cost of a symmetric hash join (22.19 to 22.23); a nested-loops join has one bucket and no hash cost.

    `buckets` are those of the left and the right side. Elements leave a side as often as they enter it, so the costs of
    the lists in 22.23 belong to the rates of their own sides (erratum E-28); `as_printed` exchanges them.
    """
    both = left.rate + right.rate
    in_lists = cost.left_list * left.rate + cost.right_list * right.rate
    out_of_lists = cost.right_list * left.rate + cost.left_list * right.rate if as_printed else in_lists
    insert = both * (cost.hash + cost.bucket) + in_lists
    in_buckets = right.length / buckets[1] + left.length / buckets[0]
    probe = left.rate * right.rate * in_buckets * cost.query + both * cost.hash
    results = selectivity * (left.length + right.length) * left.rate * right.rate * (cost.build + cost.append)
    purge = both * (2.0 * cost.remove + cost.bucket) + out_of_lists
    return insert + probe + results + purge


def cost_of_distinct(source: Characteristics, rows: float, buckets: float, cost: DistinctVariables) -> float:
    """Return the cost of duplicate elimination over a number of different rows (22.25 to 22.29)."""
    if rows * source.distance <= source.length:
        purge = cost.remove
        probe = cost.hash + cost.query * rows / buckets
        insert = cost.hash + cost.entry + cost.update + cost.create + cost.queue
        transfer = 2.0 * (cost.check + cost.peek) + cost.queue + cost.append
    else:
        purge = 2.0 * cost.remove + cost.entry + cost.list
        probe = cost.hash + cost.query * source.valid_rows / buckets
        insert = cost.hash + cost.entry + cost.list + cost.append
        transfer = cost.check
    return (purge + probe + insert + transfer) * source.rate


def cost_of_aggregate(source: Characteristics, cost: AggregateVariables) -> float:
    """Return the cost of an aggregation without groups (22.31 to 22.34)."""
    return _cost_to_update(source, cost) + _cost_to_extract(source, cost)


def _cost_to_update(source: Characteristics, cost: AggregateVariables) -> float:
    """Return the cost of new and changed partial aggregates (22.32 and 22.33)."""
    if source.distance >= source.length:
        return (cost.create + cost.initialize + cost.list + cost.query) * source.rate
    parts = count_instants(source.length, source.granule, source.valid_rows)
    begin = aggregate(source).rate / 2.0 * (2.0 * cost.create + cost.initialize + 2.0 * cost.list)
    return begin + source.rate * parts * (cost.query + cost.create + cost.merge + cost.list)


def _cost_to_extract(source: Characteristics, cost: AggregateVariables) -> float:
    """Return the cost of final aggregates (22.34)."""
    final = cost.remove + cost.evaluate + cost.list + cost.append
    return final * aggregate(source).rate + cost.remove * source.rate


def cost_of_groups(source: Characteristics, groups: float, cost: GroupVariables) -> float:
    """Return the cost of an aggregation of groups (22.36 to 22.39)."""
    of_group, output = replace(source, distance=source.distance * groups), group(source, groups)
    update = (cost.identify + cost.fetch) * source.rate + groups * _cost_to_update(of_group, cost.of_group)
    gather = (cost.check + cost.peek + cost.fetch + 3.0 * cost.queue + cost.attach) * output.rate
    gather += groups * _cost_to_extract(of_group, cost.of_group)
    waits = cost.check + cost.peek if groups * source.distance < source.length else cost.check
    return update + gather + (cost.check + cost.peek + cost.queue) * output.rate + waits * source.rate


def cost_of_split(source: Characteristics, length: float, cost: SplitVariables) -> float:
    """Return the cost of a split (22.41 to 22.44)."""
    if length >= source.length:
        return (cost.test + cost.append + cost.remove) * source.rate
    piece = cost.test + cost.create + 2.0 * cost.queue + cost.check + cost.append
    pieces = cost.test + cost.create + source.length / length * piece
    return (cost.insert + pieces + 2.0 * cost.remove + cost.delete) * source.rate


def cost_of_granularity(source: Characteristics, granule: float, cost: GranularityVariables) -> float:
    """Return the cost of a granularity conversion (22.46)."""
    tests, makes = 2.0 * cost.round + cost.test, cost.create + cost.append
    return tests * source.rate + makes * (source if source.length >= granule else coarsen(source, granule)).rate


def cost_of_window(source: Characteristics, cost: WindowVariables) -> float:
    """Return the cost of a time window (22.48)."""
    return (cost.compute + cost.create + cost.append) * source.rate


def cost_of_count_window(source: Characteristics, cost: CountWindowVariables) -> float:
    """Return the cost of a count window (22.50)."""
    return (cost.remove + cost.delete + cost.create + cost.append + cost.insert) * source.rate


def cost_of_partitioned_window(source: Characteristics, cost: PartitionedWindowVariables) -> float:
    """Return the cost of a partitioned window (22.52 to 22.56)."""
    identify = cost.identify + cost.fetch
    extract = cost.query + cost.create + cost.queue + cost.delete
    insert = cost.insert + cost.queue
    transfer = 2.0 * (cost.check + cost.peek) + cost.queue + cost.append
    return (identify + extract + insert + transfer) * source.rate
