"""The first rows in an order against plain Python, at every instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.states import through_files

from tidegate.algebra.plan import Order
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Chunks, Step
from tidegate.physical.relation.limit import LimitOperator
from tidegate.physical.relation.prune import PruneOperator
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

Row = tuple[Any, ...]
Element = tuple[int, int, Row]

SOURCE = Schema.of(k=Type.STRING, i=Type.INT, x=Type.DOUBLE)
DOMAINS: list[list[Any]] = [["a", "b", None], [1, 2, None], [0.0, -0.0, 1.5, math.nan, -math.inf, None]]
INSTANTS = [*range(21), FOREVER - 1]
ORDERS = [Order(c, d, n) for c in SOURCE.names for d in (False, True) for n in (False, True)]


@dataclass(frozen=True)
class Run:
    operator: LimitOperator
    steps: list[tuple[list[Element], int]]
    serialised: bool
    pruned: bool = False

    def step(self, state: Chunks, elements: Sequence[Element], watermark: int) -> Step:
        """What the operator does with the elements; or with those that are left of them, if it is pruned."""
        new = batch(elements)
        if self.pruned:
            first, most = self.operator.order[0], self.operator.offset + self.operator.count
            new = PruneOperator(SOURCE, first, most, self.operator.keys).step(NO_STATE, [new], [watermark]).output
        return self.operator.step(state, [new], [watermark])

    @property
    def elements(self) -> list[Element]:
        return [element for elements, _ in self.steps for element in elements]


def canonical(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def ascending(value: object) -> tuple[bool, bool, object]:
    """Ordinary values, then NaN, then NULL."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return value is None, is_nan, 0 if value is None or is_nan else value


def first_rows(operator: LimitOperator, elements: Sequence[Element], instant: int) -> Counter:
    rows = sorted((row for start, end, row in elements if start <= instant < end), key=lambda r: [*map(ascending, r)])
    for order in reversed(operator.order):
        at = SOURCE.names.index(order.column)
        known = [row for row in rows if row[at] is not None]
        known.sort(key=lambda row: ascending(row[at]), reverse=order.descending)
        nulls = [row for row in rows if row[at] is None]
        rows = nulls + known if order.nulls_first else known + nulls
    groups: dict[Row, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[SOURCE.names.index(key)] for key in operator.keys), []).append(row)
    return Counter(tuple(map(canonical, row)) for group in groups.values() for row in window(operator, group))


def window(operator: LimitOperator, rows: Sequence[Row]) -> Sequence[Row]:
    places = [SOURCE.names.index(order.column) for order in operator.order]
    until = operator.offset + operator.count
    chosen = list(rows[operator.offset : until])
    for row in rows[until:]:
        if operator.ties and chosen and all(ascending(row[at]) == ascending(chosen[-1][at]) for at in places):
            chosen.append(row)
    return chosen


@st.composite
def runs(draw: st.DrawFn) -> Run:
    order = tuple(draw(st.lists(st.sampled_from(ORDERS), max_size=2)))
    count, offset = draw(st.integers(0, 3)), draw(st.integers(0, 2))
    keys = draw(st.sampled_from([(), ("k",), ("k", "i")]))
    operator = LimitOperator(SOURCE, order, count, offset, keys, draw(st.sampled_from(Emit)), draw(st.booleans()))
    lengths = st.one_of(st.integers(1, 6), st.sampled_from([0, FOREVER]))
    values = st.tuples(*(st.sampled_from(domain) for domain in DOMAINS))
    element = st.builds(lambda t, n, row: (t, min(t + n, FOREVER), row), st.integers(0, 12), lengths, values)
    marks = sorted(draw(st.lists(st.integers(0, 18), max_size=5)))
    steps: list[tuple[list[Element], int]] = [([], mark) for mark in [*marks, FOREVER]]
    for each in draw(st.lists(element, max_size=14)):
        allowed = [at for at in range(len(steps)) if at == 0 or steps[at - 1][1] <= each[0]]
        steps[draw(st.sampled_from(allowed))][0].append(each)
    pruned = bool(order and count) and draw(st.booleans())
    return Run(operator, steps, draw(st.booleans()), pruned)


def batch(elements: Sequence[Element]) -> Batch:
    columns = [pa.array([row[at] for *_, row in elements], f.type.arrow) for at, f in enumerate(SOURCE)]
    times = np.array([element[:2] for element in elements], np.int64).reshape(len(elements), 2)
    return Batch(times[:, 0].copy(), times[:, 1].copy(), pa.RecordBatch.from_arrays(columns, schema=SOURCE.arrow))


def snapshot(rows: Sequence[Element], instant: int) -> Counter:
    return Counter(tuple(map(canonical, row)) for start, end, row in rows if start <= instant < end)


@given(runs())
@settings(max_examples=examples(60), deadline=None)
def test_snapshots_are_the_first_rows_of_what_is_valid(run: Run) -> None:
    rows: list[Element] = []
    state, promised = NO_STATE, -FOREVER
    for elements, watermark in run.steps:
        step = run.step(state, elements, watermark)
        state = through_files(step.state) if run.serialised else step.state
        values = [tuple(row.values()) for row in step.output.columns.to_pylist()]
        new = list(zip(step.output.start.tolist(), step.output.end.tolist(), values, strict=True))
        assert all(promised <= start < end <= watermark for start, end, _ in new)
        assert promised <= step.watermark <= watermark
        assert run.operator.emit.holds_back or step.watermark == watermark
        rows, promised = rows + new, step.watermark
        for instant in (t for t in INSTANTS if t < promised):
            assert snapshot(rows, instant) == first_rows(run.operator, run.elements, instant)
    assert promised == FOREVER


@given(st.lists(st.sampled_from([0, 1]), min_size=30, max_size=60), st.lists(st.integers(1, 9), max_size=4))
@settings(max_examples=examples(30), deadline=None)
def test_many_equal_rows_do_not_change_places_from_step_to_step(values: list[int], marks: list[int]) -> None:
    operator = LimitOperator(SOURCE, (Order("i"),), 3, 1, (), Emit.EARLY)
    elements: list[Element] = [(at % 10, at % 10 + 5 + at % 3, ("a", value, None)) for at, value in enumerate(values)]
    steps, before = [], -1
    for mark in [*sorted(marks), FOREVER]:
        steps.append(([e for e in elements if before <= e[0] < mark], mark))
        before = mark
    check: Any = test_snapshots_are_the_first_rows_of_what_is_valid
    check.hypothesis.inner_test(Run(operator, steps, serialised=False))


@given(runs())
@settings(max_examples=examples(50), deadline=None)
def test_a_row_comes_out_when_it_becomes_one_of_the_first_and_when_it_no_longer_is(run: Run) -> None:
    state, pieces = NO_STATE, 0
    for elements, watermark in run.steps:
        step = run.step(state, elements, watermark)
        state, pieces = step.state, pieces + len(step.output)
    if run.operator.emit is Emit.EARLY:
        changes = sum(
            (first_rows(run.operator, run.elements, t) - first_rows(run.operator, run.elements, t - 1)).total()
            for t in INSTANTS
        )
        steps_of_one_element = 2 * len(run.elements)  # equal rows may take turns
        assert pieces <= 2 * changes + steps_of_one_element
