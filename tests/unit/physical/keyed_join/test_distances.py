"""Which distance is counted on, from what was seen step by step, and how far is kept because of it."""

from __future__ import annotations

from dataclasses import replace

from support.recorded import recorded

from tidegate.algebra.constraints import Monitoring
from tidegate.physical.keyed_join.distances import (
    MOST_CHANGES,
    STEPS,
    DistanceTracker,
    distance_to_keep,
    update_tracker,
)

FEW = Monitoring(events=5, window=12)


def counted_on(greatest, events=5, span=10**6, settings=FEW):
    """What is counted on after each of some steps, in which so much was seen; None: nothing was."""
    state, used = DistanceTracker(), []
    for step, distance in enumerate(greatest):
        state = update_tracker(state, step, events if distance is not None else 0, distance or 0, span, settings)
        assert recorded(state) == state
        used.append(state.used)
    return used


def test_nothing_is_counted_on_before_enough_steps_have_passed():
    assert counted_on([50] * (STEPS + 1)) == [None] * (STEPS - 1) + [52, 52]


def test_nothing_is_counted_on_before_enough_events_have_been_seen():
    assert counted_on([50] * 8, events=0) == [None] * 8
    assert counted_on([50] * 8, events=0, settings=replace(FEW, events=0)) == [None] * 8


def test_steps_before_the_first_event_do_not_count():
    assert counted_on([None] * 9 + [50] * 5)[9:] == [None] * 4 + [52]


def test_nothing_is_counted_on_before_the_worst_could_have_been_exceeded():
    assert counted_on([50] * 9, span=12) == [None] * 9
    assert counted_on([50] * 10, span=12)[-1] == 52


def test_what_is_counted_on_falls_when_the_worst_is_forgotten():
    assert counted_on([100] + [50] * 6) == [None] * 4 + [104, 104, 52]


def test_nothing_is_counted_on_for_a_while_after_it_was_exceeded():
    assert counted_on([50] * 5 + [53] + [50] * 5)[4:] == [52] + [None] * 5 + [52]


def test_what_is_exceeded_within_what_is_kept_is_counted_on_at_once():
    state = DistanceTracker()
    for step in range(5):
        state = update_tracker(state, step, 5, 50, 10**6, FEW)
    risen = update_tracker(state, 5, 5, 70, 10**6, FEW, far=72)
    assert (risen.used, risen.has_risen, risen.is_exceeded) == (73, True, False)
    assert distance_to_keep(73, 1, FEW, risen=True) == 146
    for step in range(6, 12):
        risen = update_tracker(risen, step, 5, 50, 10**6, FEW, far=146)
    assert (risen.used, risen.has_risen) == (52, False)
    lost = update_tracker(state, 5, 5, 73, 10**6, FEW, far=72)
    assert (lost.used, lost.is_exceeded) == (None, True)


def test_without_events_nothing_is_lowered():
    assert counted_on([50] * 5 + [None] * 20)[4:] == [52] * 21


def test_many_small_steps_are_remembered_in_few_blocks_and_changes():
    state = DistanceTracker()
    for step in range(3000):
        state = update_tracker(state, step, 1, 10 ** (step // 3 % 5), 1000, Monitoring())
    assert len(state.blocks) < 60
    assert len(state.changes) <= MOST_CHANGES


def test_more_is_kept_than_is_counted_on_even_where_that_is_nothing():
    assert distance_to_keep(0, 10, Monitoring()) == 20
    assert distance_to_keep(1000, 10, Monitoring()) == 1200
