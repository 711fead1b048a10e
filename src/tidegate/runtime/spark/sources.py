"""Streaming DataFrames as sources: Spark puts their rows into an inbox, from which steps read them.

Spark drops columns that no query reads, and empties rows that no query needs.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from contextlib import suppress

from pyspark.sql import DataFrame
from pyspark.sql.functions import expr
from pyspark.sql.streaming import StreamingQuery

from tidegate.connectors.decode import requested_schema
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Expression, columns_of, conjuncts
from tidegate.expressions.spark import spark_sql
from tidegate.runtime.job import Job
from tidegate.runtime.spark.frames import FrameSource
from tidegate.runtime.spark.gateway import LOST_JAVA_ERRORS
from tidegate.runtime.spark.inbox import WANTED, InboxSource, file_writer
from tidegate.schema import Schema, Type

SPARK_TYPES = {
    Type.BOOLEAN: "boolean",
    Type.INT: "int",
    Type.BIGINT: "bigint",
    Type.REAL: "float",
    Type.DOUBLE: "double",
    Type.STRING: "string",
    Type.TIMESTAMP: "timestamp",
}


class FrameFeed:
    """A streaming query that puts the rows of a streaming DataFrame into an inbox."""

    def __init__(self, frame: DataFrame, inbox: InboxSource, *, once: bool, wake: Callable[[], None]) -> None:
        self.inbox, self.wake = inbox, wake
        where = posixpath.join(inbox.folder, "spark")
        writer = frame.writeStream.foreachBatch(self._deliver).option("checkpointLocation", where)
        self.query: StreamingQuery = (writer.trigger(availableNow=True) if once else writer).start()

    def _deliver(self, rows: DataFrame, number: int) -> None:
        """Put a micro-batch into the inbox, unless it is there already."""
        if not self.inbox.has_delivery(number):
            found = rows.mapInArrow(file_writer(self.inbox, number), "file STRING").toArrow()
            self.inbox.deliver(number, found.column(0).to_pylist())
        self.wake()

    @property
    def is_over(self) -> bool:
        """Whether everything is in the inbox, and nothing more comes. Raise the error of a query that failed."""
        if self.query.isActive:
            return False
        if (error := self.query.exception()) is not None:
            raise error
        return True

    def finish(self) -> None:
        """Put everything that is available into the inbox, then end."""
        with suppress(*LOST_JAVA_ERRORS):  # `is_over` raises the error
            self.query.processAllAvailable()
        self.stop()

    def stop(self) -> None:
        with suppress(*LOST_JAVA_ERRORS):
            self.query.stop()


def inboxes_of(job: Job, checkpoint: str) -> dict[str, InboxSource]:
    """Return an inbox for each stream that is a streaming DataFrame."""
    return {
        stream: InboxSource(source.stream, posixpath.join(checkpoint, "inbox", stream))
        for stream, source in job.sources.items()
        if isinstance(source, FrameSource)
    }


def start_feeds(
    job: Job, inboxes: Mapping[str, InboxSource], *, once: bool, wake: Callable[[], None]
) -> list[FrameFeed]:
    """Start to fill the inboxes of a job; `wake` is called after each delivery."""
    feeds = []
    for stream, inbox in inboxes.items():
        source = job.sources[stream]
        assert isinstance(source, FrameSource)
        feeds.append(FrameFeed(needed_columns(source.frame, job, stream), inbox, once=once, wake=wake))
    return feeds


def needed_columns(raw: DataFrame, job: Job, stream: str) -> DataFrame:
    """Return the columns that stages need, and of rows that no stage needs only the times."""
    declared = job.sources[stream].stream
    found = {name.lower(): name for name in raw.columns}
    needed = requested_schema(declared, job.graph.columns(stream), time=True).names
    columns = {n: _quote_name(found.get(n.lower(), n)) for n in needed}
    condition = pushed_condition(job, stream, raw)
    if condition is None or not declared.times:
        return raw.select(*columns.values())
    # Every row counts for the watermark, and may be late or lack a time, so times are always read.
    empty = " OR ".join(f"{columns[c]} IS NULL" for c in sorted(declared.times))
    marked = raw.withColumn(WANTED, expr(f"coalesce(({condition}) OR {empty}, FALSE)"))
    narrowed = [c if n in declared.times else f"IF({WANTED}, {c}, NULL) AS {c}" for n, c in columns.items()]
    return marked.selectExpr(*narrowed, WANTED)


def pushed_condition(job: Job, stream: str, raw: DataFrame) -> str | None:
    """Return the part of the readers' conditions on rows that Spark can check; None if a reader may need any row."""
    same = _columns_as_declared(job.sources[stream].stream.schema, raw)
    texts = []
    for wanted in job.graph.row_conditions(stream):
        terms = _terms_for_spark(wanted, same)
        if not terms:
            return None
        texts.append(" AND ".join(terms))
    return " OR ".join(f"({t})" for t in dict.fromkeys(texts))


def _terms_for_spark(wanted: Expression, columns: frozenset[str]) -> tuple[str, ...]:
    terms = [text for t in conjuncts(wanted) if columns_of(t) <= columns and (text := spark_sql(t)) is not None]
    # If another term fails, the row becomes a dead letter even where this term is NULL: only FALSE may drop it.
    return tuple(f"({text} IS NOT FALSE)" for text in terms) if can_fail(wanted) else tuple(terms)


def _columns_as_declared(schema: Schema, raw: DataFrame) -> frozenset[str]:
    """Return the columns whose Spark type is the declared one; for others a comparison might differ."""
    types = {f.name: f.dataType.simpleString() for f in raw.schema}
    return frozenset(f.name for f in schema if types.get(f.name) == SPARK_TYPES.get(f.type, ""))


def _quote_name(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
