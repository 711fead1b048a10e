"""Open, check and read sources by location."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.bad_files import bad_file_batch
from tidegate.connectors.csv_parser import Dialect
from tidegate.connectors.csv_source import CsvSource
from tidegate.connectors.files import SCHEMES, File, FileSet, resolve_files
from tidegate.connectors.formats import Format, check_options, count_option
from tidegate.connectors.functions import NO_CONNECTORS, Connect, Connectors, ReaderSource, open_function
from tidegate.connectors.generator import GeneratorSource, Recipe
from tidegate.connectors.jsonl import JsonSource
from tidegate.connectors.locations import is_uri
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.parquet import ParquetSource
from tidegate.connectors.ranges import Point, RangeEnd, Source, SourcePosition, SourceRange
from tidegate.connectors.text_files import MAX_LINE, LineRules
from tidegate.errors import BadFileError, DataError, QueryError, suggest_name

NO_TABLES: Mapping[str, pa.Table] = MappingProxyType({})


_BUILT_IN = (*SCHEMES, "csv", "jsonl", "parquet", "generator", "dataframe")
"""Names of connectors that users cannot register."""

FileSource = CsvSource | JsonSource | ParquetSource


class StepLimits(NamedTuple):
    """The most that one step reads of a stream, if the stream itself asks for less than other streams."""

    rows: int | None
    ranges: int | None


def step_limits(source: Source) -> StepLimits:
    """Return the limits that a stream sets."""
    own = source.recipe.batch if isinstance(source, GeneratorSource) else None
    return StepLimits(own, count_option(source.stream, "files_per_batch"))


class RangeReader:
    """Iterator over the raw batches of a range that notes how far it has read.

    A bad file gives one raw batch that describes the error, unless its stream stops at bad files or the step is
    `repeated`: then the first attempt may have read what is gone now.
    """

    def __init__(
        self, source: Source, part: SourceRange, rows: int, columns: frozenset[str], *, repeated: bool = False
    ) -> None:
        self.source, self.range, self.repeated = source, part, repeated
        self.end = RangeEnd(part, part.begin, is_exhausted=False)
        self._batches = source.read_range(part, rows, columns=columns)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch, reached in self._batches:
                self.end = replace(self.end, reached=reached)
                yield batch
        except BadFileError as bad:
            if self.repeated:
                raise _not_repeatable_error(bad) from bad
            if self.source.stream.stops_at_bad_file:
                raise
            self.end = replace(self.end, is_bad=True)
            yield bad_file_batch(bad)
        else:
            self.end = replace(self.end, reached=self._last_point, is_exhausted=True)

    @property
    def _last_point(self) -> Point:
        """The point at the end of the range; before it, if the last line is incomplete."""
        is_known = self.range.end is not None and not self.source.counts_bytes
        return Point(self.range.end or 0) if is_known else self.end.reached


def _not_repeatable_error(bad: BadFileError) -> DataError:
    message = f"the last step was interrupted and cannot be repeated: {bad.message}"
    hint = "put the file back as it was, or start from the beginning with an empty checkpoint folder"
    return DataError("D310", message, hint=hint)


def read_all(
    source: Source, position: SourcePosition, rows: int, *, columns: frozenset[str], growing: bool = False
) -> Iterator[tuple[pa.RecordBatch, SourcePosition]]:
    """Read everything after a position; yield raw batches of at most `rows` rows, each with the position after it."""
    for part in source.find_ranges(position, growing=growing):
        reader = RangeReader(source, part, rows, columns)
        held: pa.RecordBatch | None = None
        reached = position
        for batch in reader:
            if held is not None:
                yield held, reached
            held, reached = batch, position.after([reader.end])
        position = position.after([reader.end])
        if held is not None:
            yield held, position  # after the last batch the position says that the range is exhausted


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


def open_source(
    stream: SourceStream, *, tables: Mapping[str, pa.Table] = NO_TABLES, connectors: Connectors = NO_CONNECTORS
) -> Source:
    """Open the source at a stream's location.

    `tables` has the tables that ``dataframe://name`` refers to, `connectors` the functions that users registered.
    """
    scheme = stream.location.split("://", 1)[0].lower() if is_uri(stream.location) else "file"
    match scheme:
        case "generator":
            return GeneratorSource(stream, Recipe.of(stream))
        case "dataframe":
            return MemorySource(stream, _find_table(stream, tables))
        case _ if scheme in SCHEMES:
            return _file_source(stream)
        case _ if scheme in connectors:
            return open_function(stream, scheme, connectors[scheme])
    known = (*SCHEMES, "csv", "jsonl", "parquet", "generator", *connectors)
    message = f"stream '{stream.name}': no connector reads '{stream.location}'"
    raise DataError("D101", message, hint=suggest_name(scheme, known))


def version_of(source: Source) -> str:
    """Return a text that changes when the rows of a table change; empty for sources that do not change."""
    if isinstance(source, ReaderSource):
        return source.version
    files = getattr(source, "files", None)
    return files.version if isinstance(files, FileSet) else ""


def _file_source(stream: SourceStream) -> Source:
    kind, files = resolve_files(stream)
    match kind:
        case Format.CSV:
            dialect = Dialect.of(stream)
            rules = LineRules.of(stream, delimiter=dialect.delimiter, quote=dialect.quote)
            return CsvSource(stream, files, dialect, rules)
        case Format.JSONL:
            check_options(stream, (MAX_LINE,))
            return JsonSource(stream, files, LineRules.of(stream))
    return ParquetSource(stream, files)


def _find_table(stream: SourceStream, tables: Mapping[str, pa.Table]) -> pa.Table:
    name = stream.location.split("://", 1)[1]
    if name not in tables:
        message = f"stream '{stream.name}': there is no DataFrame '{name}'"
        raise DataError("D102", message, hint=suggest_name(name, tables))
    return tables[name]


def with_connector(connectors: Connectors, name: str, connect: Connect) -> Connectors:
    """Return the registered connectors with another one, which replaces an earlier one of the same name."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise QueryError("Q122", f"'{name}' cannot be the name of a connector", hint="use letters, digits and _")
    if name.lower() in _BUILT_IN:
        raise QueryError("Q122", f"a connector '{name}' already exists", hint="choose another name")
    if not callable(connect):
        raise QueryError("Q122", f"the connector '{name}' is not a function", hint="it is called with the arguments")
    return MappingProxyType({**connectors, name.lower(): connect})
