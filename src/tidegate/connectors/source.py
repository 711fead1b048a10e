"""Open, check and read sources by location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Protocol

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.bad_files import bad_file_batch, read_past_bad_files
from tidegate.connectors.csv_source import CsvSource, Dialect
from tidegate.connectors.decode import Decoder
from tidegate.connectors.files import SCHEMES, File, FileSet, resolve_files
from tidegate.connectors.formats import Format, Position, check_options, count_option
from tidegate.connectors.generator import GeneratorSource, Recipe
from tidegate.connectors.jsonl import JsonSource
from tidegate.connectors.locations import is_uri
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.parquet import ParquetSource
from tidegate.connectors.text_files import MAX_LINE
from tidegate.errors import BadFileError, DataError, suggest_name

NO_TABLES: Mapping[str, pa.Table] = MappingProxyType({})


class Source(Protocol):
    """Source of the rows of a stream.

    A raw batch of CSV or JSON lines has one string column `line`; other raw batches have typed,
    named columns. The decoder converts both to elements.
    """

    @property
    def stream(self) -> SourceStream: ...

    @property
    def format(self) -> Format: ...

    def check(self) -> None:
        """Raise a DataError if the data is missing or does not match the declaration of the stream."""
        ...

    def decoder(self, columns: frozenset[str]) -> Decoder:
        """Return a decoder for some of the declared columns."""
        ...

    def read(
        self, position: Position | None, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Position]]:
        """Yield raw batches of at most `rows` rows, starting at a position, each with the position after it.

        The iterator ends when all current data is read; a later call finds new files and appended
        lines. With `columns`, a source of typed columns may omit other columns. With `growing`, a last
        line without a line end is considered incomplete and left for a later call.
        """
        ...


FileSource = CsvSource | JsonSource | ParquetSource


def read_stream(
    source: Source, position: Position | None, rows: int, *, columns: frozenset[str], growing: bool = False
) -> Iterator[tuple[pa.RecordBatch, Position]]:
    """Read a source; a bad file gives one raw batch that describes the error, unless the stream stops at bad files."""

    def read(begin: Position | None) -> Iterator[tuple[pa.RecordBatch, Position]]:
        return source.read(begin, rows, columns=columns, growing=growing)

    if source.stream.stops_at_bad_file or not isinstance(source, FileSource):
        return read(position)
    return read_past_bad_files(read, position)


def read_file(source: FileSource, path: str, rows: int, *, columns: frozenset[str]) -> Iterator[pa.RecordBatch]:
    """Read one file of a source like `read_stream`; the path is in Spark's notation."""
    single = restrict_to_file(source, path)
    if single.files.files():
        yield from (batch for batch, _ in read_stream(single, None, rows, columns=columns))
        return
    location = single.files.location
    bad = BadFileError("D104", f"{location} no longer exists", name=location, path=location)
    if source.stream.stops_at_bad_file:
        raise bad
    yield bad_file_batch(bad)


def check_start(source: Source, *, live: bool, is_resumed: bool) -> str | None:
    """Check the data at the start of a run; return the location if it has no file yet and the run may wait.

    While a stream is read, bad files are set aside. But if no file matches the declaration, the declaration is
    probably wrong, and the start fails. A resumed run skips this check, because it has read matching files.
    """
    if not isinstance(source, FileSource) or source.stream.is_table:
        source.check()
        return None
    if live and source.files.can_wait and not source.files.files():
        return source.files.location
    filled = [file for file in source.files.existing_files(source.stream) if file.size]
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


def restrict_to_file(source: FileSource, path: str) -> FileSource:
    """Return the source restricted to one of its files; the path is in Spark's notation."""
    _, _, place = path.partition(":")
    scheme, separator, _ = source.files.location.partition("://")
    # Spark may use another scheme for the file system, and writes local files as file:/folder.
    location = f"{scheme}://{place.removeprefix('//')}" if separator else place.removeprefix("//")
    return replace(source, files=replace(source.files, location=location))


def open_source(stream: SourceStream, *, tables: Mapping[str, pa.Table] = NO_TABLES) -> Source:
    """Open the source at a stream's location; `tables` has the tables that ``dataframe://name`` refers to."""
    scheme = stream.location.split("://", 1)[0].lower() if is_uri(stream.location) else "file"
    match scheme:
        case "generator":
            return GeneratorSource(stream, Recipe.of(stream))
        case "dataframe":
            return MemorySource(stream, _find_table(stream, tables))
        case _ if scheme in SCHEMES:
            return _file_source(stream)
    known = (*SCHEMES, "generator")
    message = f"stream '{stream.name}': no connector reads '{stream.location}'"
    raise DataError("D101", message, hint=suggest_name(scheme, known))


def version_of(source: Source) -> str:
    """Return a text that changes when the files of a source change; empty for other sources."""
    files = getattr(source, "files", None)
    return files.version if isinstance(files, FileSet) else ""


def _file_source(stream: SourceStream) -> Source:
    kind, files = resolve_files(stream)
    match kind:
        case Format.CSV:
            dialect = Dialect.of(stream)
            count_option(stream, MAX_LINE)  # raises an error if it is not a number
            return CsvSource(stream, files, dialect)
        case Format.JSONL:
            check_options(stream, (MAX_LINE,))
            count_option(stream, MAX_LINE)
            return JsonSource(stream, files)
    return ParquetSource(stream, files)


def _find_table(stream: SourceStream, tables: Mapping[str, pa.Table]) -> pa.Table:
    name = stream.location.split("://", 1)[1]
    if name not in tables:
        message = f"stream '{stream.name}': there is no DataFrame '{name}'"
        raise DataError("D102", message, hint=suggest_name(name, tables))
    return tables[name]
