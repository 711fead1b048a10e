"""Sources by location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.csv_text import CsvSource, Dialect
from tidegate.connectors.decode import Decoder
from tidegate.connectors.files import SCHEMES, FileSet, is_uri, resolve
from tidegate.connectors.formats import Format, Position, check_options
from tidegate.connectors.generator import GeneratorSource, Recipe
from tidegate.connectors.jsonl import JsonSource
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.parquet import ParquetSource
from tidegate.errors import DataError, nearest

NO_TABLES: Mapping[str, pa.Table] = MappingProxyType({})


class Source(Protocol):
    """Where the rows of a stream come from.

    A raw batch of CSV or JSON lines has one string column `line`; other raw batches have typed
    columns by name. The decoder makes elements of either.
    """

    @property
    def stream(self) -> SourceStream: ...

    @property
    def format(self) -> Format: ...

    def check(self) -> None:
        """Raise a DataError if the data is not there or cannot be what the stream declares."""
        ...

    def decoder(self, columns: frozenset[str]) -> Decoder:
        """A decoder for these of the declared columns."""
        ...

    def read(
        self, position: Position | None, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Raw batches of at most `rows` rows from a position on, each with the position after it.

        Ends when what is there now is read; a later call finds new files and appended lines. With
        `columns`, a source of typed columns may leave out others. With `growing`, a last line that
        has no end is taken to be still in the writing, and left for a later call.
        """
        ...


FileSource = CsvSource | JsonSource | ParquetSource


def one_file(source: FileSource, path: str) -> FileSource:
    """The source of one of its files alone; the path is as Spark writes it."""
    _, _, place = path.partition(":")
    scheme, separator, _ = source.files.location.partition("://")
    # Spark may know a file system under another name; of local files it writes file:/folder.
    location = f"{scheme}://{place.removeprefix('//')}" if separator else place.removeprefix("//")
    return replace(source, files=replace(source.files, location=location))


def open_source(stream: SourceStream, *, tables: Mapping[str, pa.Table] = NO_TABLES) -> Source:
    """The source at a stream's location; `tables` has those that ``dataframe://name`` may name."""
    scheme = stream.location.split("://", 1)[0].lower() if is_uri(stream.location) else "file"
    match scheme:
        case "generator":
            return GeneratorSource(stream, Recipe.of(stream))
        case "dataframe":
            return MemorySource(stream, _table(stream, tables))
        case _ if scheme in SCHEMES:
            return _file_source(stream)
    known = (*SCHEMES, "generator")
    message = f"stream '{stream.name}': nothing can read '{stream.location}'"
    raise DataError("D101", message, hint=nearest(scheme, known))


def version_of(source: Source) -> str:
    """A text that changes when the data does, where that can be told."""
    files = getattr(source, "files", None)
    return files.version if isinstance(files, FileSet) else ""


def _file_source(stream: SourceStream) -> Source:
    kind, files = resolve(stream)
    match kind:
        case Format.CSV:
            return CsvSource(stream, files, Dialect.of(stream))
        case Format.JSONL:
            check_options(stream, ())
            return JsonSource(stream, files)
    return ParquetSource(stream, files)


def _table(stream: SourceStream, tables: Mapping[str, pa.Table]) -> pa.Table:
    name = stream.location.split("://", 1)[1]
    if name not in tables:
        message = f"stream '{stream.name}': there is no DataFrame '{name}'"
        raise DataError("D102", message, hint=nearest(name, tables))
    return tables[name]
