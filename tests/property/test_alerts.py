"""Alerts from their text to their alarms, however the streams arrive, and in any number of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import interesting_instants_of, snapshots
from reference.semantics import elements_of, relations_of
from strategies.streams import Delivery, RawElement, Streams, deliveries
from support.examples import examples
from support.harness import rows_of, run

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import walk
from tidegate.algebra.threshold_alert import Alert, Demand
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import optimize
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.schema import Schema, Type

NAMES = ("r", "s", "u")
SCHEMA = Schema.of(k=Type.INT, v=Type.DOUBLE, t=Type.BIGINT)
DELAY = 2

DECLARED = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE CHECK (v BETWEEN 0 AND 5), t BIGINT) FROM 'dataframe://{name}' "
    f"TIMESTAMP BY t DELAY {DELAY} MICROSECONDS;\n"
    for name in NAMES
)

FORMULAS = {
    "r.v + s.v": lambda r, s, u: r + s,
    "r.v * s.v - r.v": lambda r, s, u: r * s - r,
    "greatest(abs(r.v - 2), abs(s.v - 3))": lambda r, s, u: max(abs(r - 2), abs(s - 3)),
    "r.v + s.v - u.v": lambda r, s, u: r + s - u,
    "(r.v - 2) * (r.v - 2) + s.v * u.v": lambda r, s, u: (r - 2) ** 2 + s * u,
    "-r.v * r.v + s.v + u.v": lambda r, s, u: -r * r + s + u,
}


@st.composite
def raw_streams(draw: st.DrawFn) -> Streams:
    row = st.tuples(st.integers(0, 10), st.integers(0, 1), st.sampled_from([0.0, 1.0, 2.0, 3.0, 4.5]))
    elements = {n: sorted(draw(st.lists(row, max_size=8))) for n in NAMES}
    given_elements: dict[str, list[RawElement]] = {
        n: [(t, {"k": k, "v": v, "t": t}) for t, k, v in elements[n]] for n in NAMES
    }
    return Streams(dict.fromkeys(NAMES, SCHEMA), given_elements)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Streams, Delivery]:
    source = draw(raw_streams())
    return source, draw(deliveries(source, DELAY))


# ---- queries


@given(
    cases(),
    st.sampled_from(["r.v + s.v > 5", "r.v * s.v < 2", "abs(r.v - 2) + s.v >= 4", "r.v > s.v"]),
    st.integers(1, 4),
    st.integers(1, 4),
)
@settings(max_examples=examples(30), deadline=None)
def test_a_query_that_only_asks_whether_a_threshold_is_crossed_keeps_its_meaning(case, threshold, first, second):
    source, delivery = case
    text = (
        f"SELECT DISTINCT r.k FROM r WINDOW(RANGE {first} MICROSECONDS), s WINDOW(RANGE {second} MICROSECONDS) "
        f"WHERE r.k = s.k AND {threshold}"
    )
    plan = bind(DECLARED + text).queries[0].plan
    assert any(isinstance(node, ThresholdJoin) for node in walk(optimize(plan)[0]))
    rows = rows_of(run(plan, source, delivery, delay=DELAY))
    instants = interesting_instants_of(plan, elements_of(source.elements), rows)
    assert snapshots(rows, instants) == relations_of(plan, elements_of(source.elements), instants)


def test_a_query_that_counts_every_combination_is_left_alone():
    text = "SELECT r.k FROM r WINDOW(RANGE 5), s WINDOW(RANGE 5) WHERE r.k = s.k AND r.v + s.v > 5"
    plan = optimize(bind(DECLARED + text).queries[0].plan)[0]
    assert not any(isinstance(node, ThresholdJoin) for node in walk(plan))


# ---- alerts


@dataclass(frozen=True)
class Case:
    """An alert: its text, and who takes part."""

    members: tuple[str, ...]
    formula: str
    threshold: float
    near: str
    everything: bool

    def text(self, name: str) -> str:
        end = " EMIT ALL" if self.everything else ""
        streams = ", ".join(self.members)
        return (
            f"CREATE ALERT {name} FROM {streams} {self.near} MATCHING k WHEN {self.formula} > {self.threshold}{end};\n"
        )


@st.composite
def alerts(draw: st.DrawFn) -> Case:
    formula = draw(st.sampled_from(list(FORMULAS)))
    members = tuple(name for name in NAMES if f"{name}.v" in formula)
    d = draw(st.integers(1, 4))
    near = [
        f"WITHIN {d} MICROSECONDS",
        f"WITHIN {d} MICROSECONDS OPEN",
        f"WITHIN WINDOWS OF {d + 1} MICROSECONDS SLIDE 2 MICROSECONDS",
    ]
    if len(members) == 3:
        near += [
            f"WITHIN {d} MICROSECONDS OF s",
            f"WITHIN {d} MICROSECONDS BETWEEN r AND s, {d + 1} MICROSECONDS BETWEEN s AND u",
        ]
    return Case(
        members, formula, draw(st.sampled_from([-3, 0, 2.5, 4, 6])), draw(st.sampled_from(near)), draw(st.booleans())
    )


@given(cases(), st.lists(alerts(), min_size=1, max_size=2))
@settings(max_examples=examples(40), deadline=None)
def test_no_alarm_is_false_and_none_is_missed(case, chosen):
    source, delivery = case
    program = bind(DECLARED + "".join(each.text(f"alert_{i}") for i, each in enumerate(chosen)))
    compiled, graph = compile_queries(program)
    streams = (stream for stream in program.catalog if isinstance(stream, SourceStream))
    memory = {s.name: MemorySource(s, _table([])) for s in streams if s.name in graph.streams}
    engine = Engine(Job(graph, memory, {}, delivery.buckets))
    boxes = []
    for arrival in delivery.arrivals[:-1]:
        raw = {n: _table(e).to_batches() for n, e in arrival.elements.items() if n in graph.streams}
        boxes.append(engine.step(raw)[0])
    boxes.append(engine.finish())
    for number, (each, query) in enumerate(zip(chosen, compiled, strict=True)):
        found = [
            _combination(row, each.members)
            for box in boxes
            for name, batch in box.results
            if name == query.query.name
            for row in batch.columns.to_pylist()
        ]
        _check(each, source, found, _reach(query.optimized, f"alert_{number}"))


def _check(case: Case, source: Streams, found: Sequence, reach: Sequence[int]) -> None:
    every = _brute(case, source)
    assert set(found) <= every
    if case.everything:
        assert set(found) == every
    for missed in every - set(found):
        assert any(
            other[0][0] == missed[0][0]
            and _value(case, other) >= _value(case, missed)
            and all(abs(o[1] - m[1]) <= r for o, m, r in zip(other, missed, reach, strict=True))
            for other in found
        )


def _brute(case: Case, source: Streams) -> set:
    streams = [[(row["k"], t, row["v"]) for t, row in source.elements[name]] for name in case.members]
    return {
        c
        for c in product(*streams)
        if len({k for k, _, _ in c}) == 1 and _near(case, [t for _, t, _ in c]) and _value(case, c) > case.threshold
    }


def _near(case: Case, times: Sequence[int]) -> bool:
    words = case.near.split()
    if words[1] == "WINDOWS":
        length, step = int(words[3]), 2
        return max(times) < min(times) // step * step + length
    d = int(words[1])
    if "BETWEEN" in words:
        return abs(times[0] - times[1]) <= d and abs(times[1] - times[2]) <= d + 1
    if "OF" in words:
        return all(abs(t - times[1]) <= d for t in times)
    return max(times) - min(times) < d if "OPEN" in words else max(times) - min(times) <= d


def _value(case: Case, combination) -> float:
    values = dict(zip(case.members, (v for _, _, v in combination), strict=True))
    return FORMULAS[case.formula](*(values.get(name, 0) for name in NAMES))


def _combination(row, members: Sequence[str]):
    return tuple((row["k"], row[f"{m}_t"], row[f"{m}_v"]) for m in members)


def _reach(plan, name: str) -> list[int]:
    (alert,) = {a for node in walk(plan) if isinstance(node, ThresholdJoin) for a in node.alerts if a.name == name}
    assert isinstance(alert, Alert)
    return [d.window if isinstance(d, Demand) else 0 for d in alert.demands]


def _table(elements) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([row["k"] for _, row in elements], pa.int32()),
            "v": pa.array([row["v"] for _, row in elements], pa.float64()),
            "t": pa.array([t for t, _ in elements], pa.int64()),
        }
    )
