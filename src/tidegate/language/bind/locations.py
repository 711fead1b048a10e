"""SOURCE f('a', …): the location of a connector that is written as a call."""

from __future__ import annotations

from tidegate.errors import QueryError
from tidegate.language.syntax import CreateSource, SourceCall

Options = tuple[tuple[str, str], ...]

_FORMATS = ("csv", "jsonl", "parquet")
"""Connectors of files of one format."""


def find_location(statement: CreateSource) -> tuple[str, tuple[str, ...], Options]:
    """Return the location of a source, the arguments of its call, and the options of its connector.

    Files and generators are at the location that FROM would name. For all other connectors, SOURCE f('a', 'b') is
    FROM 'f://a/b': the scheme of a location selects the connector.
    """
    call, options = statement.location, statement.options
    if isinstance(call, str):
        return call, (), options
    match call.name.text.lower():
        case "file":
            return _single_argument(call), (), options
        case name if name in _FORMATS:
            return _single_argument(call), (), (*options, ("format", name))
        case "generator":
            return f"generator://?{'&'.join(each.removeprefix('?') for each in call.arguments)}", (), options
    return f"{call.name.text}://{'/'.join(call.arguments)}", call.arguments, options


def _single_argument(call: SourceCall) -> str:
    if len(call.arguments) != 1:
        hint = f"write SOURCE {call.name.text}('folder/*.csv'): a path, a folder, a glob or a URI"
        raise QueryError("Q109", f"{call.name.text} takes one argument, the place of the files", call.span, hint=hint)
    return call.arguments[0]
