"""Totals of groups against plain Python: at each element, all that counts is added up anew."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.physical.subscriptions.kernels.totals import GroupedElements, Totals, add_up, drop_expired

GROUPS = 3
rows = st.lists(st.tuples(st.integers(0, GROUPS - 1), st.sampled_from([0, 0, 1, 2, 5]), st.integers(1, 3)), max_size=12)
steps = st.lists(st.tuples(rows, st.booleans()), max_size=5)
withins = st.none() | st.integers(1, 6)


def told(batches, threshold, within, repeats):
    """By batch, the rows that complete a total, and the totals; a batch has (group, time, weight)."""
    seen: dict[int, list[tuple[int, int]] | None] = {}
    found = []
    for batch in batches:
        here = []
        for row, (group, time, weight) in enumerate(batch):
            counted = seen.setdefault(group, [])
            if counted is None:
                continue
            counted.append((time, weight))
            total = sum(w for t, w in counted if within is None or t > time - within)
            if total >= threshold:
                here.append((row, total))
                seen[group] = [] if repeats else None
        found.append(here)
    return found


def timed(steps):
    """The rows of the steps in order of group, with times that never go back."""
    now, batches = 0, []
    for rows, _ in steps:
        batch = []
        for group, gap, weight in rows:
            now += gap
            batch.append((group, now, weight))
        batches.append(sorted(batch, key=lambda row: row[0]))
    return batches


def weighed(batch):
    return GroupedElements(*(np.array([row[part] for row in batch], np.int64) for part in range(3)))


@given(steps, st.integers(1, 8), withins, st.booleans())
def test_elements_complete_totals_as_defined_whatever_the_cuts(steps, threshold, within, repeats):
    batches = timed(steps)
    known, found, now = Totals.empty(GROUPS), [], 0
    for batch, (_, forgets) in zip(batches, steps, strict=True):
        before = [column.copy() for column in (*known[:2], *known.kept)]
        after, completions = add_up(known, weighed(batch), threshold, within=within, repeats=repeats)
        found.append(list(zip(completions.row.tolist(), completions.total.tolist(), strict=True)))
        assert all((a == b).all() for a, b in zip(before, (*known[:2], *known.kept), strict=True))
        known, now = after, max([now, *(time for _, time, _ in batch)])
        if forgets and within is not None:
            known = drop_expired(known, now - within)
        check_kept(known, within, repeats)
    assert found == told(batches, threshold, within, repeats)


def check_kept(known, within, repeats):
    assert (np.diff(known.kept.group) >= 0).all()
    assert not known.kept.group[known.done[known.kept.group]].size
    assert not (repeats and known.done.any())
    if within is None:
        assert not len(known.kept.group)
        return
    sums = np.zeros(GROUPS, np.int64)
    np.add.at(sums, known.kept.group, known.kept.weight)
    assert (sums == known.total).all()
    for group in range(GROUPS):
        times = known.kept.time[known.kept.group == group]
        assert not len(times) or times[-1] - times[0] < within


def test_a_total_beyond_all_integers_is_the_greatest_one():
    elements = weighed([(0, 1, 2**62), (0, 2, 2**62), (0, 3, 7)])
    for within in (None, 10):
        _, completions = add_up(Totals.empty(1), elements, 2**63 - 1, within=within)
        assert (completions.row.tolist(), completions.total.tolist()) == ([1], [2**63 - 1])


def test_elements_at_the_edge_of_the_time_do_not_count():
    elements = weighed([(0, 0, 1), (0, 9, 1), (0, 10, 1), (0, 18, 1)])
    _, completions = add_up(Totals.empty(1), elements, 3, within=10)
    assert (completions.row.tolist(), completions.total.tolist()) == ([3], [3])
