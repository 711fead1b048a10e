"""Emit an alarm when the total weight in the range of a subscription reaches its threshold.

Elements and subscription rows wait until the watermark has passed them. Then they are processed in time order: all
elements of a step at once, with the registrations among them. Duplicate registrations and terminations are resolved
afterwards, from the completion times; one registration never affects another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.algebra.explain import duration_text
from tidegate.algebra.subscriptions import TOTAL, SubscriptionColumns, TotalCompletion
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch, concat_columns, take
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS, Reason
from tidegate.physical.common.hold_back import valid_elements
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.kernels.order_codes import integers
from tidegate.physical.common.kernels.time_order import sort_in_time_order
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.subscriptions.checks import are_terminations, dead_letters_of
from tidegate.physical.subscriptions.kernels.model import CompletedSubscriptions, Subscriptions, WeightedElements
from tidegate.physical.subscriptions.kernels.registrations import (
    NEVER,
    EventOutcomes,
    SubscriptionEvents,
    completing_elements,
    resolve_events,
)
from tidegate.physical.subscriptions.places import end_places, value_places
from tidegate.physical.subscriptions.registry import GROUP, NUMBER
from tidegate.physical.subscriptions.state import SubscriptionsState, expect_table
from tidegate.physical.subscriptions.table_rows import are_first
from tidegate.physical.subscriptions.tracker import SubscriptionTracker, TrackerKind
from tidegate.physical.subscriptions.warm_up import compile_kernels
from tidegate.schema import Schema
from tidegate.time import FOREVER


@dataclass(frozen=True, slots=True)
class SubscriptionsOperator:
    """Follow totals for subscriptions that are registered and terminated by rows of a stream."""

    elements: Schema
    subscriptions: Schema
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    waiting: TotalCompletion
    subscribed: SubscriptionColumns
    is_table: bool = False
    """Whether subscriptions are the rows of a table, which may be read again."""
    schema: Schema = field(init=False, repr=False, compare=False)
    kind: TrackerKind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A tracker has at least one dimension; if the subscriptions have none, all elements are at the same place.
        dimensions, keyed = max(1, len(self.subscribed.dimensions)), bool(self.keys[0])
        kind = TrackerKind(dimensions + keyed, keyed, self.waiting.within, self.waiting.repeats)
        object.__setattr__(self, "schema", Schema((*self.elements.fields, *self.subscriptions.fields, TOTAL)))
        object.__setattr__(self, "kind", kind)

    @property
    def partition_keys(self) -> PartitionKeys:
        """Return the keys, if any; without keys, spread subscriptions by id and send every element to all buckets."""
        return self.keys if self.keys[0] else (None, (self.subscribed.id,))

    @property
    def looks_back(self) -> int | None:
        return None

    def describe(self) -> str:
        by = f" by {', '.join(self.keys[0])}" if self.keys[0] else ""
        table = " in a table" if self.is_table else ""
        return f"subscriptions{table} of {self.waiting.name}{by}, {self._method_text}"

    @property
    def _method_text(self) -> str:
        if self.waiting.within is not None:
            return f"by adding up batches and subtracting elements older than {duration_text(self.waiting.within)}"
        return "by adding up batches"

    def warm_up(self) -> None:
        compile_kernels(self.kind)

    def forget(self, state: Chunks, which: int) -> Chunks:
        """Return the state before the table is read again; what is no longer in it ends with the next step."""
        return expect_table(state) if self.is_table else state

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = SubscriptionsState.load(self.kind, self.subscriptions, self.subscribed.id, self.keys, state)
        watermark = max(memory.watermark, min(*watermarks, FOREVER))
        elements = memory.take_due(0, valid_elements(inputs[0], memory.watermark), watermark)
        twice = NO_DEAD_LETTERS
        if self.is_table:
            rows, is_end, twice = self._table_changes(memory, inputs[1])
        else:
            rows = memory.take_due(1, valid_elements(inputs[1], memory.watermark), watermark)
            is_end = are_terminations(rows, self.subscribed)
        if not memory.is_changed and watermark == memory.watermark:
            memory.put_back_tracker(state)
            return Step(state, Batch.empty(self.schema), watermark)
        output, dead = self._process_due(memory, elements, rows, is_end)
        memory.watermark = watermark
        return Step(memory.save(), output, watermark, concat_columns([twice, dead]))

    def _table_changes(self, memory: SubscriptionsState, rows: Batch) -> tuple[Batch, Mask, pa.RecordBatch]:
        """Return the rows that are no longer in the table and the new ones, and dead letters of repeated ids.

        They are before all elements that have not been counted yet.
        """
        if not len(rows) and not memory.is_table_expected:
            return rows, np.zeros(0, np.bool_), NO_DEAD_LETTERS
        rows = rows.take(self._time_order(rows))
        is_first = are_first(rows, (self.subscribed.id, *self.keys[1]))
        changes, is_end = memory.replace_table(rows.filter(is_first).columns).as_events()
        return changes, is_end, self._dead_letters(rows, ~is_first, np.zeros(len(rows), np.bool_))

    def _process_due(
        self, memory: SubscriptionsState, elements: Batch, rows: Batch, is_end: Mask
    ) -> tuple[Batch, pa.RecordBatch]:
        """Count the elements, register and terminate as the rows say, and return alarms and dead letters."""
        order = self._time_order(rows, ~is_end)
        rows, is_end = rows.take(order), is_end[order]
        memory.keys, group = memory.keys.with_keys_of(rows)
        if len(memory.tracker) or not is_end.all():
            elements, element_group = self._countable_elements(memory, elements)
        else:
            elements, element_group = Batch.empty(self.elements), np.empty(0, np.int64)
        position = np.searchsorted(elements.start, rows.start, side="right")
        begun = _Registrations.of(rows, group, position, np.flatnonzero(~is_end), memory.registry.next_number)
        before = memory.registry.find(group, rows.column(self.subscribed.id), memory.tracker.are_live)
        matured = self._absorb_elements(memory.tracker, elements, element_group, begun)
        events = self._events(rows, group, position, is_end, begun, before, matured)
        verdict = resolve_events(events)
        told = self._valid_completions(matured, events, verdict, begun)
        gone = np.concatenate([verdict.ended[verdict.ended >= 0], events.number[verdict.refused & ~is_end]])
        memory.tracker.terminate(gone)
        output = self._output(memory, elements, begun, told)
        self._keep_live_rows(memory, begun)
        # A row that is no longer in a table ends a subscription only if it is not complete.
        return output, self._dead_letters(rows, verdict.refused & ~(is_end & self.is_table), is_end)

    def _time_order(self, batch: Batch, later: Mask | None = None) -> Ints:
        """Return the order of rows by time, then by `later`, then by their columns."""
        ranks = [] if later is None else [pa.array(later)]
        zero = np.zeros(len(batch), np.int64)
        return sort_in_time_order(zero, batch.start, [*ranks, *batch.columns.columns], count=1).order

    def _countable_elements(self, memory: SubscriptionsState, elements: Batch) -> tuple[Batch, Ints]:
        """Return the elements that a subscription may count, in order, and the numbers of their keys."""
        group = memory.keys.of_elements(elements)
        elements, group = elements.filter(group >= 0), group[group >= 0]
        order = self._time_order(elements)
        return elements.take(order), group[order]

    def _absorb_elements(
        self, tracker: SubscriptionTracker, elements: Batch, group: Ints, begun: _Registrations
    ) -> CompletedSubscriptions:
        value = self._with_group(group, value_places(elements, self.subscribed.dimensions))
        ends = end_places(begun.rows, self.subscribed.dimensions)
        low, high = (self._with_group(begun.group, places) for places in ends[:2])
        low_open, high_open = (np.pad(is_open, ((0, 0), (low.shape[1] - is_open.shape[1], 0))) for is_open in ends[2:])
        threshold = integers(begun.rows.column(self.subscribed.threshold))
        ranges = Subscriptions(begun.number, low, high, low_open, high_open, threshold)
        weight = integers(elements.column(self.waiting.weight))
        return tracker.absorb(WeightedElements(value, weight), elements.start, ranges, begun.position)

    def _with_group(self, group: Ints, places: Ints) -> Ints:
        """Return places with the key number in front; without dimensions, all rows get one place."""
        padded = places if places.shape[1] else np.zeros((len(group), 1), np.int64)
        return np.column_stack([group, padded]) if self.keys[0] else padded

    def _events(
        self,
        rows: Batch,
        group: Ints,
        position: Ints,
        is_end: Mask,
        begun: _Registrations,
        before: Ints,
        matured: CompletedSubscriptions,
    ) -> SubscriptionEvents:
        identity = [pa.array(group), canonical(rows.column(self.subscribed.id))]
        found = group_rows([column[:0] for column in identity], identity, groups=0, rows=len(rows))
        number, done, before_done = (np.full(len(rows), NEVER) for _ in range(3))
        number[begun.place] = begun.number
        if not self.waiting.repeats:
            done[begun.place] = completing_elements(matured, begun.number)
            before_done = completing_elements(matured, before)
        return SubscriptionEvents(found.groups, is_end, position, number, done, before, before_done)

    def _valid_completions(
        self, matured: CompletedSubscriptions, events: SubscriptionEvents, verdict: EventOutcomes, begun: _Registrations
    ) -> CompletedSubscriptions:
        """Return the completions without those of refused registrations and those after a termination."""
        numbers = np.concatenate([begun.number, verdict.ended[verdict.ended >= 0]])
        # A refused registration counts nothing, not even the first element.
        refused = np.where(verdict.refused[begun.place], 0, NEVER)
        limit = np.concatenate([refused, events.position[verdict.ended >= 0]])
        if not len(numbers):
            return matured
        order = np.lexsort((limit, numbers))
        numbers, limit = numbers[order], limit[order]
        place = np.minimum(np.searchsorted(numbers, matured.id), len(numbers) - 1)
        told = (numbers[place] != matured.id) | (matured.element < limit[place])
        return CompletedSubscriptions(matured.id[told], matured.element[told], matured.total[told])

    def _output(
        self, memory: SubscriptionsState, elements: Batch, begun: _Registrations, told: CompletedSubscriptions
    ) -> Batch:
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

    def _keep_live_rows(self, memory: SubscriptionsState, begun: _Registrations) -> None:
        """Keep the rows of registrations that are not complete."""
        tracker = memory.tracker
        live = np.flatnonzero(tracker.are_live(begun.number))
        arrays = [pa.array(begun.number[live]), pa.array(begun.group[live]), *take(begun.rows.columns, live).columns]
        rows = pa.RecordBatch.from_arrays(arrays, [NUMBER, GROUP, *self.subscriptions.names])
        registry = memory.registry.with_rows(rows, len(begun.number), tracker.are_live)
        memory.registry = registry.without_dead(len(tracker), tracker.are_live)
        if memory.registry is not registry and self.keys[0]:
            memory.keys = memory.keys.restrict_to(memory.registry.groups())

    def _dead_letters(self, rows: Batch, refused: Mask, is_end: Mask) -> pa.RecordBatch:
        twice = "a subscription with this id is already registered; it stays unchanged"
        nobody = "no subscription with this id is registered: it never was, is complete, or was terminated earlier"
        return concat_columns(
            [
                dead_letters_of(rows.filter(refused & ~is_end), Reason.REGISTERED_TWICE, twice, self.waiting.name),
                dead_letters_of(rows.filter(refused & is_end), Reason.NOT_REGISTERED, nobody, self.waiting.name),
            ]
        )


class _Registrations(NamedTuple):
    """Registrations of a step.

    `place` are their positions among all subscription rows; `position` is the number of elements before each; `group`
    is the number of its keys; `number` is the number of the subscription.
    """

    rows: Batch
    place: Ints
    group: Ints
    position: Ints
    number: Ints

    @staticmethod
    def of(rows: Batch, group: Ints, position: Ints, place: Ints, first: int) -> _Registrations:
        number = np.arange(first, first + len(place))
        return _Registrations(rows.take(place), place, group[place], position[place], number)
