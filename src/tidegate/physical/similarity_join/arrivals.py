"""New elements of one side, as input of the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.hashing import bucket_of, hash_columns
from tidegate.physical.common.row_segments import Segment
from tidegate.physical.shedding.kernels.random_choice import draw_numbers, key_of
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals
from tidegate.physical.similarity_join.state import OWN, SimilarityJoinLayout

_DROPPING = 1
"""Distinguishes the choice of rows to drop from other random choices."""


class BucketPosition(NamedTuple):
    """Place of one bucket among all. Every bucket gets all elements."""

    bucket: int
    buckets: int


class NewElements(NamedTuple):
    """New elements that can match others, with their rows and columns."""

    arrivals: SlotArrivals
    segment: Segment
    own: Mask | None
    """Elements that this bucket keeps; None for all."""

    def __len__(self) -> int:
        return len(self.arrivals)

    @property
    def kept_mask(self) -> Mask:
        return np.ones(len(self), np.bool_) if self.own is None else self.own

    def filter(self, mask: Mask) -> NewElements:
        if mask.all():
            return self
        return NewElements(
            self.arrivals.take(np.flatnonzero(mask)),
            Segment(self.segment.ids[mask], self.segment.columns.filter(pa.array(mask))),
            None if self.own is None else self.own[mask],
        )

    def choose_share(self, share: float, step: int) -> Mask:
        """Choose a share of the elements at random, the same in every bucket and every attempt at the step."""
        if share >= 1.0:
            return np.ones(len(self), np.bool_)
        numbers = draw_numbers(np.arange(len(self)), self.arrivals.row, np.uint64(key_of(_DROPPING, step)))
        return numbers.astype(np.float64) < share * 2.0**64


def new_elements(
    shape: SimilarityJoinLayout, stream: int, batch: Batch, first: int, place: BucketPosition, *, ordered: bool
) -> NewElements:
    """Return the elements that can match others, as rows from `first` on.

    With `ordered`, they are sorted by time and values. Then random choices, which depend on rows, do not depend on the
    order of arrival.
    """
    batch = _drop_unmatchable(shape, stream, batch)
    own = None
    if ordered or place.buckets > 1:
        hashes = hash_columns([pa.array(batch.start), pa.array(batch.end), *batch.columns.columns])
        order = np.lexsort((hashes, batch.start))
        batch = batch.take(order)
        own = None if place.buckets == 1 else bucket_of(hashes[order], place.buckets) == place.bucket
    rows: Ints = np.arange(first, first + len(batch))
    kind = None if shape.kinds is None else shape.kinds.kinds_of_rows(stream, batch.columns, len(batch))
    values = shape.coding.values(stream, batch.columns, len(batch))
    return NewElements(SlotArrivals(batch.start, batch.end, rows, values, kind), _segment(batch, rows), own)


def _drop_unmatchable(shape: SimilarityJoinLayout, stream: int, batch: Batch) -> Batch:
    valid, usable = batch.end > batch.start, shape.coding.usable_rows(stream, batch.columns)
    return batch.filter(valid if usable is None else valid & usable)


def _segment(batch: Batch, rows: Ints) -> Segment:
    names = ["start", "end", *(f"{OWN}{name}" for name in batch.columns.schema.names)]
    columns = [pa.array(batch.start), pa.array(batch.end), *batch.columns.columns]
    return Segment(rows, pa.RecordBatch.from_arrays(columns, names))
