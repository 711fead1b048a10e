"""Helpers of operators that hold elements back until the watermark passes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.errors import InternalError
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks
from tidegate.time import BEGINNING, FOREVER

FIGURES = "figures"


def figures_of(chunks: Chunks) -> dict[str, int]:
    """Return the named numbers that are saved among the chunks; empty in the initial state."""
    if FIGURES not in chunks:
        return {}
    names, values = (column.to_pylist() for column in chunks[FIGURES].columns)
    return dict(zip(names, values, strict=True))


def figures_chunk(figures: Mapping[str, int]) -> pa.RecordBatch:
    """Return the chunk from which `figures_of` reads these numbers."""
    columns = [pa.array(figures.keys(), pa.string()), pa.array(figures.values(), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, ["name", "value"])


def valid_elements(batch: Batch, watermark: int) -> Batch:
    """Return the elements with a non-empty validity; raise an internal error if one starts before the watermark."""
    if len(batch) and batch.start.min() < watermark:
        raise InternalError("I321", f"an element starts at {batch.start.min()}, before the watermark {watermark}")
    ending = Batch(batch.start, np.minimum(batch.end, FOREVER), batch.columns)
    return ending.filter(ending.start < ending.end)


def split_due(waiting: Schedule, new: Batch, watermark: int) -> tuple[Schedule, Batch]:
    """Split waiting and new elements: return those that keep waiting, and those that start before the watermark."""
    now = new.start < watermark
    rest, come = waiting.with_rows(new.filter(~now).to_arrow()).take_before(watermark)
    return rest, concat([new.filter(now), *(Batch.from_arrow(rows) for rows in come)])


def load_waiting(chunks: Chunks, *names: str) -> tuple[int, list[Schedule]]:
    """Return the watermark, and the schedules of these names."""
    figures = figures_of(chunks)
    return figures.get("watermark", BEGINNING), [Schedule.load(name, chunks, figures) for name in names]


def waiting_chunks(figures: Mapping[str, int], *waiting: Schedule) -> dict[str, pa.RecordBatch]:
    """Return the chunks of schedules, and one with their figures and the given ones, which include the watermark."""
    together = dict(figures)
    chunks: dict[str, pa.RecordBatch] = {}
    for each in waiting:
        together |= each.figures()
        chunks |= each.chunks()
    return {FIGURES: figures_chunk(together), **chunks}


@dataclass(frozen=True, slots=True, eq=False)
class HeldBack:
    """State of an operator that only holds elements back, in one or several schedules."""

    watermark: int
    waiting: tuple[Schedule, ...]

    @staticmethod
    def load(chunks: Chunks, *names: str) -> HeldBack:
        watermark, waiting = load_waiting(chunks, *names)
        return HeldBack(watermark, tuple(waiting))

    def save(self) -> Chunks:
        return waiting_chunks({"watermark": self.watermark}, *self.waiting)
