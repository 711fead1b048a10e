"""Similarity joins against plain joins with the language's condition: any measure, cuts, buckets and budgets."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, replace
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.recorded import recorded

from tidegate.algebra.similarity_join import NO_SHEDDING, Measure, Policy, Shedding, SimilarityCondition, Utility
from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Column, Expression, Literal, conjunction
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.hashing import bucket_of, hash_columns
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.similarity_join import key_coding
from tidegate.physical.similarity_join.control import SimilarityJoinRecord, TallyCounts
from tidegate.physical.similarity_join.operator import SimilarityJoinOperator
from tidegate.physical.similarity_join.slot_width import change_lags
from tidegate.runtime.state import deserialize, serialize
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING, FOREVER

seeds = st.integers(0, 10**9)
WIDTH = 4

DOUBLES = [0.0, -0.0, 0.5, 1.0, -1.0, math.nan]
ITEMS: dict[Type, list[Any]] = {
    Type.INT: [-1, 0, 1, 2, 3],
    Type.BIGINT: [0, 1, 2, 3, 2**62],
    Type.BOOLEAN: [True, False],
    Type.STRING: ["", "a", "b", "ab", "c"],
    Type.DOUBLE: DOUBLES,
    Type.REAL: DOUBLES,
}
ARRAYS = [
    (Type.ARRAY_INT, Type.ARRAY_INT),
    (Type.ARRAY_BIGINT, Type.ARRAY_INT),
    (Type.ARRAY_STRING, Type.ARRAY_STRING),
    (Type.ARRAY_STRING, Type.ARRAY_STRING),
    (Type.ARRAY_DOUBLE, Type.ARRAY_INT),
    (Type.ARRAY_REAL, Type.ARRAY_DOUBLE),
    (Type.ARRAY_BOOLEAN, Type.ARRAY_BOOLEAN),
]
MAPS = [
    (Type.MAP_STRING_DOUBLE, Type.MAP_STRING_DOUBLE),
    (Type.MAP_INT_INT, Type.MAP_BIGINT_DOUBLE),
    (Type.MAP_INT_DOUBLE, Type.MAP_INT_BIGINT),
]
NUMBERS = [(Type.INT, Type.INT), (Type.DOUBLE, Type.DOUBLE), (Type.BIGINT, Type.DOUBLE), (Type.INT, Type.BIGINT)]
MEASURES: dict[Measure | None, tuple[list[tuple[Type, Type]], list[float]]] = {
    Measure.OVERLAP: (ARRAYS, [0, 1, 2, 3]),
    Measure.JACCARD: (ARRAYS, [0.0, 0.25, 1 / 3, 0.5, 1.0]),
    Measure.SUBSET: (ARRAYS, [0]),
    Measure.SUPERSET: (ARRAYS, [0]),
    Measure.PRODUCT: (MAPS, [0.1, 0.3, 0.5, 1.0, 2.5]),
    Measure.DISTANCE: (NUMBERS, [0, 1, 2, 0.5]),
    None: (NUMBERS, [0]),
}


def call(function: str, *arguments: Expression) -> Expression:
    return resolve(function, arguments, NOWHERE)


def number(value) -> Literal:
    return Literal(value, Type.BIGINT if isinstance(value, int) else Type.DOUBLE)


def condition_of(likeness: SimilarityCondition, types) -> Expression:
    """What the language says."""
    a, b = Column("l.x", types[0]), Column("r.x", types[1])
    match likeness.measure:
        case Measure.SUBSET | Measure.SUPERSET:
            return call(likeness.measure.value, a, b)
        case Measure.DISTANCE:
            return call("<=", call("abs", call("-", a, b)), number(likeness.bound))
    return call(">=", call(likeness.measure.value, a, b), number(likeness.bound))


def value_of(random: Random, type_: Type):
    if random.random() < 0.08:
        return None
    if not type_.parts:
        return random.choice([v for v in ITEMS[type_] if not isinstance(v, int) or abs(v) < 100])
    item, *weight = type_.parts
    drawn = [random.choice([*ITEMS[item], *([] if weight else [None])]) for _ in range(random.choice([0, 1, 2, 3, 5]))]
    if not weight:
        return drawn
    weights = [0.1, 0.2, 0.3, 1.0, -1.0, 1e16, -1e16, math.inf] if weight[0] is Type.DOUBLE else [1, 2, -1]
    return [(key, random.choice([*weights, None])) for key in dict.fromkeys(drawn)]


PREDICATES = [
    TRUE,
    TRUE,
    call("<>", Column("l.n", Type.INT), Column("r.n", Type.INT)),
    call(">", call("/", Column("l.v", Type.DOUBLE), Column("r.v", Type.DOUBLE)), number(0.5)),
    call(
        "or",
        call("=", Column("l.s", Type.STRING), Column("r.s", Type.STRING)),
        call("is_null", Column("l.s", Type.STRING)),
    ),
]
REST = {"id": Type.BIGINT, "n": Type.INT, "v": Type.DOUBLE, "s": Type.STRING}


@dataclass(frozen=True)
class Case:
    operator: SimilarityJoinOperator
    plain: JoinOperator
    batches: list
    watermarks: list
    buckets: int


KEYS = [["x"], ["s"], ["x", "s"], ["n", "x"]]


def keyed_case_of(seed: int, shedding: Shedding) -> Case:
    """Only elements with equal keys are compared."""
    random = Random(seed)
    types = random.choice([(each, each) for each in (Type.INT, Type.DOUBLE, Type.BIGINT, Type.ARRAY_INT)])
    left, right = schema_of("l", types[0]), schema_of("r", types[1])
    names, predicate = random.choice(KEYS), random.choice(PREDICATES)
    keys = tuple(f"l.{name}" for name in names), tuple(f"r.{name}" for name in names)
    operator = SimilarityJoinOperator(left, right, None, predicate, shedding, WIDTH, keys)
    batches, watermarks = world_of(random, left, right)
    return Case(operator, JoinOperator(left, right, *keys, predicate), batches, watermarks, random.choice([1, 2, 3]))


def any_case_of(seed: int, measure: Measure | str | None, shedding: Shedding) -> Case:
    if isinstance(measure, str):
        return keyed_case_of(seed, shedding)
    return case_of(seed, measure, shedding)


MEASURES_AND_KEYS = [*MEASURES, "keys"]


def elements_of_bucket(case: Case, batch, bucket: int):
    """What a bucket gets: all elements, or those of its keys."""
    if not case.operator.is_keyed:
        return batch
    parts = []
    for each, names in zip(batch, case.operator.keys, strict=True):
        hashes = hash_columns([each.columns.column(name) for name in names])
        parts.append(each.filter(bucket_of(hashes, case.buckets) == bucket))
    return parts


def schema_of(prefix: str, type_: Type) -> Schema:
    return Schema((*(Field(f"{prefix}.{n}", t) for n, t in REST.items()), Field(f"{prefix}.x", type_)))


def case_of(seed: int, measure: Measure | None, shedding: Shedding = NO_SHEDDING) -> Case:
    random = Random(seed)
    pairs, bounds = MEASURES[measure]
    types = random.choice(pairs)
    left, right = schema_of("l", types[0]), schema_of("r", types[1])
    predicate = random.choice(PREDICATES)
    likeness, plain = None, predicate
    if measure is not None:
        likeness = SimilarityCondition(measure, "l.x", "r.x", random.choice(bounds))
        plain = conjunction((condition_of(likeness, types), *([] if predicate == TRUE else [predicate])))
        exact = measure not in (Measure.PRODUCT, Measure.DISTANCE)
        if not exact or random.random() < 0.3:
            predicate = plain
    operator = SimilarityJoinOperator(left, right, likeness, predicate, shedding, WIDTH)
    batches, watermarks = world_of(random, left, right)
    join = JoinOperator(left, right, (), (), plain)
    return Case(operator, join, batches, watermarks, random.choice([1, 2, 3]))


def world_of(random: Random, left: Schema, right: Schema):
    """Elements in steps, in and out of order as far as watermarks allow, some twice; at the end everything is over."""
    batches, watermarks, marks, ids = [], [], [0, 0], 0
    lateness = random.choice([0, 0, 5])
    for _ in range(random.randint(1, 5)):
        batch = []
        for stream, schema in enumerate((left, right)):
            upto, rows = marks[stream] + random.choice([3, 6, 20]), []
            for _ in range(random.choice([0, 1, 6, 10])):
                start = random.randint(marks[stream], upto)
                end = random.choice([start + random.randint(0, 20)] * 5 + [FOREVER])
                row = {f.name: value_of(random, f.type) for f in schema}
                ids += random.choice([0, 1, 1])
                row[schema.names[0]] = ids
                rows.append((start, end, row))
                rows += [rows[-1]] * random.choice([0, 0, 0, 1])
            random.shuffle(rows)
            batch.append(batch_of(rows, schema))
            marks[stream] = max(marks[stream], upto - lateness)
        batches.append(batch)
        watermarks.append(tuple(marks))
    watermarks[-1] = random.choice([watermarks[-1], (FOREVER, FOREVER)])
    return batches, watermarks


def batch_of(rows, schema: Schema) -> Batch:
    columns = [pa.array([row[f.name] for *_, row in rows], f.type.arrow) for f in schema]
    start, end = (np.array([row[n] for row in rows], np.int64) for n in (0, 1))
    return Batch(start, end, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def rows_of(output: Batch):
    columns = [[str(value) for value in c.to_pylist()] for c in output.columns.columns]
    return list(zip(output.start.tolist(), output.end.tolist(), *columns, strict=True))


def letters_of(dead: pa.RecordBatch):
    return [(d["time"], d["reason"], d["row"]) for d in dead.to_pylist()]


def loaded(state):
    return {name: deserialize(serialize(chunk)) for name, chunk in state.items()}


@dataclass
class Ran:
    steps: list
    """The outputs of each step, one of each bucket."""
    dead: Counter
    records: list
    reports: list

    @property
    def rows(self):
        return Counter(row for step in self.steps for output in step for row in rows_of(output))


def run(case: Case, *, restarts=False, twice=False, widths: Random | None = None) -> Ran:
    """All steps in all buckets, checking what each of them promises; with `widths`, slots have any width."""
    operators = [case.operator.for_bucket(bucket, case.buckets) for bucket in range(case.buckets)]
    states, record, ran = [NO_STATE] * case.buckets, None, Ran([], Counter(), [], [])
    for batch, marks in zip(case.batches, case.watermarks, strict=True):
        outputs: list[Any] = []
        reports: list[Any] = []
        for bucket, operator in enumerate(operators):
            before, directed = states[bucket], operator.with_directive(None if record is None else record.directive, {})
            given_here = elements_of_bucket(case, batch, bucket)
            step = directed.step(before, given_here, marks)
            assert step.output.columns.schema == case.operator.schema.arrow
            assert step.watermark == min(marks)
            if twice:
                other = [each.take(np.random.default_rng(0).permutation(len(each))) for each in given_here]
                again = directed.step(loaded(before), other, marks)
                assert rows_of(again.output) == rows_of(step.output)
            states[bucket] = loaded(step.state) if restarts else step.state
            outputs.append(step.output)
            reports += [] if step.report is None else [recorded(step.report)]
            ran.dead.update(letters_of(step.dead))
        ran.steps.append(outputs)
        ran.reports.append(reports)
        record = recorded(case.operator.decide(record, reports, 0.1))
        if widths is not None and record is not None:
            record = recorded(with_halvings(record, widths.choice([0, 1, 2])))
        ran.records.append(record)
    return ran


def with_halvings(record: SimilarityJoinRecord, halvings: int) -> SimilarityJoinRecord:
    before = record.directive
    tally = change_lags(before.tally.restore(), halvings - before.halvings)
    return replace(record, directive=replace(before, tally=TallyCounts.of(tally), halvings=halvings))


def plain(case: Case):
    rows: Counter[Any] = Counter()
    dead: Counter[Any] = Counter()
    state = NO_STATE
    for batch, marks in zip(case.batches, case.watermarks, strict=True):
        step = case.plain.step(state, batch, marks)
        state = step.state
        rows.update(rows_of(step.output))
        dead.update(letters_of(step.dead))
    return rows, dead


def lettered(dead, case: Case):
    """Letters of pairs of which it is known whether they are alike: others are never compared."""
    if case.operator.similarity is None:  # a plain join by keys decides them first as well
        return dead
    known: Counter[Any] = Counter()
    for (time, reason, row), count in dead.items():
        values = json.loads(row)
        if values["l.x"] is not None and values["r.x"] is not None:
            known[time, reason, row] = count
    return known


@pytest.mark.parametrize("measure", MEASURES)
@settings(max_examples=examples(25), deadline=None)
@given(seed=seeds)
def test_all_buckets_together_emit_what_a_plain_join_does(measure, seed):
    case = case_of(seed, measure)
    ran = run(case)
    rows, dead = plain(case)
    assert ran.rows == rows
    assert ran.dead == lettered(dead, case)
    assert all(record is None for record in ran.records)


@pytest.mark.parametrize("measure", MEASURES_AND_KEYS)
@settings(max_examples=examples(10), deadline=None)
@given(seed=seeds)
def test_a_state_that_was_written_and_read_goes_on_as_before(measure, seed):
    for policy in (Policy.OFF, Policy.ON, Policy.DROP):
        case = any_case_of(seed, measure, Shedding(policy, budget=Random(seed).choice([0, 10, 100])))
        one, other = run(case), run(case, restarts=True)
        assert [list(map(rows_of, step)) for step in one.steps] == [list(map(rows_of, step)) for step in other.steps]
        assert without_clocks(one.reports) == without_clocks(other.reports)


def without_clocks(reports):
    return [[replace(report, comparing=0) for report in step] for step in reports]


@pytest.mark.parametrize("measure", MEASURES_AND_KEYS)
@settings(max_examples=examples(10), deadline=None)
@given(seed=seeds)
def test_with_too_small_a_budget_the_results_are_some_of_them_and_always_the_same(measure, seed):
    random = Random(seed)
    policy = random.choice([Policy.ON, Policy.ON, Policy.DROP])
    case = any_case_of(seed, measure, Shedding(policy, budget=random.choice([0, 5, 20, 100])))
    ran = run(case, twice=True)
    assert not ran.rows - plain(case)[0]
    last = ran.records[-1].shed[0].overall
    assert last.comparisons <= last.volume
    assert last.found == ran.rows.total()
    assert all(0.0 <= share <= 1.0 for share in (last.compared_share, last.results_share))


@pytest.mark.parametrize("measure", MEASURES_AND_KEYS)
@settings(max_examples=examples(15), deadline=None)
@given(seed=seeds)
def test_a_budget_that_is_enough_leaves_nothing_out(measure, seed):
    for policy in (Policy.ON, Policy.DROP):
        case = any_case_of(seed, measure, Shedding(policy, budget=10**9))
        ran = run(case)
        rows, dead = plain(case)
        assert ran.rows == rows
        assert ran.dead == lettered(dead, case)
        shed = ran.records[-1].shed[0]
        assert (shed.overall.compared_share, shed.overall.results_share, shed.overall.dropped) == (1.0, 1.0, 0)
        assert shed.history == ()


@settings(max_examples=examples(15), deadline=None)
@given(seed=seeds)
def test_comparisons_keep_to_the_budget_but_for_one_element_of_each_cell(seed):
    budget = Random(seed).choice([0, 10, 100])
    case = case_of(seed, None, Shedding(Policy.ON, budget=budget))
    ran, most = run(case), max(sum(len(batch[s]) for batch in case.batches) for s in (0, 1))
    for reports in ran.reports:
        for report in reports:
            cells = int(np.count_nonzero(np.array(report.tally.made)))
            assert report.comparisons <= budget / case.buckets + 4 * cells * most
            assert report.budget == budget / case.buckets


@pytest.mark.parametrize("measure", [Measure.OVERLAP, Measure.DISTANCE, None, "keys"])
@settings(max_examples=examples(15), deadline=None)
@given(seed=seeds)
def test_the_width_of_slots_changes_neither_pairs_nor_what_is_kept(measure, seed):
    for policy in (Policy.ON, Policy.DROP):
        case = any_case_of(seed, measure, Shedding(policy, budget=10**9))
        rows, dead = plain(case)
        for restarts in (False, True):
            ran = run(case, restarts=restarts, twice=True, widths=Random(seed))
            assert (ran.rows, ran.dead) == (rows, lettered(dead, case))
        shed = run(
            replace(case, operator=replace(case.operator, shedding=Shedding(policy, budget=10))), widths=Random(seed)
        )
        assert not shed.rows - rows


@settings(max_examples=examples(25), deadline=None)
@given(seed=seeds)
def test_of_keys_only_pairs_with_equal_ones_are_compared_and_counted(seed):
    case = keyed_case_of(seed, Shedding(Policy.ON, budget=10**9))
    pairs = plain(replace(case, plain=replace(case.plain, residual=TRUE)))[0].total()
    every = [np.concatenate([_codes(case, batch, side) for batch in case.batches]) for side in (0, 1)]
    at_any_time = int((every[0][:, None] == every[1][None, :]).sum())
    assert pairs <= run(case).records[-1].shed[0].overall.comparisons <= at_any_time


@settings(max_examples=examples(10), deadline=None)
@given(seed=seeds)
def test_keys_with_equal_codes_need_not_be_equal(seed):
    case = keyed_case_of(seed, Shedding(Policy.ON, budget=10**9))
    if len(case.operator.keys[0]) == 1 and not case.operator.keys[0][0].endswith("s"):
        return  # the code of a number is a bijection
    with patch.object(key_coding, "hash_columns", lambda columns: hash_columns(columns) % np.uint64(2)):
        assert run(case).rows == plain(case)[0]


@pytest.mark.parametrize("type_", [Type.INT, Type.DOUBLE, Type.STRING])
@pytest.mark.parametrize("names", [["x"], ["x", "n"]])
def test_null_equals_nothing_and_nan_itself(type_, names):
    left, right = schema_of("l", type_), schema_of("r", type_)
    keys = tuple(f"l.{name}" for name in names), tuple(f"r.{name}" for name in names)
    known = {Type.INT: [3], Type.DOUBLE: [math.nan, 0.0, -0.0], Type.STRING: ["a"]}[type_]
    rows = [(0, 9, {"x": x, "n": n}) for x, n in [(None, 1), (known[0], None), (None, None), *((x, 1) for x in known)]]
    batch = [
        batch_of([(a, b, {f.name: row.get(f.name[2:]) for f in s}) for a, b, row in rows], s) for s in (left, right)
    ]
    operator = SimilarityJoinOperator(left, right, None, TRUE, Shedding(Policy.ON, budget=100), WIDTH, keys)
    case = Case(operator, JoinOperator(left, right, *keys, TRUE), [batch], [(9, 9)], 2)
    found = run(case).rows
    assert found == plain(case)[0]
    assert found.total() == (5 if type_ is Type.DOUBLE else 1) + 3 * (len(names) == 1)


def _codes(case: Case, batch, side: int):
    """One text of the keys of each element that lives and whose keys are known; NaN is one value, and so is zero."""
    columns = [batch[side].columns.column(name).to_pylist() for name in case.operator.keys[side]]
    rows = [key for key, end, start in zip(zip(*columns), batch[side].end, batch[side].start) if end > start]  # noqa: B905
    return np.array([repr([value + 0.0 if value == 0 else value for value in key]) for key in rows if None not in key])


@settings(max_examples=examples(10), deadline=None)
@given(seed=seeds)
def test_a_budget_goes_where_the_comparisons_are(seed):
    case = replace(keyed_case_of(seed, Shedding(Policy.ON, budget=1000)), buckets=2)
    ran = run(case)
    for before, reports in zip(ran.records, ran.reports[1:], strict=False):
        one, other = before.directive.volumes
        assert [report.budget for report in reports] == pytest.approx(
            [1000 * (each + 1) / (one + other + 2) for each in (one, other)]
        )


@settings(max_examples=examples(15), deadline=None)
@given(seed=seeds)
def test_utilities_never_change_what_a_pair_is(seed):
    types = (Column("l.n", Type.INT), call("-", Column("r.v", Type.DOUBLE), number(0.5)))
    utility = Random(seed).choice([Utility(types, ((1, 5.0), (2.0, 1.0))), Utility(types, average=True)])
    case = case_of(seed, Measure.OVERLAP, Shedding(Policy.ON, budget=30, utility=utility))
    ran = run(case, twice=True)
    assert not ran.rows - plain(case)[0]
    assert 0.0 <= ran.records[-1].shed[0].overall.utility_share <= 1.0
    full = replace(case.operator, shedding=replace(case.operator.shedding, budget=10**9))
    assert run(replace(case, operator=full)).rows == plain(case)[0]


@pytest.mark.parametrize("which", [0, 1])
@settings(max_examples=examples(10), deadline=None)
@given(seed=seeds)
def test_a_side_that_is_forgotten_is_met_by_nothing(which, seed):
    case = case_of(seed, Measure.OVERLAP)
    states: list[SimilarityJoinOperator | JoinOperator] = [case.operator, case.plain]
    before = [each.step(NO_STATE, case.batches[0], (0, 0)).state for each in states]
    after = [each.forget(state, which) for each, state in zip(states, before, strict=True)]
    batch = case.batches[-1]
    outputs = [each.step(state, batch, (1, 1)).output for each, state in zip(states, after, strict=True)]
    assert Counter(rows_of(outputs[0])) == Counter(rows_of(outputs[1]))
    again = case.operator.step(loaded(after[0]), batch, (1, 1)).output
    assert rows_of(again) == rows_of(outputs[0])
    # What was there before it was forgotten is not changed.
    first = case.operator.step(before[0], batch, (1, 1)).output
    assert Counter(rows_of(first)) == Counter(rows_of(case.plain.step(before[1], batch, (1, 1)).output))


def test_elements_of_always_and_never():
    case = case_of(1, Measure.OVERLAP)
    row = {f.name: [1] if f.name.endswith("x") else None for f in case.operator.left}
    ever = batch_of([(BEGINNING, FOREVER, row), (5, 5, row)], case.operator.left)
    none = Batch.empty(case.operator.right)
    state = case.operator.step(NO_STATE, [ever, none], (BEGINNING, BEGINNING)).state
    assert sum(c.num_rows for n, c in state.items() if n.startswith("slot")) == 1
    again = case.operator.step(state, [Batch.empty(case.operator.left), none], (0, 0))
    assert again.state is state
