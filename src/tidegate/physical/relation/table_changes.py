"""Rows that a relation made of tables gains and loses when its tables are read again (ISTREAM, DSTREAM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.algebra.plan import Change
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.hold_back import FIGURES, figures_chunk, figures_of
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.relation.changes import net_changes
from tidegate.schema import Schema
from tidegate.time import BEGINNING, CHRONON, FOREVER

_ROWS, _NEW = "rows", "new"
_AT, _LAST = "read again at", "last read at"


@dataclass(frozen=True, slots=True)
class TableChangesOperator:
    """Emit one chronon for each row gained or lost, at the instant at which tables were read again.

    The rows of tables have no times, so this instant is that of the clock, as for streams that are timed by arrival.
    It is part of the intent of the step. What the tables have at first was always there.
    """

    schema: Schema
    change: Change

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.schema.names,)

    @property
    def looks_back(self) -> int | None:
        return CHRONON

    def describe(self) -> str:
        return f"changes {self.change.value} of tables"

    def read_again(self, state: Chunks, now: int) -> Chunks:
        """Return the state for a step that brings all rows once more, at an instant after all earlier ones."""
        figures = figures_of(state)
        known = {_ROWS: state[_ROWS]} if _ROWS in state else {}
        return {**known, FIGURES: figures_chunk({_AT: max(now, figures.get(_LAST, BEGINNING) + CHRONON)})}

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        figures, nothing = figures_of(state), Batch.empty(self.schema)
        # Operators below may cut rows at watermarks: the last part never ends.
        come = inputs[0].filter(inputs[0].end >= FOREVER)
        is_whole = watermarks[0] >= FOREVER
        if not len(come) and (not is_whole or (_AT not in figures and _NEW not in state)):
            return Step(state, nothing, watermarks[0])
        new = concat([come, *self._load_rows(state, _NEW)])
        if not is_whole:
            return Step({**state, _NEW: new.to_arrow()}, nothing, watermarks[0])
        old = concat([nothing, *self._load_rows(state, _ROWS)])
        if _AT not in figures:
            kept = {name: chunk for name, chunk in state.items() if name != _NEW}
            return Step({**kept, _ROWS: concat([old, new]).to_arrow()}, nothing, watermarks[0])
        at = figures[_AT]
        after = {_ROWS: new.to_arrow(), FIGURES: figures_chunk({_LAST: at})}
        return Step(after, self._changes(old, new, at), watermarks[0])

    def _changes(self, old: Batch, new: Batch, at: int) -> Batch:
        more, less = (new, old) if self.change is Change.INSERTED else (old, new)
        at -= CHRONON if self.change is Change.DELETED_LAST else 0
        return net_changes(_at_instant(more, at), _at_instant(less, at))

    def _load_rows(self, state: Chunks, name: str) -> list[Batch]:
        return [Batch.from_arrow(state[name])] if name in state else []


def _at_instant(rows: Batch, at: int) -> Batch:
    start = np.full(len(rows), at, np.int64)
    return Batch(start, start + CHRONON, rows.columns)
