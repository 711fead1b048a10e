"""Every aggregate against plain Python over the multiset of values that are live at each instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.states import through_files

from tidegate.algebra.plan import AggregateCall
from tidegate.expressions.functions.aggregates import AGGREGATES
from tidegate.physical.aggregate.kernels import slot_order, slot_sums, slots
from tidegate.physical.aggregate.operator import AggregateOperator, slot_aggregation_of
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

Row = dict[str, Any]
Element = tuple[int, int, Row]

NAN, INF, BIG = math.nan, math.inf, 2**62
SOURCE = Schema.of(
    k=Type.STRING, i=Type.BIGINT, x=Type.DOUBLE, r=Type.REAL, s=Type.STRING, u=Type.TIMESTAMP, t=Type.BIGINT
)
DOMAINS: dict[str, list[object]] = {
    "k": ["a", "b", None],
    "i": [0, 1, 2, -1, BIG, -BIG, 2**63 - 1, -(2**63), None],
    "x": [0.0, -0.0, 0.1, 0.3, -0.1, 1e16, 1e300, 5e-324, 3e-162, NAN, INF, -INF, None],
    "r": [0.5, -0.0, 3.25, NAN, None],
    "s": ["", "ä", "z", "zz", None],
    "t": [0, 1, 2],
    "u": [datetime(2026, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), None],
}
INSTANTS = [*range(21), FOREVER - 1]
SHARES = [0, 0.1, 0.25, 0.5, 0.9, 1, 0.333]


def call(function: str, *columns: str, options: tuple[float, ...] = (), distinct: bool = False) -> AggregateCall:
    result = AGGREGATES[function].result(*(SOURCE.type_of(c) for c in columns))
    assert result is not None
    name = "_".join([function, "distinct" if distinct else "", *columns, *map(str, options)])
    first, others = (columns[0], columns[1:]) if columns else (None, ())
    return AggregateCall(function, first, name, result, others, options, distinct)


NUMBERS = ("i", "x", "r")
CALLS = [
    *(call(f, c) for f in ("variance", "var_pop", "stddev", "stddev_pop", "median") for c in NUMBERS),
    *(call("quantile", c, options=(share,)) for c in NUMBERS for share in SHARES),
    *(call(f, c, "t") for f in ("first", "last") for c in ("i", "x", "r", "s", "u")),
    *(call(f, a, b) for f in ("arg_max", "arg_min") for a in ("i", "x", "s") for b in ("x", "s", "u")),
    *(call(f, c, distinct=True) for f in ("sum", "avg") for c in NUMBERS),
    *(call("count", c, distinct=True) for c in ("i", "x", "s", "u")),
    *(call(f, c) for f in ("sum", "avg", "count") for c in NUMBERS),
    *(call(f, c) for f in ("min", "max") for c in ("i", "x", "s", "u")),
    call("count"),
]  # fmt: skip


# --- the definition ---------------------------------------------------------------------------------


def canonical(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def ascending(value: Any) -> tuple[bool, Any]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def rounded(exact: Fraction) -> float:
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return INF if exact > 0 else -INF


def total(values: Sequence[float]) -> float:
    wild = {canonical(v) for v in values if not math.isfinite(v)}
    if wild:
        return NAN if len(wild) > 1 or "NaN" in wild else wild.pop()
    return rounded(sum(map(Fraction, values), Fraction()))


def variance(values: Sequence[float], fewer: int) -> float | None:
    if len(values) <= fewer:
        return None
    if not all(map(math.isfinite, values)):
        return NAN
    exact = [Fraction(v) for v in values]
    squares, square = sum((v * v for v in exact), Fraction()), sum(exact, Fraction()) ** 2
    return rounded((squares - square / len(exact)) / (len(exact) - fewer))


def quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values, key=ascending)
    place = Fraction(str(share)) * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    part = place - math.floor(place)
    if part == 0 or canonical(below) == canonical(above):
        return float(below)
    if math.isfinite(below) and math.isfinite(above):
        return rounded(Fraction(below) + (Fraction(above) - Fraction(below)) * part)
    return sum(v for v in (below, above) if not math.isfinite(v))


def evaluate(of: AggregateCall, elements: Sequence[Element]) -> object:
    known: list[tuple[Any, Any]]
    rows = [row for _, _, row in elements]
    if of.column is None:
        return len(rows)
    match of.function:
        case "first" | "last":
            known = [(row["t"], ascending(row[of.column])) for row in rows if row[of.column] is not None]
            best = (min if of.function == "first" else max)(known, default=(0, (False, None)))[1]
            return NAN if best[0] else best[1]
        case "arg_max" | "arg_min":
            known = [(ascending(row[of.others[0]]), row[of.column]) for row in rows if row[of.others[0]] is not None]
            if not known:
                return None
            best = (max if of.function == "arg_max" else min)(by for by, _ in known)
            tied = [value for by, value in known if by == best and value is not None]
            return min(tied, key=ascending, default=None)
    values = [row[of.column] for row in rows if row[of.column] is not None]
    if of.distinct:
        values = list({canonical(v): v for v in values}.values())
    return of_values(of, values)


def of_values(of: AggregateCall, values: Sequence) -> object:
    match of.function:
        case "count":
            return len(values)
        case _ if not values:
            return None
        case "sum" if SOURCE.type_of(of.column or "").is_floating:
            return total(values)
        case "sum":
            return sum(values) if -(2**63) <= sum(values) < 2**63 else "overflow"
        case "avg":
            return total(values) / len(values)
        case "min":
            return min(values, key=ascending)
        case "max":
            return max(values, key=ascending)
        case "median":
            return quantile(values, 0.5)
        case "quantile":
            return quantile(values, float(of.options[0]))
    found = variance(values, 0 if of.function.endswith("pop") else 1)
    return found if found is None or of.function.startswith("var") or math.isnan(found) else math.sqrt(found)


def results_at(operator: AggregateOperator, elements: Sequence[Element], instant: int) -> dict[tuple, tuple]:
    groups: dict[tuple, list[Element]] = {}
    for element in elements:
        if element[0] <= instant < element[1]:
            groups.setdefault(tuple(canonical(element[2][key]) for key in operator.keys), []).append(element)
    return {key: tuple(canonical(evaluate(c, live)) for c in operator.calls) for key, live in groups.items()}


# --- random runs ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    operator: AggregateOperator
    steps: list[tuple[list[Element], int]]
    serialised: bool

    @property
    def elements(self) -> list[Element]:
        return [element for elements, _ in self.steps for element in elements]


@st.composite
def runs(draw: st.DrawFn, calls: Sequence[AggregateCall] = tuple(CALLS)) -> Run:
    chosen = tuple(draw(st.lists(st.sampled_from(calls), min_size=1, max_size=4, unique=True)))
    operator = AggregateOperator(
        SOURCE, draw(st.sampled_from([(), ("k",), ("k", "s")])), chosen, draw(st.sampled_from(Emit))
    )
    marks = sorted(draw(st.lists(st.integers(0, 18), max_size=5)))
    used = {c for each in chosen for c in each.columns} | set(operator.keys)
    steps: list[tuple[list[Element], int]] = [([], mark) for mark in [*marks, FOREVER]]
    for element in draw(st.lists(_elements(used), max_size=14)):
        allowed = [at for at in range(len(steps)) if at == 0 or steps[at - 1][1] <= element[0]]
        steps[draw(st.sampled_from(allowed))][0].append(element)
    return Run(operator, steps, draw(st.booleans()))


def _elements(used: set[str]) -> st.SearchStrategy[Element]:
    rows = st.fixed_dictionaries({n: st.sampled_from(d) if n in used else st.none() for n, d in DOMAINS.items()})
    lengths = st.one_of(st.integers(1, 6), st.sampled_from([0, FOREVER]))
    return st.builds(lambda t, n, row: (t, min(t + n, FOREVER), row), st.integers(0, 12), lengths, rows)


def batch(elements: Sequence[Element]) -> Batch:
    columns = [pa.array([row[f.name] for *_, row in elements], f.type.arrow) for f in SOURCE]
    times = np.array([element[:2] for element in elements], np.int64).reshape(len(elements), 2)
    return Batch(times[:, 0].copy(), times[:, 1].copy(), pa.RecordBatch.from_arrays(columns, schema=SOURCE.arrow))


def stepped(run: Run) -> list[tuple[list[Element], int]]:
    """The output and the promise of each step."""
    state, made, promised = NO_STATE, [], -FOREVER
    for elements, watermark in run.steps:
        step = run.operator.step(state, [batch(elements)], [watermark])
        state = through_files(step.state) if run.serialised else step.state
        rows = step.output.columns.to_pylist()
        new = list(zip(step.output.start.tolist(), step.output.end.tolist(), rows, strict=True))
        assert all(promised <= start < end <= watermark for start, end, _ in new)
        assert promised <= step.watermark <= watermark
        assert run.operator.emit.holds_back or step.watermark == watermark
        promised = step.watermark
        made.append((new, promised))
    return made


def snapshot(rows: Sequence[Element], instant: int) -> Counter:
    return Counter(tuple(map(canonical, row.values())) for start, end, row in rows if start <= instant < end)


def expected(run: Run, instant: int) -> Counter:
    found = results_at(run.operator, run.elements, instant)
    return Counter(key + results for key, results in found.items() if "overflow" not in results)


@given(runs())
@settings(max_examples=examples(30), deadline=None)
def test_snapshots_are_those_of_the_definition(run: Run) -> None:
    rows: list[Element] = []
    for new, promised in stepped(run):
        rows += new
        for instant in (t for t in INSTANTS if t < promised):
            assert snapshot(rows, instant) == expected(run, instant)
    assert promised == FOREVER


@pytest.mark.parametrize("of", CALLS, ids=lambda c: c.name)
@given(data=st.data())
@settings(max_examples=examples(12), deadline=None)
def test_each_aggregate_is_what_its_definition_says(of: AggregateCall, data: st.DataObject) -> None:
    run = data.draw(runs([of]))
    rows = [row for new, _ in stepped(run) for row in new]
    for instant in INSTANTS:
        assert snapshot(rows, instant) == expected(run, instant)


@given(runs())
@settings(max_examples=examples(30), deadline=None)
def test_equal_neighbours_are_one_piece_unless_a_step_cut_them(run: Run) -> None:
    rows = [row for new, _ in stepped(run) for row in new]
    marks = {watermark for _, watermark in run.steps if run.operator.emit is not Emit.ENDED}
    keyed = sorted((tuple(map(str, map(canonical, row.values()))), start, end) for start, end, row in rows)
    for (values, _, end), (others, start, _) in pairwise(keyed):
        assert values != others or end != start or end in marks


@given(runs())
@settings(max_examples=examples(30), deadline=None)
def test_a_value_comes_out_when_it_begins_unless_its_end_is_waited_for(run: Run) -> None:
    assume(run.operator.emit is not Emit.ENDED)
    rows: list[Element] = []
    before: dict[tuple, tuple] = {}
    for (new, _), (_, watermark) in zip(stepped(run), run.steps, strict=True):
        rows += new
        before = {}
        for instant in (t for t in INSTANTS if t < watermark):
            now = results_at(run.operator, run.elements, instant)
            for key, results in now.items():
                if before.get(key) != results and "overflow" not in results:
                    assert snapshot(rows, instant)[key + results] == 1
            before = now


@given(runs())
@settings(max_examples=examples(40), deadline=None)
def test_kernels_are_compiled_once_whatever_they_work_on(run: Run) -> None:
    stepped(run)
    kernels: list[Any] = [
        slots.first_live,
        slots.merge_equal_codes,
        slots._number_slots,
        slot_sums._integer_sums,
        slot_order._quantiles,
    ]
    assert all(len(kernel.machine_code.signatures) <= 1 for kernel in kernels)
    assert all(len(kernel.machine_code.signatures) <= 2 for kernel in (slot_sums._double_sums, slot_sums._variances))


def test_calls_that_the_sweep_knows_are_left_to_it() -> None:
    fast = tuple(c for c in CALLS if c.function in ("count", "sum", "avg", "min", "max") and not c.distinct)
    assert slot_aggregation_of(AggregateOperator(SOURCE, (), fast, Emit.SETTLED)) is None
    assert slot_aggregation_of(AggregateOperator(SOURCE, (), (*fast, call("median", "x")), Emit.SETTLED)) is not None
