"""Formats of sources, and the options of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import overload

from tidegate.catalog.catalog import SourceStream
from tidegate.errors import DataError, suggest_name


class Format(Enum):
    """Format of a source; the value is its name in the option `format`."""

    CSV = "csv"
    JSONL = "jsonl"
    PARQUET = "parquet"
    GENERATOR = "generator"
    DATAFRAME = "dataframe"
    FUNCTION = "function"


SUFFIXES = {
    Format.CSV: (".csv", ".csv.gz"),
    Format.JSONL: (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz", ".json.gz"),
    Format.PARQUET: (".parquet",),
}
"""Endings of file names, by format."""

COMMON_OPTIONS = ("format", "base", "files_per_batch")
"""Options of every stream: `base` is the folder of the file that declares it, `files_per_batch` the
maximum number of files that a step reads."""


def format_of_name(name: str) -> Format | None:
    """Return the format that the ending of a name indicates, if any.

    Examples
    --------
    >>> format_of_name("data/bid.CSV.gz")
    <Format.CSV: 'csv'>
    """
    return next((f for f, endings in SUFFIXES.items() if name.lower().endswith(endings)), None)


def format_option(stream: SourceStream) -> Format | None:
    """Return the file format that the stream's options request, if any."""
    asked = option(stream, "format")
    if asked is None:
        return None
    known = {f.value: f for f in SUFFIXES}
    if asked.lower() not in known:
        raise DataError("D101", f"stream '{stream.name}': unknown format '{asked}'", hint=suggest_name(asked, known))
    return known[asked.lower()]


@overload
def option(stream: SourceStream, name: str) -> str | None: ...
@overload
def option(stream: SourceStream, name: str, *, default: str) -> str: ...
def option(stream: SourceStream, name: str, *, default: str | None = None) -> str | None:
    """Return the text of an option; the case of names does not matter."""
    return next((value for key, value in stream.options if key.lower() == name), default)


def flag_option(stream: SourceStream, name: str, *, default: bool) -> bool:
    """Return an option that is true or false."""
    text = option(stream, name)
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise DataError("D105", f"stream '{stream.name}': {name} = '{text}'", hint="write true or false")
    return text.lower() == "true"


def count_option(stream: SourceStream, name: str) -> int | None:
    """Return an option that is a positive integer, if it is given."""
    text = option(stream, name)
    if text is None:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise DataError("D105", f"stream '{stream.name}': {name} = '{text}'", hint="write a whole number of 1 or more")
    return int(text)


def check_options(stream: SourceStream, known: Sequence[str]) -> None:
    """Raise an error for unknown options, so that a typo is not ignored."""
    allowed = (*COMMON_OPTIONS, *known)
    for name, _ in stream.options:
        if name.lower() not in allowed:
            message = f"stream '{stream.name}': unknown option '{name}'"
            raise DataError("D105", message, hint=suggest_name(name, allowed))
    count_option(stream, "files_per_batch")


def find_name(name: str, available: Sequence[str]) -> int | None:
    """Return the position of a declared column: of the same name, or else of the first that differs in case only."""
    if name in available:
        return list(available).index(name)
    return next((i for i, other in enumerate(available) if other.lower() == name.lower()), None)


def no_such_column(
    stream: SourceStream, place: str, missing: str, found: Sequence[str], *, hint: str = ""
) -> DataError:
    """Return the error for a declared column that the data lacks, with the declared and the found columns."""
    message = (
        f"stream '{stream.name}': {place} has no column '{missing}'\n"
        f"   declared: {', '.join(stream.schema.names)}\n"
        f"   found:    {', '.join(found)}"
    )
    meant = suggest_name(missing, found) or ""
    if hint and meant and not meant.endswith("?"):
        meant += "."
    return DataError("D103", message, hint=" ".join(filter(None, [meant, hint])) or None)
