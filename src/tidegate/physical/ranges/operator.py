"""Alarms when the total weight in the range of a subscription reaches its threshold.

Elements and subscriptions wait until the watermark has passed them. Then they are taken in in the order of
time: all elements of a step at once, with the registrations among them. What is registered twice, and
what is ended, is found out afterwards from who was complete when; a registration disturbs no other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.algebra.explain import in_words
from tidegate.algebra.ranges import TOTAL, Subscribed, Waiting
from tidegate.physical.batch import Batch, concat_columns, take
from tidegate.physical.deadletters import Reason
from tidegate.physical.kernels.count_window import in_order
from tidegate.physical.kernels.groups import canonical, group_rows
from tidegate.physical.kernels.order_codes import integers
from tidegate.physical.kernels.ranges.choice import Method
from tidegate.physical.kernels.ranges.lives import NEVER, Events, Lives, completions, lives
from tidegate.physical.kernels.ranges.model import Elements, Ints, Mask, Matured, Ranges
from tidegate.physical.operator import Chunks, Meeting, Step
from tidegate.physical.ranges.checks import are_ended, letters
from tidegate.physical.ranges.following import Following, Kind
from tidegate.physical.ranges.memory import Memory
from tidegate.physical.ranges.places import end_places, value_places
from tidegate.physical.ranges.registry import GROUP, NUMBER
from tidegate.physical.ranges.warming import exercise
from tidegate.physical.waiting import valid_elements
from tidegate.schema import Schema
from tidegate.time import FOREVER


@dataclass(frozen=True, slots=True)
class RangeThresholdOperator:
    """Follow totals for subscriptions that come and go; with a `method`, always by that one."""

    elements: Schema
    subscriptions: Schema
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    waiting: Waiting
    subscribed: Subscribed
    method: Method | None = None

    @property
    def schema(self) -> Schema:
        return Schema((*self.elements, *self.subscriptions, TOTAL))

    @property
    def meeting(self) -> Meeting:
        """Without keys, subscriptions are spread, and every element is shown to all of them."""
        return self.keys if self.keys[0] else (None, (self.subscribed.id,))

    @property
    def words(self) -> str:
        by = f" by {', '.join(self.keys[0])}" if self.keys[0] else ""
        return f"range thresholds for {self.waiting.name}{by}, {self._method_words}"

    @property
    def _method_words(self) -> str:
        if self.waiting.within is not None:
            return f"by adding up batches and taking off what is older than {in_words(self.waiting.within)}"
        return "by endpoint trees" if self.method is Method.TRACKING else "by adding up batches"

    @property
    def kind(self) -> Kind:
        # A tracker has one dimension at least: without any, all elements are at the same place.
        dimensions, keyed = max(1, len(self.subscribed.dimensions)), bool(self.keys[0])
        return Kind(dimensions + keyed, keyed, self.waiting.within, self.waiting.repeats, self.method)

    def warm_up(self) -> None:
        exercise(self.kind)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = Memory.load(self, state)
        watermark = max(memory.watermark, min(*watermarks, FOREVER))
        due = []
        for which, batch in enumerate(inputs):
            arrived = valid_elements(batch, memory.watermark)
            due.append(memory.due(which, arrived, watermark))
        if not memory.is_changed and watermark == memory.watermark:
            memory.put_back(state)
            return Step(state, Batch.empty(self.schema), watermark)
        output, dead = self._taken_in(memory, *due)
        memory.watermark = watermark
        return Step(memory.save(), output, watermark, dead)

    def _taken_in(self, memory: Memory, elements: Batch, rows: Batch) -> tuple[Batch, pa.RecordBatch]:
        """Count the elements, and register and terminate as the rows say; alarms and dead letters."""
        rows = rows.take(self._order(rows, ~are_ended(rows, self.subscribed)))
        is_end = are_ended(rows, self.subscribed)
        memory.keys, group = memory.keys.with_keys_of(rows)
        if len(memory.following) or not is_end.all():
            elements, element_group = self._counted(memory, elements)
        else:
            elements, element_group = Batch.empty(self.elements), np.empty(0, np.int64)
        position = np.searchsorted(elements.start, rows.start, side="right")
        begun = _Begun.of(rows, group, position, np.flatnonzero(~is_end), memory.registry.next_number)
        before = memory.registry.find(group, rows.column(self.subscribed.id), memory.following.known)
        matured = self._absorbed(memory.following, elements, element_group, begun)
        events = self._events(rows, group, position, is_end, begun, before, matured)
        verdict = lives(events)
        told = self._told(matured, events, verdict, begun)
        gone = np.concatenate([verdict.ended[verdict.ended >= 0], events.number[verdict.refused & ~is_end]])
        memory.following.terminate(gone)
        output = self._output(memory, elements, begun, told)
        self._remember(memory, begun)
        return output, self._dead(rows, verdict.refused, is_end)

    def _order(self, batch: Batch, later: Mask | None = None) -> Ints:
        """Rows in the order of time, then of what comes later, then of their columns."""
        ranks = [] if later is None else [pa.array(later)]
        zero = np.zeros(len(batch), np.int64)
        return in_order(zero, batch.start, [*ranks, *batch.columns.columns], count=1).order

    def _counted(self, memory: Memory, elements: Batch) -> tuple[Batch, Ints]:
        """The elements that some subscription may count, in order, and the numbers of their keys."""
        group = memory.keys.of_elements(elements)
        elements, group = elements.filter(group >= 0), group[group >= 0]
        order = self._order(elements)
        return elements.take(order), group[order]

    def _absorbed(self, following: Following, elements: Batch, group: Ints, begun: _Begun) -> Matured:
        value = self._with_group(group, value_places(elements, self.subscribed.dimensions))
        ends = end_places(begun.rows, self.subscribed.dimensions)
        low, high = (self._with_group(begun.group, places) for places in ends[:2])
        low_open, high_open = (np.pad(is_open, ((0, 0), (low.shape[1] - is_open.shape[1], 0))) for is_open in ends[2:])
        threshold = integers(begun.rows.column(self.subscribed.threshold))
        ranges = Ranges(begun.number, low, high, low_open, high_open, threshold)
        weight = integers(elements.column(self.waiting.weight))
        return following.absorb(Elements(value, weight), elements.start, ranges, begun.position)

    def _with_group(self, group: Ints, places: Ints) -> Ints:
        """Places with the key in front; of elements and ranges without dimensions, one place for all."""
        padded = places if places.shape[1] else np.zeros((len(group), 1), np.int64)
        return np.column_stack([group, padded]) if self.keys[0] else padded

    def _events(
        self, rows: Batch, group: Ints, position: Ints, is_end: Mask, begun: _Begun, before: Ints, matured: Matured
    ) -> Events:
        identity = [pa.array(group), canonical(rows.column(self.subscribed.id))]
        found = group_rows([column[:0] for column in identity], identity, groups=0, rows=len(rows))
        number, done, before_done = (np.full(len(rows), NEVER) for _ in range(3))
        number[begun.place] = begun.number
        if not self.waiting.repeats:
            done[begun.place] = completions(matured, begun.number)
            before_done = completions(matured, before)
        return Events(found.groups, is_end, position, number, done, before, before_done)

    def _told(self, matured: Matured, events: Events, verdict: Lives, begun: _Begun) -> Matured:
        """Without those that were not registered, and those that were ended before they were complete."""
        numbers = np.concatenate([begun.number, verdict.ended[verdict.ended >= 0]])
        # For those that are refused nothing counts, from the first element on.
        refused = np.where(verdict.refused[begun.place], 0, NEVER)
        limit = np.concatenate([refused, events.position[verdict.ended >= 0]])
        if not len(numbers):
            return matured
        order = np.lexsort((limit, numbers))
        numbers, limit = numbers[order], limit[order]
        place = np.minimum(np.searchsorted(numbers, matured.id), len(numbers) - 1)
        told = (numbers[place] != matured.id) | (matured.element < limit[place])
        return Matured(matured.id[told], matured.element[told], matured.total[told])

    def _output(self, memory: Memory, elements: Batch, begun: _Begun, told: Matured) -> Batch:
        if not len(told):
            return Batch.empty(self.schema)
        first = memory.registry.next_number
        order = np.argsort(told.id, kind="stable")
        old = int(np.searchsorted(told.id[order], first))
        rows = take(begun.rows.columns, told.id[order[old:]] - first)
        if old:
            known = memory.registry.rows(told.id[order[:old]]).select(list(self.subscriptions.names))
            rows = concat_columns([known, rows])
        completing = elements.take(told.element[order])
        columns = [*completing.columns.columns, *rows.columns, pa.array(told.total[order])]
        return completing.with_columns(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow))

    def _remember(self, memory: Memory, begun: _Begun) -> None:
        """Keep the rows of those that have begun and still wait."""
        following = memory.following
        live = np.flatnonzero(following.known(begun.number))
        arrays = [pa.array(begun.number[live]), pa.array(begun.group[live]), *take(begun.rows.columns, live).columns]
        rows = pa.RecordBatch.from_arrays(arrays, [NUMBER, GROUP, *self.subscriptions.names])
        registry = memory.registry.added(rows, len(begun.number), following.known)
        memory.registry = registry.without_dead(len(following), following.known)
        if memory.registry is not registry and self.keys[0]:
            memory.keys = memory.keys.only(memory.registry.groups())

    def _dead(self, rows: Batch, refused: Mask, is_end: Mask) -> pa.RecordBatch:
        twice = "a subscription with this id is registered already; it goes on as it was"
        nobody = "no subscription with this id is registered: it was never, is complete, or was terminated before"
        return concat_columns(
            [
                letters(rows.filter(refused & ~is_end), Reason.REGISTERED_TWICE, twice, self.waiting.name),
                letters(rows.filter(refused & is_end), Reason.NOT_REGISTERED, nobody, self.waiting.name),
            ]
        )


class _Begun(NamedTuple):
    """Registrations of a step: their rows, and where these stand among all rows; keys, positions and numbers."""

    rows: Batch
    place: Ints
    group: Ints
    position: Ints
    number: Ints

    @staticmethod
    def of(rows: Batch, group: Ints, position: Ints, place: Ints, first: int) -> _Begun:
        number = np.arange(first, first + len(place))
        return _Begun(rows.take(place), place, group[place], position[place], number)
