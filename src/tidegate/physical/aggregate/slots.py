"""Aggregates of any kind: each is computed for every slot, and equal adjacent slots become one piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import AggregateCall
from tidegate.collection_entries import identity_bytes, is_collection
from tidegate.expressions.functions.aggregates import AGGREGATES, AggregateFunction, SlotValues
from tidegate.physical.aggregate.kernels.slots import Slots, live_counts
from tidegate.physical.aggregate.live import LiveState, SlotStep, slot_step_of
from tidegate.physical.aggregate.measures import LiveElements
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.dead_letters import DEAD_LETTER, NO_DEAD_LETTERS, rows_as_json
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.kernels.groups import canonical
from tidegate.physical.common.kernels.order_codes import integers
from tidegate.physical.common.operator import Chunks, Step
from tidegate.schema import Schema
from tidegate.time import FOREVER
from tidegate.values import value


@value
class SlotAggregation:
    """Parameters of an aggregation by slots."""

    schema: Schema
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    emit: Emit

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([*self.keys, *(c for call in self.calls for c in call.columns)]))

    def step(self, state: Chunks, batch: Batch, given: int) -> Step:
        """Process the new elements and emit what the watermark settles."""
        memory = LiveState.load(state)
        watermark = max(memory.watermark, min(given, FOREVER))
        after, due = memory.absorb(batch, self.columns, watermark)
        if watermark == memory.watermark:
            kept = state if state and after.futures is memory.futures else after.save()
            return Step(kept, Batch.empty(self.schema), self._output_watermark(after))
        holds_back = self.emit.holds_back and watermark < FOREVER
        scene = slot_step_of(after, due, self.keys, watermark, only_touched=holds_back)
        results = [_measure_call(call, scene) for call in self.calls]
        pieces = _pieces(scene, results, Emit.SETTLED if watermark == FOREVER else self.emit)
        done = scene.state_after(*_survivors(scene, pieces, holds_back=self.emit.holds_back))
        output, dead = self._output(scene, results, pieces)
        return Step(done.save(), output, self._output_watermark(done), dead)

    def _output_watermark(self, memory: LiveState) -> int:
        """Return the time before which nothing more will be emitted."""
        if memory.groups is None or not self.emit.holds_back:
            return memory.watermark
        return int(np.min(memory.groups.column("since").to_numpy(), initial=memory.watermark))

    def _output(
        self, scene: SlotStep, results: Sequence[SlotValues], pieces: _SlotPieces
    ) -> tuple[Batch, pa.RecordBatch]:
        failed = np.zeros(scene.slots.total, np.bool_)
        for each in results:
            if each.details is not None:
                failed |= each.details.is_valid().to_numpy(zero_copy_only=False)
        chosen = np.flatnonzero(pieces.emitted & ~failed[pieces.slot])
        slots = pieces.slot[chosen]
        owners, rows = pa.array(scene.slots.group[slots]), pa.array(slots)
        keys = [key.take(owners) for key in scene.groups.keys]
        columns = pa.RecordBatch.from_arrays(
            keys + [each.values.take(rows) for each in results], schema=self.schema.arrow
        )
        output = Batch(pieces.start[chosen], pieces.end[chosen], columns)
        if not failed.any():
            return output, NO_DEAD_LETTERS
        letters = list(self._dead_letter_rows(scene, results, pieces))
        return output, pa.RecordBatch.from_pylist(letters, schema=DEAD_LETTER)

    def _dead_letter_rows(
        self, scene: SlotStep, results: Sequence[SlotValues], pieces: _SlotPieces
    ) -> Iterator[dict[str, object]]:
        """Yield one dead letter for each piece and call that failed, when the piece begins."""
        for call, each in zip(self.calls, results, strict=True):
            if each.details is None:
                continue
            failed = each.details.is_valid().to_numpy(zero_copy_only=False)
            found = np.flatnonzero(pieces.fresh & failed[pieces.slot])
            groups = pa.array(scene.slots.group[pieces.slot[found]])
            rows = rows_as_json(self.keys, [key.take(groups) for key in scene.groups.keys], len(found))
            for piece, row in zip(found, rows, strict=True):
                yield {
                    "origin": f"{call.function.upper()}({', '.join(call.columns)})",
                    "reason": each.reason,
                    "detail": each.details[int(pieces.slot[piece])].as_py(),
                    "time": int(pieces.start[piece]),
                    "row": row,
                }


def definition_of(call: AggregateCall) -> AggregateFunction:
    """Return the function of a call."""
    return call.user or AGGREGATES[call.function]


def _measure_call(call: AggregateCall, scene: SlotStep) -> SlotValues:
    columns = {name: scene.columns.column(name) for name in call.columns}
    live = LiveElements(scene.slots, scene.spans, columns)
    if call.distinct and call.column is not None:
        live = live.distinct(call.column)
    measured = definition_of(call).compute(live, *call.columns, *call.options)
    made = measured.values
    return measured if made.type == call.type.arrow else measured.map(lambda values: values.cast(call.type.arrow))


@dataclass(frozen=True, slots=True, eq=False)
class _SlotPieces:
    """Results with their validities, by the slot in which they begin.

    `fresh` results begin in this step, `open` ones last beyond it, and `emitted` ones are emitted.
    """

    slot: Ints
    start: Ints
    end: Ints
    fresh: Mask
    open: Mask
    emitted: Mask


def _pieces(scene: SlotStep, results: Sequence[SlotValues], emit: Emit) -> _SlotPieces:
    slots = scene.slots
    live = live_counts(scene.spans, slots.total) > 0
    begins = _piece_starts(slots, live, results)
    at = np.flatnonzero(begins & live)
    ends = np.append(np.flatnonzero(begins), slots.total)
    after = ends[np.searchsorted(ends, at, side="right")]
    group = slots.group[at]
    is_open = after == slots.bounds[group + 1]
    until = np.append(slots.time, 0)[after]
    until[is_open] = scene.watermark
    # A known group begins with the value that it had, of which part may have been emitted.
    fresh = ~((at == slots.bounds[group]) & (group < scene.known))
    start = np.where(fresh, slots.time[at], scene.starts_of_carried[group])
    emitted = (start < until) & (~is_open | emit.emits_while_open(fresh))
    return _SlotPieces(at, start, until, fresh, is_open, emitted)


def _piece_starts(slots: Slots, live: Mask, results: Sequence[SlotValues]) -> Mask:
    """Return the slots that differ from the previous one: in the group, or in a result."""
    begins = np.ones(slots.total, np.bool_)
    begins[1:] = (slots.group[1:] != slots.group[:-1]) | (live[1:] != live[:-1])
    for each in results:
        begins[1:] |= _differs_from_previous(each.values)
        if each.details is not None:
            begins[1:] |= _differs_from_previous(each.details.is_valid())
    return begins


def _differs_from_previous(values: pa.Array) -> Mask:
    """Return where a value differs from the previous one; NULL equals only NULL, and NaN equals NaN."""
    if pa.types.is_string(values.type) or is_collection(values.type):
        texts = identity_bytes(values) if is_collection(values.type) else values
        codes = integers(texts.dictionary_encode().indices)
    elif pa.types.is_floating(values.type):
        codes = np.array(canonical(values).cast(pa.float64()).fill_null(0.0)).view(np.int64)
    else:
        codes = integers(values)
    differs = codes[1:] != codes[:-1]
    if values.null_count:
        missing = values.is_null().to_numpy(zero_copy_only=False)
        differs |= missing[1:] != missing[:-1]
    return np.asarray(differs)


def _survivors(scene: SlotStep, pieces: _SlotPieces, *, holds_back: bool) -> tuple[Ints, Ints]:
    """Return the groups that are alive at the watermark, and since when their value was not emitted."""
    slots = scene.slots
    untouched = np.flatnonzero(slots.bounds[1:] == slots.bounds[:-1])
    last = np.flatnonzero(pieces.open)
    alive = np.concatenate([untouched, slots.group[pieces.slot[last]]])
    emitted = np.where(pieces.emitted[last], scene.watermark, pieces.start[last])
    emitted = emitted if holds_back else np.full(len(last), FOREVER)
    since = np.concatenate([scene.groups.since[untouched], emitted])
    order = np.argsort(alive)
    return alive[order], since[order]
