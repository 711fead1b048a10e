"""Answer queries over materialized views at once, from what the views keep at one instant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import Limit, Map, Order, Plan
from tidegate.catalog.catalog import Program, SnapshotQuery
from tidegate.connectors.memory import MemorySource
from tidegate.errors import QueryError
from tidegate.expressions.parse.times import instant_text
from tidegate.live.answers import Answer
from tidegate.live.program import Phase
from tidegate.live.state import LiveProgram
from tidegate.physical.common.kernels.order_codes import order_codes
from tidegate.physical.common.operator import Chunks
from tidegate.physical.relation.view import KeptRows, kept_rows
from tidegate.runtime.compile import compile_job, source_stream_of
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.time import EARLIEST, FOREVER, LATEST
from tidegate.values import value


@value
class ViewState:
    """What a view keeps in all its buckets, between two steps."""

    name: str
    exact_from: int
    buckets: tuple[KeptRows, ...]

    @property
    def first(self) -> int:
        """The first instant that is kept, and exact."""
        return max(self.exact_from, *(each.first for each in self.buckets))

    @property
    def last(self) -> int:
        """The last instant that is complete."""
        return min(each.last for each in self.buckets)


def view_stage(live: LiveProgram, view: str) -> tuple[Phase, int]:
    """Return the phase of a view, and the number of the stage that keeps its rows."""
    phase = next((phase for phase in live.running_phases() if phase.query == view), None)
    if phase is None:
        is_paused = any(query.name == view for query in live.version.queries)
        message = f"view '{view}' is paused" if is_paused else f"view '{view}' does not run yet"
        created = "run the SELECT after the text that creates the view"
        hint = f"write DROP VIEW {view}, and create it again" if is_paused else created
        raise QueryError("Q323", message, hint=hint)
    return phase, live.stage_numbers()[live.live_plan(phase).physical, -1]


def view_state(live: LiveProgram, phase: Phase, states: Sequence[Chunks]) -> ViewState:
    """Return what a view keeps, given the states of its stage in all buckets."""
    history = live.query(phase.query).history
    assert history is not None
    return ViewState(phase.query, phase.begin, tuple(kept_rows(_of_operator(each), history) for each in states))


def _of_operator(state: Chunks) -> Chunks:
    """Return the state of the only operator with state of a stage."""
    return {name.partition("/")[2]: chunk for name, chunk in state.items()}


def common_instant(views: Sequence[ViewState]) -> int:
    """Return the newest instant at which all views are complete; raise an error if not all of them keep it."""
    instant = min((view.last for view in views), default=FOREVER)
    behind = next((view for view in views if view.last == instant), None)
    ahead = next((view for view in views if view.first > instant), None)
    if behind is None or ahead is None:
        return instant
    if ahead.exact_from > instant:
        message = f"view '{ahead.name}' is exact from {instant_text(ahead.exact_from)} on, and {_place(behind)}"
        raise QueryError("Q323", message, hint="ask again later: the view becomes exact as its streams go on")
    message = (
        f"the views have no instant in common: '{ahead.name}' keeps what was valid from "
        f"{instant_text(ahead.first)} on, and {_place(behind)}"
    )
    hint = (
        f"create '{ahead.name}' WITH (history = …) that is longer; if '{behind.name}' reads a stream that is silent, "
        "declare IDLE AFTER; or create one view that joins them"
    )
    raise QueryError("Q323", message, hint=hint)


def _place(view: ViewState) -> str:
    if view.last <= EARLIEST:
        return f"'{view.name}' has read nothing yet"
    return f"'{view.name}' is at {instant_text(view.last)}"


def answer_snapshot(asked: SnapshotQuery, views: Sequence[ViewState], text: str) -> Answer:
    """Evaluate a snapshot query with the engine, over what its views keep at their common instant."""
    instant = common_instant(views)
    tables = {}
    for view in views:
        stream = source_stream_of(asked.catalog, view.name)
        rows = [batch for bucket in view.buckets for batch in bucket.snapshot(instant)]
        tables[view.name] = MemorySource(stream, pa.Table.from_batches(rows, schema=stream.schema.arrow))
    found, failed = _evaluate(asked, tables, text)
    known = instant if EARLIEST < instant < LATEST else None
    lost = f"; {failed} rows failed" if failed else ""
    return Answer(f"{found.num_rows} rows{_instant_words(instant)}{lost}", table=found, instant=known)


def _instant_words(instant: int) -> str:
    if instant <= EARLIEST:
        return "; nothing has been read yet"
    return f" at {instant_text(instant)}" if instant < LATEST else ""


def _evaluate(asked: SnapshotQuery, views: Mapping[str, MemorySource], text: str) -> tuple[pa.Table, int]:
    """Return the rows of a query over tables, in its order, and the number of rows that failed."""
    below, order = _split_order(asked.query.plan)
    query = replace(asked.query, plan=below)
    program = Program(asked.catalog, (query,), text=text)
    found: list[pa.RecordBatch] = []
    failed: list[int] = []

    def receive(name: str, rows: pa.RecordBatch) -> None:
        if name == DEAD_LETTERS:
            failed.append(rows.num_rows)
        elif name == query.name:
            found.append(pa.RecordBatch.from_arrays(rows.columns[2:], schema=below.schema.arrow))

    EmbeddedRun(compile_job(program, sinks={}, sources=views), on_rows=receive, once=True, checkpoint=None).wait()
    table = pa.Table.from_batches(found, schema=below.schema.arrow)
    return _sort_rows(table, order).select(list(asked.query.plan.schema.names)), sum(failed)


def _split_order(plan: Plan) -> tuple[Plan, tuple[Order, ...]]:
    """Return the plan whose rows are in an order, without a selection of columns on top, and the order."""
    match plan:
        case Limit(order=order):
            return plan, order
        case Map(source=Limit(order=order) as ordered):
            return ordered, order
    return plan, ()


def _sort_rows(table: pa.Table, order: Sequence[Order]) -> pa.Table:
    """Sort rows, the most significant order first; values are ordered as they are for LIMIT."""
    keys = []
    for each in order:
        column = table.column(each.column).combine_chunks()
        codes = order_codes([column]).codes[0]
        is_null = np.asarray(column.is_null())
        keys += [is_null != each.nulls_first, np.where(is_null, 0, -codes - 1 if each.descending else codes)]
    return table.take(pa.array(np.lexsort(keys[::-1]))) if keys else table
