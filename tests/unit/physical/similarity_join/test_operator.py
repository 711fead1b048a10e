"""The operator of similarity joins: what it leaves out, what it says, and what is written of its state."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.recorded import recorded
from support.warmed import recorded_steps

from tidegate.algebra.similarity_join import (
    NO_SHEDDING,
    SECOND,
    Measure,
    Policy,
    Shedding,
    SimilarityCondition,
    Utility,
)
from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Column, Literal
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, BucketAware, Forgetful, NeedsWarmUp, Operator, Steered
from tidegate.physical.similarity_join.coding import coding_of
from tidegate.physical.similarity_join.kernels.conditions import Anything, Overlap
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.physical.similarity_join.utility_classes import utility_classes_of
from tidegate.runtime.state import serialize
from tidegate.schema import Field, Schema, Type
from tidegate.time import FOREVER

OVERLAP = SimilarityCondition(Measure.OVERLAP, "l.x", "r.x", 2)


def schema_of(prefix, kind=Type.ARRAY_INT):
    return Schema(
        (Field(f"{prefix}.id", Type.BIGINT), Field(f"{prefix}.type", Type.STRING), Field(f"{prefix}.x", kind))
    )


LEFT, RIGHT = schema_of("l"), schema_of("r")


def join(shedding=NO_SHEDDING, likeness=OVERLAP, predicate=TRUE):
    return SimilarityJoinOperator(LEFT, RIGHT, likeness, predicate, shedding, SECOND)


def crowd(random, schema, second, count, types=("a",), window=5):
    """Elements of a second: sets of three of ten items."""
    start = second * SECOND + np.sort(random.integers(0, SECOND, count))
    sets = random.random((count, 10)).argsort(axis=1)[:, :3]
    columns = [
        pa.array(second * count + np.arange(count)),
        pa.array(random.choice(types, count)),
        pa.array(list(sets.astype(np.int32)), pa.list_(pa.int32())),
    ]
    return Batch(start, start + window * SECOND, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def runs(operator, seconds=20, count=40, buckets=1, **how):
    """The outputs and records of steps of a second each."""
    random = np.random.default_rng(1)
    states, record, outputs, records = [NO_STATE] * buckets, None, [], []
    for second in range(seconds):
        inputs = [crowd(random, schema, second, count, **how) for schema in (LEFT, RIGHT)]
        own = [
            operator.for_bucket(bucket, buckets).with_directive(record and record.directive, {})
            for bucket in range(buckets)
        ]
        steps = [each.step(state, inputs, [second * SECOND] * 2) for each, state in zip(own, states, strict=True)]
        states = [step.state for step in steps]
        reports = [step.report for step in steps if step.report is not None]
        record = recorded(operator.decide(record, reports, 0.01))
        outputs.append([step.output for step in steps])
        records.append(record)
    return outputs, records


def test_it_is_all_that_a_runtime_may_ask_for():
    for protocol in (Operator, Steered, BucketAware, NeedsWarmUp, Forgetful):
        if protocol is not Operator:
            assert isinstance(join(), protocol)
    assert join().partition_keys == (None, None)
    assert join().schema == LEFT + RIGHT


# --- pace -------------------------------------------------------------------------------------------


# --- what is left out -------------------------------------------------------------------------------


def test_nothing_is_told_of_a_join_that_leaves_nothing_out():
    outputs, records = runs(join(), seconds=3)
    assert records == [None] * 3
    assert sum(map(len, outputs[-1])) > 0


@pytest.mark.parametrize("buckets", [1, 3])
def test_what_is_told_adds_up(buckets):
    # By comparing pair by pair, units are comparisons.
    alike = resolve(">=", (resolve("overlap", columns(), NOWHERE), Literal(2, Type.BIGINT)), NOWHERE)
    operator = join(Shedding(Policy.ON, budget=6000), None, alike)
    outputs, records = runs(operator, buckets=buckets)
    exact, _ = runs(join(likeness=None, predicate=alike))
    shed = [record.shed[0] for record in records]
    last, overall = shed[-1], shed[-1].overall
    assert (last.step, last.join, last.policy, last.in_step.utility_share) == (20, "overlap(l.x, r.x) >= 2", "on", None)
    assert last.budget == pytest.approx(6000)
    assert [each.in_step.found for each in shed] == [sum(map(len, step)) for step in outputs]
    assert [each.in_step.volume for each in shed][:2] == [40 * 40, pytest.approx(3 * 40 * 40)]
    assert overall.comparisons == sum(each.in_step.comparisons for each in shed)
    assert last.in_step.comparisons == pytest.approx(6000, rel=0.15)
    assert last.in_step.compared_share == pytest.approx(last.in_step.comparisons / last.in_step.volume)
    true = sum(map(len, np.concatenate(outputs))) / sum(map(len, np.concatenate(exact)))
    assert overall.results_share == pytest.approx(true, abs=0.05)
    assert last.history[0][0] == 3
    assert len(last.history) <= 20


def columns():
    return Column("l.x", Type.ARRAY_INT), Column("r.x", Type.ARRAY_INT)


def test_more_useful_elements_are_compared_more():
    utility = Utility((Column("l.type", Type.STRING),), (("gold", 20.0),), 1.0)
    how = {"types": ("gold", "lead", "lead", "lead"), "seconds": 40}
    found, kinds = {}, {}
    for name, worth in (("blind", None), ("aware", utility), ("full", None)):
        budget = 10**9 if name == "full" else 3000
        outputs, records = runs(join(Shedding(Policy.ON, budget=budget, utility=worth)), **how)
        kinds[name] = Counter(t for step in outputs for output in step for t in output.column("l.type").to_pylist())
        found[name] = records[-1].shed[0].overall
    gold = {name: kinds[name]["gold"] / kinds["full"]["gold"] for name in ("blind", "aware")}
    assert gold["aware"] > 1.5 * gold["blind"]
    true = sum(20 * n if t == "gold" else n for t, n in kinds["aware"].items())
    of = sum(20 * n if t == "gold" else n for t, n in kinds["full"].items())
    assert found["aware"].utility_share == pytest.approx(true / of, abs=0.1)
    assert found["blind"].utility_share is None


@pytest.mark.parametrize("buckets", [1, 2])
def test_rows_are_dropped_so_that_the_others_can_be_compared(buckets):
    full = 2 * 60 * 60 * 5  # of a step, windows of five seconds
    alike = resolve(">=", (resolve("overlap", columns(), NOWHERE), Literal(2, Type.BIGINT)), NOWHERE)
    operator = join(Shedding(Policy.DROP, budget=full // 4), None, alike)
    _, records = runs(operator, seconds=40, count=60, buckets=buckets)
    before, after = records[14].shed[0].overall, records[-1].shed[0].overall
    told = {
        name: getattr(after, name) - getattr(before, name)
        for name in ("comparisons", "volume", "dropped", "found", "missed")
    }
    assert told["dropped"] / (25 * 120) == pytest.approx(0.5, abs=0.05)
    assert told["comparisons"] == pytest.approx(25 * full / 4, rel=0.15)
    assert told["volume"] == pytest.approx(25 * full, rel=0.15)
    assert told["found"] / (told["found"] + told["missed"]) == pytest.approx(0.25, abs=0.05)


# --- what elements are ------------------------------------------------------------------------------


def test_kinds_are_the_values_that_have_a_worth_and_the_rest():
    type_ = Column("l.type", Type.STRING)
    kinds = utility_classes_of(Utility((type_,), (("a", 3.0), ("b", 2.0)), 0.5), LEFT, RIGHT)
    batch = pa.RecordBatch.from_pydict({"l.type": ["b", "a", None, "c"]})
    assert kinds.kinds_of_rows(0, batch, 4).tolist() == [1, 0, 2, 2]
    assert kinds.kinds_of_rows(1, batch, 4).tolist() == [0, 0, 0, 0]
    assert kinds.utilities().left.tolist() == [3.0, 2.0, 0.5]
    assert kinds.utilities().right.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (Type.INT, 1, True),
        (Type.INT, 1.0, True),
        (Type.DOUBLE, 1, True),
        (Type.BOOLEAN, True, True),
        (Type.INT, 1.5, False),
        (Type.INT, "1", False),
        (Type.INT, 2**40, False),
        (Type.STRING, 1, False),
    ],
)
def test_a_worth_may_be_given_for_any_value(kind, value, found):
    schema = Schema.of(v=kind)
    kinds = utility_classes_of(Utility((Column("v", kind),), ((value, 1.0),)), schema, RIGHT)
    given = {Type.STRING: "1", Type.BOOLEAN: True}.get(kind, 1)
    batch = pa.RecordBatch.from_arrays([pa.array([given], kind.arrow)], names=["v"])
    assert (kinds.kinds_of_rows(0, batch, 1).tolist() == [0]) is found


def test_utilities_that_are_numbers_are_in_sixteen_classes():
    schema = Schema.of(v=Type.DOUBLE)
    kinds = utility_classes_of(Utility((Column("v", Type.DOUBLE),), otherwise=7.0), schema, RIGHT)
    values = [None, float("nan"), -1.0, 0.0, 1e-9, 0.03, 0.05, 1.0, 3.0, 5.0, 1e9, float("inf")]
    batch = pa.RecordBatch.from_pydict({"v": pa.array(values, pa.float64())})
    found = kinds.kinds_of_rows(0, batch, len(values))
    assert found.tolist() == [0, 0, 0, 1, 2, 2, 3, 6, 6, 7, 15, 15]
    worth = kinds.utilities().left
    assert len(worth) == 16
    assert worth[:2].tolist() == [7.0, 0.0]
    middle = (found >= 3) & (found < 15)
    assert np.all(np.abs(np.log10(np.array(values, float)[middle] / worth[found[middle]])) <= 0.25 + 1e-9)


@pytest.mark.parametrize(("bound", "least"), [(2, 2), (1.5, 2), (-3, 0), (float("inf"), 2**62), (float("nan"), 2**62)])
def test_bounds_are_made_whole(bound, least):
    assert coding_of(replace(OVERLAP, bound=bound), LEFT, RIGHT).condition == Overlap(least)


def test_nothing_is_farther_than_nan():
    numbers = Schema.of(a=Type.DOUBLE)
    assert (
        coding_of(SimilarityCondition(Measure.DISTANCE, "a", "a", float("nan")), numbers, numbers).condition
        == Anything()
    )


# --- words and state --------------------------------------------------------------------------------


def test_words_say_what_is_joined_how_and_what_may_be_left_out():
    assert join(Shedding(Policy.ON, 2 * SECOND)).describe() == (
        "similarity join on overlap(l.x, r.x) >= 2, by prefixes, shedding within 2 seconds"
    )
    alike = resolve(">=", (resolve("overlap", columns(), NOWHERE), Literal(2, Type.BIGINT)), NOWHERE)
    assert join(predicate=alike).describe() == "similarity join on overlap(l.x, r.x) >= 2, by prefixes"
    assert join(Shedding(Policy.DROP, SECOND // 2), None, alike).describe() == (
        "join by comparing all on overlap(l.x, r.x) >= 2, pair by pair, dropping rows within 0.5 seconds"
    )
    left, right = (Schema.of(**{f"{name}.v": Type.INT}) for name in "lr")
    near = SimilarityCondition(Measure.DISTANCE, "l.v", "r.v", 5)
    budget = Shedding(Policy.ON, budget=10_000)
    assert SimilarityJoinOperator(left, right, near, TRUE, budget, SECOND).describe() == (
        "similarity join on abs(l.v - r.v) <= 5, in order, shedding within 10,000 comparisons a step"
    )
    part = join(likeness=SimilarityCondition(Measure.SUBSET, "l.x", "r.x"))
    assert part.describe() == "similarity join on l.x SUBSET OF r.x, by prefixes"


def test_only_slots_that_change_are_written():
    operator, random, state, written = join(), np.random.default_rng(2), NO_STATE, []
    for second in range(30):
        inputs = [crowd(random, schema, second, 100) for schema in (LEFT, RIGHT)]
        after = operator.step(state, inputs, [second * SECOND] * 2).state
        written.append([name for name, chunk in after.items() if state.get(name) is not chunk])
        state = after
    assert all(names == [f"slot0.{n}", f"slot1.{n}", "figures"] for n, names in enumerate(written))
    assert len(state) == 2 * 6 + 1
    assert sum(len(serialize(chunk)) for chunk in state.values()) < 12 * 100 * 100
    over = operator.step(state, [Batch.empty(LEFT), Batch.empty(RIGHT)], [FOREVER] * 2)
    assert list(over.state) == ["figures"]


@pytest.mark.parametrize("likeness", [OVERLAP, None, SimilarityCondition(Measure.PRODUCT, "l.x", "r.x", 1.0)])
def test_warming_up_joins_in_every_way_that_is_compiled(likeness, monkeypatch):
    steps = recorded_steps(monkeypatch, SimilarityJoinOperator)
    kind = Type.MAP_STRING_INT if likeness is not None and likeness.measure is Measure.PRODUCT else Type.ARRAY_INT
    rest = tuple(Field(t.name, t) for t in Type)
    left, right = (Schema((*schema_of(name, kind), *rest)) for name in "lr")
    right = Schema(tuple(replace(f, name=f"r.{f.name}") if f in rest else f for f in right))
    SimilarityJoinOperator(left, right, likeness, TRUE, Shedding(Policy.ON), SECOND).warm_up()
    # Four steps each: all comparisons, some of them, and rows that are dropped.
    assert len(steps) == 12
    assert sum(len(step.output) > 0 for step in steps) > 6
