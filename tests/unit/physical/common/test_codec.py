"""Control values as JSON, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
import pytest

from tidegate.physical.common.codec import as_recorded, from_json, to_json


class Colour(Enum):
    RED = "a warm one"
    BLUE = "a cold one"


@dataclass(frozen=True)
class Small:
    number: int
    part: float | None = None


@dataclass(frozen=True, kw_only=True)
class Large(Small):
    is_on: bool
    colour: Colour
    pair: tuple[int, str]
    many: tuple[Small, ...] = ()
    listed: list[int] = field(default_factory=list)
    by_name: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    by_number: Mapping[int, Small | None] = field(default_factory=dict)


LARGE = Large(
    3, 0.5, is_on=True, colour=Colour.BLUE, pair=(1, "x"), many=(Small(1), Small(2, 1.5)), listed=[4],
    by_name={"a": (1.0, 2.5)}, by_number={7: Small(7), 8: None},
)  # fmt: skip


def test_a_value_is_equal_to_what_its_json_becomes():
    data = json.loads(json.dumps(to_json(LARGE)))
    assert data["colour"] == "BLUE"
    assert data["by_number"] == {"7": {"number": 7, "part": None}, "8": None}
    assert from_json(Large, data) == as_recorded(LARGE) == LARGE


def test_what_json_lacks_has_its_default():
    assert from_json(Small, {"number": 2}) == Small(2)
    with pytest.raises(TypeError):
        from_json(Small, {"part": 2.0})


def test_a_value_can_be_read_as_one_of_its_base_class():
    assert from_json(Small, to_json(LARGE)) == Small(3, 0.5)


def test_numbers_of_numpy_become_plain_or_are_refused():
    assert type(to_json(np.float64(2.5))) is float
    with pytest.raises(TypeError, match="int64 cannot become JSON"):
        to_json(Small(np.int64(2)))  # type: ignore[arg-type]


def test_whole_numbers_stay_whole():
    whole, decimal = (type(as_recorded(Small(1, part)).part) for part in (2, 2.0))
    assert (whole, decimal) == (int, float)


def test_a_pair_has_two_parts():
    with pytest.raises(ValueError, match="zip"):
        from_json(Large, {**to_json(LARGE), "pair": [1]})
