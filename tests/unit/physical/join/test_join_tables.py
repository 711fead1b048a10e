"""The join on the printed tables of PIPES, and what it promises of state and dead letters."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, Literal, conjunction
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.hashing import Hashes, hash_columns
from tidegate.physical.common.operator import NO_STATE, Chunks, Step
from tidegate.physical.join import sides
from tidegate.physical.join.kernels.tiers import TIERS, Tiers
from tidegate.physical.join.operator import JoinOperator
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

Printed = list[tuple[str, int, int]]

S1: Printed = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]  # Table 11.1 (a)
S2: Printed = [("b", 1, 7), ("d", 3, 9), ("a", 4, 5), ("b", 7, 15), ("e", 10, 18)]  # Table 11.1 (b)

LEFT, RIGHT = Schema.of(l=Type.STRING), Schema.of(r=Type.STRING)
EQUI = JoinOperator(LEFT, RIGHT, ("l",), ("r",), TRUE)
PRODUCT = JoinOperator(LEFT, RIGHT, (), (), TRUE)
THETA = JoinOperator(LEFT, RIGHT, (), (), Call("=", (Column("l", Type.STRING), Column("r", Type.STRING)), Type.BOOLEAN))

# Table 8.1: multisets by instant.
L_S1 = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}
L_S2 = {2: "bb", 3: "bb", 4: "abc", 5: "aab", 6: "acc"}

# Table 8.5; the printed rows 2 and 3 are wrong (erratum E-01), corrected by formula (8.4).
CART_OUT = {
    2: {"ab": 6},
    3: {"ab": 6, "bb": 2},
    4: {"aa": 3, "ab": 3, "ac": 3, "ba": 1, "bb": 1, "bc": 1, "ca": 1, "cb": 1, "cc": 1},
    5: {"ba": 4, "bb": 2},
    6: {"ba": 2, "bc": 4},
}


def elements(name: str, printed: Iterable[tuple[str, int, int]]) -> Batch:
    rows = list(printed)
    columns = pa.RecordBatch.from_arrays([pa.array([row[0] for row in rows], pa.string())], [name])
    start, end = (np.array([row[i] for row in rows], np.int64) for i in (1, 2))
    return Batch(start, end, columns)


def numbers(name: str, start: Sequence[int], length: int, keys: Sequence[int], values: Sequence[float]) -> Batch:
    columns = pa.RecordBatch.from_arrays([pa.array(keys, pa.int32()), pa.array(values)], [f"{name}.k", f"{name}.v"])
    times = np.array(start, np.int64)
    return Batch(times, times + length, columns)


def chronons(logical: dict[int, str]) -> Printed:
    return [(letter, instant, instant + 1) for instant, letters in logical.items() for letter in letters]


def by_element(join: JoinOperator, left: Printed, right: Printed) -> list[tuple[str, int, int]]:
    """The pairs if elements come one by one in the order of their starts."""
    pairs: list[tuple[str, int, int]] = []
    state = NO_STATE
    arrivals = sorted([(e, 0) for e in left] + [(e, 1) for e in right], key=lambda arrival: arrival[0][1])
    for element, side in arrivals:
        inputs = [elements("l", [element] if side == 0 else []), elements("r", [element] if side == 1 else [])]
        step = join.step(state, inputs, (element[1], element[1]))
        state, pairs = step.state, pairs + shown(step)
    last = join.step(state, [Batch.empty(LEFT), Batch.empty(RIGHT)], (FOREVER, FOREVER))
    assert not last.state
    assert not len(last.output)
    return sorted(pairs)


def shown(step: Step) -> list[tuple[str, int, int]]:
    letters = ["".join(row.values()) for row in step.output.columns.to_pylist()]
    return list(zip(letters, step.output.start.tolist(), step.output.end.tolist(), strict=True))


@pytest.mark.parametrize("join", [EQUI, THETA])
def test_the_equi_join_of_table_11_6(join: JoinOperator) -> None:
    assert by_element(join, S1, S2) == [("bb", 12, 15), ("dd", 6, 9)]


def test_the_product_of_table_8_5() -> None:
    expected = Counter({(pair, t, t + 1): n for t, pairs in CART_OUT.items() for pair, n in pairs.items()})
    assert Counter(by_element(PRODUCT, chronons(L_S1), chronons(L_S2))) == expected


@pytest.mark.parametrize("join", [EQUI, THETA])
def test_the_theta_join_is_the_filtered_product_8_10(join: JoinOperator) -> None:
    pairs = [p for p in by_element(PRODUCT, chronons(L_S1), chronons(L_S2)) if p[0][0] == p[0][1]]
    assert by_element(join, chronons(L_S1), chronons(L_S2)) == pairs


def test_an_element_meets_those_of_its_own_step_and_of_earlier_ones_once() -> None:
    first = EQUI.step(NO_STATE, [elements("l", [("a", 0, 9)]), elements("r", [("a", 1, 5)])], (1, 1))
    second = EQUI.step(first.state, [elements("l", [("a", 3, 4)]), elements("r", [("a", 2, 8)])], (9, 9))
    assert shown(first) == [("aa", 1, 5)]
    assert sorted(shown(second)) == [("aa", 2, 8), ("aa", 3, 4), ("aa", 3, 4)]
    assert second.watermark == 9


def test_validities_that_only_touch_do_not_overlap() -> None:
    step = EQUI.step(NO_STATE, [elements("l", [("a", 0, 5)]), elements("r", [("a", 5, 6)])], (5, 5))
    assert not len(step.output)


def test_each_side_is_kept_as_long_as_the_other_may_bring_a_partner() -> None:
    kept = EQUI.step(NO_STATE, [elements("l", [("a", 0, 5)]), elements("r", [("b", 0, 5)])], (5, 4)).state
    assert rows(kept, "left") == 1
    assert rows(kept, "right") == 0
    assert not EQUI.step(kept, [Batch.empty(LEFT), Batch.empty(RIGHT)], (5, 5)).state


def test_elements_that_can_match_nothing_are_not_kept() -> None:
    null_key = Batch(np.array([0]), np.array([9]), pa.RecordBatch.from_pydict({"l": pa.array([None], pa.string())}))
    assert not EQUI.step(NO_STATE, [null_key, Batch.empty(RIGHT)], (0, 0)).state


def test_equal_hashes_of_different_keys_do_not_make_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_collide(columns: Sequence[pa.Array]) -> Hashes:
        return np.full(len(columns[0]), 7, np.uint64)

    monkeypatch.setattr(sides, "hash_columns", all_collide)
    assert by_element(EQUI, S1, S2) == [("bb", 12, 15), ("dd", 6, 9)]


def test_sides_without_columns_join_too() -> None:
    join = JoinOperator(Schema(()), RIGHT, (), (), TRUE)
    bare = Batch(np.array([0, 3]), np.array([4, 9]), pa.RecordBatch.from_arrays([], names=[]))
    assert sorted(shown(join.step(NO_STATE, [bare, elements("r", [("x", 2, 5)])], (0, 0)))) == [
        ("x", 2, 4),
        ("x", 3, 5),
    ]
    both = JoinOperator(Schema(()), Schema(()), (), (), TRUE).step(NO_STATE, [bare, bare], (0, 0))
    assert sorted(zip(both.output.start.tolist(), both.output.end.tolist(), strict=True)) == [
        (0, 4),
        (3, 4),
        (3, 4),
        (3, 9),
    ]


NUMBERS = Schema.of(**{"l.k": Type.INT, "l.v": Type.DOUBLE}), Schema.of(**{"r.k": Type.INT, "r.v": Type.DOUBLE})


def numeric(residual: Expression, *, tiers: Tiers = TIERS) -> JoinOperator:
    return JoinOperator(*NUMBERS, ("l.k",), ("r.k",), residual, tiers=tiers)


def ratio_above(constant: float) -> Expression:
    ratio = resolve("/", (Column("l.v", Type.DOUBLE), Column("r.v", Type.DOUBLE)), NOWHERE)
    return resolve(">", (ratio, Literal(constant, Type.DOUBLE)), NOWHERE)


def test_a_pair_for_which_the_residual_fails_is_one_dead_letter() -> None:
    left, right = numbers("l", [3], 5, [1], [4.0]), numbers("r", [1, 5], 4, [1, 1], [0.0, 2.0])
    step = numeric(ratio_above(1.0)).step(NO_STATE, [left, right], (3, 3))
    assert step.output.columns.to_pylist() == [{"l.k": 1, "l.v": 4.0, "r.k": 1, "r.v": 2.0}]
    (letter,) = step.dead.to_pylist()
    assert json.loads(letter.pop("row")) == {"l.k": 1, "l.v": 4.0, "r.k": 1, "r.v": 0.0}
    assert letter.pop("detail").count("/") == 1
    assert letter == {"origin": "join", "reason": "division_by_zero", "time": 3, "file": None, "line": None}
    assert not len(numeric(ratio_above(1.0)).step(step.state, [Batch.empty(s) for s in NUMBERS], (4, 4)).dead)


def test_a_residual_that_is_constant_decides_for_all_pairs() -> None:
    inputs = [numbers("l", [0], 5, [1], [1.0]), numbers("r", [0], 5, [1], [1.0])]
    for value, pairs in ((True, 1), (False, 0), (None, 0)):
        assert len(numeric(Literal(value, Type.BOOLEAN)).step(NO_STATE, inputs, (0, 0)).output) == pairs


WIDE = "abc"


@pytest.mark.parametrize("first_to_come", [0, 1])
@pytest.mark.parametrize("large", WIDE)
def test_what_doubles_do_not_tell_apart_is_decided_exactly(large: str, first_to_come: int) -> None:
    """Three terms over integers; one of them has values of which doubles are no judge."""
    schemas = [Schema.of(**{f"{side}.{name}": Type.BIGINT for name in WIDE}) for side in "lr"]
    terms = [Call("<", tuple(Column(f"{side}.{name}", Type.BIGINT) for side in "lr"), Type.BOOLEAN) for name in WIDE]
    join = JoinOperator(schemas[0], schemas[1], (), (), conjunction(tuple(terms)))
    rows_ = {
        side: [{f"{side}.{name}": 2**53 + n if name == large else n for name in WIDE} for n in (0, 1)] for side in "lr"
    }
    batches = [
        Batch(np.array([0, 0]), np.array([9, 9]), pa.RecordBatch.from_pylist(rows_[side], schema=schema.arrow))
        for side, schema in zip("lr", schemas, strict=True)
    ]
    before = [
        b if i == first_to_come else Batch.empty(s) for i, (b, s) in enumerate(zip(batches, schemas, strict=True))
    ]
    after = [b if i != first_to_come else Batch.empty(s) for i, (b, s) in enumerate(zip(batches, schemas, strict=True))]
    step = join.step(join.step(NO_STATE, before, (0, 0)).state, after, (0, 0))
    assert step.output.columns.to_pylist() == [rows_["l"][0] | rows_["r"][1]]


@pytest.mark.parametrize(
    ("function", "a", "b", "compare", "constant"),
    [
        ("+", 2**53, 1, ">", 2**53),
        ("-", 2**53, -1, ">", 2**53),
        ("*", 2**27 + 1, 2**26, "<>", 2**53),
        ("+", 2**52, 2**52, "=", 2**53),
        ("-", -(2**53), 1, "<", -(2**53)),
    ],
)
def test_sums_and_products_that_doubles_would_round_are_exact(
    function: str, a: int, b: int, compare: str, constant: int
) -> None:
    schemas = Schema.of(a=Type.BIGINT), Schema.of(b=Type.BIGINT)
    combined = resolve(function, (Column("a", Type.BIGINT), Column("b", Type.BIGINT)), NOWHERE)
    join = JoinOperator(*schemas, (), (), resolve(compare, (combined, Literal(constant, Type.BIGINT)), NOWHERE))
    inputs = [
        Batch(np.array([0]), np.array([1]), pa.RecordBatch.from_pydict({"a": [a]})),
        Batch(np.array([0]), np.array([1]), pa.RecordBatch.from_pydict({"b": [b]})),
    ]
    assert len(join.step(NO_STATE, inputs, (0, 0)).output) == 1


def stream(side: str, begin: int, count: int, length: int) -> Batch:
    starts = list(range(begin, begin + count))
    return numbers(side, starts, length, [t % 7 for t in starts], [0.0] * count)


def rows(state: Chunks, side: str) -> int:
    return sum(chunk.num_rows for name, chunk in state.items() if name.startswith(side) and name.endswith("rows"))


def run_stream(join: JoinOperator, steps: int, count: int, length: int) -> list[Chunks]:
    states: list[Chunks] = [NO_STATE]
    for number in range(steps):
        inputs = [stream("l", number * count, count, length), Batch.empty(NUMBERS[1])]
        states.append(join.step(states[-1], inputs, ((number + 1) * count,) * 2).state)
    return states


def test_runs_stay_few_and_are_rarely_rewritten() -> None:
    states = run_stream(numeric(TRUE), 200, 10, FOREVER // 2)
    written = sum(
        chunk.num_rows
        for before, after in pairwise(states)
        for name, chunk in after.items()
        if name.endswith("rows") and before.get(name) is not chunk
    )
    assert rows(states[-1], "left") == 2000
    assert max(sum(name.endswith("rows") for name in state) for state in states) <= TIERS.few
    assert written < 10 * 2000


def test_expired_elements_leave_the_state_soon() -> None:
    states = run_stream(numeric(TRUE), 60, 10, 50)
    assert max(rows(state, "left") for state in states[20:]) <= 3 * 50


def test_a_few_elements_that_stay_do_not_hold_the_others() -> None:
    join = numeric(TRUE)
    lengths = np.where(np.arange(100) % 20 == 0, FOREVER // 2, 3)
    batch = stream("l", 0, 100, 1)
    mixed = Batch(batch.start, batch.start + lengths, batch.columns)
    state = join.step(NO_STATE, [mixed, Batch.empty(NUMBERS[1])], (100, 0)).state
    assert rows(state, "left") == 100
    state = join.step(state, [Batch.empty(s) for s in NUMBERS], (100, 200)).state
    assert rows(state, "left") == 5


def test_keys_whose_hashes_lie_close_together_are_told_apart() -> None:
    """Rows with two keys of one slot come alternately."""
    count = 100
    slots = hash_columns([pa.array(range(200), pa.int32())]) >> np.uint64(32)
    slots = slots * np.uint64(count) >> np.uint64(32)
    close = [int(np.flatnonzero(slots == slot)[i]) for slot in slots if (slots == slot).sum() > 1 for i in (0, 1)][:2]
    left = numbers("l", list(range(count)), 2 * count, close * (count // 2), [0.0] * count)
    for key in close:
        right = numbers("r", [count], 1, [key], [0.0])
        assert len(numeric(TRUE).step(NO_STATE, [left, right], (0, 0)).output) == count // 2
