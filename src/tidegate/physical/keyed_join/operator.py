"""Keyed join of several streams. Each edge leads from many elements (parents) to at most one (the child).

A combination is reported as soon as all its elements have arrived. Constraints on how elements arrive limit the
state. In exact mode, an element that leaves only because of a constraint becomes cold, and returns when a partner
appears.

Rows are counted at the end of each step: all rows of a step get the number of the last one. So an element waits up to
one step longer than necessary, never shorter. Clusters are counted among the elements that this bucket joins.

Inputs may be windows of rows. Their elements are joined once the watermark has passed them (`count_windows.py`).
While the end of a row is unknown, results are reported as far as the watermark (`results.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.physical.common.arrays import Mask
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.operator import Chunks, ControlTypes, PartitionKeys, Step
from tidegate.physical.common.row_segments import Segment, gather
from tidegate.physical.common.warm_up import exercise_steps
from tidegate.physical.keyed_join import control, losses, monitor, violations
from tidegate.physical.keyed_join.bounds import EdgeKnowledge, counters_of
from tidegate.physical.keyed_join.count_windows import OPEN, CountedInput, DueElements
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.kernels.model import (
    Constraints,
    Moment,
    StreamArrivals,
    SynopsisJoinResult,
    horizons_of,
)
from tidegate.physical.keyed_join.layout import Key, KeyCoding, KeyedJoinLayout, codes_of, equal_values, layout_of
from tidegate.physical.keyed_join.record import KeyedJoinRecord
from tidegate.physical.keyed_join.repeated_keys import dead_letters_of_repeated
from tidegate.physical.keyed_join.report import KeyedJoinReport, LossReport
from tidegate.physical.keyed_join.results import OpenResults
from tidegate.physical.keyed_join.sample_joins import KeySample
from tidegate.physical.keyed_join.state import KeyedJoinParameters, KeyedJoinState
from tidegate.physical.keyed_join.warm_up import ROWS, warm_up_elements
from tidegate.schema import Schema
from tidegate.time import FOREVER


@dataclass(frozen=True, slots=True)
class KeyedJoinOperator:
    """Combinations of one element of each input that agree along all edges, valid while all of them are."""

    schemas: tuple[Schema, ...]
    edges: tuple[JoinEdge, ...]
    streams: tuple[str | None, ...]
    constraints: tuple[EdgeConstraint, ...]
    watched: tuple[tuple[int, ConstraintKind], ...]
    settings: ConstraintSettings
    counted_inputs: tuple[CountedInput | None, ...] = ()
    """For each input, its window of rows or None; empty if no input is a window of rows."""
    unbounded: tuple[int, ...] = ()
    """Inputs whose elements never end: they leave only because of constraints."""
    marks: tuple[str | None, ...] = ()
    """For each input, the column that says which elements pass, or None; empty if there are none."""
    directive: KeyedJoinDirective | None = field(default=None, compare=False)
    arrived: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for schema in self.schemas for f in schema))

    @property
    def layout(self) -> KeyedJoinLayout:
        return layout_of(self.schemas, self.edges)

    @property
    def windows(self) -> dict[int, CountedInput]:
        """Return the windows of rows, by input."""
        return {stream: each for stream, each in enumerate(self.counted_inputs) if each is not None}

    @property
    def input_schemas(self) -> tuple[Schema, ...]:
        """Return the columns of each input's elements as they arrive, before the steps that follow a window of rows."""
        windows = self.windows
        return tuple(windows[s].schema if s in windows else schema for s, schema in enumerate(self.schemas))

    @property
    def partition_keys(self) -> PartitionKeys:
        # A window counts all rows of its stream, so they must be in one bucket.
        return ((),) * len(self.schemas) if self.windows else self.layout.partition_keys

    @property
    def looks_back(self) -> int | None:
        return None if self.windows else 0

    def describe(self) -> str:
        pairs = [
            " AND ".join(f"{a} = {b}" for a, b in zip(edge.parent_keys, edge.child_keys, strict=True))
            for edge in self.edges
        ]
        mode = "exact" if self.settings.exact else "lean"
        sizes = [str(each.rows) for each in self.windows.values()]
        windows = f", in windows of {' and '.join(sizes)} rows" if sizes else ""
        endless = f", {len(self.unbounded)} without an end" if self.unbounded else ""
        return f"keyed join of {len(self.schemas)} along {', '.join(pairs)}, {mode}{windows}{endless}"

    def warm_up(self) -> None:
        exercise_steps(replace(self, directive=None)._warm_up_step)  # noqa: SLF001 - of the same class

    def _warm_up_step(self, number: int, state: Chunks) -> Chunks:
        time = number * 10
        inputs = [warm_up_elements(schema, number, time) for schema in self.input_schemas]
        arrived = {name: (number + 1) * ROWS for name in self.streams if name is not None}
        return self.with_directive(None, arrived).step(state, inputs, [time + 10] * len(inputs)).state

    @staticmethod
    def control_types() -> ControlTypes:
        return ControlTypes(KeyedJoinDirective, KeyedJoinReport, KeyedJoinRecord)

    def with_directive(self, directive: KeyedJoinDirective | None, arrived: Mapping[str, int]) -> KeyedJoinOperator:
        return replace(self, directive=directive, arrived=arrived)

    def decide(
        self, record: KeyedJoinRecord | None, reports: Sequence[KeyedJoinReport], seconds: float
    ) -> KeyedJoinRecord | None:
        row_bytes = tuple(16 + sum(_value_bytes(f.type.arrow) for f in schema) for schema in self.schemas)
        known = (
            self.edges,
            self.streams,
            self._edge_knowledge.checked_constraints(),
            self._watches,
            self.settings,
            row_bytes,
            self.unbounded,
        )
        return control.decide(control.ConstraintChoice(*known), record, reports)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        known = self._edge_knowledge
        shape = KeyedJoinParameters(
            self.schemas, self.layout, self.settings.exact, known.clustered_edges(), tuple(self.windows)
        )
        memory = KeyedJoinState.load(shape, state)
        due, taken, failed = self._take_due_elements(memory, inputs, watermarks)
        elements = [_joinable_elements(self.layout, stream, batch) for stream, batch in enumerate(due)]
        arrivals = self._number_arrivals(memory, elements, taken)
        moment = self._make_moment(memory, watermarks)
        constraints = known.constraints_for_step(self.directive)
        seen, watched = monitor.watch_elements(
            self._watches, self.directive, memory.seen, self.layout.graph, arrivals, moment
        )
        hits = monitor.count_hits_on_no(memory.join, arrivals)
        answer = memory.join.step(arrivals, moment, constraints)
        new = self._new_segments(memory, elements, arrivals, answer)
        output = self._make_output(memory, new, answer)
        dead = concat_columns([*failed, self._dead_letters(memory, elements, arrivals, new, answer)])
        late = self._report_violations(memory, arrivals, new, answer, constraints)
        memory.apply_changes(new, moment.watermarks)
        memory.seen = seen
        report = KeyedJoinReport(
            arrivals=monitor.summarize_arrivals(self.layout.graph, arrivals, moment),
            sizes=memory.join.sizes(),
            hits=hits,
            watched=watched,
            broken=late,
            losses=self._report_losses(memory, elements, arrivals, output, moment, constraints),
            windows=tuple(0 if each is None else each.rows for each in self.counted_inputs),
            results=len(output),
            chilled=tuple(map(len, answer.cold)),
            returned=tuple(map(len, answer.returned)),
            repeated=tuple(map(len, answer.repeated)),
        )
        return Step(memory.save(state), output, min(moment.watermarks), dead, report)

    @property
    def _edge_knowledge(self) -> EdgeKnowledge:
        known = self.streams, self.constraints, self.watched, self.settings, self.unbounded
        return EdgeKnowledge(self.layout, *known)

    @property
    def _watches(self) -> tuple[monitor.Watch, ...]:
        if self.settings.use is not ConstraintUse.MONITORED:
            return ()
        ordered = (ConstraintKind.ORDERED_PARENTS, ConstraintKind.ORDERED_CHILDREN)
        return tuple(
            monitor.Watch(edge, kind)
            for edge, kind in self.watched
            if kind not in ordered or self.layout.unordered[edge] is None
        )

    def _take_due_elements(
        self, memory: KeyedJoinState, inputs: Sequence[Batch], watermarks: Sequence[int]
    ) -> tuple[list[Batch], dict[int, DueElements], list[pa.RecordBatch]]:
        """Return the elements to join now, the counts of windows of rows, and dead letters of elements that fail."""
        counters, due = counters_of(self.streams, self.arrived), list(inputs)
        taken: dict[int, DueElements] = {}
        dead: list[pa.RecordBatch] = []
        for stream, window in self.windows.items():
            known = (inputs[stream], min(watermarks[stream], FOREVER), counters[stream])
            memory.counting[stream], taken[stream] = memory.counting[stream].advance(window, *known)
            due[stream], failed = window.apply_steps(taken[stream].elements)
            dead += failed
        return due, taken, dead

    def _number_arrivals(
        self, memory: KeyedJoinState, elements: Sequence[Batch], taken: Mapping[int, DueElements]
    ) -> dict[int, StreamArrivals]:
        """Return the new elements as arrivals of the join.

        Elements of a window of rows keep the numbers that the window gave them; others get the next row numbers.
        """
        arrivals, counters = {}, counters_of(self.streams, self.arrived)
        for stream, batch in enumerate(elements):
            if len(batch):
                first = memory.next_row[stream]
                number, row = np.full(len(batch), counters[stream]), np.arange(first, first + len(batch))
                if stream in taken:
                    number, row = taken[stream].arrivals_of(batch), batch.end - OPEN
                memory.next_row[stream] += len(batch)
                memory.joined_counts[stream] += len(batch)
                keys, passes = self.layout.key_codes(stream, batch), self._passing_elements(stream, batch)
                arrivals[stream] = StreamArrivals(keys, batch.start, batch.end, number, row, passes)
        return arrivals

    def _passing_elements(self, stream: int, batch: Batch) -> Mask | None:
        """Return which elements pass the conditions on their input; None: all."""
        mark = self.marks[stream] if self.marks else None
        if mark is None:
            return None
        passes: Mask = batch.column(mark).fill_null(fill_value=False).to_numpy(zero_copy_only=False)
        return passes

    def _make_moment(self, memory: KeyedJoinState, watermarks: Sequence[int]) -> Moment:
        counters, met, windows = counters_of(self.streams, self.arrived), list(memory.joined_counts), memory.counting
        if not windows:
            return Moment(list(watermarks), counters, met)
        now = [windows[s].watermark if s in windows else watermark for s, watermark in enumerate(watermarks)]
        after = {
            s: windows[s].without_expired_ends(horizon) for s, horizon in enumerate(horizons_of(now)) if s in windows
        }
        return Moment(
            now,
            counters,
            met,
            [after[s].settled_arrival if s in after else count for s, count in enumerate(counters)],
            [after[s].measurable_count(count) if s in after else count for s, count in enumerate(met)],
            [after[s].last_expired_end if s in after else None for s in range(len(now))],
        )

    def _new_segments(
        self,
        memory: KeyedJoinState,
        elements: Sequence[Batch],
        arrivals: Mapping[int, StreamArrivals],
        answer: SynopsisJoinResult,
    ) -> list[list[Segment]]:
        """Return the columns of the elements that arrived, and of cold elements that returned."""
        new: list[list[Segment]] = [[] for _ in elements]
        for stream, arrived in arrivals.items():
            new[stream].append(Segment(arrived.row, elements[stream].columns))
        for stream, rows in enumerate(answer.returned):
            if len(rows):
                new[stream].append(memory.returned_segment(stream, rows))
        return new

    def _make_output(
        self, memory: KeyedJoinState, new: Sequence[Sequence[Segment]], answer: SynopsisJoinResult
    ) -> Batch:
        found = answer.combinations
        if not len(found):
            none = OpenResults.empty(self.schema, tuple(memory.counting))
            return memory.report_results(none) if memory.counting else none.elements
        parts = [
            gather(rows, memory.segments(stream, new[stream]), self.schemas[stream].arrow)
            for stream, rows in enumerate(found.rows)
        ]
        columns = pa.RecordBatch.from_arrays([c for part in parts for c in part.columns], schema=self.schema.arrow)
        output = Batch(found.start, found.end, columns)
        same = self._have_equal_keys(output)
        if not memory.counting:
            return output.filter(same)
        return memory.report_results(
            OpenResults(output.filter(same), {s: found.rows[s][same] for s in memory.counting})
        )

    def _have_equal_keys(self, output: Batch) -> Mask:
        """Return which results have equal keys, not only equal hashes."""
        same = np.ones(len(output), np.bool_)
        for number, edge in enumerate(self.edges):
            if self.layout.is_hashed(number):
                for a, b in zip(edge.parent_keys, edge.child_keys, strict=True):
                    same &= equal_values(output.column(a), output.column(b))
        return same

    def _dead_letters(
        self,
        memory: KeyedJoinState,
        elements: Sequence[Batch],
        arrivals: Mapping[int, StreamArrivals],
        new: Sequence[Sequence[Segment]],
        answer: SynopsisJoinResult,
    ) -> pa.RecordBatch:
        if not any(len(rows) for rows in answer.repeated):
            return NO_DEAD_LETTERS
        return dead_letters_of_repeated(self.layout, self.streams, memory, elements, arrivals, new, answer.repeated)

    def _report_violations(
        self,
        memory: KeyedJoinState,
        arrivals: Mapping[int, StreamArrivals],
        new: Sequence[Sequence[Segment]],
        answer: SynopsisJoinResult,
        constraints: Constraints,
    ) -> dict[str, int]:
        """Count the rows that broke constraints, as they brought cold elements back, by constraint."""
        returned = {}
        for stream, rows in enumerate(answer.returned):
            if len(rows):
                segment = new[stream][-1]
                start = memory.starts_of_cold(stream, segment.ids)
                keys = self.layout.key_codes(stream, Batch(start, start, segment.columns))
                returned[stream] = violations.ReturnedElements(start, keys)
        declared = not self._watches
        return violations.count_late_rows(self.layout.graph, constraints, arrivals, returned, declared=declared)

    def _report_losses(
        self,
        memory: KeyedJoinState,
        elements: Sequence[Batch],
        arrivals: Mapping[int, StreamArrivals],
        output: Batch,
        moment: Moment,
        constraints: Constraints,
    ) -> LossReport | None:
        """In lean mode, report what the sample shows about missing results."""
        if self.settings.exact:
            return None
        edges = {e for e, _ in self._edge_knowledge.declared_bounds()} | {watch.edge for watch in self._watches}
        if not edges:
            return None
        keys = KeySample(self.settings.monitoring.sample, self.directive.halvings if self.directive else 0)
        common = self._common_key_codes(elements, arrivals, output) if self.partition_keys[0] else None
        return losses.observe_losses(
            memory.sample, memory.join, arrivals, moment, constraints, common, sorted(edges), keys
        )

    def _common_key_codes(
        self, elements: Sequence[Batch], arrivals: Mapping[int, StreamArrivals], output: Batch
    ) -> losses.CommonKeyCodes:
        """Return codes of the key that all inputs share."""
        keys = [Key(columns, KeyCoding.HASH) for columns in self.partition_keys if columns is not None]
        new = {stream: codes_of(keys[stream], elements[stream]) for stream in arrivals}
        return losses.CommonKeyCodes(new, codes_of(keys[0], output))


def _joinable_elements(layout: KeyedJoinLayout, stream: int, batch: Batch) -> Batch:
    """Return the elements that have all their keys. NULL equals nothing."""
    return batch.filter(layout.has_all_keys(stream, batch)) if len(batch) else batch


def _value_bytes(kind: pa.DataType) -> int:
    """Estimate the bytes of a value from its type."""
    return 16 if pa.types.is_string(kind) else max(kind.bit_width // 8, 1)
