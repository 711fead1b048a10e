"""Inputs of keyed joins that are windows of the last n rows.

Elements wait for the watermark. Then they are numbered in window order: by time, and by value at one instant. A row of
a window of n rows ends when the n-th row after it arrives. Until then its end is open. Rows end in the order of their
numbers. So only ends that elements of slower inputs may still overlap are kept; a row with a smaller number has
expired.

The join gets such an element with `OPEN` plus its number as end. So it knows which element ends before which, but not
when. The real ends are filled in afterwards (`results.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.plan import Filter, Map, Plan
from tidegate.errors import InternalError
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat_columns, take
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.hold_back import valid_elements
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.kernels.time_order import sort_in_time_order
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.physical.stateless.operators import FilterOperator, MapOperator
from tidegate.schema import Schema
from tidegate.time import BEGINNING, FOREVER

OPEN = FOREVER
"""Offset of open ends: the join uses this plus the element's number as end. It is after all times."""

CLOSED = -1
"""Replaces the number of an element whose end has been applied already."""

COUNTED_PREFIX = "counted"
"""Name prefix of the chunks and figures of windows of rows."""

_TIME, _BEFORE, _NUMBER, _OWN = range(4)
"""Columns of waiting elements: time, arrivals before the step, arrivals including the step, then their own columns."""


@dataclass(frozen=True, slots=True)
class CountedInput:
    """Window of `rows` rows: the columns of the counted elements, and the operators applied after counting."""

    rows: int
    schema: Schema
    steps: tuple[FilterOperator | MapOperator, ...]

    def apply_steps(self, batch: Batch) -> tuple[Batch, list[pa.RecordBatch]]:
        """Apply the operators; return the elements to join, and dead letters."""
        dead = []
        for each in self.steps:
            taken = each.step(NO_STATE, [batch], [BEGINNING])
            batch = taken.output
            dead.append(taken.dead)
        return batch, [letters for letters in dead if letters is not NO_DEAD_LETTERS]


def counted_input(plan: Plan) -> CountedInput | None:
    """Return the window of rows that an input of a join is, or None."""
    window = count_window_below(plan)
    if window is None:
        return None
    if window.rows is None or window.slide != 1 or window.keys:
        raise InternalError("I343", "a keyed join takes count windows over the last rows of a stream only")
    steps: list[FilterOperator | MapOperator] = []
    above = plan
    while isinstance(above, Filter | Map):
        steps.append(MapOperator(above.outputs) if isinstance(above, Map) else _filter_operator(above))
        above = above.source
    return CountedInput(window.rows, window.source.schema, tuple(reversed(steps)))


def _filter_operator(plan: Filter) -> FilterOperator:
    return FilterOperator(plan.schema, plan.predicate)


class DueElements(NamedTuple):
    """Elements that are due, in the order of their numbers, and for each the arrivals of its stream so far."""

    elements: Batch
    number: Ints

    def arrivals_of(self, elements: Batch) -> Ints:
        """Return the arrival numbers of some of the elements."""
        return self.number[elements.end - self.elements.end[0]] if len(elements) else self.number[:0]


@dataclass(frozen=True, slots=True, eq=False)
class CountWindowProgress:
    """Progress of a window of rows: waiting elements, the count of numbered rows, and the ends still needed.

    `ends` are those of the rows from number `first` on; all rows after them are open. `arrived` is the number of
    arrivals up to the last step. `most` is the most elements that have waited at the end of a step.
    """

    waiting: Schedule
    watermark: int = BEGINNING
    count: int = 0
    first: int = 0
    arrived: int = 0
    most: int = 0
    ends: pa.RecordBatch | None = None

    @property
    def _end_times(self) -> Ints:
        return np.empty(0, np.int64) if self.ends is None else self.ends.column(0).to_numpy()

    @property
    def settled_arrival(self) -> int:
        """Return the arrival number up to which all elements have been numbered."""
        before = [run.waiting_rows().column(_BEFORE).to_numpy() for run in self.waiting.runs if run.waiting_count]
        return min((int(each.min()) for each in before), default=self.arrived)

    def measurable_count(self, met: int) -> int:
        """Return a count of joined elements from which distances can be measured, whatever the order of arrival was.

        At most `most` elements come after another in window order although they arrived before it: those that waited
        then. The others that are subtracted may have arrived after an element that still waits.
        """
        return met - self.most - (self.arrived - self.settled_arrival)

    def advance(
        self, window: CountedInput, batch: Batch, watermark: int, arrived: int
    ) -> tuple[CountWindowProgress, DueElements]:
        """Add elements to those that wait, and number those before the watermark."""
        arrived, watermark = max(arrived, self.arrived), max(watermark, self.watermark)
        new = _waiting_chunk(valid_elements(batch, self.watermark), self.arrived, arrived)
        is_due = new.column(_TIME).to_numpy() < watermark
        waiting, come = self.waiting.take_before(watermark)
        waiting = waiting.with_rows(take(new, np.flatnonzero(~is_due)))
        due = concat_columns([take(new, np.flatnonzero(is_due)), *come])
        times = due.column(_TIME).to_numpy()
        columns = pa.RecordBatch.from_arrays(due.columns[_OWN:], schema=window.schema.arrow)
        order = sort_in_time_order(np.zeros(len(times), np.int64), times, columns.columns, count=1).order
        start, end = times[order], OPEN + np.arange(self.count, self.count + len(order))
        most = max(self.most, sum(run.waiting_count for run in waiting.runs))
        # A row ends now if the row that is `window.rows` after it is due.
        closing = start[max(window.rows - self.count, 0) :]
        ends = _ends_chunk(np.concatenate([self._end_times, closing])) if len(closing) else self.ends
        after = CountWindowProgress(waiting, watermark, self.count + len(order), self.first, arrived, most, ends)
        return after, DueElements(Batch(start, end, take(columns, order)), due.column(_NUMBER).to_numpy()[order])

    def without_expired_ends(self, horizon: int) -> CountWindowProgress:
        """Drop the ends of rows that no later element can overlap."""
        ends = self._end_times
        over = int(np.searchsorted(ends, horizon, side="right"))
        return replace(self, first=self.first + over, ends=_ends_chunk(ends[over:])) if over else self

    @property
    def last_expired_end(self) -> int:
        """Return the greatest end, as the join has it, of rows that have expired."""
        return OPEN + self.first - 1

    def ends_of(self, rows: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Return the ends of rows, given by number, and which of them are still open."""
        ends = self._end_times
        place = rows - self.first
        is_open = place >= len(ends)
        known = np.append(ends, FOREVER)[np.where(is_open | (place < 0), len(ends), place)]
        known[(place < 0) & (rows != CLOSED)] = BEGINNING
        return known, is_open

    def figures(self, prefix: str) -> dict[str, int]:
        own = {name: getattr(self, name) for name in _FIGURES}
        return {**{f"{prefix}{name}": value for name, value in own.items()}, **self.waiting.figures()}

    def chunks(self, prefix: str) -> dict[str, pa.RecordBatch]:
        ends = {} if self.ends is None else {f"{prefix}ends": self.ends}
        return {**self.waiting.chunks(), **ends}

    @staticmethod
    def load(prefix: str, chunks: Chunks, figures: Mapping[str, int]) -> CountWindowProgress:
        waiting = Schedule.load(f"{prefix}waiting", chunks, figures)
        own = {name: figures[f"{prefix}{name}"] for name in _FIGURES if f"{prefix}{name}" in figures}
        return CountWindowProgress(waiting, **own, ends=chunks.get(f"{prefix}ends"))


_FIGURES = ("watermark", "count", "first", "arrived", "most")


def _waiting_chunk(batch: Batch, before: int, number: int) -> pa.RecordBatch:
    """Return elements in the form in which they wait."""
    counts = [pa.array(np.full(len(batch), each, np.int64)) for each in (before, number)]
    names = ["time", "before", "number", *batch.columns.schema.names]
    return pa.RecordBatch.from_arrays([pa.array(batch.start), *counts, *batch.columns.columns], names)


def _ends_chunk(ends: Ints) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ends)], ["end"])
