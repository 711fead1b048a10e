"""Boxes of chapter 30, which run on the real engine, and the strategies that migrate from one to the other.

A box is an engine over one plan. All strategies get the same elements in the same steps, and the same two plans: a
left-deep join of four streams, and a right-deep one. What is measured of a step is what it releases, what is kept
after it, and how long it took.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import WHOLE, Join, Map, Output, Plan, Scan, Window
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.expressions.nodes import Call, Column
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.lower import lower
from tidegate.physical.relation.coalesce import merge_adjacent
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.job import Job
from tidegate.schema import Field, Schema, Type
from tidegate.time import FOREVER

SECOND = 1_000_000
STREAMS = ("a", "b", "c", "d")
MOST = {"a": 500, "b": 500, "c": 1000, "d": 1000}
SCHEMA = Schema((Field("v", Type.INT), Field("id", Type.INT), Field("old", Type.BOOLEAN)))

Elements = Mapping[str, Batch]


class Load(NamedTuple):
    """How many elements each stream has, how many a second, the window, and when the migration begins, in seconds."""

    elements: int
    rate: int
    window: int
    begin: int
    step: float = 0.1

    @property
    def seconds(self) -> int:
        return self.elements // self.rate


CHAPTER_30 = Load(5_000, 100, 10, 20)


def arrivals(load: Load, seed: int = 30) -> Iterator[tuple[int, Elements]]:
    """Yield the elements of each step as instants, with the watermark after it."""
    chance = np.random.default_rng(seed)
    per_step = round(load.rate * load.step)
    values = {s: chance.integers(0, MOST[s], load.elements, endpoint=True) for s in STREAMS}
    for first in range(0, load.elements, per_step):
        ids = np.arange(first, first + per_step)
        times = ids * SECOND // load.rate
        yield (
            int(ids[-1] + 1) * SECOND // load.rate,
            {s: element_batch(times, values[s][first : first + per_step], ids) for s in STREAMS},
        )


def element_batch(times: np.ndarray, values: np.ndarray, ids: np.ndarray, *, old: bool = False) -> Batch:
    columns = [pa.array(values, pa.int32()), pa.array(ids, pa.int32()), pa.array([old] * len(ids), pa.bool_())]
    return Batch(times, times + 1, pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow))


# ---- plans


def left_deep(window: int, *, flagged: bool = False) -> Plan:
    """((a ⋈ b) ⋈ c) ⋈ d."""
    a, b, c, d = (_side(s, window) for s in STREAMS)
    return _selected(_equal(_equal(_equal(a, b), c), d), flagged=flagged)


def right_deep(window: int, *, flagged: bool = False) -> Plan:
    """a ⋈ (b ⋈ (c ⋈ d))."""
    a, b, c, d = (_side(s, window) for s in STREAMS)
    return _selected(_equal(a, _equal(b, _equal(c, d))), flagged=flagged)


def _side(stream: str, window: int) -> Plan:
    windowed = Window(Scan(stream, SCHEMA), window * SECOND, 1)
    return Map(windowed, tuple(Output(f"{stream}.{f.name}", Column(f.name, f.type)) for f in SCHEMA))


def _equal(left: Plan, right: Plan) -> Plan:
    pair = (next(Column(f.name, f.type) for f in side.schema if f.name.endswith(".v")) for side in (left, right))
    return Join(left, right, Call("=", tuple(pair), Type.BOOLEAN))


def _selected(plan: Plan, *, flagged: bool) -> Plan:
    names = ["a.v", *(f"{s}.id" for s in STREAMS), *((f"{s}.old" for s in STREAMS) if flagged else ())]
    return Map(plan, tuple(Output(name, Column(name, plan.schema.type_of(name))) for name in names))


# ---- boxes


class Box:
    """A plan that runs."""

    def __init__(self, plan: Plan) -> None:
        graph = cut_into_stages([("box", lower(plan))])
        stream = {s: SourceStream(s, SCHEMA, f"memory://{s}", None) for s in STREAMS}
        sources = {s: MemorySource(stream[s], SCHEMA.arrow.empty_table()) for s in STREAMS}
        self.engine = Engine(Job(graph, sources, {}, 1))
        self.schema = plan.schema

    def step(self, elements: Elements, watermark: int) -> Batch:
        """Process elements, and return the results."""
        out = self.engine.advance(elements.items(), dict.fromkeys(STREAMS, watermark))
        return concat([Batch.empty(self.schema), *(batch for _, batch in out.results)])

    @property
    def kept(self) -> int:
        """Bytes of the state."""
        return self.engine.state_size().bytes


class Strategy(Protocol):
    """A way to migrate; before `begin` it runs the old box alone."""

    ended: int | None
    """Watermark at which the old box was dropped."""

    def begin(self, watermark: int) -> None: ...

    def step(self, elements: Elements, watermark: int) -> Sequence[Batch]: ...

    @property
    def kept(self) -> int: ...


@dataclass(slots=True)
class Genmig:
    """What Tidegate does: both boxes get all elements; the old one answers before the split, the new one from it on.

    Elements that began before the migration are not in the new box. The last of them ends a window after it began.
    """

    window: int
    old: Box | None = field(init=False)
    new: Box | None = field(init=False, default=None)
    split: int = field(init=False, default=FOREVER)
    ended: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.old = Box(left_deep(self.window))

    def begin(self, watermark: int) -> None:
        self.new, self.split = Box(right_deep(self.window)), watermark + self.window * SECOND

    def step(self, elements: Elements, watermark: int) -> Sequence[Batch]:
        found = []
        if self.old is not None:
            found.append(clip(self.old.step(elements, watermark), -FOREVER, self.split))
        if self.new is not None:
            found.append(clip(self.new.step(elements, watermark), self.split, FOREVER))
        if self.old is not None and watermark >= self.split:
            self.old, self.ended = None, watermark
        return found

    @property
    def kept(self) -> int:
        return sum(box.kept for box in (self.old, self.new) if box is not None)


@dataclass(slots=True)
class ParallelTrack:
    """Parallel track (Zhu, Rundensteiner, Heineman): flags, both boxes, and a buffer for what the new one finds.

    The old box is dropped when all that is old has left it: after two windows, because it purges the results between
    its joins a window after their newest part.
    """

    window: int
    old: Box | None = field(init=False)
    new: Box | None = field(init=False, default=None)
    buffered: list[Batch] = field(init=False, default_factory=list)
    last: int = field(init=False, default=FOREVER)
    ended: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.old = Box(left_deep(self.window, flagged=True))

    def begin(self, watermark: int) -> None:
        self.new, self.last = Box(right_deep(self.window)), watermark + 2 * self.window * SECOND

    def step(self, elements: Elements, watermark: int) -> Sequence[Batch]:
        found = []
        if self.old is not None:
            flagged = {s: _with_flag(each, old=self.new is None) for s, each in elements.items()}
            found.append(_old_only(self.old.step(flagged, watermark)))
        if self.new is not None:
            self.buffered.append(self.new.step(elements, watermark))
        if watermark >= self.last and self.old is not None:
            self.old, self.ended = None, watermark
        if self.old is None:
            found += self.buffered
            self.buffered = []
        return found

    @property
    def kept(self) -> int:
        waiting: int = sum(each.columns.nbytes + each.start.nbytes + each.end.nbytes for each in self.buffered)
        return waiting + sum(box.kept for box in (self.old, self.new) if box is not None)


@dataclass(slots=True)
class MovingStates:
    """Moving states: the new box processes what the old one holds of the streams, and its output is discarded."""

    window: int
    box: Box = field(init=False)
    held: list[tuple[int, Elements]] = field(init=False, default_factory=list)
    ended: int | None = field(init=False, default=None)
    pause: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.box = Box(left_deep(self.window))

    def begin(self, watermark: int) -> None:
        began = time.perf_counter()
        box = Box(right_deep(self.window))
        box.step({s: concat([elements[s] for _, elements in self.held]) for s in STREAMS}, watermark)
        self.box, self.ended = box, watermark
        self.pause = time.perf_counter() - began

    def step(self, elements: Elements, watermark: int) -> Sequence[Batch]:
        if self.ended is None:
            # The leaves of the old box have the same elements; they are kept here to be at hand.
            self.held = [each for each in self.held if each[0] > watermark - self.window * SECOND]
            self.held.append((watermark, elements))
        return [self.box.step(elements, watermark)]

    @property
    def kept(self) -> int:
        return self.box.kept


@dataclass(slots=True)
class Unmoved:
    """The old box, for ever: what is right, and what staying costs."""

    window: int
    box: Box = field(init=False)
    ended: int | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.box = Box(left_deep(self.window))

    def begin(self, watermark: int) -> None:
        pass

    def step(self, elements: Elements, watermark: int) -> Sequence[Batch]:
        return [self.box.step(elements, watermark)]

    @property
    def kept(self) -> int:
        return self.box.kept


STRATEGIES: Mapping[str, Callable[[int], Strategy]] = {
    "genmig": Genmig,
    "parallel_track": ParallelTrack,
    "moving_states": MovingStates,
    "unmoved": Unmoved,
}


def clip(batch: Batch, begin: int, end: int) -> Batch:
    start, stop = np.maximum(batch.start, begin), np.minimum(batch.end, end)
    return Batch(start, stop, batch.columns).filter(start < stop)


def _with_flag(batch: Batch, *, old: bool) -> Batch:
    flags = pa.array([old] * len(batch), pa.bool_())
    return batch.with_columns(batch.columns.set_column(2, SCHEMA.arrow.field(2), flags))


def _old_only(batch: Batch) -> Batch:
    flags = np.logical_or.reduce([batch.column(f"{s}.old").to_numpy(zero_copy_only=False) for s in STREAMS])
    return batch.with_columns(batch.columns.select(range(5))).filter(flags)


def whole_results(batches: Sequence[Batch]) -> pa.Table:
    """Return results whose cuts in time are undone, in a fixed order."""
    merged = merge_adjacent(concat(list(batches)), WHOLE)
    names = [(name, "ascending") for name in merged.to_arrow().schema.names]
    return pa.Table.from_batches([merged.to_arrow()]).sort_by(names)
