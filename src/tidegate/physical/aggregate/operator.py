"""Operator for grouping, aggregation and duplicate elimination.

Duplicate elimination is grouping by all columns without any call.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.algebra.plan import AggregateCall
from tidegate.errors import InternalError
from tidegate.physical.aggregate.kernels import sweep as kernel
from tidegate.physical.aggregate.slots import SlotAggregation, definition_of
from tidegate.physical.aggregate.state import AggregateState, SweepSpec
from tidegate.physical.aggregate.sweep import AdvanceResult, advance
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.dead_letters import DEAD_LETTER, NO_DEAD_LETTERS, Reason, rows_as_json
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.hold_back import split_due, valid_elements
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.schema import Field, Schema, Type
from tidegate.time import FOREVER
from tidegate.values import value


@value
class AggregateOperator:
    """Compute, at every instant, one row for each group that is not empty: its keys, then its aggregates."""

    source: Schema
    keys: tuple[str, ...]
    calls: tuple[AggregateCall, ...]
    emit: Emit

    @property
    def schema(self) -> Schema:
        keys = tuple(Field(k, self.source.type_of(k)) for k in self.keys)
        return Schema(keys + tuple(Field(c.name, c.type) for c in self.calls))

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.keys,)

    def describe(self) -> str:
        what = ", ".join(map(_call_text, self.calls)) or "distinct"
        return f"aggregate {what} by {', '.join(self.keys) or 'nothing'}, reporting {self.emit.name.lower()}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Process the new elements and emit what the watermark settles."""
        if (by_slots := slot_aggregation_of(self)) is not None:
            return by_slots.step(state, inputs[0], watermarks[0])
        shape = sweep_spec_of(self)
        memory = AggregateState.load(shape, state)
        watermark = max(memory.watermark, min(watermarks[0], FOREVER))
        used = inputs[0].with_columns(inputs[0].columns.select(list(shape.columns)))
        arrived = valid_elements(used, memory.watermark)
        futures, due = split_due(memory.futures, arrived, watermark)
        memory = replace(memory, futures=futures)
        if watermark == memory.watermark:
            changed = state if state and not len(arrived) else memory.save()
            return Step(changed, Batch.empty(self.schema), memory.output_watermark)
        ends, expired = memory.ends.take_before(watermark)
        done = advance(shape, replace(memory, ends=ends), due, expired, watermark)
        output, dead = _output(self, shape, done)
        return Step(done.memory.save(), output, done.memory.output_watermark, dead)


def _call_text(call: AggregateCall) -> str:
    arguments = ", ".join([*call.columns, *map(str, call.options)]) or "*"
    return f"{call.function.upper()}({'DISTINCT ' if call.distinct else ''}{arguments}) AS {call.name}"


@lru_cache(maxsize=8192)
def slot_aggregation_of(operator: AggregateOperator) -> SlotAggregation | None:
    """Return the slot aggregation of the calls, or None if the sweep can compute all of them, which is faster."""
    if all(_sweep_function(call) is not None for call in operator.calls):
        return None
    return SlotAggregation(operator.schema, operator.keys, operator.calls, operator.emit)


def _sweep_function(call: AggregateCall) -> str | None:
    """Return the sweep's name of the function, or None if the sweep cannot compute it."""
    return None if call.distinct else definition_of(call).sweep


@lru_cache(maxsize=8192)
def sweep_spec_of(operator: AggregateOperator) -> SweepSpec:
    """Return what follows from the parameters of an operator alone."""
    calls = tuple(replace(call, function=_sweep_function(call) or call.function) for call in operator.calls)
    source = operator.source
    summed = _columns(calls, "sum", "avg")
    kinds = tuple(kernel.DOUBLE if source.type_of(c).is_floating else kernel.INTEGER for c in summed)
    counted = tuple(dict.fromkeys(summed + _columns(calls, "count")))
    best = tuple(dict.fromkeys((c.function, c.column) for c in calls if c.column and c.function in ("min", "max")))
    keeps_count = any(c.function not in ("min", "max") for c in calls)
    shape = SweepSpec(operator.keys, (), summed, kinds, counted, best, keeps_count, operator.emit.holds_back)
    return replace(shape, early=operator.emit is Emit.EARLY, calls=tuple(_operation(call, shape) for call in calls))


def _columns(calls: Sequence[AggregateCall], *functions: str) -> tuple[str, ...]:
    """Return the columns that are arguments of the functions, each once."""
    return tuple(dict.fromkeys(c.column for c in calls if c.column is not None and c.function in functions))


def _operation(call: AggregateCall, shape: SweepSpec) -> tuple[int, int]:
    match call.function, call.column:
        case "count", None:
            return kernel.COUNT_ALL, 0
        case "count", str(column):
            return kernel.COUNT, shape.counted.index(column)
        case "sum", str(column):
            at = shape.summed.index(column)
            return kernel.SUM_DOUBLE if shape.kinds[at] == kernel.DOUBLE else kernel.SUM_INTEGER, at
        case "avg", str(column):
            return kernel.AVERAGE, shape.summed.index(column)
        case "min" | "max", str(column):
            return kernel.BEST, shape.best.index((call.function, column))
        case _:
            raise InternalError("I320", f"there is no aggregate {call.function} of {call.column or 'all columns'}")


def _output(operator: AggregateOperator, shape: SweepSpec, done: AdvanceResult) -> tuple[Batch, pa.RecordBatch]:
    """Return the pieces as elements, and dead letters of those with a sum that does not fit."""
    pieces, filled = done.swept.pieces, done.swept.filled
    status = pieces.status[:, :filled]
    good = np.flatnonzero(~(status == kernel.OVERFLOW).any(axis=0))
    owners = pa.array(pieces.group[good])
    keys = [key.take(owners) for key in done.keys]
    results = [
        _result(call, operation, pieces.number[at, good], status[at, good] == kernel.NULL, done)
        for at, (call, operation) in enumerate(zip(operator.calls, shape.calls, strict=True))
    ]
    columns = pa.RecordBatch.from_arrays(keys + results, schema=operator.schema.arrow)
    dead = NO_DEAD_LETTERS if len(good) == filled else _dead_letters(operator, done)
    return Batch(pieces.start[good], pieces.end[good], columns), dead


def _result(
    call: AggregateCall, operation: tuple[int, int], numbers: Ints, nulls: npt.NDArray[np.bool_], done: AdvanceResult
) -> pa.Array:
    mask = nulls if nulls.any() else None
    if operation[0] == kernel.BEST:
        return done.decode[operation[1]](numbers, mask)
    return pa.array(numbers.view(np.float64) if call.type is Type.DOUBLE else numbers, mask=mask)


def _dead_letters(operator: AggregateOperator, done: AdvanceResult) -> pa.RecordBatch:
    """Return one dead letter for each piece and sum that does not fit, when the piece begins."""
    return pa.RecordBatch.from_pylist(list(_dead_letter_rows(operator, done)), schema=DEAD_LETTER)


def _dead_letter_rows(operator: AggregateOperator, done: AdvanceResult) -> Iterator[dict[str, object]]:
    pieces, filled = done.swept.pieces, done.swept.filled
    for at, call in enumerate(operator.calls):
        failed = (pieces.status[at, :filled] == kernel.OVERFLOW) & (pieces.fresh[:filled] == 1)
        found = np.flatnonzero(failed)
        groups = pa.array(pieces.group[found])
        rows = rows_as_json(operator.keys, [key.take(groups) for key in done.keys], len(found))
        for piece, row in zip(found, rows, strict=True):
            yield {
                "origin": f"SUM({call.column})",
                "reason": Reason.OVERFLOW.value,
                "detail": "the sum is outside the range of BIGINT",
                "time": int(pieces.start[piece]),
                "row": row,
            }
