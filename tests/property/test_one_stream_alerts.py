"""Alerts on one stream from their text to their alarms, however readings arrive: against the definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.one_stream_alerts import Reading, Represents, alarms_of_one_stream, certain_from
from strategies.streams import Delivery, Streams, deliveries
from support.examples import examples

from tidegate.catalog.catalog import Catalog, SourceStream
from tidegate.catalog.python_functions import Registration
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.physical.threshold_alert.kernels.certainty import certain_from as certain_by_kernel
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

DELAY = 2
DECLARED = (
    "CREATE STREAM r (k INT, v DOUBLE CHECK (v BETWEEN 0 AND 5), t BIGINT) FROM 'dataframe://r' "
    f"TIMESTAMP BY t DELAY {DELAY} MICROSECONDS;\n"
)
SCHEMA = Schema.of(k=Type.INT, v=Type.DOUBLE, t=Type.BIGINT)
BOTH, GREATEST, SMALLEST, ALL = (True, True), (True, False), (False, True), (False, False)


@dataclass(frozen=True)
class Formula:
    """A function of a reading: its text, its value, and the sides on which readings represent others."""

    text: str
    value: Callable[[float], float]
    sides: tuple[bool, bool]


FORMULAS = [
    Formula("exp(v)", np.exp, GREATEST),
    Formula("-power(v, 3)", lambda v: -(v**3), SMALLEST),
    Formula("abs(v - 2)", lambda v: abs(v - 2), BOTH),
    Formula("costly(v)", lambda v: (v - 2) ** 2, BOTH),
    Formula("costly(v / 2) + 1", lambda v: (v / 2 - 2) ** 2 + 1, BOTH),
    Formula("strange(v)", lambda v: -((v - 2) ** 2), ALL),
]


@dataclass(frozen=True)
class Case:
    """An alert on one stream."""

    formula: Formula
    threshold: float
    within: int | None
    is_open: bool
    everything: bool
    matching: bool

    @property
    def text(self) -> str:
        within = "" if self.within is None else f" WITHIN {self.within} MICROSECONDS{' OPEN' * self.is_open}"
        ends = " ASSUME QUASICONVEX" * self.formula.text.startswith("costly") + " EMIT ALL" * self.everything
        by = " MATCHING k" * self.matching
        source = "r" if self.matching else "(SELECT v, t FROM r) r"
        return f"CREATE ALERT hot FROM {source}{within}{by} WHEN {self.formula.text} > {self.threshold}{ends};"

    @property
    def span(self) -> int:
        return 0 if self.within is None else self.within - self.is_open

    @property
    def represents(self) -> Represents:
        sides = ALL if self.everything or self.within is None else self.formula.sides
        return Represents(self.span, *sides)

    def crosses(self, value: float) -> bool:
        return bool(self.formula.value(value) > self.threshold)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    within = draw(st.sampled_from([None, 0, 1, 2, 3, 5]))
    is_open = bool(within) and draw(st.booleans())
    return Case(
        draw(st.sampled_from(FORMULAS)),
        draw(st.sampled_from([-3.0, 0.0, 0.5, 2.0, 10.0])),
        within,
        is_open,
        draw(st.integers(0, 5)) == 0,
        draw(st.booleans()),
    )


@st.composite
def arrivals(draw: st.DrawFn) -> tuple[list[Reading], Delivery]:
    row = st.tuples(st.integers(0, 12), st.integers(0, 1), st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.5]))
    rows = sorted(draw(st.lists(row, max_size=12)))
    source = Streams({"r": SCHEMA}, {"r": [(t, {"k": k, "v": v, "t": t}) for t, k, v in rows]})
    return [(k, t, v) for t, k, v in rows], draw(deliveries(source, DELAY))


class Functions(Registration):
    """A catalog with two functions of users, which counts the calls of one of them."""

    def __init__(self) -> None:
        self.catalog, self.calls = Catalog(), list[float]()
        self.function("costly", self._costly, arguments=["DOUBLE"], result="DOUBLE", vectorized=False)
        self.function("strange", lambda v: -((v - 2) ** 2), arguments=["DOUBLE"], result="DOUBLE", vectorized=False)

    def _costly(self, value: float) -> float:
        self.calls.append(value)
        return (value - 2) ** 2


@given(arrivals(), cases())
@settings(max_examples=examples(200), deadline=None)
def test_alarms_incidents_and_calls_are_those_of_the_definition(
    arriving: tuple[list[Reading], Delivery], case: Case
) -> None:
    readings, delivery = arriving
    if not case.matching:
        readings = [(None, t, v) for _, t, v in readings]
    functions = Functions()
    found = run(case.text, delivery, functions.catalog, matching=case.matching)
    expected = alarms_of_one_stream(readings, case.represents, case.crosses, case.span)
    assert Counter(found) == Counter(expected)
    needed = [r for r in readings if certain_from(r, readings, case.represents) is not None]
    if case.formula.text.startswith("costly"):
        assert len(functions.calls) == len(needed)
    for reading in (r for r in readings if case.crosses(r[2])):
        assert any(
            key == reading[0]
            and case.formula.value(v) >= case.formula.value(reading[2])
            and abs(t - reading[1]) <= case.span
            for key, t, v, _, _ in found
        )


def run(text: str, delivery: Delivery, catalog: Catalog, *, matching: bool) -> list[tuple]:
    program = bind(DECLARED + text, catalog)
    _, graph = compile_queries(program)
    (stream,) = (stream for stream in program.catalog if isinstance(stream, SourceStream))
    engine = Engine(Job(graph, {"r": MemorySource(stream, table([]))}, {}, delivery.buckets))
    boxes = [engine.step({"r": table(each.elements.get("r", ())).to_batches()})[0] for each in delivery.arrivals[:-1]]
    boxes.append(engine.finish())
    rows = [row for box in boxes for _, batch in box.results for row in _alarm_rows(batch, matching=matching)]
    assert not any(box.dead for box in boxes)
    return rows


def _alarm_rows(batch, *, matching: bool) -> list[tuple]:
    key, time, value = ("k" if matching else "r_k"), "r_t", "r_v"
    rows = batch.columns.to_pylist()
    assert batch.start.tolist() == [row[time] for row in rows]
    assert (batch.end == batch.start + 1).all()
    began = batch.columns["incident"].cast(pa.int64()).to_pylist()
    return [
        (row[key] if matching else None, row[time], row[value], start, row["alarm"])
        for row, start in zip(rows, began, strict=True)
    ]


def table(elements) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([row["k"] for _, row in elements], pa.int32()),
            "v": pa.array([row["v"] for _, row in elements], pa.float64()),
            "t": pa.array([t for t, _ in elements], pa.int64()),
        }
    )


# ---- the kernel


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8), st.sampled_from([-1.0, 0.0, 1.0, 2.0])), max_size=9),
    st.integers(0, 4),
    st.sampled_from([BOTH, GREATEST, SMALLEST, ALL]),
)
@settings(max_examples=examples(200), deadline=None)
def test_the_kernel_knows_from_when_a_reading_is_needed(rows, span, sides):
    rows.sort(key=lambda row: row[:2])
    group, time = (np.array([row[i] for row in rows], np.int64) for i in range(2))
    value = np.array([row[2] for row in rows], np.float64)
    above, below = sides
    found = certain_by_kernel(group, time, value, window=span, strict=False, above=above, below=below)
    expected = [certain_from(row, rows, Represents(span, *sides)) for row in rows]
    assert [None if each == FOREVER else each for each in found.tolist()] == expected
