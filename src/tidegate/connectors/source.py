"""Sources by location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.bad_files import bad_file_batch, read_past_bad_files
from tidegate.connectors.csv_text import CsvSource, Dialect
from tidegate.connectors.decode import Decoder
from tidegate.connectors.files import SCHEMES, File, FileSet, is_uri, resolve
from tidegate.connectors.formats import Format, Position, check_options, count
from tidegate.connectors.generator import GeneratorSource, Recipe
from tidegate.connectors.jsonl import JsonSource
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.parquet import ParquetSource
from tidegate.connectors.text_files import MAX_LINE
from tidegate.errors import BadFileError, DataError, nearest

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


def read_stream(
    source: Source, position: Position | None, rows: int, *, columns: frozenset[str], growing: bool = False
) -> Iterator[tuple[pa.RecordBatch, Position]]:
    """Read as the source does; a bad file gives one raw batch that says so, unless the stream is to stop there."""

    def read(begin: Position | None) -> Iterator[tuple[pa.RecordBatch, Position]]:
        return source.read(begin, rows, columns=columns, growing=growing)

    if source.stream.stops_at_bad_file or not isinstance(source, FileSource):
        return read(position)
    return read_past_bad_files(read, position)


def read_file(source: FileSource, path: str, rows: int, *, columns: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """Read one file of a source, as `read_stream` does; the path is as Spark writes it."""
    single = one_file(source, path)
    if single.files.files():
        yield from (batch for batch, _ in read_stream(single, None, rows, columns=columns))
        return
    location = single.files.location
    bad = BadFileError("D104", f"{location} is gone", name=location, path=location)
    if source.stream.stops_at_bad_file:
        raise bad
    yield bad_file_batch(bad)


def check_start(source: Source, *, live: bool, is_resumed: bool) -> str | None:
    """Raise what is wrong with the data at the start; return where a first file is awaited, if there is none.

    Bad files are set aside while a stream is read, but if no file fits, the declaration is probably wrong. A run that
    is resumed has read files that fitted.
    """
    if not isinstance(source, FileSource) or source.stream.is_table:
        source.check()
        return None
    if live and source.files.can_wait and not source.files.files():
        return source.files.location
    filled = [file for file in source.files.existing(source.stream) if file.size]
    if source.stream.stops_at_bad_file or not (filled or live):
        source.check()
    elif not is_resumed:
        _check_that_one_fits(source, filled)
    return None


def _check_that_one_fits(source: FileSource, files: Sequence[File]) -> None:
    first: BadFileError | None = None
    for file in files:
        try:
            source.check_file(file)
        except BadFileError as bad:
            first = first or bad
        else:
            return
    if first is not None:
        raise first


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
            dialect = Dialect.of(stream)
            count(stream, MAX_LINE)  # refuses what is no number
            return CsvSource(stream, files, dialect)
        case Format.JSONL:
            check_options(stream, (MAX_LINE,))
            count(stream, MAX_LINE)
            return JsonSource(stream, files)
    return ParquetSource(stream, files)


def _table(stream: SourceStream, tables: Mapping[str, pa.Table]) -> pa.Table:
    name = stream.location.split("://", 1)[1]
    if name not in tables:
        message = f"stream '{stream.name}': there is no DataFrame '{name}'"
        raise DataError("D102", message, hint=nearest(name, tables))
    return tables[name]
