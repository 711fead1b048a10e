"""A value is a frozen dataclass with slots: whatever that can do, it does."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.values import value


@value
class Pair:
    left: Any
    right: Any = None
    note: str = field(default="", compare=False)
    total: int = field(init=False, repr=False, default=7)


@value
class Empty:
    pass


@value
class Lonely:
    only: int


@value
class Rounded:  # noqa: PLW1641 - what is tested
    size: float

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Rounded) and round(self.size) == round(other.size)


@dataclass(frozen=True, slots=True)
class Model:
    left: Any
    right: Any = None
    note: str = field(default="", compare=False)
    total: int = field(init=False, repr=False, default=7)


PARTS = st.tuples(st.integers(0, 2), st.none() | st.text("ab", max_size=1), st.sampled_from(["", "x"]))


@given(PARTS, PARTS)
def test_a_value_compares_hashes_and_reads_as_a_dataclass(one, other):
    assert (Pair(*one) == Pair(*other)) == (Model(*one) == Model(*other))
    assert hash(Pair(*one)) == hash(Model(*one))
    assert repr(Pair(*one)) == repr(Model(*one)).replace("Model", "Pair")
    assert [each.name for each in fields(Pair)] == [each.name for each in fields(Model)]
    assert Pair.__match_args__ == Model.__match_args__


def test_values_of_different_classes_differ():
    assert Empty() == Empty()
    assert Lonely(1) == Lonely(1) != Lonely(2)
    assert Pair.__eq__(Pair(1), Model(1)) is NotImplemented
    assert {Empty(), Empty(), Lonely(1), Lonely(1)} == {Empty(), Lonely(1)}


def test_methods_that_a_class_has_stay():
    assert Rounded(1.2) == Rounded(0.9)
    assert hash(Rounded(1.2)) == hash(Rounded(1.2))


def test_a_value_cannot_be_changed_but_replaced_copied_and_pickled():
    pair = Pair(1, [2])
    with pytest.raises(FrozenInstanceError):
        pair.left = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError):
        del pair.left
    assert not hasattr(pair, "__dict__")
    assert replace(pair, left=3) == Pair(3, [2])
    assert copy.deepcopy(pair) == pickle.loads(pickle.dumps(pair)) == pair


def test_a_value_that_holds_itself_can_be_shown():
    parts: list[object] = []
    pair = Pair(parts)
    parts.append(pair)
    assert repr(pair) == "Pair(left=[...], right=None, note='')"
