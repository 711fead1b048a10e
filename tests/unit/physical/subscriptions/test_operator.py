"""Range thresholds as an operator: what a step writes, that it can be repeated, and totals as large as they can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.subscriptions import MOST, Dimension, SubscriptionColumns, TotalCompletion
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.operator import NO_STATE, Chunks, Step
from tidegate.physical.subscriptions.operator import SubscriptionsOperator
from tidegate.runtime.state import deserialize, serialize
from tidegate.schema import Schema, Type

ELEMENTS = Schema.of(k=Type.INT, x=Type.INT, w=Type.BIGINT)
ROWS = Schema.of(rk=Type.INT, id=Type.BIGINT, low=Type.INT, high=Type.INT, n=Type.BIGINT)
SUBSCRIBED = SubscriptionColumns("id", "n", (Dimension("x", "low", "high"),))
OPERATOR = SubscriptionsOperator(ELEMENTS, ROWS, (("k",), ("rk",)), TotalCompletion("watch", "w"), SUBSCRIBED)
SLIDING = replace(OPERATOR, waiting=TotalCompletion("watch", "w", within=1_000))


def batch(schema: Schema, time: int, *columns: object) -> Batch:
    arrays = [pa.array(column, field.type.arrow) for column, field in zip(columns, schema, strict=True)]
    start = np.full(len(arrays[0]), time, np.int64)
    return Batch(start, start + 1, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))


def subscriptions(time: int, first: int, count: int, threshold: int = 10**9) -> Batch:
    random = np.random.default_rng(first)
    low, keys = random.integers(0, 90_000, count), random.integers(0, 10, count)
    thresholds = np.full(count, threshold)
    return batch(ROWS, time, keys, np.arange(first, first + count), low, low + 10_000, thresholds)


def elements(time: int, count: int) -> Batch:
    random = np.random.default_rng(time)
    keys, weights = random.integers(0, 10, count), random.integers(1, 100, count)
    return batch(ELEMENTS, time, keys, random.integers(0, 100_000, count), weights)


WITH_ENDED = ROWS + Schema.of(ended=Type.BOOLEAN)
NOTHING = Batch.empty(ELEMENTS)
NOBODY, NOBODY_ENDED = Batch.empty(ROWS), Batch.empty(WITH_ENDED)


def stepped(operator: SubscriptionsOperator, state: Chunks, some: Batch, rows: Batch, mark: int) -> Step:
    return operator.step(state, [some, rows], [mark, mark])


def written(before: Chunks, after: Chunks) -> int:
    """Bytes of the chunks that are not the ones there were."""
    return sum(chunk.nbytes for name, chunk in after.items() if before.get(name) is not chunk)


@pytest.fixture(scope="module")
def many() -> Chunks:
    """The state with a hundred thousand subscriptions, and some elements."""
    state = stepped(OPERATOR, NO_STATE, NOTHING, subscriptions(0, 0, 100_000), 1).state
    return stepped(OPERATOR, state, elements(1, 1_000), NOBODY, 2).state


def test_a_subscription_takes_few_bytes(many: Chunks) -> None:
    assert sum(chunk.nbytes for chunk in many.values()) / 100_000 < 200


def test_registering_a_thousand_does_not_rewrite_a_hundred_thousand(many: Chunks) -> None:
    after = stepped(OPERATOR, many, NOTHING, subscriptions(2, 100_000, 1_000), 3).state
    assert written(many, after) < 300_000


def test_a_few_elements_do_not_rewrite_all_totals(many: Chunks) -> None:
    state = many
    for time in range(2, 6):
        after = stepped(OPERATOR, state, elements(time, 500), NOBODY, time + 1).state
        assert written(state, after) < 300_000
        state = after


def test_terminating_a_few_does_not_rewrite_the_others() -> None:
    operator = replace(OPERATOR, subscribed=replace(SUBSCRIBED, ended="ended"), subscriptions=WITH_ENDED)
    rows = subscriptions(0, 0, 100_000)
    state = stepped(operator, NO_STATE, NOTHING, _ended(rows, ended=False), 1).state
    after = stepped(operator, state, NOTHING, _ended(subscriptions(1, 0, 100_000).take(np.arange(50)), ended=True), 2)
    assert after.dead.num_rows == 0
    assert written(state, after.state) < 300_000


def _ended(rows: Batch, *, ended: bool) -> Batch:
    column = pa.array(np.full(len(rows), ended))
    return rows.with_columns(pa.RecordBatch.from_arrays([*rows.columns.columns, column], schema=WITH_ENDED.arrow))


def test_an_id_may_end_and_begin_anew_at_one_instant() -> None:
    operator = replace(OPERATOR, subscribed=replace(SUBSCRIBED, ended="ended"), subscriptions=WITH_ENDED)
    rows = [batch(ROWS, time, [0], [7], [0], [9], [10]) for time in (0, 5)]
    both = concat([_ended(rows[1], ended=False), _ended(rows[1], ended=True)])
    state = stepped(operator, NO_STATE, NOTHING, _ended(rows[0], ended=False), 1).state
    state = stepped(operator, state, batch(ELEMENTS, 2, [0], [3], [6]), NOBODY_ENDED, 3).state
    step = stepped(operator, state, NOTHING, both, 6)
    assert step.dead.num_rows == 0
    after = stepped(operator, step.state, batch(ELEMENTS, 7, [0, 0], [3, 4], [6, 6]), NOBODY_ENDED, 8)
    assert [row["alert:total"] for row in after.output.columns.to_pylist()] == [12]


@pytest.mark.parametrize("operator", [OPERATOR, SLIDING], ids=["for ever", "within a time"])
def test_a_step_can_be_repeated_from_the_same_state(operator: SubscriptionsOperator) -> None:
    state = stepped(operator, NO_STATE, NOTHING, subscriptions(0, 0, 500, threshold=3_000), 1).state
    for time in range(1, 8):
        first = stepped(operator, state, elements(time, 700), NOBODY, time + 1)
        again = stepped(operator, state, elements(time, 700), NOBODY, time + 1)
        loaded = {name: deserialize(serialize(chunk)) for name, chunk in state.items()}
        from_files = stepped(operator, loaded, elements(time, 700), NOBODY, time + 1)
        assert sorted(first.output.columns.to_pylist(), key=str) == sorted(again.output.columns.to_pylist(), key=str)
        assert sorted(first.output.columns.to_pylist(), key=str) == sorted(
            from_files.output.columns.to_pylist(), key=str
        )
        state = again.state
    assert len(first.output)


def test_a_step_without_news_answers_the_state_it_was_given(many: Chunks) -> None:
    assert stepped(OPERATOR, many, NOTHING, NOBODY, 2).state is many


def test_weights_may_be_so_large_that_totals_must_begin_anew() -> None:
    """The elements together weigh more than a 64-bit integer can be."""
    heavy = [MOST, MOST, MOST - 1, MOST, MOST, 5]
    rows = batch(ROWS, 0, [0, 0], [1, 2], [0, 10], [5, 20], [MOST, 3])
    some = batch(ELEMENTS, 1, [0] * 7, [7, 7, 1, 7, 7, 12, 7], [*heavy[:2], MOST - 1, *heavy[3:5], 4, MOST])
    last = batch(ELEMENTS, 2, [0, 0], [1, 7], [1, MOST])
    state = stepped(OPERATOR, NO_STATE, NOTHING, rows, 1).state
    first = stepped(OPERATOR, state, some, NOBODY, 2)
    assert [(row["id"], row["alert:total"]) for row in first.output.columns.to_pylist()] == [(2, 4)]
    second = stepped(OPERATOR, first.state, last, NOBODY, 3)
    assert [(row["id"], row["alert:total"]) for row in second.output.columns.to_pylist()] == [(1, MOST)]


def test_what_is_beside_a_range_may_weigh_more_than_an_integer_can_be() -> None:
    everybody = batch(ROWS, 0, [0] * 300, np.arange(300), [0] * 300, [10] * 300, [MOST] * 300)
    state = stepped(OPERATOR, NO_STATE, NOTHING, everybody, 1).state
    for time in range(1, 5):
        step = stepped(OPERATOR, state, batch(ELEMENTS, time, [0] * 20, [11] * 20, [MOST] * 20), NOBODY, time + 1)
        assert len(step.output) == 0
        state = step.state
    last = stepped(OPERATOR, state, batch(ELEMENTS, 5, [0] * 9, [11] * 8 + [5], [MOST] * 9), NOBODY, 6)
    assert [row["alert:total"] for row in last.output.columns.to_pylist()] == [MOST] * 300


def test_a_tracker_that_is_read_from_its_state_goes_on_as_one_that_stayed_in_memory() -> None:
    rows = subscriptions(0, 0, 2_000, threshold=4_000)
    states = [stepped(OPERATOR, NO_STATE, NOTHING, rows, 1).state] * 2
    outputs: list[list[str]] = [[], []]
    for time in range(1, 5):
        loaded = {name: deserialize(serialize(chunk)) for name, chunk in states[1].items()}
        for which, state in enumerate([states[0], loaded]):
            step = stepped(OPERATOR, state, elements(time, 3_000), NOBODY, time + 1)
            states[which] = step.state
            outputs[which] += [str(row) for row in step.output.columns.to_pylist()]
    assert sorted(outputs[0]) == sorted(outputs[1])
    assert len(outputs[0]) > 1_000
