"""PIPES' tables of aggregation, grouping and duplicate elimination, and what the state looks like meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.plan import AggregateCall
from tidegate.errors import InternalError
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Chunks, Step
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

Printed = list[tuple[str, int, int]]

LETTERS = Schema.of(e=Type.STRING, v=Type.INT)
WEIGHT = {letter: 10**place for place, letter in enumerate("abcd")}
COUNT = AggregateCall("count", None, "n", Type.BIGINT)
SUM = AggregateCall("sum", "v", "total", Type.BIGINT)
GREATEST = AggregateCall("max", "e", "greatest", Type.STRING)

S1: Printed = [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("a", 9, 10), ("b", 12, 17)]  # Table 11.1 (a)
L_S1 = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}  # Table 8.1 (a)

by_letter = AggregateOperator(LETTERS, ("e",), (COUNT,), Emit.SETTLED)
in_total = AggregateOperator(LETTERS, (), (SUM,), Emit.SETTLED)
distinct = AggregateOperator(Schema.of(e=Type.STRING), ("e",), (), Emit.SETTLED)


def batch(printed: Printed, operator: AggregateOperator) -> Batch:
    columns = {"e": pa.array([e for e, _, _ in printed], pa.string())}
    columns["v"] = pa.array([WEIGHT[e] for e, _, _ in printed], pa.int32())
    rows = pa.RecordBatch.from_pydict({name: columns[name] for name in operator.source.names})
    start, end = ([element[at] for element in printed] for at in (1, 2))
    return Batch(np.array(start, np.int64), np.array(end, np.int64), rows)


def all_at_once(operator: AggregateOperator, printed: Printed) -> list[tuple[Any, ...]]:
    """Pieces as (values, start, end), by start."""
    step = operator.step(NO_STATE, [batch(printed, operator)], [FOREVER])
    return sorted(pieces(step), key=lambda piece: (piece[-2], piece[:-2]))


def pieces(step: Step) -> list[tuple[Any, ...]]:
    rows = step.output.to_arrow().to_pylist()
    return [(*list(row.values())[2:], row["valid_from"], row["valid_to"]) for row in rows]


def chronons(logical: dict[int, str]) -> Printed:
    return [(letter, t, t + 1) for t, letters in logical.items() for letter in letters]


def weight(letters: str) -> int:
    return sum(WEIGHT[letter] for letter in letters)


def test_table_11_9_the_sum_over_s1() -> None:
    printed = [("c", 1, 5), ("ca", 5, 6), ("cad", 6, 8), ("ad", 8, 9), ("ada", 9, 10), ("ad", 10, 11)]
    printed += [("d", 11, 12), ("db", 12, 14), ("b", 14, 17)]
    assert all_at_once(in_total, S1) == [(weight(letters), start, end) for letters, start, end in printed]


def test_table_11_10_counts_by_letter() -> None:
    printed = [("c", 1, 1, 8), ("a", 1, 5, 9), ("d", 1, 6, 14), ("a", 2, 9, 10), ("a", 1, 10, 11), ("b", 1, 12, 17)]
    assert all_at_once(by_letter, S1) == printed


def test_table_11_7_duplicate_elimination() -> None:
    assert all_at_once(distinct, S1) == [("c", 1, 8), ("a", 5, 11), ("d", 6, 14), ("b", 12, 17)]


def test_an_element_that_ends_early_is_not_emitted_again() -> None:
    """Erratum E-03: the printed algorithm emits c[7,8) a second time."""
    early = [("c", 1, 8), ("c", 4, 12), ("c", 7, 8)]
    assert all_at_once(distinct, early) == [("c", 1, 12)]
    found: Counter[int] = Counter()
    state = NO_STATE
    for element in early:
        step = distinct.step(state, [batch([element], distinct)], [element[1]])
        state, found = step.state, found + Counter(t for _, start, end in pieces(step) for t in range(start, end))
    last = distinct.step(state, [batch([], distinct)], [FOREVER])
    found += Counter(t for _, start, end in pieces(last) for t in range(start, end))
    assert found == Counter(range(1, 12))


def test_logical_table_8_6_duplicate_elimination() -> None:
    expected = {1: "c", 2: "a", 3: "ab", 4: "abc", 5: "b", 6: "b"}
    found = all_at_once(distinct, chronons(L_S1))
    assert {t: "".join(sorted(e for e, s, end in found if s <= t < end)) for t in L_S1} == expected


def test_logical_table_8_9_exactly_one_sum_at_each_instant() -> None:
    expected = {1: "c", 2: "aaa", 3: "aaab", 4: "aaabc", 5: "bb", 6: "bb"}
    found = all_at_once(in_total, chronons(L_S1))
    assert {t: [v for v, s, end in found if s <= t < end] for t in range(8)} == {
        t: [weight(expected[t])] if t in expected else [] for t in range(8)
    }


def run(operator: AggregateOperator, steps: list[tuple[Printed, int]]) -> list[Step]:
    state, found = NO_STATE, []
    for printed, watermark in steps:
        found.append(operator.step(state, [batch(printed, operator)], [watermark]))
        state = found[-1].state
    return found


def test_settled_values_are_cut_at_every_watermark() -> None:
    steps = run(by_letter, [([("a", 0, 9)], 2), ([], 4), ([], 4), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [[("a", 1, 0, 2)], [("a", 1, 2, 4)], [], [("a", 1, 4, 9)]]
    assert [s.watermark for s in steps] == [2, 4, 4, FOREVER]


def test_a_value_is_reported_once_when_it_has_changed() -> None:
    operator = AggregateOperator(LETTERS, ("e",), (COUNT,), Emit.ENDED)
    steps = run(operator, [([("a", 0, 9)], 2), ([], 4), ([("a", 4, 6)], 5), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [[], [], [("a", 1, 0, 4)], [("a", 2, 4, 6), ("a", 1, 6, 9)]]
    assert [s.watermark for s in steps] == [0, 0, 4, FOREVER]


def test_reported_early_the_rest_of_a_value_waits_for_a_change() -> None:
    operator = AggregateOperator(LETTERS, ("e",), (COUNT,), Emit.EARLY)
    steps = run(operator, [([("a", 0, 9)], 2), ([], 4), ([("a", 4, 6)], 5), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [
        [("a", 1, 0, 2)],
        [],
        [("a", 1, 2, 4), ("a", 2, 4, 5)],
        [("a", 2, 5, 6), ("a", 1, 6, 9)],
    ]
    assert [s.watermark for s in steps] == [2, 2, 5, FOREVER]


def test_a_start_that_makes_good_for_an_end_changes_nothing() -> None:
    operator = AggregateOperator(LETTERS, ("e",), (COUNT,), Emit.EARLY)
    steps = run(operator, [([("a", 0, 4)], 4), ([("a", 4, 8)], 6), ([], FOREVER)])
    assert [pieces(s) for s in steps] == [[("a", 1, 0, 4)], [], [("a", 1, 4, 8)]]


def test_chunks_that_do_not_change_are_the_same_objects() -> None:
    operator = AggregateOperator(LETTERS, ("e",), (COUNT, SUM, GREATEST), Emit.SETTLED)
    first, second, third = run(operator, [([("a", 0, 90), ("b", 50, 60)], 2), ([("c", 51, 60)], 3), ([("b", 4, 9)], 5)])
    names = {"groups", "frontier.0", "futures.0", "ends.0"}
    assert {n for n in second.state if first.state.get(n) is second.state[n]} == names
    assert {n for n in third.state if second.state.get(n) is third.state[n]} >= {"futures.0", "futures.1", "ends.0"}
    assert third.state["groups"].num_rows == 2


def test_without_counts_no_ends_are_kept_but_the_last() -> None:
    for calls in ((), (GREATEST,)):
        operator = AggregateOperator(LETTERS, ("e",), calls, Emit.SETTLED)
        (step,) = run(operator, [([("a", t, t + 100) for t in range(50)], 50)])
        assert not any(name.startswith("ends") for name in step.state)
        assert sum(chunk.num_rows for name, chunk in step.state.items() if name != "figures") <= 2


def test_elements_that_never_end_leave_only_their_group() -> None:
    (step,) = run(in_total, [([("a", t, FOREVER) for t in range(50)], 50)])
    assert set(step.state) == {"figures", "groups"}


def test_a_group_that_is_empty_is_forgotten() -> None:
    _, after = run(by_letter, [([("a", 0, 3), ("b", 0, 9)], 1), ([], 5)])
    assert after.state["groups"].num_rows == 1
    assert set(run(by_letter, [([("a", 0, 3)], 5)])[0].state) == {"figures"}


def test_the_state_of_many_small_steps_stays_in_few_chunks() -> None:
    rng = np.random.default_rng(3)
    steps = [([("abcd"[rng.integers(4)], t, t + int(rng.integers(1, 200)))], t + 1) for t in range(300)]
    found = run(by_letter, [*steps, ([], FOREVER)])
    assert max(len(s.state) for s in found) <= 10
    instants = Counter((e, n, t) for s in found for e, n, start, end in pieces(s) for t in range(start, end))
    elements = [element for printed, _ in steps for element in printed]
    counts = Counter((e, t) for e, start, end in elements for t in range(start, end))
    assert instants == Counter((e, n, t) for (e, t), n in counts.items())


def test_an_element_before_the_watermark_is_refused() -> None:
    state: Chunks = run(by_letter, [([("a", 0, 3)], 5)])[0].state
    with pytest.raises(InternalError, match="before the watermark 5"):
        by_letter.step(state, [batch([("a", 4, 9)], by_letter)], [6])
