"""State of a similarity join: the elements of both sides by slots, with their columns.

Each slot is one chunk. Values that the kernels derive from element columns are not saved. They are in the state cache,
with the slots' indexes, and are derived again when a state is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.hold_back import FIGURES, figures_chunk, figures_of
from tidegate.physical.common.operator import Chunks
from tidegate.physical.common.row_segments import Segment, gather
from tidegate.physical.common.state_cache import StateCache
from tidegate.physical.similarity_join.coding import SimilarityCoding
from tidegate.physical.similarity_join.kernels.join import SheddingJoin
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings
from tidegate.physical.similarity_join.kernels.slots import Slot, SlotArrivals, split_into_slots
from tidegate.physical.similarity_join.kernels.values import Numbers, concatenate_values
from tidegate.physical.similarity_join.key_coding import EqualKeyCoding
from tidegate.physical.similarity_join.utility_classes import UtilityClasses
from tidegate.schema import Schema

OWN = "of "
"""Name prefix of the elements' own columns."""

_SLOT, _DROPPED, _WIDTH = "slot", "dropped", "width"
_KERNEL = ("start", "end", "row", "kind")


class SimilarityJoinLayout(NamedTuple):
    """Parameters of a similarity join that determine the form of its state."""

    schemas: tuple[Schema, Schema]
    coding: SimilarityCoding | EqualKeyCoding
    kinds: UtilityClasses | None
    settings: SimilarityJoinSettings

    @property
    def form(self) -> tuple[object, ...]:
        """Return what two layouts have in common if the state of one is that of the other, but for the slots' width."""
        return self.schemas, self.coding, self.kinds, self.settings.with_halvings(0).width, self.settings.seed

    def with_width(self, width: int) -> SimilarityJoinLayout:
        """Return the layout with slots of a width that is the original one, halved some times."""
        whole = self.settings.with_halvings(0)
        halvings = (whole.width // width).bit_length() - 1
        return self._replace(settings=whole.with_halvings(halvings))


@dataclass(frozen=True, eq=False)
class StoredSlot:
    """Slot of the join and its chunk, in the same order."""

    slot: Slot
    chunk: pa.RecordBatch

    @cached_property
    def segment(self) -> Segment:
        """Return the elements in row order, which is usually time order."""
        rows = self.slot.row
        if (rows[1:] > rows[:-1]).all():
            return Segment(rows, self.chunk)
        order = np.argsort(rows)
        return Segment(rows[order], self.chunk.take(pa.array(order)))


Side = Mapping[int, StoredSlot]
Counts = Mapping[int, int]


@dataclass(frozen=True, eq=False)
class SimilarityJoinState:
    """State of a similarity join between two steps."""

    layout: SimilarityJoinLayout
    join: SheddingJoin
    sides: tuple[Side, Side]
    next_row: tuple[int, int]
    dropped: tuple[Counts, Counts] = ({}, {})
    """Number of dropped elements, by the slot that they would be in."""

    @staticmethod
    def load(shape: SimilarityJoinLayout, chunks: Chunks) -> SimilarityJoinState:
        """Return a state from the state cache, or decode its chunks."""
        kept = _CACHE.get(chunks.get(FIGURES))
        if kept is None or kept.layout.form != shape.form:
            kept = _decode_state(shape, chunks)
        return kept if kept.layout.settings.width == shape.settings.width else kept.with_layout(shape)

    def segments(self, stream: int) -> list[Segment]:
        """Return the columns of a side's elements."""
        return [held.segment for held in self.sides[stream].values()]

    def share_kept(self, stream: int) -> float:
        """Return the share of a side's elements that were not dropped, over the slots still kept."""
        kept, dropped = sum(len(held.slot) for held in self.sides[stream].values()), sum(self.dropped[stream].values())
        return kept / (kept + dropped) if kept else 1.0

    def after_step(self, join: SheddingJoin, new: Sequence[Segment], dropped: Sequence[Ints]) -> SimilarityJoinState:
        """Return the state after a step. `new` has all elements that arrived, including the dropped ones."""
        left, right = (self._slots_after(stream, join, new[stream]) for stream in (0, 1))
        one, other = (self._count_dropped(stream, join, dropped[stream]) for stream in (0, 1))
        counted = (self.next_row[0] + len(new[0].ids), self.next_row[1] + len(new[1].ids))
        return SimilarityJoinState(self.layout, join, (left, right), counted, (one, other))

    def without_side(self, which: int) -> SimilarityJoinState:
        """Return the state without the elements of a side."""
        slots, sides, dropped = list(self.join.slots), list(self.sides), list(self.dropped)
        slots[which], sides[which], dropped[which] = {}, {}, {}
        join = replace(self.join, slots=(slots[0], slots[1]))
        return replace(self, join=join, sides=(sides[0], sides[1]), dropped=(dropped[0], dropped[1]))

    def save(self, before: Chunks) -> Chunks:
        """Return the state as chunks.

        Chunks of unchanged slots are the same objects. If nothing changed, the result is `before` itself.
        """
        chunks: dict[str, pa.RecordBatch] = {
            f"{_SLOT}{stream}.{number}": held.chunk for stream in (0, 1) for number, held in self.sides[stream].items()
        }
        figures = self._figures()
        same = len(chunks) + 1 == len(before) and all(before.get(n) is chunk for n, chunk in chunks.items())
        if same and figures_of(before) == figures:
            _CACHE.put(before[FIGURES], self)
            return before
        # The state cache finds a state by this chunk, so each state has its own.
        chunks[FIGURES] = figures_chunk(figures)
        _CACHE.put(chunks[FIGURES], self)
        return chunks

    def _slots_after(self, stream: int, join: SheddingJoin, new: Segment) -> Side:
        known, side = self.sides[stream], {}
        for number, slot in join.slots[stream].items():
            before = known.get(number)
            if before is not None and before.slot is slot:
                side[number] = before
            else:
                side[number] = StoredSlot(
                    slot, self._slot_chunk(stream, slot, [new] if before is None else [new, before.segment])
                )
        return side

    def _slot_chunk(self, stream: int, slot: Slot, segments: Sequence[Segment]) -> pa.RecordBatch:
        names = prefixed_names(self.layout.schemas[stream])
        own = [Segment(ids, columns.select(names)) for ids, columns in segments]
        columns = gather(slot.row, own, prefixed_schema(self.layout.schemas[stream])).columns
        return pa.RecordBatch.from_arrays(
            [*(pa.array(slot.columns[name]) for name in _KERNEL), *columns], [*_KERNEL, *names]
        )

    def _count_dropped(self, stream: int, join: SheddingJoin, starts: Ints) -> Counts:
        live = join.slots[stream]
        if not live or (not len(starts) and not self.dropped[stream]):
            return {}
        counts, oldest = dict(self.dropped[stream]), min(live)
        for number, count in zip(*np.unique(starts // join.settings.width, return_counts=True), strict=True):
            counts[int(number)] = counts.get(int(number), 0) + int(count)
        return {number: count for number, count in counts.items() if number >= oldest}

    def _figures(self) -> dict[str, int]:
        dropped = {
            f"{_DROPPED}{stream}.{number}": count for stream in (0, 1) for number, count in self.dropped[stream].items()
        }
        counts = {"batch": self.join.batch, "row0": self.next_row[0], "row1": self.next_row[1]}
        return {**counts, _WIDTH: self.layout.settings.width, **dropped}

    def with_layout(self, layout: SimilarityJoinLayout) -> SimilarityJoinState:
        """Return the state with slots of the width of a layout."""
        before, after = self.layout.settings.width, layout.settings.width
        empty = SimilarityJoinState(
            layout, replace(self.join, settings=layout.settings, slots=({}, {})), ({}, {}), self.next_row
        )
        left, right = (split_into_slots(_elements_of(side), after) for side in self.sides)
        counts = [dict[int, int](), dict[int, int]()]
        for stream, dropped in enumerate(self.dropped):
            for number, count in dropped.items():
                place = number * before // after
                counts[stream][place] = counts[stream].get(place, 0) + count
        join = replace(empty.join, slots=(left, right))
        sides = []
        for stream in (0, 1):
            segments = self.segments(stream)
            chunks = (
                (number, slot, self._slot_chunk(stream, slot, segments)) for number, slot in join.slots[stream].items()
            )
            sides.append({number: StoredSlot(slot, chunk) for number, slot, chunk in chunks})
        return replace(empty, join=join, sides=(sides[0], sides[1]), dropped=(counts[0], counts[1]))


_CACHE: StateCache[SimilarityJoinState] = StateCache()
"""Cache of decoded states, by their chunk of figures."""


def prefixed_names(schema: Schema) -> list[str]:
    return [f"{OWN}{name}" for name in schema.names]


def prefixed_schema(schema: Schema) -> pa.Schema:
    return pa.schema([pa.field(f"{OWN}{f.name}", f.type.arrow) for f in schema])


def _decode_state(shape: SimilarityJoinLayout, chunks: Chunks) -> SimilarityJoinState:
    figures = figures_of(chunks)
    shape = shape.with_width(figures.get(_WIDTH, shape.settings.with_halvings(0).width))
    sides: tuple[dict[int, StoredSlot], dict[int, StoredSlot]] = ({}, {})
    for name, chunk in chunks.items():
        if name.startswith(_SLOT):
            stream, number = _parse_name(name, _SLOT)
            sides[stream][number] = StoredSlot(_decode_slot(shape, stream, chunk), chunk)
    dropped: tuple[dict[int, int], dict[int, int]] = ({}, {})
    for name, count in figures.items():
        if name.startswith(_DROPPED):
            stream, number = _parse_name(name, _DROPPED)
            dropped[stream][number] = count
    left, right = ({number: held.slot for number, held in side.items()} for side in sides)
    join = replace(SheddingJoin.empty(shape.settings), slots=(left, right), batch=figures.get("batch", 0))
    return SimilarityJoinState(shape, join, sides, (figures.get("row0", 0), figures.get("row1", 0)), dropped)


def _elements_of(side: Side) -> SlotArrivals:
    """Return the elements of all slots of a side, as if they had just arrived."""
    slots = [held.slot for held in side.values()]
    columns = {
        name: np.concatenate([np.empty(0, np.int64), *(each.columns[name] for each in slots)]) for name in _KERNEL
    }
    values = concatenate_values([each.values for each in slots]) if slots else Numbers(np.empty(0, np.int64))
    return SlotArrivals(columns["start"], columns["end"], columns["row"], values, columns["kind"])


def _parse_name(name: str, prefix: str) -> tuple[int, int]:
    stream, _, number = name.removeprefix(prefix).partition(".")
    return int(stream), int(number)


def _decode_slot(shape: SimilarityJoinLayout, stream: int, chunk: pa.RecordBatch) -> Slot:
    own = pa.RecordBatch.from_arrays(chunk.columns[len(_KERNEL) :], schema=shape.schemas[stream].arrow)
    values = shape.coding.values(stream, own, chunk.num_rows)
    columns = {name: chunk.column(name).to_numpy() for name in _KERNEL}
    return Slot({**columns, **values.columns()}, values.item_columns())
