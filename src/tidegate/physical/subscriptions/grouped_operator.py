"""Emit the alarms of a group of alerts on totals, with one tracker for all of them.

An alert waits for a total of each key. It is registered in the tracker for a key with the first element of that key in
its ranges, before that element counts. So only alerts that have counted something take room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tidegate.algebra.subscriptions import TOTAL, RangedAlertGroup, TotalCompletion
from tidegate.algebra.threshold_alert import NUMBER
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.hold_back import valid_elements
from tidegate.physical.common.kernels.groups import canonical
from tidegate.physical.common.kernels.order_codes import integers
from tidegate.physical.common.kernels.time_order import sort_in_time_order
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.subscriptions.alert_boxes import AlertBoxes, boxes_of_alerts, places_of_values
from tidegate.physical.subscriptions.grouped_state import GroupedTotalsState
from tidegate.physical.subscriptions.kernels.model import CompletedSubscriptions, Subscriptions, WeightedElements
from tidegate.physical.subscriptions.tracker import TrackerKind
from tidegate.physical.subscriptions.warm_up import compile_kernels
from tidegate.schema import Schema
from tidegate.time import FOREVER


@dataclass(frozen=True, slots=True)
class GroupedTotalsOperator:
    """Follow the totals of each key and alert; elements count once the watermark has passed them."""

    elements: Schema
    keys: tuple[str, ...]
    waiting: TotalCompletion
    values: tuple[str, ...]
    group: RangedAlertGroup
    kind: TrackerKind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # A tracker has at least one dimension; if there are no ranges, all elements are at the same place.
        dimensions, keyed = max(1, len(self.values)), bool(self.keys)
        kind = TrackerKind(dimensions + keyed, keyed, self.waiting.within, self.waiting.repeats)
        object.__setattr__(self, "kind", kind)

    @property
    def schema(self) -> Schema:
        return Schema((NUMBER, *self.elements, TOTAL))

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.keys,)

    @property
    def looks_back(self) -> int | None:
        return None

    def describe(self) -> str:
        by = f" of each {', '.join(self.keys)}" if self.keys else ""
        ranges = f" in ranges of {', '.join(self.values)}" if self.values else ""
        return f"totals{by}{ranges} for {len(self.group)} alerts, followed by one tracker"

    def warm_up(self) -> None:
        compile_kernels(self.kind)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = GroupedTotalsState.load(self.kind, self.elements, self.keys, self._boxes.words, state)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        arrived = valid_elements(inputs[0], memory.watermark)
        if watermark == memory.watermark and not len(arrived):
            memory.put_back_tracker(state)
            return Step(state, Batch.empty(self.schema), watermark)
        due = memory.take_due(arrived, watermark)
        output = self._count_due(memory, due)
        memory.watermark = watermark
        if self.waiting.within is not None:
            # No later element starts before the watermark.
            memory.forget_idle_keys(watermark - self.waiting.within, len(self.group))
        return Step(memory.save(), output, watermark)

    @property
    def _boxes(self) -> AlertBoxes:
        return boxes_of_alerts(self.group, self.elements, self.values)

    def _count_due(self, memory: GroupedTotalsState, due: Batch) -> Batch:
        """Add the weights of the due elements, and return the alarms."""
        if not len(due):
            return Batch.empty(self.schema)
        zero = np.zeros(len(due), np.int64)
        due = due.take(sort_in_time_order(zero, due.start, due.columns.columns, count=1).order)
        place = memory.places_of_keys([canonical(due.column(name)) for name in self.keys], due.start)
        value = places_of_values(due, self.values)
        element, alert = self._boxes.add_new_pairs(value, place, memory.bits)
        number = memory.number[place]
        ranges = self._subscriptions(number[element], alert)
        weighed = WeightedElements(self._with_key(number, value), integers(due.column(self.waiting.weight)))
        return self._alarms(due, memory.tracker.absorb(weighed, due.start, ranges, element))

    def _subscriptions(self, key: Ints, alert: Ints) -> Subscriptions:
        boxes = self._boxes
        low, high = self._with_key(key, boxes.low[alert]), self._with_key(key, boxes.high[alert])
        closed = np.zeros(low.shape, np.bool_)
        return Subscriptions(key * len(boxes) + alert, low, high, closed, closed, boxes.threshold[alert])

    def _with_key(self, key: Ints, places: Ints) -> Ints:
        """Return places with the number of the key in front; without values, all elements get one place."""
        padded = places if places.shape[1] else np.zeros((len(key), 1), np.int64)
        return np.column_stack([key, padded]) if self.keys else padded

    def _alarms(self, due: Batch, complete: CompletedSubscriptions) -> Batch:
        if not len(complete):
            return Batch.empty(self.schema)
        alert = complete.id % len(self.group)
        order = np.argsort(alert, kind="stable")  # the alarms of an alert together: its filter then copies nothing
        rows = due.take(complete.element[order])
        number, total = pa.array(alert[order], NUMBER.type.arrow), pa.array(complete.total[order])
        columns = [number, *rows.columns.columns, total]
        return rows.with_columns(pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow))
