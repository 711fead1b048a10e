"""Formulas 22.1 to 22.12 by the check values of the spec, at the borders of their cases, and the derived ones."""

from __future__ import annotations

from math import inf

import pytest

from tidegate.costs.characteristics import (
    NO_ROWS,
    Characteristics,
    aggregate,
    aggregate_regular,
    coalesce,
    coarsen,
    combine,
    count_instants,
    extend,
    filter_rows,
    find_changes,
    group,
    limit,
    map_rows,
    remove_duplicates,
    semi_join,
    slide,
    split,
    subtract,
    unite,
    window_rows,
    window_rows_by_group,
)

STREAM = Characteristics(10.0, 1000.0)


def close(found, distance, length, granule=1.0):
    assert (found.distance, found.length, found.granule) == pytest.approx((distance, length, granule), rel=1e-6)


def test_rates_and_valid_rows_of_a_stream():
    assert STREAM.rate == 0.1
    assert STREAM.valid_rows == 100.0
    assert (NO_ROWS.rate, NO_ROWS.valid_rows) == (0.0, 0.0)


def test_a_filter_22_1():
    close(filter_rows(STREAM, 0.25), 40.0, 1000.0)
    assert filter_rows(STREAM, 0.0).distance == inf


def test_a_map_22_2():
    assert map_rows(STREAM) == STREAM


def test_a_union_22_3():
    close(unite([Characteristics(10.0, 100.0), Characteristics(20.0, 50.0)]), 20 / 3, 250 / 3)


def test_a_union_with_a_stream_without_rows():
    close(unite([STREAM, NO_ROWS]), 10.0, 1000.0)
    assert unite([NO_ROWS, NO_ROWS]) == NO_ROWS


def test_a_product_22_4():
    close(combine(Characteristics(10.0, 100.0), Characteristics(20.0, 50.0)), 4 / 3, 100 / 3)


def test_a_join_is_a_share_of_the_product():
    close(combine(Characteristics(10.0, 100.0), Characteristics(20.0, 50.0), 0.01), 400 / 3, 100 / 3)


def test_a_join_with_nothing_gives_nothing():
    assert combine(STREAM, NO_ROWS).rate == 0.0
    assert combine(STREAM, STREAM, 0.0).rate == 0.0


@pytest.mark.parametrize(("rows", "length"), [(5.0, 50.0), (10.0, 100.0), (20.0, 100.0)])
def test_duplicate_elimination_22_5(rows, length):
    close(remove_duplicates(Characteristics(10.0, 100.0), rows), 10.0, length)


@pytest.mark.parametrize(("granule", "piece"), [(1.0, 5.514163), (10.0, 11.547073), (100.0, 100.0000001)])
def test_an_aggregation_22_6(granule, piece):
    close(aggregate(Characteristics(10.0, 1000.0, granule)), piece, piece, granule)


@pytest.mark.parametrize("length", [10.0, 9.0])
def test_an_aggregation_of_elements_that_do_not_overlap(length):
    source = Characteristics(10.0, length)
    assert aggregate(source) == source


def test_an_aggregation_just_over_the_border_is_of_another_case():
    assert aggregate(Characteristics(10.0, 10.001)).distance == pytest.approx(5.2, rel=0.2)


def test_an_aggregation_of_a_granule_as_long_as_the_elements():
    close(aggregate(Characteristics(10.0, 1000.0, 1000.0)), 1000.0, 1000.0, 1000.0)


def test_an_aggregation_of_regular_elements_remark_22_1():
    close(aggregate_regular(STREAM), 10.0, 10.0)


def test_a_grouping_22_7():
    close(group(STREAM, 4.0), 5.123542, 20.494167)


def test_one_group_is_an_aggregation():
    assert group(STREAM, 1.0) == aggregate(STREAM)


@pytest.mark.parametrize("groups", [100.0, 101.0])
def test_a_grouping_with_one_element_at_a_time(groups):
    assert group(STREAM, groups) == STREAM


def test_a_grouping_just_under_the_border():
    assert group(STREAM, 99.0).distance == pytest.approx(5.2, rel=0.2)


@pytest.mark.parametrize(("most", "distance", "length"), [(5.0, 0.5, 5.0), (100.0, 10.0, 100.0), (200.0, 10.0, 100.0)])
def test_a_split_22_8(most, distance, length):
    close(split(Characteristics(10.0, 100.0), most), distance, length)


@pytest.mark.parametrize(
    ("length", "distance", "longer"), [(4.0, 25.0, 10.0), (100.0, 10.0, 100.0), (10.0, 10.0, 10.0)]
)
def test_a_granularity_22_9(length, distance, longer):
    close(coarsen(Characteristics(10.0, length), 10.0), distance, longer, 10.0)


def test_a_granularity_that_is_the_same():
    source = Characteristics(10.0, 4.0, 10.0)
    assert coarsen(source, 10.0) == source


def test_a_time_window_22_10():
    close(extend(Characteristics(10.0, 1.0), 1000.0), 10.0, 1000.0)


def test_a_time_window_over_granules():
    close(extend(Characteristics(10.0, 60.0, 60.0), 600.0), 10.0, 600.0, 60.0)


def test_a_time_window_over_longer_elements():
    close(extend(Characteristics(10.0, 5.0), 1000.0), 10.0, 1004.0)


def test_a_window_that_moves_in_steps():
    close(slide(Characteristics(10.0, 1.0), 1000.0, 100.0), 10.0, 1000.0, 100.0)
    close(slide(Characteristics(10.0, 1.0), 1000.0, 1000.0), 10.0, 1000.0, 1000.0)


def test_a_window_that_moves_in_longer_steps_leaves_out_elements():
    found = slide(Characteristics(10.0, 1.0), 1000.0, 4000.0)
    close(found, 40.0, 4000.0, 4000.0)
    assert found.valid_rows == 100.0


def test_a_count_window_22_11():
    close(window_rows(Characteristics(10.0, 1.0), 7.0), 10.0, 70.0)


def test_a_partitioned_window_22_12():
    close(window_rows_by_group(Characteristics(10.0, 1.0), 7.0, 3.0), 10.0, 210.0)


def test_a_count_window_over_nothing_has_no_rows():
    assert window_rows(NO_ROWS, 7.0).valid_rows == 0.0


def test_a_coalesce_keeps_the_relation():
    found = coalesce(STREAM, 4.0)
    close(found, 40.0, 4000.0)
    assert found.valid_rows == STREAM.valid_rows


@pytest.mark.parametrize(("pieces", "length"), [(0.5, 1000.0), (1.5, 1500.0), (3.0, 2500.0)])
def test_a_coalesce_up_to_a_length(pieces, length):
    assert coalesce(STREAM, pieces, 2500.0).length == length


def test_changes_are_granules():
    close(find_changes(Characteristics(10.0, 1000.0, 5.0)), 10.0, 5.0, 5.0)
    close(find_changes(STREAM, 0.5), 20.0, 1.0)


def test_a_limit_shows_as_many_rows_at_each_instant():
    found = limit(STREAM, 20.0)
    close(found, 25.0, 500.0)
    assert found.valid_rows == 20.0


def test_a_limit_that_is_never_reached():
    assert limit(STREAM, 100.0) == STREAM
    assert limit(STREAM, 0.0).rate == 0.0


def test_a_difference_is_a_share_of_the_counted_rows():
    close(subtract(STREAM, STREAM, 4.0, 0.5), *_times(group(Characteristics(5.0, 1000.0), 4.0), 2.0))


def test_a_semi_join_and_an_anti_join_share_the_counted_rows():
    pairs = Characteristics(30.0, 500.0)
    kept = [semi_join(STREAM, pairs, 4.0, 0.25, anti=anti).rate for anti in (False, True)]
    counted = group(unite([STREAM, pairs]), 4.0).rate
    assert sum(kept) == pytest.approx(counted)
    assert kept[1] == pytest.approx(3 * kept[0])


def _times(found, factor):
    return found.distance * factor, found.length


@pytest.mark.parametrize(("times", "instants"), [(0.0, 0.0), (1.0, 1.0), (2.0, 1.9), (1e9, 10.0)])
def test_distinct_instants(times, instants):
    assert count_instants(10.0, 1.0, times) == pytest.approx(instants)


def test_distinct_instants_of_a_single_one():
    assert count_instants(1.0, 1.0, 5.0) == count_instants(0.5, 1.0, 5.0) == 1.0
    assert count_instants(inf, 1.0, 5.0) == 5.0


def test_windows_of_a_stream_without_rows_have_none():
    nothing = Characteristics(inf, 1.0)
    assert window_rows(nothing, 7.0) == window_rows_by_group(nothing, 7.0, 3.0) == nothing
    assert nothing.valid_rows == 0.0
