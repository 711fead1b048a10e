"""Subscriptions that are the rows of a table: which of them begin and end when the table is read again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Mask
from tidegate.physical.common.batch import Batch, take
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.time import BEGINNING


class TableDifference(NamedTuple):
    """Rows that are no longer in a table, and rows that are new in it."""

    ended: pa.RecordBatch
    begun: pa.RecordBatch

    def as_events(self) -> tuple[Batch, Mask]:
        """Return the rows before all elements, and which of them end a subscription."""
        rows = pa.Table.from_batches([self.ended, self.begun]).combine_chunks().to_batches()
        columns = rows[0] if rows else self.begun
        time = np.full(columns.num_rows, BEGINNING)
        return Batch(time, time + 1, columns), np.arange(columns.num_rows) < self.ended.num_rows


def are_first(rows: Batch, names: Sequence[str]) -> Mask:
    """Return which rows are the first ones with their values of these columns."""
    columns = [canonical(rows.column(name)) for name in names]
    found = group_rows([column[:0] for column in columns], columns, groups=0, rows=len(rows))
    first = np.zeros(len(rows), np.bool_)
    first[found.founders] = True
    return first


def compare_tables(before: pa.RecordBatch, now: pa.RecordBatch) -> TableDifference:
    """Return the differences of two readings of a table; in each, all rows are different."""
    old, new = ([canonical(column) for column in rows.columns] for rows in (before, now))
    place = group_rows(old, new, groups=before.num_rows, rows=now.num_rows).groups
    stays = np.zeros(before.num_rows, np.bool_)
    stays[place[place < before.num_rows]] = True
    return TableDifference(take(before, np.flatnonzero(~stays)), take(now, np.flatnonzero(place >= before.num_rows)))
