"""Filter of the pairs that a join compares: keeps those for which the predicate is true or fails.

Columns are taken by positions in slots, which costs a fraction of looking up rows by their numbers. The pairs kept are
few. `PairCollector` checks them again, and makes results and dead letters of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Expression, columns_of
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import take
from tidegate.physical.common.row_segments import Segment, gather
from tidegate.physical.similarity_join.kernels.keyed import match_keys
from tidegate.physical.similarity_join.kernels.pairs import MatchedPairs
from tidegate.physical.similarity_join.kernels.slots import Slot
from tidegate.physical.similarity_join.state import StoredSlot, prefixed_names, prefixed_schema
from tidegate.schema import Schema


class PairFilter:
    """Finder of the pairs with equal keys that meet a predicate; it lives for one step."""

    def __init__(
        self,
        predicate: Expression,
        schemas: tuple[Schema, Schema],
        stored: tuple[Mapping[int, StoredSlot], Mapping[int, StoredSlot]],
        new: Sequence[Segment],
    ) -> None:
        self.predicate, self.new, wanted = predicate, new, columns_of(predicate)
        self.stored = {id(held.slot): held for side in stored for held in side.values()}
        self.read = [Schema(tuple(field for field in schema if field.name in wanted)) for schema in schemas]
        self.columns: dict[int, pa.RecordBatch] = {}

    def __call__(self, probing: Slot, rows: Ints, stored: Slot, *, flipped: bool) -> MatchedPairs:
        found = match_keys(probing, rows, stored)
        if not len(found.pairs):
            return found
        sides = [(int(flipped), probing), (int(not flipped), stored)]
        mine, other = (take(self._columns(*side), found.pairs[:, n]).columns for n, side in enumerate(sides))
        left, right = (other, mine) if flipped else (mine, other)
        names = [field.name for schema in self.read for field in schema]
        mask = self._is_needed(pa.RecordBatch.from_arrays([*left, *right], names), len(found.pairs))
        return MatchedPairs(found.pairs[mask], found.compared, found.units)

    def _is_needed(self, pairs: pa.RecordBatch, many: int) -> Mask:
        """Return for which pairs the predicate is true or fails."""
        verdict = evaluate(self.predicate, pairs, many)
        mask: Mask = verdict.values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
        return mask if verdict.errors is None else mask | (verdict.errors != 0)

    def _columns(self, stream: int, slot: Slot) -> pa.RecordBatch:
        """Return the columns of a slot that the predicate reads, in the order of the slot."""
        if id(slot) not in self.columns:
            names, kinds = prefixed_names(self.read[stream]), prefixed_schema(self.read[stream])
            held, new = self.stored.get(id(slot)), self.new[stream]
            self.columns[id(slot)] = (
                gather(slot.row, [Segment(new.ids, new.columns.select(names))], kinds)
                if held is None
                else held.chunk.select(names)
            )
        return self.columns[id(slot)]
