"""Brackets on examples that a person can check."""

from __future__ import annotations

import math

import numpy as np
import pytest
from reference.brackets import optimum

from tidegate.edge import Brackets, sides
from tidegate.physical.threshold_alert.kernels.brackets import find_bracketed, find_duplicates, order_by_group_and_time
from tidegate.physical.threshold_alert.kernels.retention import TaggedElements
from tidegate.time import EARLIEST, LATEST

ABOVE = {"above": True, "below": False}
BOTH = {"above": True, "below": True}


def omitted(pairs, *, window=10, strict=False, above=True, below=True, group=None):
    times = np.array([t for t, _ in pairs], np.int64)
    values = np.array([v for _, v in pairs], np.float64)
    groups = np.zeros(len(pairs), np.int64) if group is None else np.array(group, np.int64)
    found = find_bracketed(groups, times, values, window=window, strict=strict, above=above, below=below)
    return [pairs[i] for i in np.flatnonzero(found)]


def absorbed(parts, *, window, shape="quasiconvex", boundary="closed"):
    brackets = Brackets(sides(window, shape, boundary))
    for part in parts:
        times, values = np.array([t for t, _ in part], np.int64), np.array([v for _, v in part], np.float64)
        brackets.absorb(TaggedElements(times, values, np.zeros(len(part), np.int64)))
    return list(zip(brackets.elements.time.tolist(), brackets.elements.value.tolist(), strict=True))


def test_one_between_two_greater_ones_is_above_bracketed_if_they_are_near_enough():
    assert omitted([(0, 2.0), (5, 1.0), (10, 3.0)], **ABOVE) == [(5, 1.0)]
    assert omitted([(0, 2.0), (5, 1.0), (11, 3.0)], **ABOVE) == []


def test_open_windows_ask_for_a_shorter_bracket():
    assert omitted([(0, 2.0), (5, 1.0), (10, 3.0)], strict=True, **ABOVE) == []
    assert omitted([(0, 2.0), (5, 1.0), (9, 3.0)], strict=True, **ABOVE) == [(5, 1.0)]


def test_both_sides_are_asked_for_unless_the_function_is_monotone():
    pairs = [(0, 2.0), (5, 1.0), (10, 3.0)]
    assert omitted(pairs) == []
    assert omitted([(0, 0.0), (1, 2.0), (5, 1.0), (8, 0.0), (10, 3.0)]) == [(5, 1.0)]
    assert omitted([(0, 2.0), (5, 3.0), (10, 1.0)], above=False) == [(5, 3.0)]


def test_a_greater_one_at_the_same_time_brackets_in_either_order():
    assert omitted([(5, 1.0), (5, 2.0)], window=1, **ABOVE) == [(5, 1.0)]
    assert omitted([(5, 2.0), (5, 1.0)], window=1, **ABOVE) == [(5, 1.0)]
    assert omitted([(5, 2.0), (5, 1.0), (5, 0.0)], window=1, strict=True) == [(5, 1.0)]


def test_equal_values_do_not_bracket_but_those_around_them_do():
    assert omitted([(0, 1.0), (5, 1.0), (9, 1.0)], **ABOVE) == []
    assert omitted([(0, 2.0), (3, 1.0), (6, 1.0), (9, 2.0)], **ABOVE) == [(3, 1.0), (6, 1.0)]
    assert omitted([(0, 2.0), (3, 0.0), (6, -0.0), (9, 2.0)], **ABOVE) == [(3, 0.0), (6, -0.0)]


@pytest.mark.parametrize("odd", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_kept_and_bracket_nobody(odd):
    assert omitted([(0, odd), (5, 1.0), (6, odd)], **ABOVE) == []
    assert omitted([(0, 2.0), (5, odd), (5, 1.0), (9, 2.0)], **ABOVE) == [(5, 1.0)]
    assert omitted([(0, odd), (0, odd)], **BOTH) == []


def test_groups_do_not_know_each_other():
    pairs = [(0, 2.0), (5, 1.0), (4, 1.0), (6, 3.0)]
    assert omitted(pairs, group=[0, 0, 1, 1], **ABOVE) == []


def test_times_at_the_ends_of_time_do_not_overflow():
    ends = [(EARLIEST + 1, 2.0), (0, 1.0), (LATEST - 1, 3.0)]
    assert omitted(ends, **ABOVE) == []
    assert omitted(ends, window=LATEST - EARLIEST, **ABOVE) == [(0, 1.0)]
    assert absorbed([ends[:1], ends[1:]], window=2**60, shape="rising") == ends


def test_without_a_side_nothing_is_omitted():
    assert omitted([(0, 2.0), (5, 1.0), (10, 3.0)], above=False, below=False) == []


def test_no_rows_have_no_brackets():
    nothing = np.empty(0, np.int64)
    assert omitted([]) == []
    assert order_by_group_and_time(nothing, nothing) is None
    assert find_duplicates(nothing, nothing, [np.empty(0)]).tolist() == []


def test_an_end_of_a_bracket_can_lie_two_windows_before_what_completes_the_other_bracket():
    # (3, 3.0) has lesser ones at 0 and 5; the greater one at 6 is what it lacks, and 0 is more than 5 before that.
    first, then = [(0, 0.0), (1, 4.0), (3, 3.0), (5, 2.0)], [(6, 4.0)]
    assert absorbed([first, then], window=5) == [(0, 0.0), (1, 4.0), (5, 2.0), (6, 4.0)]
    mirrored = [[(-t, v) for t, v in reversed(part)] for part in (first, then)]
    assert absorbed(mirrored, window=5) == [(-6, 4.0), (-5, 2.0), (-1, 4.0), (0, 0.0)]


def test_a_late_element_pushes_later_ones_aside():
    stream = [(t, float(t % 3)) for t in range(0, 300, 7)]
    late = [(150, 9.0), (152, -9.0)]
    best = optimum(stream + late, window=20, strict=False, above=True, below=True)
    assert absorbed([stream, late], window=20) == best
    assert absorbed([stream, late, late, stream], window=20) == best


def test_many_equal_elements_are_kept_once():
    same = [(5, 1.0)] * 5000
    assert absorbed([same, same], window=10) == [(5, 1.0)]
    assert absorbed([[(5, math.nan)] * 50], window=10)[1:] == []
    found = find_duplicates(np.zeros(5000, np.int64), np.full(5000, 5), [np.ones(5000)])
    assert found.tolist() == [False] + [True] * 4999


def test_rows_in_order_need_no_sorting():
    assert order_by_group_and_time(np.array([0, 0, 1]), np.array([3, 3, 1])) is None
    assert order_by_group_and_time(np.array([0, 1, 0]), np.array([1, 2, 3])).tolist() == [0, 2, 1]
