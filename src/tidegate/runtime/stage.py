"""Stages: parts of a physical plan with one partitioning each, and the graph they form.

A stage runs the same way in every runtime. `step` takes the new elements and watermarks of its ports
and the state of one bucket, and returns the new state and the outputs. Stages of level 0 read source
streams, keep no state, and can run wherever the rows are.

A part of plans that several readers share is a stage of its own, with an *outlet* for each reader. The
outlet has the stateless operators that only this reader needs, and the target of its elements. The
operators below run once per step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from time import perf_counter
from typing import cast

import pyarrow as pa

from tidegate.expressions.nodes import Expression
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.common.control import ControlRecord, Directive, Report
from tidegate.physical.common.dead_letters import DEAD_LETTER, NO_DEAD_LETTERS
from tidegate.physical.common.operator import (
    NO_STATE,
    BucketAware,
    Chunks,
    MovesTime,
    Operator,
    PairLimited,
    Steered,
)
from tidegate.runtime.figures import OperatorFigures
from tidegate.schema import Schema
from tidegate.time import BEGINNING
from tidegate.values import value


@value
class Port:
    """A place where elements enter a stage."""

    index: int
    schema: Schema


@value
class Node:
    """An operator inside a stage."""

    operator: Operator
    inputs: tuple[Node | Port, ...]

    @property
    def schema(self) -> Schema:
        return self.operator.schema


@value
class FromStream:
    """Feed of a port by a source stream; the port does not need rows for which `wanted` is not true."""

    stream: str
    wanted: Expression


@value
class FromStage:
    """Feed of a port by an outlet of another stage."""

    stage: int
    outlet: int = 0


@value
class ToStage:
    """Target of an output: a port of another stage.

    Elements are hashed by the columns `keys`. Without keys, one bucket gets all of them; if `keys` is None, every
    bucket does.
    """

    stage: int
    port: int
    keys: tuple[str, ...] | None


@value
class ToQuery:
    """Target of an output: the results of a query."""

    query: str


@value
class Outlet:
    """Output of a stage: its operators, its target, and the query it is for."""

    root: Node | Port
    target: ToStage | ToQuery
    query: str
    reader: str = ""
    """Who gets results: the query, or in a live graph a phase of it."""


@value
class StepContext:
    """Input of a stage's operators besides elements: directives by operator number, rows arrived, and the bucket."""

    directives: Mapping[int, Directive] = field(default_factory=dict)
    arrived: Mapping[str, int] = field(default_factory=Counter)
    """Number of raw rows of each source stream so far, including this step."""
    bucket: int = 0
    buckets: int = 1
    most_pairs: int | None = None
    """Maximum number of pairs of one operator, which raises `TooManyPairs` beyond it; None is unbounded."""


@dataclass(frozen=True, slots=True, eq=False)
class StageStep:
    """Result of a step of a stage; outputs and watermarks are by outlet."""

    state: Chunks
    outputs: tuple[Batch, ...]
    watermarks: tuple[int, ...]
    dead: pa.RecordBatch
    reports: Mapping[int, Report]
    """Reports of steered operators, by operator number."""
    figures: Mapping[int, OperatorFigures]
    """Figures of all operators, by operator number."""
    pairs: int = 0
    """The largest number of pairs that one operator made."""
    reach: int = BEGINNING
    """The largest end of an element that an operator with state gave."""


@dataclass(frozen=True)  # no slots: what follows from a stage is computed once and cached
class Stage:
    """Operators of a query's plan that run together. `partition` names the values that its buckets are hashed by.

    A stage that several queries share belongs to the first of them, and so do its dead letters.
    """

    number: int
    query: str
    level: int
    feeds: tuple[FromStream | FromStage, ...]
    outlets: tuple[Outlet, ...]
    partition: tuple[str, ...] | None

    @cached_property
    def root(self) -> Node | Port:
        """The operators of the first outlet; these include all operators with state, and all ports."""
        return self.outlets[0].root

    @cached_property
    def targets(self) -> tuple[ToStage | ToQuery, ...]:
        return tuple(outlet.target for outlet in self.outlets)

    @cached_property
    def port_schemas(self) -> Mapping[int, Schema]:
        """Schemas of the ports, by port number, in the order in which the operators read them."""
        found: dict[int, Schema] = {}
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            if isinstance(node, Port):
                found[node.index] = node.schema
            else:
                waiting += reversed(node.inputs)
        return found

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All operators in running order; an operator's position is its number in the state."""
        return tuple(node for own in self.nodes_of_outlets for node in own)

    @cached_property
    def nodes_of_outlets(self) -> tuple[tuple[Node, ...], ...]:
        """The operators of each outlet that no earlier outlet has, in running order."""
        known: set[int] | None = set() if len(self.outlets) > 1 else None
        return tuple(tuple(_collect_nodes(outlet.root, known)) for outlet in self.outlets)

    @cached_property
    def descriptions(self) -> tuple[str, ...]:
        """The lines of all operators in EXPLAIN, by number."""
        return tuple(node.operator.describe() for node in self.nodes)

    @property
    def is_single(self) -> bool:
        """Return whether all elements must be in one bucket."""
        return self.partition == ()

    def step(
        self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int], context: StepContext | None = None
    ) -> StageStep:
        """Run the operators of the stage bottom-up, each once with its part of the state."""
        run = _StageRun(state, inputs, watermarks, context or StepContext(), remembers=len(self.outlets) > 1)
        results: list[tuple[Batch, int]] = []
        letters: list[pa.RecordBatch] = []
        for outlet in self.outlets:
            results.append(run.visit(outlet.root))
            if run.dead:
                letters += _set_origin(outlet.query, run.dead)
                run.dead.clear()
        outputs, marks = zip(*results, strict=True)
        dead = concat_columns(letters) if letters else NO_DEAD_LETTERS
        return StageStep(run.kept, outputs, marks, dead, run.reports, run.figures, run.pairs, run.reach)

    def output_watermark(self, watermark: int) -> int:
        """Return the output watermark for an input watermark, of a stage with one port, one outlet and no state."""
        for operator in self._time_movers:
            watermark = operator.watermark_after(watermark)
        return watermark

    @cached_property
    def _time_movers(self) -> tuple[MovesTime, ...]:
        return tuple(node.operator for node in self.nodes if isinstance(node.operator, MovesTime))


def _collect_nodes(root: Node | Port, known: set[int] | None) -> Iterator[Node]:
    """Yield the operators of a tree bottom-up; with `known`, each object once, unless it is among them."""
    waiting: list[tuple[Node | Port, bool]] = [(root, False)]
    while waiting:
        node, is_ready = waiting.pop()
        if isinstance(node, Port) or (known is not None and id(node) in known):
            continue
        if is_ready:
            if known is not None:
                known.add(id(node))
            yield node
        else:
            waiting.append((node, True))
            waiting += [(each, False) for each in reversed(node.inputs)]


class _StageRun:
    """One step of a stage; operators are numbered in the order of their runs."""

    def __init__(
        self,
        state: Chunks,
        inputs: Sequence[Batch],
        watermarks: Sequence[int],
        context: StepContext,
        *,
        remembers: bool,
    ) -> None:
        self.state = _split_by_operator(state)
        self.inputs, self.watermarks, self.context = inputs, watermarks, context
        self.reports: dict[int, Report] = {}
        self.figures: dict[int, OperatorFigures] = {}
        self.kept: dict[str, pa.RecordBatch] = {}
        self.dead: list[pa.RecordBatch] = []
        self.visited = self.pairs = 0
        self.reach = BEGINNING
        # By identity, because outlets share node objects.
        self.known: dict[int, tuple[Batch, int]] | None = {} if remembers else None

    def visit(self, root: Node | Port) -> tuple[Batch, int]:
        """Run an operator after all operators below it; without recursion, because plans may be deep."""
        made: list[tuple[Batch, int]] = []
        waiting: list[tuple[Node | Port, bool]] = [(root, False)]
        while waiting:
            node, is_ready = waiting.pop()
            if isinstance(node, Port):
                made.append((self.inputs[node.index], self.watermarks[node.index]))
            elif self.known is not None and id(node) in self.known:
                made.append(self.known[id(node)])
            elif not is_ready:
                waiting.append((node, True))
                waiting += [(each, False) for each in reversed(node.inputs)]
            else:
                first = len(made) - len(node.inputs)
                made[first:] = [self.run_node(node, made[first:])]
                if self.known is not None:
                    self.known[id(node)] = made[-1]
        return made[0]

    def run_node(self, node: Node, below: Sequence[tuple[Batch, int]]) -> tuple[Batch, int]:
        number, self.visited = self.visited, self.visited + 1
        operator = node.operator
        if follows(type(operator), BucketAware):
            operator = cast("BucketAware", operator).for_bucket(self.context.bucket, self.context.buckets)
        if follows(type(operator), Steered):
            steered = cast("Steered[Directive, Report, ControlRecord]", operator)
            operator = steered.with_directive(self.context.directives.get(number), self.context.arrived)
        if self.context.most_pairs is not None and follows(type(operator), PairLimited):
            operator = cast("PairLimited", operator).with_pair_limit(self.context.most_pairs)
        began = perf_counter()
        step = operator.step(
            self.state.get(number, NO_STATE), [batch for batch, _ in below], [mark for _, mark in below]
        )
        rows_in = sum(len(batch) for batch, _ in below)
        seconds = perf_counter() - began
        self.figures[number] = OperatorFigures(rows_in, len(step.output), step.omitted, seconds, step.watermark)
        self.pairs = max(self.pairs, step.pairs)
        if operator.partition_keys is not None and len(step.output):
            self.reach = max(self.reach, int(step.output.end.max()))
        if step.report is not None:
            self.reports[number] = step.report
        self.kept.update({f"{number}/{name}": chunk for name, chunk in step.state.items()})
        if step.dead.num_rows:
            self.dead.append(step.dead)
        return step.output, step.watermark


@cache
def follows(kind: type, protocol: type) -> bool:
    """Return whether a class follows a protocol; cached, because the check is slower than many operators."""
    return issubclass(kind, protocol)


@dataclass(frozen=True)  # no slots: what follows from a graph is computed once and cached
class StageGraph:
    """All stages of a program, with the columns and rows that they need from each source stream."""

    stages: tuple[Stage, ...]
    declared: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Columns of streams of which more columns are decoded than the stages read, by stream.

    In a live graph these are all columns: which rows are bad must not depend on what else runs.
    """

    @cached_property
    def by_number(self) -> Mapping[int, Stage]:
        """The stages by number. In a live graph, numbers have gaps."""
        return {stage.number: stage for stage in self.stages}

    @property
    def numbers(self) -> frozenset[int]:
        return frozenset(self.by_number)

    def stages_at(self, level: int) -> tuple[Stage, ...]:
        return tuple(s for s in self.stages if s.level == level)

    def parts(self, levels: range) -> tuple[tuple[Stage, ...], ...]:
        """Group the stages of some levels into parts that feed each other, each in running order."""
        part_of: dict[int, list[Stage]] = {}
        for stage in (s for level in levels for s in self.stages_at(level)):
            below = (part_of.get(f.stage) for f in stage.feeds if isinstance(f, FromStage))
            merged = sorted({s.number: s for part in below if part for s in part}.values(), key=_running_order)
            merged.append(stage)
            part_of |= dict.fromkeys((s.number for s in merged), merged)
        return tuple({id(part): tuple(part) for part in part_of.values()}.values())

    @cached_property
    def levels(self) -> int:
        return 1 + max((s.level for s in self.stages), default=0)

    @cached_property
    def readers(self) -> Mapping[str, tuple[Stage, ...]]:
        """Stages that read a source stream, by stream, in the order of first use."""
        found: dict[str, tuple[Stage, ...]] = {}
        for stage in self.stages:
            for stream in dict.fromkeys(feed.stream for feed in stage.feeds if isinstance(feed, FromStream)):
                found[stream] = (*found.get(stream, ()), stage)
        return found

    @cached_property
    def streams(self) -> tuple[str, ...]:
        """Source streams in the order of first use."""
        return tuple(self.readers)

    def row_conditions(self, stream: str) -> tuple[Expression, ...]:
        """Return for each reader of a stream the condition on the rows that it needs."""
        return tuple(f.wanted for s in self.readers[stream] for f in s.feeds if isinstance(f, FromStream))

    def columns(self, stream: str) -> frozenset[str]:
        """Return the columns of a stream that any stage reads, or that are decoded anyway."""
        return self.declared.get(stream) or self._columns[stream]

    @cached_property
    def _columns(self) -> Mapping[str, frozenset[str]]:
        return {
            stream: frozenset(name for stage in stages for name in stage.port_schemas[0].names)
            for stream, stages in self.readers.items()
        }


def _running_order(stage: Stage) -> tuple[int, int]:
    return stage.level, stage.number


def _split_by_operator(state: Chunks) -> Mapping[int, Chunks]:
    parts: dict[int, dict[str, pa.RecordBatch]] = {}
    for name, chunk in state.items():
        number, _, rest = name.partition("/")
        parts.setdefault(int(number), {})[rest] = chunk
    return parts


def _set_origin(query: str, dead: Sequence[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Set the query as the origin of dead letters."""
    return [
        letters.set_column(0, DEAD_LETTER.field(0), pa.array([query] * letters.num_rows, pa.string()))
        for letters in dead
    ]
