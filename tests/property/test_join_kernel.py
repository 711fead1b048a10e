"""The join against its definition: every pair of elements, one by one."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reference.expressions import evaluate
from reference.values import Failed, is_equal
from support.examples import examples
from support.states import through_files

from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Column, Expression, Literal, conjunction
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.physical.join.kernels.tiers import Tiers
from tidegate.physical.join.operator import JoinOperator
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING, FOREVER

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
FAR = datetime(9000, 1, 1, tzinfo=UTC)

TYPES = {
    "id": Type.BIGINT,
    "k": Type.INT,
    "s": Type.STRING,
    "v": Type.DOUBLE,
    "n": Type.INT,
    "b": Type.BIGINT,
    "t": Type.TIMESTAMP,
}
LEFT = Schema(tuple(Field(f"l.{name}", type_) for name, type_ in TYPES.items()))
RIGHT = Schema(tuple(Field(f"r.{name}", type_) for name, type_ in TYPES.items()))

VALUES: Mapping[str, Sequence[object]] = {
    "k": [0, 0, 0, 1, 2, None],
    "s": ["a", "a", "a", "", "b", "ab", None],
    "v": [0.0, -0.0, 0.5, 1.0, -1.0, math.nan, math.inf, -math.inf, None],
    "n": [0, 1, -1, 2**31 - 1, -(2**31), 2**15 + 1, None],
    "b": [0, 1, 2**53, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), None],
    "t": [EPOCH, EPOCH + timedelta(microseconds=1), FAR, FAR + timedelta(microseconds=1), None],
}


@dataclass(frozen=True)
class Element:
    start: int
    end: int
    row: Mapping[str, object]
    turn: int  # chooses the step in which it arrives, among those that the watermarks allow


@dataclass(frozen=True)
class Case:
    join: JoinOperator
    left: Sequence[Element]
    right: Sequence[Element]
    watermarks: Sequence[tuple[int, int]]


def call(function: str, *arguments: Expression) -> Expression:
    return resolve(function, arguments, NOWHERE)


def left(name: str) -> Column:
    return Column(f"l.{name}", TYPES[name])


def right(name: str) -> Column:
    return Column(f"r.{name}", TYPES[name])


def double(value: float) -> Literal:
    return Literal(value, Type.DOUBLE)


def comparisons() -> st.SearchStrategy[str]:
    return st.sampled_from(["=", "<>", "<", "<=", ">", ">="])


CONSTANTS: Mapping[str, st.SearchStrategy[Literal]] = {
    "v": st.sampled_from([double(c) for c in (0.0, 0.5, 1.0, -0.5, math.nan, math.inf, -math.inf)]),
    "n": st.sampled_from([Literal(c, Type.INT) for c in (0, 1, -2)]),
    "b": st.sampled_from([Literal(c, Type.BIGINT) for c in (0, 1, 2**53, 2**53 + 1)]),
    "t": st.sampled_from([Literal(timedelta(microseconds=c), Type.INTERVAL) for c in (0, 1)]),
}


FORMS = ["plain", "plain", "combined", "combined", "combined", "distance", "divided", "one side", "failing", "either"]


@st.composite
def predicates(draw: st.DrawFn) -> Expression:
    """One conjunct: of every form that is tested while searching, and some others, also failing ones."""
    name = draw(st.sampled_from(["v", "v", "n", "b", "t"]))
    compare = draw(comparisons())
    a, b = draw(st.permutations([left(name), right(name)]))
    form = draw(st.sampled_from(FORMS))
    constant = draw(CONSTANTS[name])
    match form:
        case "combined":
            combine = "-" if name == "t" else draw(st.sampled_from("+-*"))
            sides = draw(st.permutations([call(combine, a, b), constant]))
            return call(compare, *sides)
        case "distance":
            return call(compare, call("abs", call("-", a, b)), constant)
        case "divided":
            return call(compare, call("/", left("v"), right("v")), double(0.5))
        case "one side":
            return call(compare, left("v"), draw(CONSTANTS["v"]))
        case "failing":
            return call(compare, call("+", call("/", double(1.0), left("v")), right("v")), double(1.0))
        case "either":
            return call("or", call(compare, a, b), call("is_null", a))
    return call(compare, a, b)


def crowd(random: Random, prefix: str, count: int) -> list[Element]:
    """Elements at random: drawn one by one, too few would match."""
    made = []
    for number in range(count):
        start = random.randint(0, 10)
        length = random.choice([1, 2, 3, 5, FOREVER])
        row = {prefix + name: random.choice(values) for name, values in VALUES.items()}
        made.append(Element(start, min(start + length, FOREVER), row | {prefix + "id": number}, random.randint(0, 99)))
    return made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    keys = draw(st.sampled_from([(), (), (), ("k",), ("k",), ("s",), ("v",), ("t",), ("k", "s"), ("k", "v")]))
    residual = conjunction(tuple(draw(predicates()) for _ in range(draw(st.sampled_from([0, 1, 1, 1, 1, 2, 2, 5])))))
    tiers = draw(st.sampled_from([Tiers(), Tiers(few=0), Tiers(few=1, ratio=1), Tiers(few=2, ratio=1, most_rows=4)]))
    most = draw(st.sampled_from([1, 7, 1 << 20]))
    names = tuple(f"l.{k}" for k in keys), tuple(f"r.{k}" for k in keys)
    steps = draw(st.sampled_from([0, 1, 3, 3, 5]))
    marks = [[*sorted(draw(st.lists(st.integers(-2, 11), min_size=steps, max_size=steps))), FOREVER] for _ in range(2)]
    join = JoinOperator(LEFT, RIGHT, *names, residual, tiers=tiers, most_pairs=most)
    random, sizes = Random(draw(st.integers(0, 2**32))), st.sampled_from([0, 3, 12, 25, 25, 25])
    left_side, right_side = crowd(random, "l.", draw(sizes)), crowd(random, "r.", draw(sizes))
    return Case(join, left_side, right_side, list(zip(*marks, strict=True)))


@dataclass(frozen=True)
class Result:
    pairs: Counter[tuple[object, ...]]
    dead: Counter[tuple[object, ...]]


def batch_of(given_: Sequence[Element], schema: Schema) -> Batch:
    columns = [pa.array([e.row[f.name] for e in given_], f.type.arrow) for f in schema]
    start, end = (np.array([getattr(e, name) for e in given_], np.int64) for name in ("start", "end"))
    return Batch(start, end, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def arriving(given_: Sequence[Element], marks: Sequence[int], step: int) -> list[Element]:
    """The elements that arrive in a step, the last drawn first."""
    chosen = []
    for element in reversed(given_):
        allowed = [i for i, mark in enumerate((BEGINNING, *marks[:-1])) if mark <= element.start]
        if allowed[element.turn % len(allowed)] == step:
            chosen.append(element)
    return chosen


def run(case: Case, *, restarts: bool) -> Result:
    """Run the steps, checking what each of them promises."""
    state, pairs, dead, progress = NO_STATE, Counter[tuple[object, ...]](), Counter[tuple[object, ...]](), BEGINNING
    sides = (case.left, LEFT), (case.right, RIGHT)
    for number, marks in enumerate(case.watermarks):
        inputs = [
            batch_of(arriving(given_, [m[i] for m in case.watermarks], number), schema)
            for i, (given_, schema) in enumerate(sides)
        ]
        step = case.join.step(state, inputs, marks)
        assert step.output.columns.schema == case.join.schema.arrow
        assert (step.output.start >= progress).all()
        assert step.watermark == min(marks)
        assert_kept(state, step.state)
        progress, state = step.watermark, through_files(step.state) if restarts else step.state
        pairs.update(rows_of(step.output))
        dead.update((d["time"], d["reason"], *ids(json.loads(d["row"]))) for d in step.dead.to_pylist())
        assert all(d["origin"] == "join" and d["detail"] for d in step.dead.to_pylist())
    assert not state
    return Result(pairs, dead)


def assert_kept(before: Chunks, after: Chunks) -> None:
    """A chunk whose name stays has not been touched, but for the directory."""
    assert all(after[name] is before[name] for name in before.keys() & after.keys() if name != "runs")


def rows_of(output: Batch) -> list[tuple[object, ...]]:
    columns = [c.to_pylist() for c in output.columns.columns]
    return list(zip(output.start.tolist(), output.end.tolist(), *map(texts, columns), strict=True))


def texts(column: list[object]) -> list[str]:
    return [str(value) for value in column]  # NaN does not equal itself, its text does


def ids(row: Mapping[str, object]) -> tuple[object, object]:
    return row["l.id"], row["r.id"]


def definition(case: Case) -> tuple[Counter[tuple[object, ...]], dict[tuple[object, ...], frozenset[str]]]:
    """All pairs, and all that fail: of a reason there may be several to choose from."""
    pairs: Counter[tuple[object, ...]] = Counter()
    dead: dict[tuple[object, ...], frozenset[str]] = {}
    for a in case.left:
        for b in case.right:
            start, end = max(a.start, b.start), min(a.end, b.end)
            if start >= end or not meet(case.join, a.row, b.row):
                continue
            row = {**a.row, **b.row}
            verdict = evaluate(case.join.residual, row)
            if verdict is True:
                pairs[start, end, *(str(row[name]) for name in case.join.schema.names)] += 1
            elif isinstance(verdict, Failed):
                dead[start, *ids(row)] = verdict.kinds
    return pairs, dead


def meet(join: JoinOperator, a: Mapping[str, object], b: Mapping[str, object]) -> bool:
    keys = [(a[x], b[y]) for x, y in zip(join.left_keys, join.right_keys, strict=True)]
    return all(x is not None and y is not None and is_equal(x, y) for x, y in keys)


def assert_as_defined(result: Result, case: Case) -> None:
    pairs, dead = definition(case)
    assert result.pairs == pairs
    assert {(time, *who) for time, _, *who in result.dead} == dead.keys()
    assert sum(result.dead.values()) == len(dead)
    assert all(reason in dead[time, *who] for time, reason, *who in result.dead)


@settings(max_examples=examples(100), deadline=None)
@given(cases())
def test_a_join_emits_the_pairs_of_its_definition_however_the_streams_are_cut(case: Case) -> None:
    assert_as_defined(run(case, restarts=False), case)


@settings(max_examples=examples(60), deadline=None)
@given(cases())
def test_a_join_goes_on_from_state_that_was_through_files(case: Case) -> None:
    assert_as_defined(run(case, restarts=True), case)


@st.composite
def crowds(draw: st.DrawFn) -> Case:
    """Many elements with few keys, so that groups are longer than what is tested in one go."""
    seed, count = draw(st.integers(0, 2**32 - 1)), draw(st.sampled_from([100, 250]))
    random = np.random.default_rng(seed)
    span = draw(st.sampled_from([20, 2000]))
    longest = draw(st.sampled_from([1, 5, 300]))

    def long_crowd(prefix: str) -> list[Element]:
        return [
            Element(
                start := int(random.integers(0, span)),
                start + 1 + int(random.integers(0, longest)),
                {
                    prefix + "id": number,
                    prefix + "k": int(random.integers(0, 2)),
                    prefix + "s": None,
                    prefix + "v": float(random.integers(0, 8)) / 4 if random.random() < 0.98 else None,
                    prefix + "n": int(random.integers(0, 5)),
                    prefix + "b": None,
                    prefix + "t": EPOCH,
                },
                int(random.integers(0, 100)),
            )
            for number in range(count)
        ]

    marks = [[*sorted(int(random.integers(0, span)) for _ in range(5)), FOREVER] for _ in range(2)]
    terms = draw(
        st.lists(
            st.sampled_from(
                [
                    call(">", call("+", left("v"), right("v")), double(3.0)),
                    call("<>", left("n"), right("n")),
                    call("<=", call("abs", call("-", left("v"), right("v"))), double(0.5)),
                    call(">", call("/", left("v"), right("v")), double(1.0)),
                ]
            ),
            max_size=3,
        )
    )
    join = JoinOperator(
        LEFT, RIGHT, ("l.k",), ("r.k",), conjunction(tuple(terms)), tiers=draw(st.sampled_from([Tiers(), Tiers(few=2)]))
    )
    return Case(join, long_crowd("l."), long_crowd("r."), list(zip(*marks, strict=True)))


@settings(max_examples=examples(10), deadline=None)
@given(crowds())
def test_long_groups_are_searched_completely(case: Case) -> None:
    assert_as_defined(run(case, restarts=False), case)


@given(st.lists(st.sampled_from([0, 1]), max_size=4))
@example([])
def test_a_step_without_news_hands_on_the_state_as_it_is(sizes: list[int]) -> None:
    join = JoinOperator(LEFT, RIGHT, (), (), TRUE)
    state = NO_STATE
    row = {f"l.{name}": None for name in TYPES}
    for size in sizes:
        news = [batch_of([Element(5, 50, row, 0)] * size, LEFT), Batch.empty(RIGHT)]
        state = join.step(state, news, (5, 5)).state
    again = join.step(state, [Batch.empty(LEFT), Batch.empty(RIGHT)], (6, 6)).state
    assert again is state
