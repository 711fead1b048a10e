"""Connectors that users register: functions in Python that open a source.

`SOURCE name('a', …)` calls the function with these texts. It returns all rows at once, or a `RowReader`. Only names
that were registered are known: no text of a query can import or call anything else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, runtime_checkable

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format, check_options
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange, split_rows
from tidegate.connectors.typed_columns import check_schema, typed_decoder
from tidegate.errors import DataError, TidegateError

Connect = Callable[..., Any]
"""Function that opens a source: it takes the arguments of SOURCE, and returns rows or a `RowReader`."""

Connectors = Mapping[str, Connect]
"""Registered functions, by lower-case name."""

NO_CONNECTORS: Connectors = MappingProxyType({})


@runtime_checkable
class RowReader(Protocol):
    """Rows that can be read again by their numbers, and that may become more."""

    def count_rows(self) -> int:
        """Return how many rows there are now; they never become fewer."""
        ...

    def read_rows(self, begin: int, end: int) -> Any:
        """Return the rows with the numbers from `begin` up to `end`, as an Arrow table; the same ones every time."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class ReaderSource:
    """Source of the rows of a `RowReader`, by their numbers."""

    stream: SourceStream
    connector: str
    reader: RowReader

    format: ClassVar[Format] = Format.FUNCTION
    counts_bytes: ClassVar[bool] = False

    def check(self) -> None:
        check_options(self.stream, ())
        check_schema(self.stream, self._read(0, 0).schema, f"connector '{self.connector}'")

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    @property
    def version(self) -> str:
        """Text that changes when there are more rows: a table is then read again."""
        return str(self._count())

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        begin, count = position.of_part("").point, self._count()
        if count < begin.offset:
            message = f"{self._subject} has {count:,} rows, but {begin.offset:,} were read before"
            raise DataError("D110", message, hint="count_rows() must never become smaller, also after a restart")
        return [SourceRange("", begin, count)] if begin.offset < count else []

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        return split_rows(whole, parts, end=self._end_of(whole))

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        row, end = part.begin.offset, self._end_of(part)
        while row < end:
            table = self._read(row, min(row + rows, end))
            for batch in table.to_batches():
                row += batch.num_rows
                yield batch, Point(row)

    def _end_of(self, part: SourceRange) -> int:
        return self._count() if part.end is None else part.end

    @property
    def _subject(self) -> str:
        return f"stream '{self.stream.name}': connector '{self.connector}'"

    def _count(self) -> int:
        count = call_connector(self._subject, self.reader.count_rows)
        if not isinstance(count, int) or count < 0:
            raise DataError("D110", f"{self._subject}: count_rows() returned {count!r}", hint="return a number of rows")
        return count

    def _read(self, begin: int, end: int) -> pa.Table:
        table = to_table(self._subject, call_connector(self._subject, self.reader.read_rows, begin, end))
        if table.num_rows != end - begin:
            message = f"{self._subject}: read_rows({begin}, {end}) returned {table.num_rows:,} rows"
            raise DataError("D110", message, hint=f"return the {end - begin:,} rows from {begin} up to {end}")
        return table


def open_function(stream: SourceStream, name: str, connect: Connect) -> MemorySource | ReaderSource:
    """Open the source that a registered function returns for a stream."""
    check_options(stream, ())
    subject = f"stream '{stream.name}': connector '{name}'"
    found = call_connector(subject, connect, *arguments_of(stream))
    if isinstance(found, RowReader):
        return ReaderSource(stream, name, found)
    return MemorySource(stream, call_connector(subject, lambda: to_table(subject, found)))


def arguments_of(stream: SourceStream) -> tuple[str, ...]:
    """Return the arguments of SOURCE; those of FROM 'name://a/b' are 'a' and 'b'."""
    written = stream.location.partition("://")[2]
    return stream.arguments or tuple(filter(None, written.split("/")))


def to_table(subject: str, rows: Any) -> pa.Table:
    """Return Arrow data, a pandas frame, or several of them one after the other, as a table."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | Mapping):
        tables = [to_table(subject, each) for each in rows]
        if tables:
            return pa.concat_tables(tables, promote_options="permissive")
    hint = "return an Arrow table, an iterable of Arrow tables with at least one, or a RowReader"
    raise DataError("D110", f"{subject} returned {type(rows).__name__}, which has no rows", hint=hint)


def call_connector(subject: str, function: Connect, *arguments: Any) -> Any:
    """Call a function of the user; its errors become those of the connector."""
    try:
        return function(*arguments)
    except TidegateError:
        raise
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise DataError("D110", f"{subject} failed: {said}", hint="correct the function that was registered") from error
