"""CSV files as sources."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.csv_parser import HEADER, Dialect, FileParser, field_count_text
from tidegate.connectors.decode import (
    Decoder,
    make_decoder,
    requested_schema,
)
from tidegate.connectors.file_ranges import find_file_ranges
from tidegate.connectors.files import File, FileSet, to_bad_file_error
from tidegate.connectors.formats import Format, find_name, no_such_column
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange
from tidegate.connectors.text_files import LineRules, first_line, read_lines
from tidegate.connectors.text_splits import split_lines
from tidegate.errors import BadFileError, DataError

KEPT_HEADERS = 100
"""Number of files whose first lines are kept, so that each step of a growing file need not read it again."""


@dataclass(frozen=True, slots=True)
class CsvSource:
    """Source of one CSV file, or a folder or glob of them."""

    stream: SourceStream
    files: FileSet
    dialect: Dialect
    rules: LineRules
    headers: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """First lines of files that were read from their beginning, by path."""

    format: ClassVar[Format] = Format.CSV
    counts_bytes: ClassVar[bool] = True

    def check(self) -> None:
        found = self.files.existing_files(self.stream)
        for file in found:
            self.check_file(file)
        if self.dialect.header and not any(first_line(self.files, file, self.rules) for file in found):
            raise self._no_header_error(self.files.location)

    def check_file(self, file: File) -> None:
        """Raise an error if the file as a whole is bad. An empty file is fine, because lines may be added later."""
        if line := first_line(self.files, file, self.rules):
            self._check_line(file, line)

    def decoder(self, columns: frozenset[str]) -> Decoder:
        fields = requested_schema(self.stream, columns, time=True).fields
        return make_decoder(self.stream, columns, FileParser(self.stream, self.dialect, fields))

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        return find_file_ranges(self.files, position, growing=growing, appendable=True)

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        return split_lines(self.files, whole, parts, self.rules)

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        about = self._growing_file_metadata if part.begin.offset else self._file_metadata
        return read_lines(self.files, part, rows, self.rules, about=about)

    def _growing_file_metadata(self, file: File) -> dict[bytes, bytes]:
        """Return the metadata of a file whose beginning was read before; if another took its place, it is not read."""
        line = self.headers.get(file.path)
        return self._file_metadata(file) if line is None else {HEADER: line.encode()}

    def _file_metadata(self, file: File) -> dict[bytes, bytes]:
        """Check the first line of a file; return the header as metadata of its raw batches."""
        line = first_line(self.files, file, self.rules)
        if self.dialect.header and not line:
            raise to_bad_file_error(file, self._no_header_error(file.path))
        self._check_line(file, line)
        if not self.dialect.header:
            return {}
        if len(self.headers) >= KEPT_HEADERS:
            self.headers.clear()
        self.headers[file.path] = line
        return {HEADER: line.encode()}

    def _no_header_error(self, place: str) -> DataError:
        message = f"stream '{self.stream.name}': {place} is empty and has no header"
        return DataError("D103", message, hint="write the header line, or add the option header = 'false'")

    def _check_line(self, file: File, line: str) -> None:
        """Raise an error if the first line of a file does not match the declaration."""
        try:
            names = self.dialect.names(line)
        except csv.Error as error:
            raise _not_csv_error(file, line, error) from error
        if not self.dialect.header:
            self._check_width(file, line)
            return
        for column in self.stream.schema.names:
            if find_name(column, names) is None:
                raise to_bad_file_error(file, self._missing_column_error(file.path, column, names))

    def _missing_column_error(self, place: str, name: str, names: Sequence[str]) -> DataError:
        """Return the error for a column that is missing in a header."""
        error = no_such_column(self.stream, place, name, names, hint=_NO_HEADER)
        hint = self._delimiter_hint(
            self.dialect.delimiter.join(names), lambda found: find_name(name, found) is not None
        )
        return error if hint is None else DataError(error.code, error.message, hint=hint)

    def _delimiter_hint(self, line: str, fits: Callable[[list[str]], bool]) -> str | None:
        """Return a hint with another delimiter, if the line fits when split by it."""
        for delimiter, (words, written) in _DELIMITERS.items():
            fields = replace(self.dialect, delimiter=delimiter).fields(line)
            if delimiter != self.dialect.delimiter and len(fields) > 1 and fits([field.strip() for field in fields]):
                return f"the fields are separated by {words}: add WITH (delimiter = '{written}')"
        return None

    def _check_width(self, file: File, line: str) -> None:
        found, declared = len(self.dialect.fields(line)), len(self.stream.schema)
        if line and found != declared:
            message = f"stream '{self.stream.name}': the first line of {file.path} has {field_count_text(found)}"
            shown = f"{message}\n   declared: {', '.join(self.stream.schema.names)}\n   found:    {line}"
            hint = self._delimiter_hint(line, lambda fields: len(fields) == declared)
            raise to_bad_file_error(file, DataError("D103", shown, hint=hint or "declare every column"))


def _not_csv_error(file: File, line: str, error: csv.Error) -> BadFileError:
    """Return the error for a first line that is not CSV."""
    hint, fault = None, f"is not CSV: {error}"
    if "\r" in line:
        hint = (
            "lines must end in a line feed, with or without a carriage return before it: convert the file, "
            "for example with tr '\\r' '\\n'"
        )
        fault = "contains carriage returns"
    return to_bad_file_error(file, DataError("D109", f"the first line of {file.path} {fault}", hint=hint))


_DELIMITERS = {
    ",": ("commas", ","),
    ";": ("semicolons", ";"),
    "\t": ("tabs", "tab"),
    "|": ("vertical bars", "|"),
}
"""Common delimiters, each with its name and its spelling in the option."""

_NO_HEADER = "If the first line is data, add the option header = 'false'."
