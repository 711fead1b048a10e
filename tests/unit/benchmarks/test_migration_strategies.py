"""Where strategies of plan migration fail: Example 28.1 and the errata of chapter 29."""

from __future__ import annotations

import pytest

from benchmarks.baselines.migration import (
    COUNTS,
    DISTINCT_JOIN,
    JOINED,
    Counterexample,
    genmig,
    join,
    parallel_track,
    reference_point,
    wrong_instants,
)

INSTANTS = range(-2, 180)


def test_example_28_1_has_the_elements_of_its_text():
    flagged = [[each._replace(old=each.start < 40) for each in some] for some in DISTINCT_JOIN.inputs]
    joined = [(each.start, each.end, each.old) for each in join(*flagged)]
    assert joined == [(20, 111, True), (50, 121, True), (70, 111, True), (70, 151, False)]
    result = [(each.start, each.end) for each in DISTINCT_JOIN.answer()]
    assert result == [(20, 111), (111, 121), (121, 151)]


def test_parallel_track_returns_a_row_twice_in_example_28_1():
    found = parallel_track(DISTINCT_JOIN.old_box, DISTINCT_JOIN.new_box, DISTINCT_JOIN.inputs, DISTINCT_JOIN.begin)
    assert ("a", 111, 121, True) in found
    assert ("a", 70, 151, False) in found
    wrong = wrong_instants(found, DISTINCT_JOIN.answer(), INSTANTS)
    assert set(range(111, 121)) <= set(wrong)


def test_the_reference_point_counts_twice():
    found = reference_point(COUNTS.old_box, COUNTS.new_box, COUNTS.inputs, COUNTS.split)
    assert (1, 10, 15, False) in found
    assert (2, 12, 15, False) in found
    assert wrong_instants(found, COUNTS.answer(), INSTANTS) == [12, 13, 14]


@pytest.mark.parametrize("example", [DISTINCT_JOIN, COUNTS, JOINED], ids=["distinct", "count", "join"])
def test_genmig_is_right(example: Counterexample):
    found = genmig(example.old_box, example.new_box, example.inputs, example.split)
    assert wrong_instants(found, example.answer(), INSTANTS) == []


def test_all_are_right_where_joins_change_their_order():
    boxes = JOINED.old_box, JOINED.new_box, JOINED.inputs
    assert JOINED.answer()
    assert wrong_instants(parallel_track(*boxes, JOINED.begin), JOINED.answer(), INSTANTS) == []
    assert wrong_instants(reference_point(*boxes, JOINED.split), JOINED.answer(), INSTANTS) == []


def test_parallel_track_counts_old_and_new_elements_apart():
    found = parallel_track(COUNTS.old_box, COUNTS.new_box, COUNTS.inputs, COUNTS.begin)
    assert wrong_instants(found, COUNTS.answer(), INSTANTS) == [5, 6, 7, 8, 9]
