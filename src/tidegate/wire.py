"""Forms in which answers, errors and rows travel between the service and its clients: JSON and Arrow."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from tidegate.errors import (
    NOWHERE,
    DataError,
    InternalError,
    QueryError,
    Span,
    TidegateError,
    TidegateWarning,
    line_and_column,
)
from tidegate.expressions.column_texts import json_rows
from tidegate.live.answers import Answer, QueryStatus
from tidegate.runtime.figures import Metadata

ARROW = "application/vnd.apache.arrow.stream"
EVENTS = "text/event-stream"
LINES = "application/x-ndjson"

DROPPED, ERROR, ANSWERS = b"dropped", b"error", b"answers"
"""Metadata of batches in an Arrow stream of results, as JSON: rows lost so far, the error that ended the run, and what
was answered to statements."""

Json = dict[str, Any]


# ---- errors and warnings


def error_to_json(error: BaseException) -> Json:
    """Return the parts of an error that a client may see; of an error that has no code, only its type.

    Examples
    --------
    >>> error_to_json(QueryError("Q101", "there is no stream 'bit'", Span(14, 17), text="SELECT * FROM bit"))
    {'code': 'Q101', 'message': "there is no stream 'bit'", 'line': 1, 'column': 15, 'start': 14, 'end': 17}
    """
    if not isinstance(error, TidegateError):
        error = InternalError("I503", f"unexpected error: {type(error).__name__}", hint="the service's log has more")
    place = _place_to_json(error.text, error.span) if isinstance(error, QueryError) else {}
    return _message_to_json(error) | place


def error_from_json(content: Mapping[str, Any], text: str = "") -> TidegateError:
    """Return the error with its place in the text that was sent."""
    code, message, hint = str(content["code"]), str(content["message"]), content.get("hint")
    match code[:1]:
        case "Q" | "W":
            span = _span_from_json(content)
            return QueryError(code, message, span, text="" if span == NOWHERE else text, hint=hint)
        case "D":
            return DataError(code, message, hint=hint)
    return InternalError(code, message, hint=hint)


def warning_to_json(warning: TidegateWarning) -> Json:
    return _message_to_json(warning) | _place_to_json(warning.text, warning.span)


def warning_from_json(content: Mapping[str, Any], text: str) -> TidegateWarning:
    return TidegateWarning(
        str(content["code"]), str(content["message"]), _span_from_json(content), text=text, hint=content.get("hint")
    )


def _message_to_json(found: TidegateError | TidegateWarning) -> Json:
    hint = {} if found.hint is None else {"hint": found.hint}
    return {"code": found.code, "message": found.message, **hint}


def _place_to_json(text: str, span: Span) -> Json:
    if span == NOWHERE or not text:
        return {}
    line, column = line_and_column(text, span)
    return {"line": line, "column": column, "start": span.start, "end": span.end}


def _span_from_json(content: Mapping[str, Any]) -> Span:
    return Span(int(content["start"]), int(content["end"])) if "start" in content else NOWHERE


# ---- answers


def answer_to_json(answer: Answer, *, arrow: bool = False) -> Json:
    """Return an answer as JSON, with its table as rows, or as an Arrow stream in base64."""
    content: Json = {"message": answer.message}
    if answer.query is not None:
        content |= {"query": answer.query, "exact_from": answer.exact_from}
    if answer.table is not None:
        content |= {} if answer.instant is None else {"instant": answer.instant}
        content["table"] = _table_to_base64(answer.table) if arrow else table_to_json(answer.table)
    if answer.warnings:
        content["warnings"] = [warning_to_json(each) for each in answer.warnings]
    return content


def answer_from_json(content: Mapping[str, Any], text: str) -> Answer:
    """Return an answer whose table is an Arrow stream."""
    table = content.get("table")
    return Answer(
        str(content["message"]),
        content.get("query"),
        content.get("exact_from"),
        None if table is None else _table_from_base64(table),
        tuple(warning_from_json(each, text) for each in content.get("warnings", ())),
        content.get("instant"),
    )


def answers_to_table(answers: Sequence[Answer]) -> pa.Table:
    """Return the last table of the answers; if there is none, the messages as a table."""
    tables = [answer.table for answer in answers if answer.table is not None]
    if tables:
        return tables[-1]
    schema = pa.schema({"message": pa.string(), "query": pa.string(), "exact_from": pa.int64()})
    rows = [{"message": a.message, "query": a.query, "exact_from": a.exact_from} for a in answers]
    return pa.Table.from_pylist(rows, schema=schema)


def status_to_json(status: QueryStatus) -> Json:
    return {name: getattr(status, name) for name in ("name", "text", "state", "exact_from", "rows_out")}


def status_from_json(content: Mapping[str, Any]) -> QueryStatus:
    return QueryStatus(
        content["name"], content["text"], content["state"], content["exact_from"], int(content["rows_out"])
    )


# ---- metadata


def metadata_to_json(metadata: Metadata, *, arrow: bool = False) -> Json:
    """Return the tables of metadata as rows, or as Arrow streams in base64."""
    tables = {name: getattr(metadata, name) for name in _METADATA_TABLES}
    return {name: _table_to_base64(table) if arrow else table_to_json(table)["rows"] for name, table in tables.items()}


def metadata_from_json(content: Mapping[str, Any]) -> Metadata:
    """Return metadata whose tables are Arrow streams."""
    return Metadata(*(_table_from_base64(content[name]) for name in _METADATA_TABLES))


_METADATA_TABLES = ("operators", "sources", "phases", "omissions")


# ---- rows


def table_to_json(table: pa.Table) -> Json:
    """Return a table as its columns with their types, and its rows as objects.

    Examples
    --------
    >>> table_to_json(pa.table({"n": [1], "s": ["x"]}))
    {'columns': [{'name': 'n', 'type': 'int64'}, {'name': 's', 'type': 'string'}], 'rows': [{'n': 1, 's': 'x'}]}
    """
    columns = [{"name": field.name, "type": str(field.type)} for field in table.schema]
    rows = [json.loads(text) for batch in table.to_batches() for text in json_rows(batch).to_pylist()]
    return {"columns": columns, "rows": rows}


def table_to_arrow(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _table_from_base64(text: str) -> pa.Table:
    return pa.ipc.open_stream(base64.b64decode(text)).read_all()


def _table_to_base64(table: pa.Table) -> str:
    return base64.b64encode(table_to_arrow(table)).decode("ascii")
