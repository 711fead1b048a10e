"""Check elements and subscription rows before they travel, so that each bad row becomes one dead letter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.subscriptions import MOST, RangedAlertGroup, SubscriptionColumns, TotalCompletion
from tidegate.physical.common.arrays import Mask
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS, Reason
from tidegate.physical.common.failures import dead_letters, unqualified_name
from tidegate.physical.common.kernels.order_codes import integers, presence
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.physical.subscriptions.alert_boxes import boxes_of_alerts, places_of_values
from tidegate.physical.subscriptions.places import are_empty, end_places
from tidegate.schema import Schema

COMPUTED = "range:"
"""Prefix of columns that occur only in the formulas of the statement."""

_WEIGHTS = f"the weight of an element must be a whole number from 1 to {MOST}"


@dataclass(frozen=True, slots=True)
class WeighOperator:
    """Forward elements that may be in a range; an element with a bad weight becomes a dead letter."""

    schema: Schema
    waiting: TotalCompletion
    needed: tuple[str, ...]
    """Columns that are compared with subscriptions; an element with a NULL in one of them is in no range."""

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"weigh elements for {self.waiting.name}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        bad = ~_between_one_and_most(batch.column(self.waiting.weight))
        dead = dead_letters_of(batch.filter(bad), Reason.BAD_WEIGHT, _WEIGHTS, self.waiting.name)
        return Step(NO_STATE, batch.filter(~bad & _have_all_values(batch, self.needed)), watermarks[0], dead)


@dataclass(frozen=True, slots=True)
class WeighForGroupOperator:
    """Forward elements in the ranges of alerts; one with a bad weight becomes a dead letter for each such alert."""

    schema: Schema
    keys: tuple[str, ...]
    waiting: TotalCompletion
    values: tuple[str, ...]
    group: RangedAlertGroup

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"weigh elements for {len(self.group)} alerts"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        bad = ~_between_one_and_most(batch.column(self.waiting.weight))
        present = _have_all_values(batch, self.values)
        boxes = boxes_of_alerts(self.group, self.schema, self.values)
        covered = present & boxes.are_covered(places_of_values(batch, self.values))
        dead = self._dead_letters(batch.filter(bad & covered))
        return Step(NO_STATE, batch.filter(~bad & covered & _have_all_values(batch, self.keys)), watermarks[0], dead)

    def _dead_letters(self, batch: Batch) -> pa.RecordBatch:
        boxes, rows = boxes_of_alerts(self.group, self.schema, self.values), np.arange(len(batch))
        known = np.zeros((len(batch), boxes.words), np.int64)
        row, alert = boxes.add_new_pairs(places_of_values(batch, self.values), rows, known)
        names = [(number, self.group.alerts[number].name) for number in np.unique(alert).tolist()]
        mine = ((batch.take(row[alert == number]), name) for number, name in names)
        return concat_columns(
            [NO_DEAD_LETTERS, *(dead_letters_of(rows, Reason.BAD_WEIGHT, _WEIGHTS, name) for rows, name in mine)]
        )


@dataclass(frozen=True, slots=True)
class AdmitOperator:
    """Forward valid registrations and terminations; other rows become dead letters."""

    schema: Schema
    name: str
    keys: tuple[str, ...]
    subscribed: SubscriptionColumns

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"check subscriptions of {self.name}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        fine, dead = np.ones(len(batch), np.bool_), []
        for bad, reason, detail in self._checks(batch):
            # A row becomes one dead letter, for the first of its faults.
            dead.append(dead_letters_of(batch.filter(fine & bad), reason, detail, self.name))
            fine = fine & ~bad
        return Step(NO_STATE, batch.filter(fine), watermarks[0], concat_columns(dead))

    def _checks(self, batch: Batch) -> Iterator[tuple[Mask, Reason, str]]:
        registers = ~are_terminations(batch, self.subscribed)
        named = ", ".join(unqualified_name(name) for name in (self.subscribed.id, *self.keys))
        yield (
            ~_have_all_values(batch, (self.subscribed.id, *self.keys)),
            Reason.NO_ID,
            f"a subscription must have {named}",
        )
        low = ~_between_one_and_most(batch.column(self.subscribed.threshold))
        yield registers & low, Reason.BAD_THRESHOLD, f"a threshold must be a whole number from 1 to {MOST}"
        if self.subscribed.dimensions:
            empty = are_empty(*end_places(batch, self.subscribed.dimensions))
            yield registers & empty, Reason.EMPTY_RANGE, "no value is in this range: its low end is above its high end"


def are_terminations(batch: Batch, subscribed: SubscriptionColumns) -> Mask:
    """Return which rows are terminations."""
    if subscribed.ended is None:
        return np.zeros(len(batch), np.bool_)
    ended: Mask = batch.column(subscribed.ended).fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
    return ended


def dead_letters_of(batch: Batch, reason: Reason, detail: str, origin: str) -> pa.RecordBatch:
    """Return dead letters of all rows, with the columns of their stream."""
    if not len(batch):
        return NO_DEAD_LETTERS
    own = [name for name in batch.columns.schema.names if not name.startswith(COMPUTED)]
    shown_ = batch.with_columns(batch.columns.select(own).rename_columns([unqualified_name(name) for name in own]))
    return dead_letters(shown_, [reason.value] * len(batch), [detail] * len(batch), origin=origin)


def _have_all_values(batch: Batch, names: Sequence[str]) -> Mask:
    """Return which rows have a value in all of these columns."""
    found = np.ones(len(batch), np.bool_)
    for name in names:
        found &= presence(batch.column(name)).view(np.bool_)
    return found


def _between_one_and_most(column: pa.Array) -> Mask:
    number = integers(column)
    return (number >= 1) & (number <= MOST)
