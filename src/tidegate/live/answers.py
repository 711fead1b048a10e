"""Answers to the statements of a live session."""

from __future__ import annotations

import pyarrow as pa

from tidegate.errors import TidegateWarning
from tidegate.values import value


@value
class Answer:
    """What one statement returned, in one line or as a table; `query` is the query that it is about."""

    message: str
    query: str | None = None
    exact_from: int | None = None
    """Instant, in microseconds, from which the results are exact; None: from the beginning, or not a query."""
    table: pa.Table | None = None
    """The answer to SHOW, DESCRIBE and EXPLAIN."""
    warnings: tuple[TidegateWarning, ...] = ()


@value
class QueryStatus:
    """A registered query: the statement that defines it, its state, and since when its results are exact."""

    name: str
    text: str
    state: str
    """``running`` or ``paused``."""
    exact_from: int | None
    rows_out: int
