"""Convert batches and state to the arrays that the sweep works on, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.aggregate.kernels.accumulators import AccumulatorLayout, move_to_layout, trim_sums
from tidegate.physical.aggregate.kernels.exact_sum import digits_needed
from tidegate.physical.aggregate.kernels.frontier import Frontiers, gather_frontiers, lay_out_frontiers
from tidegate.physical.aggregate.kernels.sweep import (
    AVERAGE,
    DOUBLE,
    Ends,
    Starts,
    SweepGroups,
    SweepProgram,
    SweepResult,
    sweep,
)
from tidegate.physical.aggregate.state import AggregateGroups, AggregateState, SweepSpec
from tidegate.physical.common.arrays import Flags, Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.kernels.groups import canonical, group_rows, positions_of_ids, sort_by_group_and_time
from tidegate.physical.common.kernels.order_codes import Decode, doubles, integers, order_codes, presence
from tidegate.time import BEGINNING, FOREVER


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """Numbers of the summed columns (doubles by their bits), and where counted columns have a value."""

    values: Ints
    present: Flags

    def take(self, rows: Ints) -> Arguments:
        return Arguments(np.take(self.values, rows, axis=1), np.take(self.present, rows, axis=1))


@dataclass(frozen=True, slots=True, eq=False)
class SweepArrivals:
    """Elements that become valid before the watermark, with their groups and arguments."""

    start: Ints
    end: Ints
    groups: Ints
    arguments: Arguments


@dataclass(frozen=True, slots=True, eq=False)
class BestCodes:
    """Codes for one frontier: of the kept rows and of the new elements, and which of the latter have a value."""

    ends: Ints
    kept_codes: Ints
    codes: Ints
    present: Flags
    decode: Decode


@dataclass(frozen=True, slots=True, eq=False)
class AdvanceResult:
    """Result of a sweep: the state, the keys by group, the pieces, and functions that decode values."""

    memory: AggregateState
    keys: list[pa.Array]
    swept: SweepResult
    decode: tuple[Decode, ...]


def advance(
    shape: SweepSpec, memory: AggregateState, due: Batch, expired: list[pa.RecordBatch], watermark: int
) -> AdvanceResult:
    """Sweep up to the watermark; `due` elements become valid before it, `expired` ones end before it."""
    keys = [canonical(due.column(name)) for name in shape.keys]
    known = AggregateGroups.load(shape, memory, [key.type for key in keys])
    found = group_rows(known.keys, keys, groups=len(known.ids), rows=len(due))
    table = _with_founders(known, keys, found.founders, memory.ids_given)
    arguments = _arguments(shape, [due.column(name) for name in shape.counted], len(due))
    arrivals = SweepArrivals(_writable_times(due.start), _writable_times(due.end), found.groups, arguments)
    best = [_best_codes_of(memory, due, at) for at in enumerate(shape.best)]
    starts, ends = _starts(table, arrivals, best), _ends(shape, table, arrivals, expired, watermark)
    layout = memory.layout.with_room_for([_digits_in_sweep(s, starts, ends) for s in range(len(shape.summed))])
    sums = move_to_layout(table.sums, memory.layout, layout, rows=len(table.ids)) if shape.keeps_count else table.sums
    frontiers = _frontiers(best, table.sizes, starts.bounds)
    groups = SweepGroups(sums, table.until, table.since)
    swept = sweep(_program(shape, layout, watermark), starts, ends, groups, frontiers, watermark)
    after = replace(
        memory,
        watermark=watermark,
        ids_given=memory.ids_given + len(found.founders),
        ends=memory.ends.with_rows(_later_ends(shape, table, arrivals, watermark)),
    )
    after = _state_after(shape, after, replace(table, sums=sums), layout, swept, frontiers, best)
    return AdvanceResult(after, table.keys, swept, tuple(b.decode for b in best))


def _writable_times(times: Ints) -> Ints:
    """Return writable times; arrays of Arrow buffers are read-only, and kernels would be compiled again for them."""
    return np.require(times, np.int64, ["C", "W"])


def _program(shape: SweepSpec, layout: AccumulatorLayout, watermark: int) -> SweepProgram:
    averaged = {operand for operation, operand in shape.calls if operation == AVERAGE}
    wanted = [kind == DOUBLE or column in averaged for column, kind in enumerate(shape.kinds)]
    calls = np.array(shape.calls, np.int64).reshape(len(shape.calls), 2)
    holds_back = shape.holds_back and watermark < FOREVER
    return SweepProgram(layout.columns_for_sweep(wanted), calls, shape.keeps_count, holds_back, shape.early)


def _with_founders(known: AggregateGroups, keys: list[pa.Array], founders: Ints, ids_given: int) -> AggregateGroups:
    """Return the known groups, then the new ones with an empty state."""
    if not len(founders):
        return known
    rows, new = pa.array(founders), len(founders)
    return AggregateGroups(
        [pa.concat_arrays([old, key.take(rows)]) for old, key in zip(known.keys, keys, strict=True)],
        np.append(known.ids, ids_given + np.arange(new)),
        np.append(known.since, np.full(new, BEGINNING)),
        np.append(known.until, np.full(new, BEGINNING)),
        known.sums,
        known.sizes,
    )


def _arguments(shape: SweepSpec, columns: Sequence[pa.Array], rows: int) -> Arguments:
    values, present = np.empty((len(shape.summed), rows), np.int64), np.empty((len(columns), rows), np.uint8)
    for at, kind in enumerate(shape.kinds):
        values[at] = doubles(columns[at]).view(np.int64) if kind == DOUBLE else integers(columns[at])
    for at, column in enumerate(columns):
        present[at] = presence(column)
    return Arguments(values, present)


def _starts(table: AggregateGroups, arrivals: SweepArrivals, best: list[BestCodes]) -> Starts:
    bounds, order = sort_by_group_and_time(arrivals.groups, arrivals.start, count=len(table.ids))
    codes, coded = np.empty((len(best), len(order)), np.int64), np.empty((len(best), len(order)), np.uint8)
    for at, each in enumerate(best):
        codes[at], coded[at] = each.codes, each.present
    values, present = arrivals.arguments.values, arrivals.arguments.present
    return Starts(bounds, order, arrivals.start, arrivals.end, values, present, codes, coded)


def _best_codes_of(memory: AggregateState, due: Batch, numbered: tuple[int, tuple[str, str]]) -> BestCodes:
    at, (function, name) = numbered
    column = due.column(name)
    rows = memory.frontiers[at] if memory.frontiers else None
    remembered = column.slice(0, 0) if rows is None else rows.column("value")
    ends = np.empty(0, np.int64) if rows is None else np.array(rows.column("end"))
    coded = order_codes([remembered, column])
    old, new = coded.codes
    if function == "min":  # the frontier keeps the greatest; ~ reverses the order
        return BestCodes(ends, ~old, ~new, presence(column), lambda codes, nulls: coded.decode(~codes, nulls))
    return BestCodes(ends, old, new, presence(column), coded.decode)


def _frontiers(best: list[BestCodes], sizes: list[Ints], bounds: Ints) -> Frontiers:
    room = max((len(b.ends) + len(b.codes) for b in best), default=0)
    groups = len(bounds) - 1
    heads, tails = np.empty((len(best), groups), np.int64), np.empty((len(best), groups), np.int64)
    frontiers = Frontiers(heads, tails, np.empty((len(best), room), np.int64), np.empty((len(best), room), np.int64))
    for at, each in enumerate(best):
        lay_out_frontiers(sizes[at], bounds, each.ends, each.kept_codes, frontiers, at)
    return frontiers


def _ends(
    shape: SweepSpec, table: AggregateGroups, arrivals: SweepArrivals, expired: list[pa.RecordBatch], watermark: int
) -> Ends:
    """Return the ends before the watermark: those that were waited for, and those of new elements."""
    soon = np.flatnonzero(arrivals.end < watermark) if shape.keeps_count else np.empty(0, np.int64)
    parts = [_arguments(shape, rows.columns[2:], rows.num_rows) for rows in expired] + [arrivals.arguments.take(soon)]
    times = np.concatenate([*(rows.column(0).to_numpy() for rows in expired), arrivals.end[soon]])
    owners = [positions_of_ids(table.ids, rows.column(1).to_numpy()) for rows in expired]
    bounds, order = sort_by_group_and_time(
        np.concatenate([*owners, arrivals.groups[soon]]), times, count=len(table.ids)
    )
    values = np.concatenate([p.values for p in parts], axis=1)
    return Ends(bounds, order, times, values, np.concatenate([p.present for p in parts], axis=1))


def _later_ends(shape: SweepSpec, table: AggregateGroups, arrivals: SweepArrivals, watermark: int) -> pa.RecordBatch:
    """Return the ends at or after the watermark, which must be waited for; endless elements need not be."""
    later = (arrivals.end >= watermark) & (arrivals.end < FOREVER) & shape.keeps_count
    rows = np.flatnonzero(later)
    rows = rows[np.argsort(arrivals.end[rows], kind="stable")]
    chosen = arrivals.arguments.take(rows)
    columns = [pa.array(arrivals.end[rows]), pa.array(table.ids[arrivals.groups[rows]])]
    for at, present in enumerate(chosen.present):
        absent = None if present.all() else present == 0
        columns.append(pa.array(_argument_values(shape, chosen, at), mask=absent))
    return pa.RecordBatch.from_arrays(columns, ["time", "group", *(f"argument.{c}" for c in range(len(columns) - 2))])


def _argument_values(shape: SweepSpec, arguments: Arguments, at: int) -> npt.NDArray[Any]:
    if at >= len(shape.summed):
        return np.ones(arguments.present.shape[1], np.bool_)
    numbers: npt.NDArray[Any] = arguments.values[at]
    return numbers.view(np.float64) if shape.kinds[at] == DOUBLE else numbers


def _digits_in_sweep(column: int, starts: Starts, ends: Ends) -> tuple[int, int]:
    """Return the digits of a summed column that the sweep will touch; meaningless, and unused, for integers."""
    needs = [digits_needed(part.values[column], part.present[column]) for part in (starts, ends)]
    some = [need for need in needs if need[0] < need[1]]
    return min((low for low, _ in some), default=0), max((high for _, high in some), default=0)


def _state_after(
    shape: SweepSpec,
    memory: AggregateState,
    table: AggregateGroups,
    layout: AccumulatorLayout,
    swept: SweepResult,
    frontiers: Frontiers,
    best: list[BestCodes],
) -> AggregateState:
    """Return the state with the live groups; unchanged chunks stay the same objects."""
    kept = np.flatnonzero(swept.alive)
    if not swept.touched.any() and memory.watermark < FOREVER:
        return memory
    if not len(kept) or memory.watermark == FOREVER:
        smallest = AccumulatorLayout.smallest(layout.counted, layout.kinds)
        return replace(memory, layout=smallest, groups=None, frontiers=())
    sums, layout = trim_sums(table.sums, layout, kept) if shape.keeps_count else (table.sums, layout)
    rows = [gather_frontiers(frontiers, at, kept) for at in range(len(best))]
    changed = AggregateGroups(
        table.keys if len(kept) == len(table.ids) else [key.take(pa.array(kept)) for key in table.keys],
        table.ids[kept],
        table.since[kept],
        table.until if shape.keeps_count else table.until[kept],
        sums,
        [sizes for sizes, _, _ in rows],
    )
    chunks = tuple(_frontier_chunk(memory, at, each, rows[at]) for at, each in enumerate(best))
    return replace(memory, layout=layout, groups=changed.save(shape), frontiers=chunks)


def _frontier_chunk(memory: AggregateState, at: int, best: BestCodes, rows: tuple[Ints, Ints, Ints]) -> pa.RecordBatch:
    _, ends, codes = rows
    if memory.frontiers and np.array_equal(ends, best.ends) and np.array_equal(codes, best.kept_codes):
        return memory.frontiers[at]
    return pa.RecordBatch.from_arrays([pa.array(ends), best.decode(codes, None)], ["end", "value"])
