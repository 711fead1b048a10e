"""Who is registered: rows by number, by id and keys, and what is left of those that have gone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.subscriptions import registry as registry_module
from tidegate.physical.subscriptions.kernels.model import CompletedSubscriptions
from tidegate.physical.subscriptions.kernels.registrations import (
    NEVER,
    SubscriptionEvents,
    completing_elements,
    resolve_events,
)
from tidegate.physical.subscriptions.keys import KeyNumbers
from tidegate.physical.subscriptions.registry import GROUP, NUMBER, Registry
from tidegate.schema import Schema, Type


def ints(*numbers: int) -> Ints:
    return np.array(numbers, np.int64)


def flags(*values: bool) -> Mask:
    return np.array(values, np.bool_)


def rows(first: int, ids: list[str], group: int = 0) -> pa.RecordBatch:
    numbers = list(range(first, first + len(ids)))
    return pa.RecordBatch.from_pydict({NUMBER: numbers, GROUP: [group] * len(ids), "id": ids})


def everybody(numbers: Ints) -> Mask:
    return np.ones(len(numbers), np.bool_)


def registry() -> Registry:
    return Registry("id", (), 0, 0)


def test_an_id_is_found_in_its_group_only() -> None:
    known = registry().with_rows(rows(0, ["a", "b"]), 2, everybody).with_rows(rows(2, ["a"], group=1), 1, everybody)
    ids = pa.array(["a", "a", "b", "c"])
    assert known.find(ints(0, 1, 1, 0), ids, everybody).tolist() == [0, 2, -1, -1]


def test_of_an_id_that_was_registered_again_the_last_one_counts() -> None:
    known = registry().with_rows(rows(0, ["a", "a"]), 2, everybody).with_rows(rows(2, ["a"]), 1, everybody)
    assert known.find(ints(0), pa.array(["a"]), everybody).tolist() == [2]
    assert known.find(ints(0), pa.array(["a"]), lambda n: n != 2).tolist() == [-1]


def test_ids_with_the_same_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry_module, "_hashes", lambda group, ids: np.zeros(len(ids), np.uint64))
    known = (
        registry().with_rows(rows(0, ["a", "b", "c"]), 3, everybody).with_rows(rows(3, ["a"], group=1), 1, everybody)
    )
    ids = pa.array(["a", "a", "b", "c", "d"])
    assert known.find(ints(0, 1, 0, 1, 0), ids, everybody).tolist() == [0, 3, 1, -1, -1]


def test_rows_come_in_the_order_in_which_they_are_asked_for() -> None:
    known = registry().with_rows(rows(0, ["a", "b"]), 5, everybody).with_rows(rows(5, ["c"]), 1, everybody)
    assert known.rows(ints(5, 0, 1, 0)).column("id").to_pylist() == ["c", "a", "b", "a"]


def test_runs_stay_few_and_rows_of_those_that_left_go_with_the_next_merge() -> None:
    known = registry()
    for number in range(100):
        known = known.with_rows(rows(number, [f"i{number}"]), 1, lambda n: n % 2 == 0)
    assert len(known.runs) <= 8
    assert len(known) < 60
    assert known.rows(ints(98, 4)).column("id").to_pylist() == ["i98", "i4"]


def test_adding_a_few_rows_to_many_leaves_the_many_as_they_are() -> None:
    many = registry().with_rows(rows(0, [f"i{n}" for n in range(5_000)]), 5_000, everybody)
    after = many
    for number in range(5_000, 5_020):
        after = after.with_rows(rows(number, [f"i{number}"]), 1, everybody)
    assert after.runs[0][1] is many.runs[0][1]


def test_when_most_have_left_their_rows_are_given_up() -> None:
    many = registry().with_rows(rows(0, [f"i{n}" for n in range(4_000)]), 4_000, everybody)
    young = many.with_rows(rows(4_000, ["x"]), 1, everybody)
    slim = young.without_dead(11, lambda n: (n < 10) | (n == 4_000))
    assert len(slim) == 11
    again = Registry.load("id", slim.chunks(), slim.figures())
    assert again.find(ints(0, 0), pa.array(["i3", "x"]), everybody).tolist() == [3, 4_000]
    assert young.without_dead(3_000, everybody) is young


def test_keys_keep_their_numbers_when_others_are_given_up() -> None:
    names = (("k",), ("rk",))
    empty = KeyNumbers.load(names, Schema.of(rk=Type.STRING), {})
    three, numbers = empty.with_keys_of(_batch("rk", ["a", "b", "a", "c"]))
    assert numbers.tolist() == [0, 1, 0, 2]
    two = three.restrict_to(ints(0, 2))
    assert two.of_elements(_batch("k", ["c", "b", "a"])).tolist() == [2, -1, 0]
    same, again = KeyNumbers.load(names, Schema.of(rk=Type.STRING), two.chunks()).with_keys_of(_batch("rk", ["c"]))
    assert again.tolist() == [2]
    assert same.chunks()["keys"].to_pydict() == {"number": [0, 2], "key.0": ["a", "c"]}


def _batch(name: str, values: list[str]) -> Batch:
    columns = pa.RecordBatch.from_pydict({name: pa.array(values, pa.string())})
    return Batch(np.zeros(len(values), np.int64), np.ones(len(values), np.int64), columns)


def test_the_element_that_completes_each_query() -> None:
    matured = CompletedSubscriptions(ints(7, 3), ints(0, 5), ints(10, 10))
    assert completing_elements(matured, ints(3, 4, 7, 8)).tolist() == [5, NEVER, 0, NEVER]
    assert completing_elements(CompletedSubscriptions(ints(), ints(), ints()), ints(1)).tolist() == [NEVER]


@pytest.mark.parametrize(
    ("done", "before", "before_done", "refused", "ended"),
    [
        pytest.param(NEVER, -1, NEVER, [False, True, False, True], [-1, -1, 10, -1], id="twice, then ended twice"),
        pytest.param(2, -1, NEVER, [False, False, False, True], [-1, -1, 11, -1], id="complete, and then begun anew"),
        pytest.param(4, -1, NEVER, [False, True, True, True], [-1, -1, -1, -1], id="complete behind the second"),
        pytest.param(NEVER, 5, NEVER, [True, True, False, True], [-1, -1, 5, -1], id="there before"),
        pytest.param(NEVER, 5, 0, [False, True, False, True], [-1, -1, 10, -1], id="there before, and complete"),
    ],
)
def test_an_identity_through_its_events(
    done: int, before: int, before_done: int, refused: list[bool], ended: list[int]
) -> None:
    """Registered behind element 0, again behind element 3, ended behind 4 and behind 5."""
    events = SubscriptionEvents(
        ints(0, 0, 0, 0),
        flags(False, False, True, True),
        ints(1, 4, 5, 6),
        ints(10, 11, 0, 0),
        ints(done, NEVER, NEVER, NEVER),
        ints(*[before] * 4),
        ints(*[before_done] * 4),
    )
    verdict = resolve_events(events)
    assert verdict.refused.tolist() == refused
    assert verdict.ended.tolist() == ended
