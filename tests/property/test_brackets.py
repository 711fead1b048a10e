"""Omission against its definition: what is kept is what is extreme in some window, whatever the order and the cuts."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from reference.brackets import in_order, kept, optimum

from tidegate.edge import Brackets, KeyedThresholdFilter, ThresholdFilter, sides
from tidegate.physical.threshold_alert.kernels.brackets import find_bracketed, find_duplicates, order_by_group_and_time
from tidegate.physical.threshold_alert.kernels.retention import TaggedElements

SHAPES = {"quasiconvex": (True, True), "rising": (True, False), "falling": (False, True)}

numbers = st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
values = numbers | numbers | st.sampled_from([-0.0, math.nan, math.inf, -math.inf])
elements = st.lists(st.tuples(st.integers(0, 15), values), max_size=18)
windows = st.integers(1, 5)
shapes = st.sampled_from(list(SHAPES))
boundaries = st.sampled_from(["closed", "open"])
randoms = st.randoms(use_true_random=False)


def columns(pairs):
    times, numbers = [t for t, _ in pairs], [v for _, v in pairs]
    return np.array(times, np.int64), np.array(numbers, np.float64)


def disorder(pairs, random: Random):
    """The elements in an order that is somewhere between that of time and none."""
    lateness = random.choice([0, 0, 2, 5, 100])
    return sorted(pairs, key=lambda e: e[0] + random.uniform(0, lateness))


def cut(pairs, random: Random):
    """The elements in parts, some of them empty."""
    some = sorted(random.randrange(len(pairs) + 1) for _ in range(random.randrange(6)))
    places = random.choice([some, range(len(pairs))])
    return [pairs[i:j] for i, j in zip([0, *places], [*places, len(pairs)], strict=True)]


def wanted(window, shape, boundary):
    above, below = SHAPES[shape]
    return {"window": window, "strict": boundary == "open", "above": above, "below": below}


@given(st.lists(elements, max_size=3), windows, shapes, boundaries, randoms)
def test_a_row_is_bracketed_unless_it_is_extreme_in_some_window_of_its_group(streams, window, shape, boundary, random):
    settings = wanted(window, shape, boundary)
    rows = [(group, t, v) for group, stream in enumerate(streams) for t, v in stream]
    random.shuffle(rows)
    rows.sort(key=lambda row: row[:2])
    found = find_bracketed(
        np.array([row[0] for row in rows], np.int64), *columns([row[1:] for row in rows]), **settings
    )
    for group in range(len(streams)):
        members = [i for i, row in enumerate(rows) if row[0] == group]
        expected = kept([rows[i][1:] for i in members], **settings)
        assert [not found[i] for i in members] == [j in expected for j in range(len(members))]


@given(elements, windows, shapes, boundaries, randoms)
def test_the_store_keeps_the_optimum_after_every_batch_in_any_order(stream, window, shape, boundary, random):
    brackets = Brackets(sides(window, shape, boundary))
    seen: list[tuple[int, float]] = []
    for part in cut(disorder(stream, random), random):
        time, value = columns(part)
        new = TaggedElements(time, value, np.arange(len(seen), len(seen) + len(part)))
        seen += part
        brackets.absorb(new)
        held = brackets.elements
        assert held.time.tolist() == sorted(held.time.tolist())
        assert len(held.time) == len(in_order(zip(held.time, held.value, strict=True)))
        assert in_order(zip(held.time, held.value, strict=True)) == optimum(seen, **wanted(window, shape, boundary))
        assert in_order(seen[i] for i in held.tag) == in_order(zip(held.time, held.value, strict=True))


@given(elements, windows, shapes, boundaries, randoms)
def test_the_store_names_all_that_it_omits(stream, window, shape, boundary, random):
    brackets, omitted, count = Brackets(sides(window, shape, boundary)), [], 0
    for part in cut(disorder(stream, random), random):
        time, value = columns(part)
        omitted += brackets.absorb(TaggedElements(time, value, np.arange(count, count + len(part)))).tolist()
        count += len(part)
    assert sorted([*omitted, *brackets.elements.tag.tolist()]) == list(range(len(stream)))


@given(elements, windows, shapes, boundaries, randoms, st.integers(0, 6))
def test_readings_in_order_that_are_held_long_enough_are_sent_if_they_are_in_the_optimum(
    stream, window, shape, boundary, random, longer
):
    stream.sort(key=lambda e: e[0])
    sent = filtered(stream, random, ThresholdFilter(window, shape=shape, boundary=boundary, hold=window + longer))
    assert len(sent) == len(in_order(sent))
    assert in_order(sent) == optimum(stream, **wanted(window, shape, boundary))
    assert [t for t, _ in sent] == sorted(t for t, _ in sent)


@given(elements, windows, shapes, boundaries, randoms, st.integers(0, 5))
def test_readings_that_are_late_by_no_more_than_the_rest_of_the_hold_are_sent_if_they_are_in_the_optimum(
    stream, window, shape, boundary, random, lateness
):
    stream.sort(key=lambda e: e[0] + random.uniform(0, lateness))
    sent = filtered(stream, random, ThresholdFilter(window, shape=shape, boundary=boundary, hold=window + lateness))
    assert in_order(sent) == optimum(stream, **wanted(window, shape, boundary))


@given(elements, windows, shapes, boundaries, randoms, st.integers(0, 8))
def test_whatever_the_order_and_the_hold_at_least_the_optimum_is_sent_and_nothing_else_than_what_came(
    stream, window, shape, boundary, random, hold
):
    stream = disorder(stream, random)
    sent = in_order(filtered(stream, random, ThresholdFilter(window, shape=shape, boundary=boundary, hold=hold)))
    best = optimum(stream, **wanted(window, shape, boundary))
    assert [e for e in best if e not in sent] == []
    assert [e for e in sent if e not in in_order(stream)] == []
    # What is sent says as much as all of it.
    plain = [(t, math.nan if v is None else v) for t, v in sent]
    assert optimum(plain, **wanted(window, shape, boundary)) == best


def filtered(stream, random: Random, outbox: ThresholdFilter):
    """All that is sent, of a stream that is offered one by one and in parts."""
    sent = []
    for part in cut(stream, random):
        if random.random() < 0.5:
            sent += [pair for t, v in part for pair in outbox.offer(t, v)]
        else:
            sent += zip(*(column.tolist() for column in outbox.offer_many(*columns(part))), strict=True)
    return sent + outbox.flush()


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), values), max_size=25), windows, shapes)
def test_of_every_key_in_order_the_optimum_is_sent_also_if_it_falls_silent(rows, window, shape):
    rows.sort(key=lambda row: row[1])
    outbox = KeyedThresholdFilter[Any](window, shape=shape)
    sent = [row for key, t, v in rows for row in outbox.offer(key, t, v, (key, t, v))] + outbox.flush()
    assert outbox._rows == {}
    for key in "abc":
        stream = [row[1:] for row in rows if row[0] == key]
        assert in_order(row[1:] for row in sent if row[0] == key) == optimum(stream, **wanted(window, shape, "closed"))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), values), max_size=25), windows, st.integers(0, 9))
def test_of_every_key_in_any_order_at_least_the_optimum_is_sent(rows, window, hold):
    outbox = KeyedThresholdFilter[Any](window, hold=hold)
    sent = [row for key, t, v in rows for row in outbox.offer(key, t, v, (key, t, v))] + outbox.flush()
    for key in "abc":
        stream = [row[1:] for row in rows if row[0] == key]
        passed = in_order(row[1:] for row in sent if row[0] == key)
        assert [e for e in optimum(stream, **wanted(window, "quasiconvex", "closed")) if e not in passed] == []


FUNCTIONS = [  # of three numbers: rising, falling or quasiconvex in the first
    ("rising", lambda x, y, z: x + y - z),
    ("rising", lambda x, y, z: min(x, 3.0) * (1.0 + y) + z),
    ("falling", lambda x, y, z: y - x * (z + 1.0)),
    ("quasiconvex", lambda x, y, z: abs(x - y) + z),
    ("quasiconvex", lambda x, y, z: max(x - 2.0 * y, z - x)),
]
few = st.lists(st.tuples(st.integers(0, 10), numbers), max_size=8)


@given(few, few, st.integers(1, 4), boundaries, st.sampled_from(FUNCTIONS), st.integers(0, 7), randoms)
def test_with_two_streams_what_is_sent_alarms_with_every_element_of_the_other_that_all_would_alarm_with(
    stream, other, distance, boundary, function, threshold, random
):
    shape, f = function
    outbox = ThresholdFilter(2 * distance, shape=shape, boundary=boundary, hold=random.randrange(9))
    sent = filtered(disorder(stream, random), random, outbox)

    def alarming(readings):
        return {
            (t, y)
            for t, y in other
            for u, x in readings
            if abs(t - u) <= distance - (boundary == "open") and f(x, y, y) > threshold
        }

    assert alarming(sent) == alarming(stream)


@given(few, few, few, st.integers(1, 4), boundaries, st.sampled_from(FUNCTIONS), st.integers(0, 7), randoms)
def test_with_three_streams_what_is_sent_alarms_with_all_pairs_of_the_others_that_all_would_alarm_with(
    stream, second, third, distance, boundary, function, threshold, random
):
    shape, f = function
    outbox = ThresholdFilter(distance, shape=shape, boundary=boundary, hold=random.randrange(9))
    sent = filtered(disorder(stream, random), random, outbox)

    def alarming(readings):
        return {
            (y, z)
            for y in second
            for z in third
            for x in readings
            if max(x[0], y[0], z[0]) - min(x[0], y[0], z[0]) <= distance - (boundary == "open")
            and f(x[1], y[1], z[1]) > threshold
        }

    assert alarming(sent) == alarming(stream)


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), values, values), max_size=60),
    st.booleans(),
)
def test_of_rows_that_are_equal_all_but_the_first_are_duplicates(rows, crowded):
    rows = sorted(rows * (12 if crowded else 1), key=lambda row: row[:2])
    group, time = (np.array([row[i] for row in rows], np.int64) for i in (0, 1))
    found = find_duplicates(group, time, [np.array([row[i] for row in rows], np.float64) for i in (2, 3)])
    seen = set()
    for row, duplicate in zip(rows, found, strict=True):
        plain = tuple("nan" if math.isnan(cell) else cell + 0.0 for cell in row)
        assert duplicate == (plain in seen)
        seen.add(plain)


@given(st.lists(st.tuples(st.sampled_from([0, 1, 2, -1, 10**6]), st.integers(0, 5)), max_size=20), st.booleans())
def test_rows_are_sorted_by_group_and_time_and_else_as_they_came(rows, by_time):
    rows = sorted(rows, key=lambda row: row[1]) if by_time else rows
    order = order_by_group_and_time(*(np.array([row[i] for row in rows], np.int64) for i in (0, 1)))
    expected = sorted(range(len(rows)), key=lambda i: rows[i])
    assert (list(range(len(rows))) if order is None else order.tolist()) == expected
    assert (order is None) == (expected == list(range(len(rows))))
