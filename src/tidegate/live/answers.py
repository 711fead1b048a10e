"""What a live session answers: the outcome of a statement, and the status of a query."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import QueryError, TidegateWarning
from tidegate.values import value


@value
class Answer:
    """Outcome of one statement."""

    message: str
    """One line, such as "created stream trade"."""
    query: str | None = None
    """The query that the statement is about, if any."""
    exact_from: int | None = None
    """Instant from which the answers of the query are exact, in microseconds; None: from the beginning."""
    table: pa.Table | None = None
    """The answer to SHOW, DESCRIBE and EXPLAIN (one column of text), or to a snapshot query."""
    warnings: tuple[TidegateWarning, ...] = ()
    instant: int | None = None
    """Of a snapshot query: the instant of its rows, in microseconds."""


def snapshot_table(answers: Sequence[Answer]) -> pa.Table:
    """Return the table of the only answer, with its instant as metadata."""
    table = answers[0].table if len(answers) == 1 else None
    if table is None:
        hint = "write one SELECT whose FROM names materialized views and tables only"
        raise QueryError("Q325", "this is not a snapshot query", hint=hint)
    instant = answers[0].instant
    return table if instant is None else table.replace_schema_metadata({"instant": str(instant)})


@value
class QueryStatus:
    """A registered query."""

    name: str
    text: str
    """The statement that registered it."""
    state: str
    """Either "running" or "paused"."""
    exact_from: int | None
    """Instant from which the answers are exact, in microseconds; None: from the beginning."""
    rows_out: int
