"""Formulas 22.13 to 22.56: check values of the spec, borders of cases, and both readings of 22.23."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from tidegate.costs.characteristics import Characteristics, aggregate, group
from tidegate.costs.memory import (
    bytes_of_aggregate,
    bytes_of_count_window,
    bytes_of_distinct,
    bytes_of_groups,
    bytes_of_join,
    bytes_of_partitioned_window,
    count_kept_by_join,
    count_kept_by_split,
    count_parts,
    count_parts_of_groups,
)
from tidegate.costs.processor import (
    cost_of_aggregate,
    cost_of_count_window,
    cost_of_distinct,
    cost_of_filter,
    cost_of_granularity,
    cost_of_groups,
    cost_of_join,
    cost_of_map,
    cost_of_partitioned_window,
    cost_of_split,
    cost_of_union,
    cost_of_window,
)
from tidegate.costs.variables import (
    AggregateVariables,
    CountWindowVariables,
    DistinctVariables,
    FilterVariables,
    GranularityVariables,
    GroupSizes,
    GroupVariables,
    JoinVariables,
    MapVariables,
    PartitionedWindowVariables,
    SplitVariables,
    UnionVariables,
    WindowVariables,
)

STREAM = Characteristics(10.0, 1000.0)
LEFT, RIGHT = STREAM, Characteristics(20.0, 500.0)


def free(variables, **costs):
    """Return cost variables that are all zero but for some."""
    return replace(variables(**dict.fromkeys((each.name for each in fields(variables)), 0.0)), **costs)


# ---- memory


def test_a_join_keeps_valid_elements_and_those_not_yet_purged_22_18():
    assert count_kept_by_join(LEFT, RIGHT) == (101.0, 25.25)
    assert bytes_of_join(LEFT, RIGHT, (10.0, 100.0)) == 1010.0 + 2525.0


def test_duplicate_elimination_22_24():
    assert bytes_of_distinct(STREAM, 8.0) == 800.0


@pytest.mark.parametrize(("granule", "parts"), [(1.0, 95.208), (100.0, 9.9997)])
def test_partial_aggregates_22_30(granule, parts):
    assert count_parts(replace(STREAM, granule=granule)) == pytest.approx(parts, rel=1e-5)


@pytest.mark.parametrize("length", [10.0, 5.0])
def test_one_partial_aggregate_if_elements_do_not_overlap(length):
    assert bytes_of_aggregate(Characteristics(10.0, length), 7.0) == 7.0


def test_partial_aggregates_of_groups_22_35():
    assert count_parts_of_groups(STREAM, 4.0) == pytest.approx(98.809, rel=1e-5)


def test_bytes_of_groups_22_35():
    sizes = GroupSizes(part=1.0, final=10.0, identifier=100.0, entry=1000.0)
    assert bytes_of_groups(STREAM, 4.0, sizes) == pytest.approx(98.809 + 4 * 1110.0, rel=1e-5)
    assert bytes_of_groups(STREAM, 100.0, sizes) == 1.0 + 100.0 * 1000.0 + 100.0 + 10.0


@pytest.mark.parametrize(("length", "kept"), [(5.0, 20.0), (100.0, 0.0), (99.0, 10.0 + 100 / 198)])
def test_a_split_22_40(length, kept):
    assert count_kept_by_split(Characteristics(10.0, 100.0), length) == pytest.approx(kept)


def test_count_windows_22_49_and_22_51():
    assert bytes_of_count_window(7.0, 3.0) == 21.0
    assert bytes_of_partitioned_window(7.0, 2.0, 3.0, 10.0, 100.0) == 2 * (21.0 + 110.0 + 3.0)


# ---- processor


def test_filter_map_and_union():
    assert cost_of_filter(STREAM, 0.25, FilterVariables(2.0, 8.0)) == pytest.approx(0.2 + 0.2)
    assert cost_of_map(STREAM, MapVariables(1.0, 2.0, 3.0)) == pytest.approx(0.6)
    assert cost_of_union([LEFT, RIGHT], UnionVariables(2.0)) == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("variable", "cost"),
    [
        ("hash", 0.15 * 2),
        ("bucket", 0.15 * 2),
        ("query", (500 / 5 + 1000 / 4) / 200),
        ("remove", 0.15 * 2),
        ("build", 0.01 * 1500 / 200),
        ("append", 0.01 * 1500 / 200),
        ("left_list", 0.2),
        ("right_list", 0.1),
    ],
)
def test_the_parts_of_a_join_22_19(variable, cost):
    assert cost_of_join(LEFT, RIGHT, 0.01, (4.0, 5.0), free(JoinVariables, **{variable: 1.0})) == pytest.approx(cost)


def test_a_join_as_printed_exchanges_the_lists_of_the_purge():
    for variable in ("left_list", "right_list"):
        cost = cost_of_join(LEFT, RIGHT, 0.01, (1.0, 1.0), free(JoinVariables, **{variable: 1.0}), as_printed=True)
        assert cost == pytest.approx(0.1 + 0.05)


@pytest.mark.parametrize(
    ("rows", "part", "cost"),
    [
        (5.0, "remove", 1), (5.0, "hash", 2), (5.0, "query", 5 / 2), (5.0, "entry", 1), (5.0, "update", 1),
        (5.0, "create", 1), (5.0, "queue", 2), (5.0, "check", 2), (5.0, "peek", 2), (5.0, "append", 1),
        (5.0, "list", 0),
        (10.0, "list", 0), (10.0, "update", 1),
        (11.0, "remove", 2), (11.0, "hash", 2), (11.0, "query", 10 / 2), (11.0, "entry", 2), (11.0, "update", 0),
        (11.0, "create", 0), (11.0, "queue", 0), (11.0, "check", 1), (11.0, "peek", 0), (11.0, "append", 1),
        (11.0, "list", 2),
    ],
)  # fmt: skip
def test_the_parts_of_duplicate_elimination_22_25(rows, part, cost):
    source = Characteristics(10.0, 100.0)
    assert cost_of_distinct(source, rows, 2.0, free(DistinctVariables, **{part: 1.0})) == pytest.approx(cost / 10)


@pytest.mark.parametrize(
    ("part", "cost"),
    [
        ("initialize", 0.5 / 5.514163),
        ("create", 1 / 5.514163 + 9.5208),
        ("list", 1 / 5.514163 + 9.5208 + 1 / 5.514163),
        ("query", 9.5208),
        ("merge", 9.5208),
        ("remove", 1 / 5.514163 + 0.1),
        ("evaluate", 1 / 5.514163),
        ("append", 1 / 5.514163),
    ],
)
def test_the_parts_of_an_aggregation_22_31(part, cost):
    assert cost_of_aggregate(STREAM, free(AggregateVariables, **{part: 1.0})) == pytest.approx(cost, rel=1e-5)


@pytest.mark.parametrize(
    ("part", "cost"),
    [("initialize", 0.1), ("create", 0.1), ("list", 0.2), ("query", 0.1), ("merge", 0), ("remove", 0.2)],
)
def test_an_aggregation_of_elements_that_do_not_overlap(part, cost):
    source = Characteristics(10.0, 10.0)
    assert cost_of_aggregate(source, free(AggregateVariables, **{part: 1.0})) == pytest.approx(cost)


NO_AGGREGATION = free(AggregateVariables)


@pytest.mark.parametrize(
    ("part", "inputs", "outputs"),
    [("identify", 1, 0), ("fetch", 1, 1), ("queue", 0, 4), ("peek", 1, 2), ("check", 1, 2), ("attach", 0, 1)],
)
def test_the_parts_of_a_grouping_22_36(part, inputs, outputs):
    cost = cost_of_groups(STREAM, 4.0, free(GroupVariables, of_group=NO_AGGREGATION, **{part: 1.0}))
    assert cost == pytest.approx(inputs * 0.1 + outputs / 5.123542, rel=1e-6)


def test_a_grouping_with_one_element_at_a_time_does_not_look_for_the_least():
    cost = cost_of_groups(STREAM, 100.0, free(GroupVariables, of_group=NO_AGGREGATION, peek=1.0))
    assert cost == pytest.approx(2 * 0.1)


def test_the_aggregations_of_groups_cost_as_those_of_their_streams():
    own = free(AggregateVariables, evaluate=1.0)
    cost = cost_of_groups(STREAM, 4.0, free(GroupVariables, of_group=own))
    assert (
        cost
        == pytest.approx(4 * aggregate(replace(STREAM, distance=40.0)).rate)
        == pytest.approx(group(STREAM, 4.0).rate)
    )


@pytest.mark.parametrize(
    ("part", "cost"),
    [
        ("insert", 1),
        ("delete", 1),
        ("remove", 2),
        ("queue", 40),
        ("check", 20),
        ("create", 21),
        ("append", 20),
        ("test", 21),
    ],
)
def test_the_parts_of_a_split_22_41(part, cost):
    source = Characteristics(10.0, 100.0)
    assert cost_of_split(source, 5.0, free(SplitVariables, **{part: 1.0})) == pytest.approx(cost / 10)


@pytest.mark.parametrize(("part", "cost"), [("insert", 0), ("remove", 1), ("test", 1), ("append", 1), ("create", 0)])
def test_a_split_of_short_elements(part, cost):
    assert cost_of_split(Characteristics(10.0, 5.0), 5.0, free(SplitVariables, **{part: 1.0})) == pytest.approx(
        cost / 10
    )


@pytest.mark.parametrize(("length", "made"), [(100.0, 0.1), (10.0, 0.1), (4.0, 0.04)])
def test_a_granularity_22_46(length, made):
    source = Characteristics(10.0, length)
    assert cost_of_granularity(source, 10.0, GranularityVariables(1.0, 0.0, 0.0, 0.0)) == pytest.approx(0.2)
    assert cost_of_granularity(source, 10.0, GranularityVariables(0.0, 1.0, 0.0, 0.0)) == pytest.approx(0.1)
    assert cost_of_granularity(source, 10.0, GranularityVariables(0.0, 0.0, 1.0, 1.0)) == pytest.approx(2 * made)


def test_windows_22_48_and_22_50():
    assert cost_of_window(STREAM, WindowVariables(1.0, 2.0, 3.0)) == pytest.approx(0.6)
    assert cost_of_count_window(STREAM, CountWindowVariables(1.0, 2.0, 3.0, 4.0, 5.0)) == pytest.approx(1.5)


@pytest.mark.parametrize(
    ("part", "cost"),
    [
        ("identify", 1), ("fetch", 1), ("queue", 3), ("peek", 2), ("check", 2), ("create", 1), ("query", 1),
        ("insert", 1), ("delete", 1), ("append", 1),
    ],
)  # fmt: skip
def test_the_parts_of_a_partitioned_window_22_52(part, cost):
    found = cost_of_partitioned_window(STREAM, free(PartitionedWindowVariables, **{part: 1.0}))
    assert found == pytest.approx(cost / 10)
