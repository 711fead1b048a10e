"""Keep the rows of a materialized view: those that are valid, and for a while those that were."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from tidegate.algebra.explain import duration_text
from tidegate.algebra.plan import WHOLE
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.hold_back import HeldBack, valid_elements
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.relation.coalesce import merge_adjacent, swap_start_and_end
from tidegate.schema import Schema
from tidegate.time import BEGINNING, CHRONON, EARLIEST, FOREVER

_VALID, _ENDED = "valid", "ended"


@dataclass(frozen=True, slots=True)
class ViewOperator:
    """Keep elements until `history` after their end, and emit nothing.

    Elements that end at or after the watermark are *valid*: they are needed for the last instant before the watermark,
    which is the newest instant that is complete. Those that ended earlier serve queries that also read views which are
    not as far. Operators below cut elements at watermarks; an element that goes on is put together again.
    """

    schema: Schema
    history: int

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.schema.names,)

    def describe(self) -> str:
        return f"keep what is valid, and for {duration_text(self.history)} what was"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory = HeldBack.load(state, _ENDED, _VALID)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        new = valid_elements(inputs[0], memory.watermark)
        if state and watermark == memory.watermark and not len(new):
            return Step(state, Batch.empty(self.schema), watermark)
        ended, valid = memory.waiting
        valid, new = _continue_elements(valid, new, memory.watermark)
        valid, over = _with_elements(valid, new).take_before(watermark)
        horizon = _horizon(watermark, self.history)
        late = [Batch.from_arrow(rows) for rows in over]
        ended = _with_elements(ended, *(swap_start_and_end(each).filter(each.start >= horizon) for each in late))
        ended, _ = ended.take_before(horizon)
        after = HeldBack(watermark, (ended.without_gaps(), valid.without_gaps()))
        return Step(after.save(), Batch.empty(self.schema), watermark)


def _horizon(watermark: int, history: int) -> int:
    """Return the time before which elements must end to be dropped."""
    return watermark - history if EARLIEST < watermark < FOREVER else watermark


def _with_elements(waiting: Schedule, *batches: Batch) -> Schedule:
    """Add elements to a schedule, in which they are in the order of their ends."""
    for each in batches:
        waiting = waiting.with_rows(swap_start_and_end(each).to_arrow())
    return waiting


def _continue_elements(valid: Schedule, new: Batch, watermark: int) -> tuple[Schedule, Batch]:
    """Put new elements that start at the watermark together with equal ones that end there."""
    starting = new.start == watermark
    if watermark <= EARLIEST or not starting.any():
        return valid, new
    valid, ending = valid.take_before(watermark + CHRONON)
    before = [swap_start_and_end(Batch.from_arrow(rows)) for rows in ending]
    return valid, concat([new.filter(~starting), merge_adjacent(concat([new.filter(starting), *before]), WHOLE)])


@dataclass(frozen=True, slots=True, eq=False)
class KeptRows:
    """What one bucket of a view keeps: the elements, and the instants at which they are all that is valid."""

    first: int
    """The first instant that is kept."""
    last: int
    """The last instant that is complete; BEGINNING if the view has seen nothing."""
    elements: tuple[Batch, ...] = ()

    def snapshot(self, instant: int) -> Iterable[pa.RecordBatch]:
        """Yield the rows that are valid at an instant."""
        for each in self.elements:
            yield each.filter((each.start <= instant) & (instant < each.end)).columns


NOTHING_KEPT = KeptRows(BEGINNING, BEGINNING)


def kept_rows(state: Chunks, history: int) -> KeptRows:
    """Return what the state of a `ViewOperator` with this history keeps."""
    if not state:
        return NOTHING_KEPT
    memory = HeldBack.load(state, _ENDED, _VALID)
    runs = [run.waiting_rows() for waiting in memory.waiting for run in waiting.runs]
    elements = tuple(swap_start_and_end(Batch.from_arrow(rows)) for rows in runs)
    if memory.watermark <= EARLIEST:
        return KeptRows(BEGINNING, BEGINNING, elements)
    first = BEGINNING if memory.watermark >= FOREVER else memory.watermark - CHRONON - history
    return KeptRows(first, memory.watermark - CHRONON, elements)
