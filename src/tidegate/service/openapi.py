"""Operations of the service, and their description as OpenAPI 3.1."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Any, Literal

from tidegate import __version__
from tidegate.values import value
from tidegate.wire import ARROW, EVENTS, LINES

Json = dict[str, Any]


@value
class ApiOperation:
    """An operation of the API; `name` is also that of its handler in `Endpoints`."""

    method: Literal["GET", "POST", "DELETE"]
    path: str
    name: str
    summary: str
    content: Json
    """Schemas of the answer, by media type."""
    errors: tuple[int, ...] = ()
    """Statuses of errors, other than those that every operation has."""
    request: Json = field(default_factory=dict)
    """Schemas of the request's body, by media type."""
    options: tuple[Json, ...] = ()
    """Parameters of the query part of the URL."""


def _json(name: str) -> Json:
    return {"application/json": {"$ref": f"#/components/schemas/{name}"}}


_TEXT: Json = {"type": "string"}
_BYTES: Json = {"type": "string", "format": "binary"}
_TABLES: Json = {
    "name": "tables",
    "in": "query",
    "description": "Tables in JSON answers: rows as objects, or an Arrow stream in base64.",
    "schema": {"type": "string", "enum": ["json", "arrow"], "default": "json"},
}
_FOLLOW: Json = {
    "name": "follow",
    "in": "query",
    "description": "The statements register one query: the answer is its results, from the first on, as of /results.",
    "schema": {"type": "boolean", "default": False},
}

OPERATIONS: tuple[ApiOperation, ...] = (
    ApiOperation(
        "POST",
        "/v1/sql",
        "run_statements",
        "Run statements: all of them or none. At most 1 MiB of text.",
        {**_json("Answers"), ARROW: _BYTES, LINES: _TEXT, EVENTS: _TEXT},
        (400, 408, 409, 413, 415, 422, 503),
        {"application/sql": _TEXT, "text/plain": _TEXT, **_json("Statements")},
        (_TABLES, _FOLLOW),
    ),
    ApiOperation("GET", "/v1/queries", "list_queries", "List the registered queries.", _json("Queries")),
    ApiOperation("GET", "/v1/queries/{name}", "show_query", "Show a query.", _json("Query"), (404,)),
    ApiOperation("DELETE", "/v1/queries/{name}", "drop_query", "Drop a query.", _json("Answers"), (400, 404, 409, 503)),
    ApiOperation(
        "GET",
        "/v1/queries/{name}/results",
        "follow_query",
        "Follow the results of a query from now on, until it is dropped; or `dead_letters`, or `quality`.",
        {LINES: _TEXT, EVENTS: _TEXT, ARROW: _BYTES},
        (404, 503),
    ),
    ApiOperation(
        "GET",
        "/v1/metadata",
        "show_metadata",
        "Show what operators do, how fast sources are, and where steps spend their time.",
        {**_json("Metadata"), ARROW: _BYTES},
        options=(_TABLES,),
    ),
    ApiOperation(
        "GET",
        "/v1/queries/{name}/metadata",
        "show_query_metadata",
        "Show the metadata of what a query uses.",
        {**_json("Metadata"), ARROW: _BYTES},
        (404,),
        options=(_TABLES,),
    ),
    ApiOperation("GET", "/v1/status", "show_status", "Show the state and the figures of the run.", _json("Status")),
    ApiOperation("GET", "/health", "show_health", "Show whether the run goes on.", _json("Health"), (503,)),
    ApiOperation("GET", "/metrics", "show_metrics", "Metrics for Prometheus.", {"text/plain": _TEXT}),
    ApiOperation("GET", "/openapi.json", "describe_api", "This description.", {"application/json": {"type": "object"}}),
)

_ERRORS = {
    400: "The text or the request is wrong.",
    401: "The token is missing or wrong.",
    403: "The request comes from another origin, or names another host.",
    404: "There is no such query.",
    408: "The body did not arrive in time.",
    409: "The name is taken, or the object is in use.",
    413: "The text is too large.",
    415: "The content type is not supported.",
    422: "The data or a connector is wrong, for example a missing file.",
    500: "Tidegate failed.",
    503: "The run has ended or failed, or the service is busy.",
}
_OF_ALL = (401, 403, 500)


def _record(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


def _list(name: str) -> Json:
    return {"type": "array", "items": {"$ref": f"#/components/schemas/{name}"}}


_INSTANT: Json = {
    "type": ["integer", "null"],
    "description": "Microseconds since 1970 from which answers are exact; null: from the beginning.",
}
_COUNT: Json = {"type": "integer", "minimum": 0}
_ROWS: Json = {"description": "Rows as objects; with tables=arrow an Arrow stream in base64."}
_COUNTS: Json = {"type": "object", "additionalProperties": _COUNT}
_HEALTH = _record(state={"type": "string", "enum": ["running", "finished", "stopped", "failed"]}, version=_TEXT)
_ERROR_PARTS = _record(code=_TEXT, message=_TEXT)
_ERROR_PARTS["properties"] |= {
    "hint": _TEXT,
    "line": _COUNT,
    "column": _COUNT,
    "start": {**_COUNT, "description": "First character of the place in the text."},
    "end": {**_COUNT, "description": "Character after the place in the text."},
}

_SCHEMAS: Json = {
    "Error": _record(error=_ERROR_PARTS),
    "Statements": _record(sql=_TEXT),
    "Answers": _record(answers=_list("Answer")),
    "Answer": {
        "type": "object",
        "properties": {
            "message": _TEXT,
            "query": _TEXT,
            "exact_from": _INSTANT,
            "table": {"description": "Columns and rows; with tables=arrow an Arrow stream in base64."},
            "warnings": {"type": "array", "items": _ERROR_PARTS},
        },
        "required": ["message"],
    },
    "Queries": _record(queries=_list("Query")),
    "Query": _record(
        name=_TEXT,
        text=_TEXT,
        state={"type": "string", "enum": ["running", "paused"]},
        exact_from=_INSTANT,
        rows_out=_COUNT,
    ),
    "Metadata": _record(**dict.fromkeys(("operators", "sources", "phases", "omissions"), _ROWS)),
    "Health": _HEALTH,
    "Status": {
        "type": "object",
        "properties": {
            **_HEALTH["properties"],
            "step": _COUNT,
            "rows_in": _COUNT,
            "rows_out": {**_COUNTS, "description": "By query."},
            "dead_letters": {**_COUNTS, "description": "By reason."},
            "watermarks": {"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
            "state_bytes": _COUNT,
            "subscribers": _COUNT,
        },
        "required": ["state", "version", "step", "rows_in", "watermarks", "state_bytes"],
    },
}


def make_description() -> Json:
    """Return the description of all operations."""
    paths: Json = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _describe_operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tidegate", "version": __version__, "description": "Live queries over data streams."},
        "paths": paths,
        "components": {
            "schemas": _SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _describe_operation(operation: ApiOperation) -> Json:
    described: Json = {"operationId": operation.name, "summary": operation.summary}
    if parameters := [*_path_parameters(operation.path), *operation.options]:
        described["parameters"] = parameters
    if operation.request:
        described["requestBody"] = {"required": True, "content": _content(operation.request)}
    errors = {
        str(status): {"description": _ERRORS[status], "content": _content(_json("Error"))}
        for status in sorted({*operation.errors, *_OF_ALL})
    }
    described["responses"] = {"200": {"description": "The answer.", "content": _content(operation.content)}, **errors}
    return described


def _content(schemas: Json) -> Json:
    return {media_type: {"schema": schema} for media_type, schema in schemas.items()}


def _path_parameters(path: str) -> Iterator[Json]:
    for name in re.findall(r"\{(\w+)\}", path):
        yield {"name": name, "in": "path", "required": True, "schema": _TEXT}
