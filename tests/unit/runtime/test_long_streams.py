"""Many elements in many steps say the same as all at once: long enough that waiting elements are merged and leave."""

from __future__ import annotations

import numpy as np
import pytest
from support.stepping import Arrival, Delivery, Element, bag_at, intervals, run

from tidegate.algebra.plan import (
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Window,
)
from tidegate.expressions.nodes import Call, Column
from tidegate.physical.common.emit import Emit
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

LAST, STEP, AHEAD = 1200, 30, 100

COLUMNS, OTHERS = Schema.of(k=Type.BIGINT, n=Type.BIGINT), Schema.of(l=Type.BIGINT, m=Type.BIGINT)
LEFT, RIGHT, RAW = intervals("left", COLUMNS), intervals("right", OTHERS), Scan("left", COLUMNS)
K, N, L, M = (Column(name, Type.BIGINT) for name in (*COLUMNS.names, *OTHERS.names))
SAME_KEY, LESS = Call("=", (K, L), Type.BOOLEAN), Call("<", (N, M), Type.BOOLEAN)

PLANS: list[Plan] = [
    Changes(LEFT, Change.INSERTED),
    Changes(LEFT, Change.DELETED_LAST),
    Coalesce(LEFT, 40),
    CountWindow(RAW, 7, 3, ("k",)),
    CountWindow(RAW, 50),
    SetOperation(LEFT, RIGHT, SetRule.EXCEPT_ALL),
    SetOperation(LEFT, RIGHT, SetRule.INTERSECT),
    SemiJoin(LEFT, RIGHT, SAME_KEY),
    SemiJoin(LEFT, RIGHT, SAME_KEY, anti=True),
    SemiJoin(LEFT, RIGHT, Call("and", (SAME_KEY, LESS), Type.BOOLEAN), anti=True),
    Window(LEFT, 20, 5),
]


def stream(seed: int) -> list[tuple[int, Element]]:
    """Elements and when they come: up to AHEAD before their time. Half of them touch another one."""
    rng = np.random.default_rng(seed)
    count = 1500
    starts = np.sort(rng.integers(0, LAST, count))
    lengths = np.where(rng.random(count) < 0.5, 10, rng.integers(1, 30, count))
    starts = np.where(rng.random(count) < 0.5, starts // 10 * 10, starts)
    rows = rng.integers(0, [8, 3], (count, 2))
    come = np.maximum(starts - rng.integers(0, AHEAD, count), 0)
    return [
        (int(c), (int(s), int(s + n), tuple(map(int, row))))
        for c, s, n, row in zip(come, starts, lengths, rows, strict=True)
    ]


def delivery(streams: dict[str, list[tuple[int, Element]]], step: int) -> Delivery:
    steps = [
        Arrival({name: [e for c, e in came if t <= c < t + step] for name, came in streams.items()},
                dict.fromkeys(streams, t + step if t + step <= LAST else FOREVER))
        for t in range(0, LAST + 1, step)
    ]  # fmt: skip
    return Delivery(steps)


@pytest.mark.parametrize("emit", list(Emit))
@pytest.mark.parametrize("plan", PLANS)
def test_many_steps_say_the_same_as_one(plan: Plan, emit: Emit) -> None:
    streams = {"left": stream(1), "right": stream(2)}
    if isinstance(plan, CountWindow):
        streams["left"] = [(c, (s, s + 1, row)) for c, (s, _, row) in streams["left"]]
    many, one = (run(plan, delivery(streams, step), emit=emit) for step in (STEP, LAST + 1))
    for instant in [*range(0, LAST + 60, 7), FOREVER - 1]:
        assert bag_at(many.elements, instant) == bag_at(one.elements, instant)
    assert all(len(chunks) < 30 for chunks in many.states[-2].values())
