"""State of an aggregation, as chunks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.aggregate.kernels.accumulators import AccumulatorLayout
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.hold_back import figures_of, waiting_chunks
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.time import BEGINNING
from tidegate.values import value

GROUPS, FUTURES, ENDS, FRONTIER = "groups", "futures", "ends", "frontier"

_ID, _SINCE, _UNTIL, _SUMS = "id", "since", "until", "sums"


@value
class SweepSpec:
    """Requirements of the calls: the columns that are summed, counted (summed ones first) and ordered.

    `calls` are operations and operands of the sweep; `best` names the function and column of each frontier. With
    `keeps_count`, elements are counted, so the end of each one must be known; without it, only the last end of a group.
    With `holds_back`, a group knows since when its value was not emitted. With `early`, a value is also emitted when it
    begins.
    """

    keys: tuple[str, ...]
    calls: tuple[tuple[int, int], ...]
    summed: tuple[str, ...]
    kinds: tuple[int, ...]
    counted: tuple[str, ...]
    best: tuple[tuple[str, str], ...]
    keeps_count: bool
    holds_back: bool
    early: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Return all columns that are read, each once."""
        return tuple(dict.fromkeys(self.keys + self.counted + tuple(column for _, column in self.best)))


@dataclass(frozen=True, slots=True, eq=False)
class AggregateState:
    """State of an aggregation; `groups` is None and `frontiers` is empty if no group is alive."""

    watermark: int
    ids_given: int
    layout: AccumulatorLayout
    futures: Schedule
    ends: Schedule
    groups: pa.RecordBatch | None
    frontiers: tuple[pa.RecordBatch, ...]

    @staticmethod
    def load(shape: SweepSpec, chunks: Chunks) -> AggregateState:
        figures = figures_of(chunks)
        columns = range(len(shape.summed))
        smallest = AccumulatorLayout.smallest(len(shape.counted), shape.kinds)
        lows = tuple(figures.get(f"low.{c}", smallest.lows[c]) for c in columns)
        sizes = tuple(figures.get(f"size.{c}", smallest.sizes[c]) for c in columns)
        return AggregateState(
            figures.get("watermark", BEGINNING),
            figures.get("ids", 0),
            AccumulatorLayout(len(shape.counted), shape.kinds, lows, sizes),
            Schedule.load(FUTURES, chunks, figures),
            Schedule.load(ENDS, chunks, figures),
            chunks.get(GROUPS),
            tuple(chunks[f"{FRONTIER}.{b}"] for b in range(len(shape.best)) if GROUPS in chunks),
        )

    def save(self) -> Chunks:
        """Return the chunks; unchanged ones are the same objects as before."""
        groups = {} if self.groups is None else {GROUPS: self.groups}
        frontiers = {f"{FRONTIER}.{b}": rows for b, rows in enumerate(self.frontiers)}
        return {**waiting_chunks(self._figures(), self.futures, self.ends), **groups, **frontiers}

    @property
    def output_watermark(self) -> int:
        """Return the time before which nothing more will be emitted."""
        if self.groups is None or _SINCE not in self.groups.schema.names:
            return self.watermark
        return int(np.min(self.groups.column(_SINCE).to_numpy(), initial=self.watermark))

    def _figures(self) -> dict[str, int]:
        lows = {f"low.{c}": low for c, low in enumerate(self.layout.lows)}
        sizes = {f"size.{c}": size for c, size in enumerate(self.layout.sizes)}
        return {"watermark": self.watermark, "ids": self.ids_given, **lows, **sizes}


@dataclass(frozen=True, slots=True, eq=False)
class AggregateGroups:
    """Live groups in columns; the shape determines which of the numeric columns are used."""

    keys: list[pa.Array]
    ids: Ints
    since: Ints
    until: Ints
    sums: Ints
    sizes: list[Ints]

    @staticmethod
    def load(shape: SweepSpec, memory: AggregateState, key_types: list[pa.DataType]) -> AggregateGroups:
        rows, width = memory.groups, memory.layout.places[-1]
        if rows is None:
            none = np.empty(0, np.int64)
            keys = [pa.array([], kind) for kind in key_types]
            return AggregateGroups(keys, none, none, none, np.empty((0, width), np.int64), [none] * len(shape.best))
        count = rows.num_rows
        sums = rows.column(_SUMS).flatten().to_numpy() if shape.keeps_count else np.empty(0, np.int64)
        return AggregateGroups(
            [rows.column(k) for k in range(len(shape.keys))],
            _numbers(rows, _ID) if shape.keeps_count else np.arange(count),
            _numbers(rows, _SINCE) if shape.holds_back else np.full(count, memory.watermark),
            np.empty(0, np.int64) if shape.keeps_count else _numbers(rows, _UNTIL),
            sums.reshape(count, width if shape.keeps_count else 0),
            [_numbers(rows, f"size.{b}") for b in range(len(shape.best))],
        )

    def save(self, shape: SweepSpec) -> pa.RecordBatch:
        columns = {f"key.{k}": key for k, key in enumerate(self.keys)}
        if shape.keeps_count:
            width = self.sums.shape[1]
            sums = pa.FixedSizeListArray.from_arrays(pa.array(self.sums.reshape(-1)), width)
            columns |= {_ID: pa.array(self.ids), _SUMS: sums}
        else:
            columns[_UNTIL] = pa.array(self.until)
        if shape.holds_back:
            columns[_SINCE] = pa.array(self.since)
        columns |= {f"size.{b}": pa.array(size) for b, size in enumerate(self.sizes)}
        return pa.RecordBatch.from_pydict(columns)


def _numbers(rows: pa.RecordBatch, name: str) -> npt.NDArray[Any]:
    return np.array(rows.column(name))
