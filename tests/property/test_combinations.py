"""Combinations near each other in time against all combinations, found some at a time."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from tidegate.physical.threshold_alert.kernels.combinations import (
    CombinationSample,
    Members,
    Nearness,
    SpreadCells,
    count_combinations,
    find_combinations,
)

Element = tuple[int, bool]


@st.composite
def cases(draw: st.DrawFn) -> tuple[Members, Nearness]:
    many, groups = draw(st.integers(2, 4)), draw(st.integers(1, 2))
    element = st.tuples(st.integers(-4, 6), st.booleans())
    parts = [[sorted(draw(st.lists(element, max_size=4))) for _ in range(groups)] for _ in range(many)]
    flat: list[Element] = [e for member in parts for group in member for e in group]
    ends = np.cumsum([0, *(len(group) for member in parts for group in member)])
    bounds = np.array([ends[i * groups : (i + 1) * groups + 1] for i in range(many)])
    distance = st.integers(0, 5)
    most = np.array([[0 if i == j else draw(distance) for j in range(many)] for i in range(many)])
    step, length = draw(st.sampled_from([(1, 9), (1, 9), (2, 3), (3, 5)]))
    time, is_new = np.array([t for t, _ in flat], np.int64), np.array([n for _, n in flat], np.bool_)
    return Members(time, is_new, bounds), Nearness(most, step, length)


def by_definition(members: Members, near: Nearness) -> set[tuple[int, ...]]:
    many, found = len(near.most), set()
    for group in range(members.bounds.shape[1] - 1):
        for rows in product(*(range(b[group], b[group + 1]) for b in members.bounds)):
            times = [int(members.time[row]) for row in rows]
            fits = all(times[i] - times[j] <= near.most[i, j] for i in range(many) for j in range(many))
            held = near.step == 1 or max(times) < min(times) // near.step * near.step + near.length
            if fits and held and any(members.is_new[row] for row in rows):
                found.add(rows)
    return found


@given(cases(), st.integers(1, 5))
@settings(max_examples=examples(120), deadline=None)
def test_each_combination_with_a_new_element_is_found_once(case: tuple[Members, Nearness], enough: int) -> None:
    members, near = case
    start, found = 0, list[tuple[int, ...]]()
    while start < len(members.time):
        rows, start = find_combinations(members, near, start=start, enough=enough)
        found += [tuple(row) for row in rows.tolist()]
    assert len(found) == len(set(found))
    assert set(found) == by_definition(members, near)


@given(cases(), st.integers(1, 4), st.integers(1, 5), st.integers(0, 2**64 - 1), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_so_many_are_chosen_of_each_cell_as_are_wanted(case, many, enough, key, data) -> None:
    members, near = case
    cells, every = SpreadCells(many, int(near.most.max())), sorted(by_definition(members, near))
    spread = np.array([np.ptp(members.time[list(rows)]) for rows in every], np.int64)
    volume = np.bincount(cells.of(spread), minlength=many)
    assert count_combinations(members, near, cells).tolist() == volume.tolist()
    wanted = [data.draw(st.integers(0, most)) for most in volume.tolist()]
    chosen = _chosen(members, near, CombinationSample(cells, volume.copy(), np.array(wanted), key), enough)
    assert set(chosen) <= set(every)
    assert len(chosen) == len(set(chosen))
    of_each = [cells.of(np.array([np.ptp(members.time[list(rows)])]))[0] for rows in chosen]
    assert np.bincount(np.array(of_each, np.int64), minlength=many).tolist() == wanted
    assert _chosen(members, near, CombinationSample(cells, volume.copy(), np.array(wanted), key), 9) == chosen


def _chosen(members: Members, near: Nearness, choice: CombinationSample, enough: int) -> list[tuple[int, ...]]:
    start, found = 0, list[tuple[int, ...]]()
    while start < len(members.time):
        rows, start = find_combinations(members, near, start=start, enough=enough, choice=choice)
        found += [tuple(row) for row in rows.tolist()]
    return found
