"""Aggregation against its definition: at every instant, the aggregates of the elements that are valid then."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.states import through_files

from tidegate.algebra.plan import AggregateCall
from tidegate.physical.aggregate.kernels.sweep import sweep
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

Row = dict[str, Any]
Element = tuple[int, int, Row]
Snapshot = Counter[tuple[object, ...]]

NAN, INF = math.nan, math.inf
BIG = 2**62
OVERFLOW = "overflow"

SOURCE = Schema.of(
    k=Type.STRING, f=Type.DOUBLE, i=Type.BIGINT, j=Type.INT, x=Type.DOUBLE, r=Type.REAL, s=Type.STRING,
    b=Type.BOOLEAN, u=Type.TIMESTAMP, v=Type.INTERVAL,
)  # fmt: skip
DOMAINS: dict[str, list[object]] = {
    "k": ["a", "b"],
    "f": [0.0, -0.0, NAN, None],
    "i": [0, 1, -1, BIG, -BIG, None],
    "j": [1, 2, None],
    "x": [0.0, -0.0, 0.1, -0.1, 1e16, 5e-324, NAN, INF, -INF, None],
    "r": [0.5, -0.0, NAN, None],
    "s": ["", "ä", "z", "zz", None],
    "b": [True, False, None],
    "u": [datetime(2026, 1, 1, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), None],
    "v": [timedelta(seconds=1), timedelta(seconds=-1), None],
}
INSTANTS = [*range(21), FOREVER - 1]


def call(function: str, column: str | None) -> AggregateCall:
    kind = Type.DOUBLE if function == "avg" or SOURCE.type_of(column or "k").is_floating else Type.BIGINT
    kind = SOURCE.type_of(column) if function in ("min", "max") and column else kind
    kind = Type.BIGINT if function == "count" else kind
    return AggregateCall(function, column, f"{function}_{column}", kind)


CALLS = (
    [call("count", column) for column in (None, "i", "x", "s")]
    + [call(function, column) for function in ("sum", "avg") for column in ("i", "j", "x", "r")]
    + [call(function, column) for function in ("min", "max") for column in ("i", "j", "x", "r", "s", "b", "u", "v")]
)
KEYS = [(), ("k",), ("f",), ("k", "f"), ("s", "f", "b")]


@dataclass(frozen=True)
class Run:
    """A stream, cut into steps: the elements of each and the watermark after it."""

    operator: AggregateOperator
    steps: list[tuple[list[Element], int]]
    serialised: bool

    @property
    def elements(self) -> list[Element]:
        return [element for elements, _ in self.steps for element in elements]


# --- the definition ---------------------------------------------------------------------------------


def canonical(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def ascending(value: object) -> tuple[bool, object]:
    is_nan = isinstance(value, float) and math.isnan(value)
    return (is_nan, 0 if is_nan else value)


def total(values: Sequence[float]) -> float:
    if any(math.isnan(v) for v in values) or (INF in values and -INF in values):
        return NAN
    return math.fsum(values)


def evaluate(of: AggregateCall, rows: Sequence[Row]) -> object:
    if of.column is None:
        return len(rows)
    values = [row[of.column] for row in rows if row[of.column] is not None]
    match of.function:
        case "count":
            return len(values)
        case _ if not values:
            return None
        case "min":
            return min(values, key=ascending)
        case "max":
            return max(values, key=ascending)
        case "avg":
            exact = total(values) if SOURCE.type_of(of.column).is_floating else float(sum(values))
            return exact / len(values)
        case "sum" if SOURCE.type_of(of.column).is_floating:
            return total(values)
    return sum(values) if -(2**63) <= sum(values) < 2**63 else OVERFLOW


def results_at(operator: AggregateOperator, elements: Iterable[Element], instant: int) -> dict[tuple, tuple]:
    """The results of each group at an instant, an overflow in place of a sum that does not fit."""
    groups: dict[tuple, list[Row]] = {}
    for start, end, row in elements:
        if start <= instant < end:
            groups.setdefault(tuple(canonical(row[key]) for key in operator.keys), []).append(row)
    return {key: tuple(canonical(evaluate(c, rows)) for c in operator.calls) for key, rows in groups.items()}


def snapshot(operator: AggregateOperator, elements: Iterable[Element], instant: int) -> Snapshot:
    found = results_at(operator, elements, instant)
    return Counter(key + results for key, results in found.items() if OVERFLOW not in results)


def begins(operator: AggregateOperator, elements: list[Element], before: int) -> list[tuple[int, tuple, tuple]]:
    """Where each value of each group begins: instant, key, results."""
    previous: dict[tuple, tuple] = {}
    found = []
    for instant in [t for t in INSTANTS if t < before]:
        now = results_at(operator, elements, instant)
        found += [(instant, key, value) for key, value in now.items() if previous.get(key) != value]
        previous = now
    return found


# --- the operator -----------------------------------------------------------------------------------


def batch(elements: Sequence[Element], source: Schema = SOURCE) -> Batch:
    columns = [pa.array([row[f.name] for *_, row in elements], f.type.arrow) for f in source]
    times = np.array([element[:2] for element in elements], np.int64).reshape(len(elements), 2)
    return Batch(times[:, 0].copy(), times[:, 1].copy(), pa.RecordBatch.from_arrays(columns, schema=source.arrow))


def rows_of(output: Batch) -> list[Element]:
    rows = output.columns.to_pylist() if output.columns.num_columns else [{}] * len(output)
    return list(zip(output.start.tolist(), output.end.tolist(), rows, strict=True))


def values_of(row: Row) -> tuple[object, ...]:
    return tuple(map(canonical, row.values()))


def snapshot_of(rows: Iterable[Element], instant: int) -> Snapshot:
    return Counter(values_of(row) for start, end, row in rows if start <= instant < end)


# --- random runs ------------------------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn, emits: Sequence[Emit] = tuple(Emit)) -> Run:
    calls = tuple(draw(st.lists(st.sampled_from(CALLS), max_size=4, unique=True)))
    operator = AggregateOperator(SOURCE, draw(st.sampled_from(KEYS)), calls, draw(st.sampled_from(emits)))
    marks = sorted(draw(st.lists(st.integers(0, 18), max_size=5)))
    used = {c.column for c in calls if c.column} | set(operator.keys)
    elements = draw(st.lists(_elements(used), max_size=14))
    steps: list[tuple[list[Element], int]] = [([], mark) for mark in [*marks, FOREVER]]
    for element in elements:
        allowed = [at for at in range(len(steps)) if at == 0 or steps[at - 1][1] <= element[0]]
        steps[draw(st.sampled_from(allowed))][0].append(element)
    return Run(operator, steps, draw(st.booleans()))


def _elements(used: set[str]) -> st.SearchStrategy[Element]:
    """Short validities, at times empty or endless; columns that nobody looks at are NULL."""
    rows = st.fixed_dictionaries({n: st.sampled_from(d) if n in used else st.none() for n, d in DOMAINS.items()})
    lengths = st.one_of(st.integers(1, 6), st.sampled_from([0, FOREVER]))
    return st.builds(lambda t, n, row: (t, min(t + n, FOREVER), row), st.integers(0, 12), lengths, rows)


def cuts_are_at(watermarks: set[int], rows: Sequence[Element]) -> bool:
    """Whether equal neighbours of one group touch only where a step ended."""
    seen = {(start, values_of(row)) for start, _, row in rows}
    return all(end in watermarks or (end, values_of(row)) not in seen for _, end, row in rows)


def check_progress(run: Run, rows: list[Element], watermark: int, promised: int) -> None:
    """Everything before the promise is out; of every value that began before the watermark, the beginning may be."""
    for instant in [t for t in INSTANTS if t < promised]:
        assert snapshot_of(rows, instant) == snapshot(run.operator, run.elements, instant)
    if run.operator.emit is Emit.ENDED:
        return
    for instant, key, results in begins(run.operator, run.elements, watermark):
        assert OVERFLOW in results or snapshot_of(rows, instant)[key + results] == 1


@given(runs())
@settings(max_examples=examples(150))
def test_snapshots_are_those_of_the_definition(run: Run) -> None:
    state: Chunks = NO_STATE
    rows: list[Element] = []
    promised = -FOREVER
    for elements, watermark in run.steps:
        step = run.operator.step(state, [batch(elements)], [watermark])
        new = rows_of(step.output)
        assert all(promised <= start < end <= watermark for start, end, _ in new)
        assert promised <= step.watermark <= watermark
        assert run.operator.emit.holds_back or step.watermark == watermark
        rows, promised = rows + new, step.watermark
        state = through_files(step.state) if run.serialised else step.state
        check_progress(run, rows, watermark, promised)
    assert promised == FOREVER
    assert cuts_are_at({w for _, w in run.steps}, rows)


@given(runs())
@settings(max_examples=examples(60))
def test_each_sum_that_does_not_fit_becomes_one_dead_letter(run: Run) -> None:
    found: Snapshot = Counter()
    state = NO_STATE
    for elements, watermark in run.steps:
        step = run.operator.step(state, [batch(elements)], [watermark])
        state = step.state
        found += Counter((d["origin"], d["time"], _key_of(d, run.operator)) for d in step.dead.to_pylist())
    expected = Counter(
        (f"SUM({c.column})", instant, key)
        for instant, key, results in begins(run.operator, run.elements, FOREVER)
        for c, result in zip(run.operator.calls, results, strict=True)
        if result is OVERFLOW
    )
    assert found == expected


def _key_of(letter: Mapping[str, str], operator: AggregateOperator) -> tuple[object, ...]:
    assert letter["reason"] == "overflow"
    row = json.loads(letter["row"])
    return tuple(canonical(row[key]) for key in operator.keys)


@given(runs(emits=[Emit.EARLY]))
def test_a_value_that_stays_is_emitted_at_its_beginning_and_at_its_end_only(run: Run) -> None:
    emitted: Snapshot = Counter()
    state = NO_STATE
    for elements, watermark in run.steps:
        step = run.operator.step(state, [batch(elements)], [watermark])
        state = step.state
        emitted += Counter(values_of(row) for _, _, row in rows_of(step.output))
    values = Counter(
        key + results for _, key, results in begins(run.operator, run.elements, FOREVER) if OVERFLOW not in results
    )
    assert all(emitted[value] <= 2 * values[value] for value in emitted)
    assert set(emitted) == set(values)


@given(runs(emits=[Emit.ENDED]))
def test_a_value_is_emitted_once_when_its_end_is_known(run: Run) -> None:
    emitted: Snapshot = Counter()
    state = NO_STATE
    for elements, watermark in run.steps:
        step = run.operator.step(state, [batch(elements)], [watermark])
        state = step.state
        assert all(end < watermark or watermark == FOREVER for _, end, _ in rows_of(step.output))
        emitted += Counter((start, values_of(row)) for start, _, row in rows_of(step.output))
    assert emitted == Counter(
        (start, key + results)
        for start, key, results in begins(run.operator, run.elements, FOREVER)
        if OVERFLOW not in results
    )


@given(runs())
def test_the_sweep_is_compiled_once_whatever_it_works_on(run: Run) -> None:
    state: Chunks = NO_STATE
    for elements, watermark in run.steps:
        state = run.operator.step(through_files(state), [batch(elements)], [watermark]).state
    kernel: Any = sweep
    assert len(kernel.machine_code.signatures) <= 1


def test_many_elements_in_many_steps_agree_with_the_definition() -> None:
    """Long enough that runs of ends and of futures are merged and ranges of digits grow and shrink."""
    rng = np.random.default_rng(5)
    names = ("count_None", "sum_x", "avg_i", "min_x", "max_s")
    calls = tuple(c for c in CALLS if c.name in names)
    empty = dict.fromkeys(SOURCE.names)
    elements = [
        (t, t + int(rng.integers(1, 400)), {**empty, "k": f"{rng.integers(20)}", "i": int(rng.integers(9)),
         "x": float(rng.standard_normal() * 10.0 ** rng.integers(-30, 30)), "s": f"{rng.integers(99)}"})
        for t in sorted(rng.integers(0, 1500, 3000).tolist())
    ]  # fmt: skip
    for emit in Emit:
        operator = AggregateOperator(SOURCE, ("k",), calls, emit)
        rows: list[Element] = []
        state = NO_STATE
        for now in range(0, 1500, 30):  # an element comes up to 100 instants before its time
            come = [e for e in elements if now <= max(0, e[0] - 100 + hash(e[0]) % 100) < now + 30]
            step = operator.step(state, [batch(come)], [now])
            state, rows = step.state, rows + rows_of(step.output)
            assert len(state) <= 2 + len(calls) + 2 * 8
        late = [e for e in elements if max(0, e[0] - 100 + hash(e[0]) % 100) >= 1500]
        rows += rows_of(operator.step(state, [batch(late)], [FOREVER]).output)
        for instant in range(0, 1900, 37):
            assert snapshot_of(rows, instant) == snapshot(operator, elements, instant)
