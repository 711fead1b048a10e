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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter
from typing import NamedTuple, cast

import pyarrow as pa

from tidegate.expressions.nodes import Expression
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.control import ControlRecord, Directive, Report
from tidegate.physical.common.dead_letters import DEAD_LETTER
from tidegate.physical.common.operator import (
    NO_STATE,
    Chunks,
    MovesTime,
    Operator,
    Steered,
    Step,
    adjust_operator,
)
from tidegate.physical.common.sizes import NO_SIZES, SizeHistories
from tidegate.runtime.figures import OperatorFigures
from tidegate.runtime.placement import PlacedOperator, Placement, is_steered, place_operator
from tidegate.schema import Schema
from tidegate.time import BEGINNING
from tidegate.values import value

Address = tuple[int, int]
"""Address of a port: the number of the stage, and of the port in it."""


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
    """Input of a stage's operators besides elements: placement, directives by operator number, rows arrived, sizes."""

    placement: Placement = Placement()
    directives: Mapping[int, Directive] = field(default_factory=dict)
    arrived: Mapping[str, int] = field(default_factory=Counter)
    """Number of raw rows of each source stream so far, including this step."""
    sizes: SizeHistories = field(default_factory=lambda: NO_SIZES)


@dataclass(slots=True, eq=False)
class StageStep:
    """Result of a step of a stage."""

    state: dict[str, pa.RecordBatch] = field(default_factory=dict)
    outputs: tuple[tuple[Batch, int], ...] = ()
    """Elements and watermark of each outlet."""
    dead: list[pa.RecordBatch] = field(default_factory=list)
    reports: dict[int, Report] = field(default_factory=dict)
    """Reports of steered operators, by operator number."""
    figures: dict[int, OperatorFigures] = field(default_factory=dict)
    """Figures of all operators, by operator number."""
    pairs: int = 0
    """The largest number of pairs that one operator made."""
    reach: int = BEGINNING
    """The largest end of an element that an operator with state gave."""

    def add(self, number: int, placed: PlacedOperator, step: Step, rows_in: int, seconds: float) -> None:
        """Add the result of an operator."""
        rows_out = len(step.output)
        self.figures[number] = OperatorFigures(
            rows_in, rows_out, sum(step.omitted), seconds, step.watermark, step.omitted if any(step.omitted) else ()
        )
        self.pairs = max(self.pairs, step.pairs)
        if placed.is_keyed and rows_out:
            self.reach = max(self.reach, int(step.output.end.max()))
        if step.report is not None:
            self.reports[number] = step.report
        for name, chunk in step.state.items():
            self.state[f"{number}/{name}"] = chunk
        if step.dead.num_rows:
            self.dead.append(_with_origin(step.dead, placed.query))


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
    def addresses(self) -> tuple[Address, ...]:
        """Addresses of the ports that the outlets feed."""
        targets = (outlet.target for outlet in self.outlets)
        return tuple((target.stage, target.port) for target in targets if isinstance(target, ToStage))

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """All operators in running order; an operator's position is its number in the state."""
        return tuple(node for node, _, _ in self._node_order.nodes)

    @cached_property
    def _node_order(self) -> _NumberedNodes:
        return _number_nodes(self.outlets, len(self.port_schemas))

    @cached_property
    def numbered_operators(self) -> tuple[tuple[Operator, tuple[int, ...]], ...]:
        """The operators in running order, each with the places of its inputs.

        Places number what flows in a stage: first the elements of the ports, then the outputs of the operators.
        """
        return tuple((node.operator, inputs) for node, inputs, _ in self._node_order.nodes)

    @property
    def output_places(self) -> tuple[int, ...]:
        """The places of what the outlets give."""
        return tuple(self._node_order.outputs)

    @cached_property
    def _operators_at(self) -> dict[Placement, tuple[PlacedOperator, ...]]:
        return {}

    def place(self, placement: Placement) -> tuple[PlacedOperator, ...]:
        """Return the operators as they run at a placement, in running order; computed once."""
        if placement not in self._operators_at:
            self._operators_at[placement] = tuple(
                place_operator(node.operator, inputs, query, placement)
                for node, inputs, query in self._node_order.nodes
            )
        return self._operators_at[placement]

    @cached_property
    def descriptions(self) -> tuple[str, ...]:
        """The lines of all operators in EXPLAIN, by number."""
        return tuple(node.operator.describe() for node in self.nodes)

    @cached_property
    def is_steered(self) -> bool:
        """Return whether any operator is steered."""
        return any(is_steered(node.operator) for node in self.nodes)

    @property
    def is_single(self) -> bool:
        """Return whether all elements must be in one bucket."""
        return self.partition == ()

    def step(
        self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int], context: StepContext | None = None
    ) -> StageStep:
        """Run the operators of the stage bottom-up, each once with its part of the state."""
        context = context or StepContext()
        states, flow = split_by_operator(state), list(zip(inputs, watermarks, strict=True))
        made = StageStep()
        for number, placed in enumerate(self._operators_at.get(context.placement) or self.place(context.placement)):
            operator, below = placed.operator, [flow[each] for each in placed.inputs]
            if placed.is_steered:
                steered = cast("Steered[Directive, Report, ControlRecord]", operator)
                operator = steered.with_directive(context.directives.get(number), context.arrived)
            elif placed.is_adjustable and context.sizes:
                operator = adjust_operator(operator, context.sizes)
            began = perf_counter()
            step = operator.step(
                states.get(number, NO_STATE), [batch for batch, _ in below], [mark for _, mark in below]
            )
            made.add(number, placed, step, sum(len(batch) for batch, _ in below), perf_counter() - began)
            flow.append((step.output, step.watermark))
        made.outputs = tuple(flow[each] for each in self._node_order.outputs)
        return made

    @cached_property
    def time_movers(self) -> tuple[Operator, ...]:
        """Operators that move the watermark, in a stage with one port, one outlet and no state."""
        return tuple(node.operator for node in self.nodes if isinstance(node.operator, MovesTime))


class _NumberedNodes(NamedTuple):
    """Operators in running order, each with the numbers of its inputs and its query; and the output of each outlet."""

    nodes: list[tuple[Node, tuple[int, ...], str]]
    outputs: list[int]


def _number_nodes(outlets: Sequence[Outlet], ports: int) -> _NumberedNodes:
    """Number the operators, each after all operators below it; without recursion, because plans may be deep."""
    nodes: list[tuple[Node, tuple[int, ...], str]] = []
    outputs: list[int] = []
    # By identity, because outlets share node objects. Within one outlet, each occurrence has its own state.
    known: dict[int, int] = {}
    for outlet in outlets:
        found: list[int] = []
        waiting: list[tuple[Node | Port, bool]] = [(outlet.root, False)]
        while waiting:
            node, is_ready = waiting.pop()
            if isinstance(node, Port):
                found.append(node.index)
            elif id(node) in known and len(outlets) > 1:
                found.append(known[id(node)])
            elif not is_ready:
                waiting.append((node, True))
                waiting += [(each, False) for each in reversed(node.inputs)]
            else:
                first = len(found) - len(node.inputs)
                known[id(node)] = ports + len(nodes)
                nodes.append((node, tuple(found[first:]), outlet.query))
                found[first:] = [known[id(node)]]
        outputs += found
    return _NumberedNodes(nodes, outputs)


def split_by_operator(state: Chunks) -> Mapping[int, Chunks]:
    """Return the parts of a state of a stage, by the number of the operator."""
    parts: dict[int, dict[str, pa.RecordBatch]] = {}
    for name, chunk in state.items():
        number, _, rest = name.partition("/")
        parts.setdefault(int(number), {})[rest] = chunk
    return parts


def _with_origin(letters: pa.RecordBatch, query: str) -> pa.RecordBatch:
    """Set the query as the origin of dead letters."""
    return letters.set_column(0, DEAD_LETTER.field(0), pa.array([query] * letters.num_rows, pa.string()))
