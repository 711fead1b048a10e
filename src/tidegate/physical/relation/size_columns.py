"""Add columns to results that say which sizes of windows and granularities were in force (`algebra/size_columns.py`).

Which size is in force at an instant is decided when the streams have come there. So elements wait until their end is
settled, and are cut where a size changes. Then they have their sizes, once and for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat, take
from tidegate.physical.common.hold_back import HeldBack, valid_elements
from tidegate.physical.common.kernels.schedule import Schedule
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.common.sizes import NO_SIZES, SizeChange, SizeHistories, SizeHistory
from tidegate.physical.relation.coalesce import held_watermark, swap_start_and_end
from tidegate.physical.relation.kernels.cut_at import cut_at
from tidegate.schema import Field, Schema, Type
from tidegate.time import CHRONON, EARLIEST, FOREVER
from tidegate.values import value

_HELD, _SIZES = "held", "sizes"


@value
class SizeSource:
    """A column, the keys of the histories that it follows, and the size that is in force without any."""

    name: str
    keys: tuple[str, ...]
    best: int
    is_coarse: bool = False
    """Whether larger sizes are worse. Of several sizes, a column says the worst one."""

    def at(self, times: Ints, sizes: SizeHistories) -> Ints:
        """Return the size in force at each time."""
        found = [sizes[key].at(times) for key in self.keys if key in sizes]
        # A window without a history has the best size, which is no worse than another one.
        best = np.full(len(times), self.best, np.int64)
        worst: Ints = (np.maximum if self.is_coarse else np.minimum).reduce([best, *found])
        return worst


@value
class SizeColumnsOperator:
    """Add the sizes in force, and cut elements where these change.

    `lag` is how far the watermark of the input may be ahead of the streams: operators that move time in steps round it
    up. Sizes are settled before the watermarks of the streams. The state keeps the histories that elements still need.
    """

    source: Schema
    columns: tuple[SizeSource, ...]
    lag: int = 0
    sizes: SizeHistories = field(default_factory=lambda: NO_SIZES, compare=False)
    """Histories, without the sizes that no later element of the windows can get."""

    @property
    def schema(self) -> Schema:
        return self.source + Schema(tuple(Field(each.name, Type.BIGINT) for each in self.columns))

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.source.names,)

    @property
    def follows(self) -> frozenset[str]:
        return frozenset(key for each in self.columns for key in each.keys)

    def with_histories(self, sizes: SizeHistories) -> SizeColumnsOperator:
        return replace(self, sizes={key: sizes[key] for key in sorted(self.follows) if key in sizes})

    def describe(self) -> str:
        return f"sizes in force as {', '.join(each.name for each in self.columns)}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory, known = HeldBack.load(state, _HELD), _load_sizes(state)
        settled = max(memory.watermark, self._settled_before(min(watermarks[0], FOREVER)))
        sizes = _continue_sizes(known, self.sizes)
        arrived = valid_elements(inputs[0], memory.watermark)
        (held,) = memory.waiting
        # Elements wait in the order of their ends.
        held, ended = held.with_rows(swap_start_and_end(arrived).to_arrow()).take_before(settled + CHRONON)
        whole = concat([Batch.empty(self.source), *(swap_start_and_end(Batch.from_arrow(rows)) for rows in ended)])
        watermark = held_watermark(settled, held)
        if state and not len(arrived) and settled == memory.watermark and sizes == known:
            return Step(state, Batch.empty(self.schema), watermark)
        kept = {key: each.trimmed(watermark) for key, each in sizes.items()}
        return Step(_save(settled, held, kept, state), self._with_sizes(whole, sizes), watermark)

    def _settled_before(self, watermark: int) -> int:
        """Return the time before which no size changes any more."""
        return watermark - self.lag if EARLIEST < watermark < FOREVER else watermark

    def _with_sizes(self, batch: Batch, sizes: SizeHistories) -> Batch:
        rows, start, end = cut_at(batch.start, batch.end, self._changes(sizes))
        found = [pa.array(each.at(start, sizes), pa.int64()) for each in self.columns]
        columns = [*take(batch.columns, rows).columns, *found]
        return Batch(start, end, pa.RecordBatch.from_arrays(columns, schema=self.schema.arrow))

    def _changes(self, sizes: SizeHistories) -> Ints:
        """Return the instants at which a column changes."""
        # The first size of a history is also in force before.
        later = {change.instant for each in sizes.values() for change in each.changes[1:]}
        instants = np.array(sorted(later), np.int64)
        changes = [each.at(instants, sizes) != each.at(instants - CHRONON, sizes) for each in self.columns]
        return instants[np.logical_or.reduce(changes)] if len(instants) else instants


def _continue_sizes(known: SizeHistories, given: SizeHistories) -> Mapping[str, SizeHistory]:
    """Return the histories that were known, with the changes that are new."""
    found = dict(known)
    for key, history in given.items():
        before = known.get(key)
        if before is None:
            found[key] = SizeHistory(tuple(SizeChange(each.instant, each.size) for each in history.changes))
            continue
        for change in history.changes:
            if change.instant > before.newest.instant:
                before = before.changed(change.instant, change.size)
        found[key] = before
    return found


def _load_sizes(state: Chunks) -> Mapping[str, SizeHistory]:
    changes: dict[str, list[SizeChange]] = {}
    if _SIZES in state:
        for key, instant, size in zip(*(each.to_pylist() for each in state[_SIZES].columns), strict=True):
            changes.setdefault(key, []).append(SizeChange(instant, size))
    return {key: SizeHistory(tuple(each)) for key, each in changes.items()}


def _save(settled: int, held: Schedule, sizes: SizeHistories, before: Chunks) -> Chunks:
    rows = [(key, each.instant, each.size) for key, history in sizes.items() for each in history.changes]
    types = pa.string(), pa.int64(), pa.int64()
    columns = [pa.array([row[at] for row in rows], type_) for at, type_ in enumerate(types)]
    chunk = pa.RecordBatch.from_arrays(columns, ["key", "instant", "size"])
    if _SIZES in before and before[_SIZES].equals(chunk):
        chunk = before[_SIZES]
    return {**HeldBack(settled, (held.without_gaps(),)).save(), _SIZES: chunk}
