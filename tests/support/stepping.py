"""Run a plan's operators step by step, without stages and buckets, and look at what comes out at each instant."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from reference.totals import Told

from support.states import through_files
from tidegate.algebra.plan import Plan, Scan, Validity
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.lower import lower
from tidegate.schema import Schema
from tidegate.time import BEGINNING, FOREVER

Row = tuple[Any, ...]
Element = tuple[int, int, Row]
Bag = Counter[Row]

LAST = 24
"""All of what is drawn happens before; what is still valid then is so for ever."""

INSTANTS = [*range(-3, LAST + 1), FOREVER - 1]


@dataclass(frozen=True)
class Arrival:
    """The elements of each stream in one step, and the streams' watermarks after it."""

    elements: dict[str, list[Element]]
    watermarks: dict[str, int]


@dataclass(frozen=True)
class Delivery:
    """Streams cut into steps; at the end all are finished. With `serialised`, state goes through files."""

    steps: list[Arrival]
    serialised: bool = False

    @property
    def streams(self) -> dict[str, list[Element]]:
        names = self.steps[0].elements
        return {name: [e for step in self.steps for e in step.elements[name]] for name in names}


def at_once(**streams: list[Element]) -> Delivery:
    """All elements in one step, which is the last one."""
    return Delivery([Arrival(streams, dict.fromkeys(streams, FOREVER))])


def in_steps(elements: Sequence[Element], marks: Sequence[int], stream: str = "left") -> Delivery:
    """The elements of one stream as they come in order: before each watermark those that start before it."""
    bounds = [BEGINNING, *marks, FOREVER]
    chosen = [[e for e in elements if low <= e[0] < high] for low, high in pairwise(bounds)]
    return Delivery([Arrival({stream: c}, {stream: w}) for c, w in zip(chosen, bounds[1:], strict=True)])


def intervals(name: str, schema: Schema) -> Scan:
    return Scan(name, schema, validity=Validity.INTERVAL)


def bag_at(elements: Iterable[Element], instant: int) -> Bag:
    return Counter(row for start, end, row in elements if start <= instant < end)


def canonical(value: object) -> object:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def named(delivery: Delivery, **schemas: Schema) -> dict[str, list[tuple[int, int, dict[str, object]]]]:
    """The elements of all streams, rows with the names of their columns."""
    return {
        name: [(start, end, dict(zip(schemas[name].names, row, strict=True))) for start, end, row in elements]
        for name, elements in delivery.streams.items()
    }


Timed = tuple[int, tuple[Any, ...]]
"""When an alarm is, and its values in canonical form."""


def counted_told(
    tell: Callable[[int], Told], instants: Iterable[int]
) -> tuple[Counter[Timed], Counter[tuple[int, str]]]:
    """All alarms, and the times and reasons of all dead letters."""
    alarms, dead = Counter[Timed](), Counter[tuple[int, str]]()
    for instant in instants:
        told = tell(instant)
        alarms.update((instant, tuple(map(canonical, alarm.values))) for alarm in told.alarms)
        dead.update((instant, reason) for reason, _ in told.dead)
    return alarms, dead


# --- random deliveries ------------------------------------------------------------------------------


def lengths(longest: int, *, endless: bool = False) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(1, longest), st.just(FOREVER)) if endless else st.integers(1, longest)


@st.composite
def deliveries(
    draw: st.DrawFn, rows: dict[str, st.SearchStrategy[Row]], length: st.SearchStrategy[int], *, most: int = 10
) -> Delivery:
    """Elements at random times, each in a step whose watermarks allow it."""
    count = draw(st.integers(1, 5))
    marks = {name: [*sorted(draw(st.lists(st.integers(0, 14), min_size=count - 1, max_size=count - 1))), FOREVER]
             for name in rows}  # fmt: skip
    steps = [Arrival({name: [] for name in rows}, {name: marks[name][at] for name in rows}) for at in range(count)]
    for name, kinds in rows.items():
        for start, long, row in draw(st.lists(st.tuples(st.integers(0, 10), length, kinds), max_size=most)):
            allowed = [at for at in range(count) if at == 0 or marks[name][at - 1] <= start]
            element = (start, min(start + long, FOREVER), row)
            steps[draw(st.sampled_from(allowed))].elements[name].append(element)
    return Delivery(steps, draw(st.booleans()))


# --- running ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """All that came out, the watermark of each step, and how many elements were out then."""

    elements: list[Element]
    promises: list[tuple[int, int]]
    dead: list[dict[str, object]]
    states: list[dict[str, Chunks]]


def run(plan: Plan, delivery: Delivery, *, emit: Emit = Emit.ENDED, lowered: PhysicalPlan | None = None) -> Outcome:
    """Run a plan's operators; every element must start at or after what was promised before."""
    physical = lowered or lower(plan, emit=emit)
    found = Outcome([], [], [], [])
    state: dict[str, Chunks] = {}
    promised = BEGINNING
    for arrival in delivery.steps:
        after: dict[str, Chunks] = {}
        output, watermark = _step(physical, "0", state, after, arrival, found.dead)
        state = {p: through_files(c) for p, c in after.items()} if delivery.serialised else after
        new = elements_of(output)
        assert all(promised <= start < end <= FOREVER for start, end, _ in new)
        assert promised <= watermark
        promised = watermark
        found.elements.extend(new)
        found.promises.append((watermark, len(found.elements)))
        found.states.append(after)
    assert promised == FOREVER
    return found


def _step(
    plan: PhysicalPlan, path: str, before: dict[str, Chunks], after: dict[str, Chunks], arrival: Arrival,
    dead: list[dict[str, object]],
) -> tuple[Batch, int]:  # fmt: skip
    match plan:
        case Read(stream=stream, schema=schema):
            return batch_of(schema, arrival.elements[stream]), arrival.watermarks[stream]
        case Apply(operator=operator, inputs=inputs):
            below = [_step(each, f"{path}.{i}", before, after, arrival, dead) for i, each in enumerate(inputs)]
            step = operator.step(before.get(path, NO_STATE), [b for b, _ in below], [w for _, w in below])
            assert step.output.columns.schema.names == list(operator.schema.names)
            assert operator.describe()
            after[path] = step.state
            dead.extend(step.dead.to_pylist())
            return step.output, step.watermark
    raise AssertionError(plan)


def batch_of(schema: Schema, elements: Sequence[Element]) -> Batch:
    columns = [pa.array([row[i] for *_, row in elements], f.type.arrow) for i, f in enumerate(schema)]
    start, end = (np.array([e[i] for e in elements], np.int64) for i in (0, 1))
    return Batch(start, end, pa.RecordBatch.from_arrays(columns, schema=schema.arrow))


def elements_of(batch: Batch) -> list[Element]:
    rows = batch.columns.to_pylist() if batch.columns.num_columns else [{}] * len(batch)
    values = (tuple(map(canonical, row.values())) for row in rows)
    return list(zip(batch.start.tolist(), batch.end.tolist(), values, strict=True))


def check(outcome: Outcome, expected: dict[int, Bag]) -> None:
    """Everything before a promise is out when it is given; at the end everything is."""
    for watermark, count in outcome.promises:
        for instant, bag in expected.items():
            if instant < watermark:
                assert bag_at(outcome.elements[:count], instant) == bag, instant
