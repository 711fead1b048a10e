"""Joins of several streams along edges that lead from many elements to at most one.

Combinations are reported as soon as all their elements have come. What is kept is cut by what is known of how
elements arrive. In exact mode, what only a constraint lets go gets cold, and comes back when a partner appears.

Rows are counted at the end of each step: all that arrives in a step has the number of the last, so an element waits
for up to a step longer than it must, and never less. Clusters are counted among the elements that have come here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate.algebra.constraints import Settings, Use
from tidegate.algebra.many_one import EdgeConstraint, JoinEdge, Kind
from tidegate.physical.batch import Batch
from tidegate.physical.deadletters import NO_DEAD_LETTERS
from tidegate.physical.kernels.synopses.model import Answer, Arrivals, Constraints, Moment
from tidegate.physical.operator import NO_FACTS, Chunks, Facts, Meeting, Step
from tidegate.physical.synopses import broken, choosing, losses, watching
from tidegate.physical.synopses.bounds import Known, counters_of
from tidegate.physical.synopses.layout import Coding, Key, Layout, codes_of, equal, layout_of
from tidegate.physical.synopses.memory import Memory, Shape
from tidegate.physical.synopses.repeated import letters_of_repeated
from tidegate.physical.synopses.rows import Segment, gather
from tidegate.physical.synopses.warming import exercise
from tidegate.schema import Schema


@dataclass(frozen=True, slots=True)
class SynopsisJoinOperator:
    """Combinations of one element of each input that agree along all edges, valid while all of them are."""

    schemas: tuple[Schema, ...]
    edges: tuple[JoinEdge, ...]
    streams: tuple[str | None, ...]
    constraints: tuple[EdgeConstraint, ...]
    watched: tuple[tuple[int, Kind], ...]
    settings: Settings
    order: Facts = field(default_factory=lambda: NO_FACTS, compare=False)
    arrived: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for schema in self.schemas for f in schema))

    @property
    def layout(self) -> Layout:
        return layout_of(self.schemas, self.edges)

    @property
    def meeting(self) -> Meeting:
        return self.layout.meeting

    @property
    def words(self) -> str:
        pairs = [
            " AND ".join(f"{a} = {b}" for a, b in zip(edge.parent_keys, edge.child_keys, strict=True))
            for edge in self.edges
        ]
        mode = "exact" if self.settings.exact else "lean"
        return f"many-one join of {len(self.schemas)} along {', '.join(pairs)}, {mode}"

    def warm_up(self) -> None:
        exercise(self)

    def steered(self, order: Facts, arrived: Mapping[str, int]) -> SynopsisJoinOperator:
        return replace(self, order=order, arrived=arrived)

    def decide(self, order: Facts, reports: Sequence[Facts]) -> Facts:
        row_bytes = tuple(16 + sum(_width(f.type.arrow) for f in schema) for schema in self.schemas)
        known = (self.edges, self.streams, self._known.checked(), self._watches, self.settings, row_bytes)
        return choosing.decide(choosing.Choice(*known), order, reports)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        known = self._known
        memory = Memory.load(Shape(self.schemas, self.layout, self.settings.exact, known.clusters()), state)
        elements = [_joinable(self.layout, stream, batch) for stream, batch in enumerate(inputs)]
        arrivals = self._arrivals(memory, elements)
        moment = Moment(list(watermarks), counters_of(self.streams, self.arrived), list(memory.met))
        constraints = known.made_use_of(self.order)
        seen, report = self._watch(memory, arrivals, moment)
        answer = memory.join.step(arrivals, moment, constraints)
        new = self._new(memory, elements, arrivals, answer)
        output = self._output(memory, new, answer)
        dead = self._dead(memory, elements, arrivals, new, answer)
        late = self._late(memory, arrivals, new, answer, constraints)
        memory.settle(new)
        memory.seen = seen
        missing = self._losses(memory, elements, arrivals, output, moment, constraints)
        report = {**report, **missing, **late, **_figures(memory, answer, output)}
        return Step(memory.save(state), output, min(watermarks), dead, report)

    @property
    def _known(self) -> Known:
        return Known(self.layout, self.streams, self.constraints, self.watched, self.settings)

    @property
    def _watches(self) -> tuple[watching.Watch, ...]:
        if self.settings.use is not Use.MONITORED:
            return ()
        ordered = (Kind.ORDERED_PARENTS, Kind.ORDERED_CHILDREN)
        return tuple(
            watching.Watch(edge, kind)
            for edge, kind in self.watched
            if kind not in ordered or self.layout.unordered[edge] is None
        )

    def _arrivals(self, memory: Memory, elements: Sequence[Batch]) -> dict[int, Arrivals]:
        """The new elements as the join takes them; they have the next rows."""
        arrivals, counters = {}, counters_of(self.streams, self.arrived)
        for stream, batch in enumerate(elements):
            if len(batch):
                first = memory.next_row[stream]
                memory.next_row[stream] += len(batch)
                memory.met[stream] += len(batch)
                number, row = np.full(len(batch), counters[stream]), np.arange(first, first + len(batch))
                keys = self.layout.codes(stream, batch)
                arrivals[stream] = Arrivals(keys, batch.start, batch.end, number, row)
        return arrivals

    def _new(
        self, memory: Memory, elements: Sequence[Batch], arrivals: Mapping[int, Arrivals], answer: Answer
    ) -> list[list[Segment]]:
        """The columns of what came, and of what came back."""
        new: list[list[Segment]] = [[] for _ in elements]
        for stream, arrived in arrivals.items():
            new[stream].append(Segment(arrived.row, elements[stream].columns))
        for stream, rows in enumerate(answer.returned):
            if len(rows):
                new[stream].append(memory.returned(stream, rows))
        return new

    def _output(self, memory: Memory, new: Sequence[Sequence[Segment]], answer: Answer) -> Batch:
        found = answer.combinations
        if not len(found):
            return Batch.empty(self.schema)
        parts = [
            gather(rows, memory.segments(stream, new[stream]), self.schemas[stream].arrow)
            for stream, rows in enumerate(found.rows)
        ]
        columns = pa.RecordBatch.from_arrays([c for part in parts for c in part.columns], schema=self.schema.arrow)
        output = Batch(found.start, found.end, columns)
        for number, edge in enumerate(self.edges):
            if self.layout.is_hashed(number):
                for a, b in zip(edge.parent_keys, edge.child_keys, strict=True):
                    output = output.filter(equal(output.column(a), output.column(b)))
        return output

    def _dead(
        self,
        memory: Memory,
        elements: Sequence[Batch],
        arrivals: Mapping[int, Arrivals],
        new: Sequence[Sequence[Segment]],
        answer: Answer,
    ) -> pa.RecordBatch:
        if not any(len(rows) for rows in answer.repeated):
            return NO_DEAD_LETTERS
        return letters_of_repeated(self.layout, self.streams, memory, elements, arrivals, new, answer.repeated)

    def _late(
        self,
        memory: Memory,
        arrivals: Mapping[int, Arrivals],
        new: Sequence[Sequence[Segment]],
        answer: Answer,
        constraints: Constraints,
    ) -> Facts:
        """Which constraints rows break that brought others back."""
        returned = {}
        for stream, rows in enumerate(answer.returned):
            if len(rows):
                segment = new[stream][-1]
                start = memory.starts(stream, segment.ids)
                keys = self.layout.codes(stream, Batch(start, start, segment.columns))
                returned[stream] = broken.CameBack(start, keys)
        declared = not self._watches
        return broken.came_late(self.layout.graph, constraints, arrivals, returned, declared=declared)

    def _watch(
        self, memory: Memory, arrivals: Mapping[int, Arrivals], moment: Moment
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        graph = self.layout.graph
        seen, told = watching.watch(self._watches, self.order, memory.seen, graph, arrivals, moment)
        return dict(seen), {**told, "hits": watching.hits_on_no(memory.join, arrivals)}

    def _losses(
        self,
        memory: Memory,
        elements: Sequence[Batch],
        arrivals: Mapping[int, Arrivals],
        output: Batch,
        moment: Moment,
        constraints: Constraints,
    ) -> Facts:
        """In lean mode, what the sample says of results that are missing."""
        if self.settings.exact:
            return NO_FACTS
        edges = {e for e, _ in self._known.declared()} | {watch.edge for watch in self._watches}
        if not edges:
            return NO_FACTS
        share = self.settings.monitoring.sample
        common = self._common(elements, arrivals, output) if self.meeting[0] else None
        return losses.observe(memory.sample, memory.join, arrivals, moment, constraints, common, sorted(edges), share)

    def _common(self, elements: Sequence[Batch], arrivals: Mapping[int, Arrivals], output: Batch) -> losses.Common:
        """Codes of the key that all inputs have in common."""
        keys = [Key(columns, Coding.HASH) for columns in self.meeting if columns is not None]
        new = {stream: codes_of(keys[stream], elements[stream]) for stream in arrivals}
        return losses.Common(new, codes_of(keys[0], output))


def _joinable(layout: Layout, stream: int, batch: Batch) -> Batch:
    """The elements that have all their keys: NULL equals nothing."""
    return batch.filter(layout.complete(stream, batch)) if len(batch) else batch


def _figures(memory: Memory, answer: Answer, output: Batch) -> dict[str, Any]:
    """What is told of a step: what is kept, what got cold, and what came back."""
    return {
        "sizes": watching.sizes(memory.join),
        "chilled": [len(rows) for rows in answer.cold],
        "returned": [len(rows) for rows in answer.returned],
        "repeated": [len(rows) for rows in answer.repeated],
        "results": len(output),
    }


def _width(kind: pa.DataType) -> int:
    """Bytes of a value, as far as the type says."""
    return 16 if pa.types.is_string(kind) else max(kind.bit_width // 8, 1)
