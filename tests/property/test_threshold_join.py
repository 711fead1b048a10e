"""Threshold joins against all combinations: never a missed alarm, never a false one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.alerts import Combination, Element, Near, alarms, needed
from support.examples import examples

from tidegate.algebra.threshold_alert import Alert, Demand, KeepAll, Link, demands_on
from tidegate.expressions.nodes import Call, Cast, Column, Expression, Literal
from tidegate.optimizer.omission import omission_window
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, Chunks, Step
from tidegate.physical.threshold_alert.omission import OmitOperator
from tidegate.physical.threshold_alert.operator import ThresholdAlertOperator
from tidegate.schema import Schema, Type
from tidegate.time import BEGINNING, CHRONON, FOREVER

VALUE_SHAPES = ("rising", "falling", "quasiconvex")


def schema(which: int) -> Schema:
    return Schema.of(**{f"{which}.k": Type.STRING, f"{which}.t": Type.BIGINT, f"{which}.v": Type.INT})


def literal(value: int) -> Literal:
    return Literal(value, Type.INT)


def term(which: int, shape: str) -> Expression:
    v = Column(f"{which}.v", Type.INT)
    match shape:
        case "rising":
            return v
        case "falling":
            return Call("negate", (v,), Type.INT)
    return Call("abs", (Call("-", (v, literal(2)), Type.INT),), Type.INT)


def value_of(shape: str, v: int) -> int:
    return {"rising": v, "falling": -v, "quasiconvex": abs(v - 2)}[shape]


@dataclass(frozen=True)
class Watch:
    """An alert with what the reference needs of it."""

    alert: Alert
    shapes: tuple[str, ...]
    threshold: int

    @property
    def near(self) -> Near:
        if self.alert.step > 1:
            return Near((), (self.alert.step, self.alert.links[0].before))
        links = self.alert.links
        return Near(tuple((x.left, x.right, x.before, x.after, x.open_before, x.open_after) for x in links))

    def total(self, values: Sequence[int]) -> int:
        return sum(value_of(s, v) for s, v in zip(self.shapes, values, strict=True))

    def crosses(self, values: Sequence[int]) -> bool:
        return self.total(values) > self.threshold

    def alarms(self, streams: Sequence[Sequence[Element]]) -> set[Combination]:
        return alarms([streams[m] for m in self.alert.members], self.near, self.crosses)


@dataclass(frozen=True)
class Run:
    """Alerts over streams that come in steps, each with the watermarks after it."""

    watches: tuple[Watch, ...]
    steps: tuple[tuple[tuple[tuple[Element, ...], ...], tuple[int, ...]], ...]
    omits: bool

    @property
    def many(self) -> int:
        return len(self.steps[0][1])

    @property
    def alerts(self) -> tuple[Alert, ...]:
        return tuple(w.alert for w in self.watches)

    @property
    def streams(self) -> list[list[Element]]:
        return [[e for step, _ in self.steps for e in step[i]] for i in range(self.many)]

    def outcomes(self) -> Iterator[Step]:
        keys = tuple((f"{i}.k",) for i in range(self.many))
        operator = ThresholdAlertOperator(tuple(schema(i) for i in range(self.many)), keys, self.alerts)
        state: Chunks = NO_STATE
        for elements, watermarks in self.steps:
            step = operator.step(state, [self.batch(i, e) for i, e in enumerate(elements)], watermarks)
            state = {name: pa.ipc.read_record_batch(c.serialize(), c.schema) for name, c in step.state.items()}
            yield step

    def batch(self, which: int, elements: Sequence[Element]) -> Batch:
        """New elements, as they are or as they are left by what omits them before they travel."""
        made, demands = batch_of(which, elements), demands_on(which, self.alerts)
        if not self.omits or not demands:
            return made
        return OmitOperator(schema(which), (f"{which}.k",), demands).step(NO_STATE, [made], [0]).output

    def copies(self, combination: Combination, alert: Alert) -> int:
        """How often a combination can be there: as often as there are equal elements."""
        return math.prod(self.streams[m].count(e) for m, e in zip(alert.members, combination, strict=True))

    def needed(self, which: int) -> set[Element]:
        """The elements of an input that some alert cannot do without."""
        elements, kept = self.streams[which], set[Element]()
        for alert in (a for a in self.alerts if which in a.members):
            match alert.demands[alert.members.index(which)]:
                case KeepAll():
                    return set(elements)
                case Demand(window=window, strict=strict, above=above, below=below):
                    kept |= needed(elements, window, strict=strict, above=above, below=below)
        return kept


def batch_of(which: int, elements: Sequence[Element]) -> Batch:
    columns = [
        pa.array([k for k, _, _ in elements], pa.string()),
        pa.array([t for _, t, _ in elements], pa.int64()),
        pa.array([v for _, _, v in elements], pa.int32()),
    ]
    times = np.array([t for _, t, _ in elements], np.int64)
    return Batch(times, times + 1, pa.RecordBatch.from_arrays(columns, schema=schema(which).arrow))


def combination_of(row: dict[str, object], alert: Alert) -> Combination:
    return tuple((row[f"{m}.k"], row[f"{m}.t"], row[f"{m}.v"]) for m in alert.members)  # type: ignore[misc]


# ---- random alerts


def topologies(members: int) -> list[list[tuple[int, int]]]:
    pairs = [(i, j) for i in range(members) for j in range(i + 1, members)]
    star, chain = [(0, i) for i in range(1, members)], [(i, i + 1) for i in range(members - 1)]
    return [pairs, pairs, star, chain, pairs[:-1] if members > 2 else pairs]


@st.composite
def watches(draw: st.DrawFn, inputs: int) -> Watch:
    members = tuple(sorted(draw(st.permutations(range(inputs)))[: draw(st.integers(2, inputs))]))
    shapes = tuple(draw(st.sampled_from(VALUE_SHAPES)) for _ in members)
    step, links = 1, tuple[Link, ...]()
    if draw(st.integers(0, 4)):
        same = draw(st.integers(1, 4)) if draw(st.booleans()) else None
        ends = draw(st.sampled_from([(False, False), (True, True), (True, False), (False, True)]))
        for left, right in draw(st.sampled_from(topologies(len(members)))):
            before, after = (same, same) if same else (draw(st.integers(1, 4)), draw(st.integers(1, 4)))
            links += (Link(left, right, before, after, *ends),)
    else:
        step, length = draw(st.sampled_from([(2, 2), (2, 4), (3, 5), (2, 3)]))
        links = tuple(Link(i, j, length, length, True, True) for i, j in topologies(len(members))[0])
    total = term(members[0], shapes[0])
    for m, s in zip(members[1:], shapes[1:], strict=True):
        total = Call("+", (total, term(m, s)), Type.INT)
    threshold = draw(st.integers(-2, 6))
    condition = Call(">", (total, literal(threshold)), Type.BOOLEAN)
    alert = Alert("a", members, links, Cast(total, Type.DOUBLE), condition, step)
    return Watch(
        replace(alert, demands=tuple(demand_of(alert, at, s) for at, s in enumerate(shapes))), shapes, threshold
    )


def demand_of(alert: Alert, position: int, shape: str) -> Demand | KeepAll:
    window = omission_window(alert, position)
    if isinstance(window, KeepAll):
        return window
    return Demand(f"{alert.members[position]}.v", *window, shape != "falling", shape != "rising")


@st.composite
def runs(draw: st.DrawFn, *, timeless: bool = False) -> Run:
    inputs = draw(st.sampled_from([2, 2, 3, 4]))
    element = st.tuples(st.sampled_from("ab"), st.integers(0, 12), st.integers(0, 5))
    steps = draw(st.integers(1, 4))
    marks = [sorted(draw(st.lists(st.integers(0, 14), min_size=steps, max_size=steps))) for _ in range(inputs)]
    if timeless:
        marks = [[BEGINNING] * steps for _ in range(inputs)]
    else:
        for each in marks:
            each[-1] = FOREVER
    parts: list[list[list[Element]]] = [[[] for _ in range(inputs)] for _ in range(steps)]
    for which in range(inputs):
        for e in draw(st.lists(element, max_size=9 if inputs < 4 else 5)):
            allowed = [at for at in range(steps) if at == 0 or marks[which][at - 1] <= e[1]]
            parts[draw(st.sampled_from(allowed))][which].append(e)
    given_steps = tuple((tuple(map(tuple, parts[at])), tuple(m[at] for m in marks)) for at in range(steps))
    many = draw(st.sampled_from([1, 1, 2]))
    return Run(tuple(draw(watches(inputs)) for _ in range(many)), given_steps, draw(st.booleans()))


# ---- what must hold


@given(runs())
@settings(max_examples=examples(120), deadline=None)
def test_alarms_are_true_and_all_those_of_needed_elements_are_raised(run: Run) -> None:
    found: list[list[Combination]] = [[] for _ in run.watches]
    promised = BEGINNING - 100
    for step in run.outcomes():
        assert all(promised <= start < end for start, end in zip(step.output.start, step.output.end, strict=True))
        promised = step.watermark
        for row, start, end in zip(step.output.columns.to_pylist(), step.output.start, step.output.end, strict=True):
            watch = run.watches[row["alert:number"]]
            combination = combination_of(row, watch.alert)
            found[row["alert:number"]].append(combination)
            times, values = zip(*((t, v) for _, t, v in combination), strict=True)
            assert (start, end) == (min(times), max(times) + CHRONON)
            assert row["alert:value"] == watch.total(values)
            assert len({row[f"{i}.k"] for i in range(run.many)}) == 1
    for watch, raised in zip(run.watches, found, strict=True):
        every = watch.alarms(run.streams)
        assert all(count <= run.copies(combination, watch.alert) for combination, count in Counter(raised).items())
        assert set(raised) <= every
        assert watch.alarms([sorted(run.needed(i)) for i in range(run.many)]) <= set(raised)


@given(runs())
@settings(max_examples=examples(80), deadline=None)
def test_each_alarm_of_all_elements_has_one_at_least_as_great_near_by(run: Run) -> None:
    raised: list[set[Combination]] = [set() for _ in run.watches]
    for step in run.outcomes():
        for row in step.output.columns.to_pylist():
            number = row["alert:number"]
            raised[number].add(combination_of(row, run.alerts[number]))
    for watch, found in zip(run.watches, raised, strict=True):
        reach = [d.window if isinstance(d, Demand) else 0 for d in watch.alert.demands]
        for missed in watch.alarms(run.streams) - found:
            assert any(
                other[0][0] == missed[0][0]
                and watch.total([v for *_, v in other]) >= watch.total([v for *_, v in missed])
                and all(abs(o[1] - m[1]) <= r for o, m, r in zip(other, missed, reach, strict=True))
                for other in found
            )


@given(runs(timeless=True))
@settings(max_examples=examples(80), deadline=None)
def test_what_is_kept_is_what_is_needed(run: Run) -> None:
    (*_, last) = run.outcomes()
    for which in range(run.many):
        chunks = [c for name, c in last.state.items() if name.startswith(f"side.{which}")]
        kept = [tuple(row.values())[2:] for chunk in chunks for row in chunk.to_pylist()]
        is_used = any(which in alert.members for alert in run.alerts)
        expected = run.needed(which) if is_used else set()
        assert set(kept) == expected
        assert len(kept) == len(expected) or not demands_on(which, run.alerts)
