"""What estimates of operators have in common: bytes of rows, and rows in schedules."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import expm1

import pyarrow as pa

from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import CostContext, CostEstimate, Flow, Work
from tidegate.costs.runs import MergeRule, shares_of_runs
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.kernels.schedule import MOST_RUNS, count_newest_to_merge
from tidegate.schema import Schema
from tidegate.values import value

TIMES = 16.0
"""Bytes of a validity."""

FIGURE_BYTES = 22.0
"""Bytes of a named number of a state: the name and its place, and the number."""

VARIABLE_BYTES = 20.0
"""Assumed bytes of a value of variable length, with its place."""


def value_bytes(type_: pa.DataType) -> float:
    """Return the bytes of a value in a column."""
    if pa.types.is_boolean(type_):
        return 1 / 8
    if pa.types.is_primitive(type_):
        return float(type_.byte_width)
    return 0.0 if pa.types.is_null(type_) else VARIABLE_BYTES


@lru_cache(maxsize=4096)
def row_bytes(schema: Schema, names: tuple[str, ...] | None = None) -> float:
    """Return the bytes of a row of some columns, or of all, without its validity."""
    return sum(value_bytes(each.type.arrow) for each in schema if names is None or each.name in names)


# ---- schedules


def _count_in_schedule(sizes: Sequence[float]) -> int:
    return count_newest_to_merge(sizes) if len(sizes) > MOST_RUNS else 0


SCHEDULE_RULE = MergeRule(_count_in_schedule, counts_all=False)


@value
class StatePart:
    """Part of a state: the number of its rows, the bytes of all of them, how many are rewritten, and its runs."""

    rows: float = 0.0
    bytes: float = 0.0
    merged: float = 0.0
    runs: float = 0.0


def keep_until(
    rate: float, time: float, size: float, context: CostContext, spread: float = 0.0, *, fills: bool = False
) -> StatePart:
    """Return the rows of a schedule in which rows of a size wait for a time, some up to `spread` times longer.

    With `fills`, none of them is over yet.
    """
    if rate * time <= 0:
        return StatePart()
    fills, time = fills or time >= context.elapsed, min(time, context.elapsed)
    shares = shares_of_runs(SCHEDULE_RULE, context.count_steps(rate, time), spread)
    rows = rate * time * (1.0 if fills else shares.kept)
    return StatePart(rows, rows * size, rate * shares.merged, min(shares.runs, rows))


def keep_valid(source: Flow, size: float, context: CostContext, lag: float = 0.0) -> StatePart:
    """Return the valid elements of a flow; they leave some time after their end."""
    time = source.characteristics.length + lag
    return keep_until(source.rate, time, size, context, source.spread, fills=source.fills)


def keep_waiting(source: Flow, size: float, context: CostContext) -> StatePart:
    """Return the elements that wait for the watermark to pass their start."""
    return keep_until(source.rate, source.waiting_time, size, context)


def keep_figures(count: int, *schedules: StatePart) -> StatePart:
    """Return the named numbers of a state: some of its own, and those of its schedules and their runs."""
    rows = count + len(schedules) + sum(each.runs for each in schedules)
    return StatePart(rows, rows * FIGURE_BYTES)


# ---- estimates


def estimate_stateless(
    kind: str, inputs: Sequence[Flow], output: Flow, context: CostContext, columns: int = 0
) -> CostEstimate:
    """Return the estimate of an operator without state that makes a number of columns."""
    work = work_of(kind, inputs, output, context)
    return CostEstimate(output, replace(work, parts=columns / context.step))


def work_of(kind: str, inputs: Iterable[Flow], output: Flow, context: CostContext, touched: float = 0.0) -> Work:
    rows_in = sum(each.rate for each in inputs)
    return Work(kind, 1.0 / context.step, rows_in, output.rate, touched, busy=busy_steps(rows_in, context))


def busy_steps(rate: float, context: CostContext) -> float:
    """Return the steps in which rows of a rate come, at random times, in a microsecond."""
    return -expm1(-rate * context.step) / context.step


def estimate_keeping(
    kind: str,
    inputs: Sequence[Flow],
    output: Flow,
    context: CostContext,
    kept: Sequence[StatePart],
    touched: float = 0.0,
    compared: float = 0.0,
) -> CostEstimate:
    """Return the estimate of an operator whose state has these parts. `touched` rows come on top of rewritten ones."""
    work = work_of(kind, inputs, output, context, touched + sum(each.merged for each in kept))
    work = replace(work, compared=compared)
    rows = sum(each.rows for each in kept)
    size = sum(each.bytes for each in kept) if context.known.row_bytes is None else rows * context.known.row_bytes
    return CostEstimate(output, work, rows, size)


def emit_elements(source: Flow, whole: Characteristics, emit: Emit, context: CostContext) -> Flow:
    """Return the output of an operator that follows the watermark, given its elements when nothing cuts them.

    Settled elements are cut at each watermark: each valid one gives one more piece. Others leave when they end, or, if
    they are reported early, also when they begin.
    """
    # What is given has been passed by the watermark: nothing waits for it once more.
    head = source.mark + whole.granule / 2.0
    match emit:
        case Emit.SETTLED:
            return Flow(cut_at_steps(whole, context.step), whole, head, source.mark).unless_later(context.elapsed)
        case Emit.ENDED:
            return Flow(whole, whole, head + whole.length, source.mark + whole.length).unless_later(context.elapsed)
        case Emit.EARLY:
            # Those that are open at a watermark: one piece up to it, and the rest when they end.
            pieces = 1.0 + min(whole.length / context.step, 1.0)
            early = Characteristics(whole.distance / pieces, whole.length / pieces, whole.granule)
            return Flow(early, whole, head, source.mark + whole.length)


def cut_at_steps(whole: Characteristics, step: float) -> Characteristics:
    """Return elements that are cut at each step; the relation is the same."""
    rate = whole.rate + whole.valid_rows / step
    if not rate:
        return whole
    return Characteristics(1.0 / rate, whole.valid_rows / rate, whole.granule)
