"""CSV: RFC 4180 within lines.

A field may stand in quotes, in which a quote is doubled; a quote inside an unquoted field is an
ordinary character. A value cannot contain a line end, since rows arrive line by line. An empty field
is NULL unless it stands in quotes. All files of a stream have the same header.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder, Mask, Parsed, make_decoder, parse_texts, requested
from tidegate.connectors.files import File, FileSet, Progress
from tidegate.connectors.formats import Format, Position, check_options, find_name, flag, no_such_column, option
from tidegate.connectors.lines import any_true, clean_lines, first_line, joined, read_lines
from tidegate.errors import DataError
from tidegate.schema import Field

NO_QUOTES = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file writes its fields; `null` is a text for NULL besides the empty one."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null: str = ""

    @staticmethod
    def of(stream: SourceStream) -> Dialect:
        """The dialect that the stream's options describe."""
        check_options(stream, ("header", "delimiter", "quote", "null"))
        delimiter = option(stream, "delimiter", default=",")
        delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
        quote = option(stream, "quote", default='"')
        if not _is_character(delimiter) or (quote and not _is_character(quote)) or quote == delimiter:
            message = f"stream '{stream.name}': delimiter = '{delimiter}', quote = '{quote}'"
            raise DataError("D105", message, hint="each is one ASCII character, and they differ; quote may be empty")
        return Dialect(flag(stream, "header", default=True), delimiter, quote, option(stream, "null", default=""))

    def fields(self, line: str) -> list[str]:
        """The fields of one line."""
        quoting = {"quotechar": self.quote} if self.quote else {"quoting": csv.QUOTE_NONE}
        return next(csv.reader([line], delimiter=self.delimiter, **quoting), [])

    @property
    def pattern(self) -> str:
        """What a line looks like whose quotes are closed and that is one line only."""
        if self.quote == NO_QUOTES:
            return r"^[^\r\n]*$"
        d, q = re.escape(self.delimiter), re.escape(self.quote)
        field = rf"(?:{q}(?:[^{q}]|{q}{q})*{q}|(?:[^{q}{d}\r\n][^{d}\r\n]*)?)"
        return rf"^{field}(?:{d}{field})*$"


@dataclass(frozen=True, slots=True)
class CsvParser:
    """Reads lines as CSV; `header` is the line to skip, `width` how many fields a line has."""

    dialect: Dialect
    header: str | None
    width: int
    fields: tuple[Field, ...]
    places: tuple[int, ...]
    times: frozenset[str]

    def parse(self, raw: pa.RecordBatch) -> Parsed:
        lines = clean_lines(raw, header=self.header)
        broken = lines.broken | self._ill_formed(lines.texts)
        sound = np.ones(len(lines.texts), np.bool_)
        sound[list(broken)] = False
        texts, counts = self._split(lines.texts, sound)
        columns = {
            field.name: parse_texts(column, field.type, is_time=field.name in self.times)
            for field, column in zip(self.fields, texts, strict=True)
        }
        return Parsed(lines.texts, columns, broken | counts)

    def _ill_formed(self, texts: pa.Array) -> dict[int, str]:
        """Lines that would run into the next one: only those with quotes or line ends inside are looked at."""
        suspects = pc.match_substring_regex(texts, f"[\r\n{re.escape(self.dialect.quote)}]")
        if not any_true(suspects):
            return {}
        rows = np.flatnonzero(suspects.to_numpy(zero_copy_only=False))
        sound = pc.match_substring_regex(texts.take(pa.array(rows)), self.dialect.pattern)
        wrong = rows[~sound.to_numpy(zero_copy_only=False)]
        return dict.fromkeys(wrong.tolist(), "a quote is not closed, or is followed by more than a delimiter")

    def _split(self, texts: pa.Array, sound: Mask) -> tuple[list[pa.Array], dict[int, str]]:
        """The fields asked for, as texts for every line (NULL where there is none), and lines of wrong width."""
        rows = np.flatnonzero(sound)
        wrong: dict[int, str] = {}
        if not len(rows):
            return [pa.nulls(len(texts), pa.string()) for _ in self.fields], wrong

        def note(row: Any) -> str:
            wrong[int(rows[row.number - 1])] = f"{_counted(row.actual_columns)} where {row.expected_columns} belong"
            return "skip"

        table = self._read(joined(texts if sound.all() else texts.take(pa.array(rows))), note)
        columns = [_single(table.column(str(place))) for place in self.places]
        if len(wrong) + len(texts) - len(rows) == 0:
            return columns, wrong
        sound = sound.copy()
        sound[list(wrong)] = False
        places = pa.array(np.cumsum(sound) - 1, mask=~sound)
        return [column.take(places) for column in columns], wrong

    def _read(self, text: pa.Buffer, note: Any) -> pa.Table:
        names = [str(i) for i in range(self.width)]
        used = list(dict.fromkeys(str(place) for place in self.places))
        # One block and one thread: otherwise the handler is not told the number of the row.
        return arrow_csv.read_csv(
            pa.BufferReader(text),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, block_size=text.size + 1),
            parse_options=arrow_csv.ParseOptions(
                delimiter=self.dialect.delimiter,
                quote_char=self.dialect.quote or False,
                invalid_row_handler=note,
                ignore_empty_lines=False,
            ),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=used,
                column_types=dict.fromkeys(used, pa.string()),
                null_values=["", self.dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


@dataclass(frozen=True, slots=True)
class CsvSource:
    """One CSV file, or a folder or glob of them."""

    stream: SourceStream
    files: FileSet
    dialect: Dialect

    @property
    def format(self) -> Format:
        return Format.CSV

    def check(self) -> None:
        self._check_files(self.files.existing(self.stream))

    def decoder(self, columns: frozenset[str]) -> Decoder:
        fields = requested(self.stream, columns, time=True).fields
        header, names = self._header()
        places = tuple(self._place(field.name, names) for field in fields)
        parser = CsvParser(self.dialect, header, len(names), fields, places, self.stream.times)
        return make_decoder(self.stream, columns, parser)

    def read(
        self, position: Position | None, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Position]]:
        progress = Progress.of(position)
        begun = {*progress.offsets, *progress.done}
        self._check_files([file for file in self.files.files() if file.name not in begun])
        yield from read_lines(self.files, position, rows, growing=growing)

    def _header(self) -> tuple[str | None, list[str]]:
        """The header line, if there is one, and the names of the fields."""
        if not self.dialect.header:
            return None, list(self.stream.schema.names)
        lines = (first_line(self.files, file) for file in self.files.existing(self.stream))
        line = next(filter(None, lines), "")
        if not line:
            message = f"stream '{self.stream.name}': {self.files.location} is empty: there is no header to go by"
            raise DataError("D103", message, hint="write the header line, or add the option header = 'false'")
        return line, self._names(line)

    def _names(self, line: str) -> list[str]:
        return [name.strip() for name in self.dialect.fields(line)]

    def _place(self, name: str, names: Sequence[str]) -> int:
        place = find_name(name, names)
        if place is None:
            raise no_such_column(self.stream, self.files.location, name, names, hint=_NO_HEADER)
        return place

    def _check_files(self, files: Sequence[File]) -> None:
        """Whether files begin as all do; an empty one may get its lines later."""
        header = self._header()[0] if files else None
        for file in files:
            line = first_line(self.files, file)
            if line and header is not None:
                self._check_header(file, line, header)
            elif line:
                self._check_width(file, line)

    def _check_header(self, file: File, line: str, first: str) -> None:
        names = self._names(line)
        for field in self.stream.schema:
            if find_name(field.name, names) is None:
                raise no_such_column(self.stream, file.path, field.name, names, hint=_NO_HEADER)
        if line != first:
            message = f"stream '{self.stream.name}': {file.path} has another header than the files before it"
            shown = f"{message}\n   first: {first}\n   here:  {line}"
            raise DataError("D103", shown, hint="declare one stream for each kind of file")

    def _check_width(self, file: File, line: str) -> None:
        found, declared = len(self.dialect.fields(line)), len(self.stream.schema)
        if found != declared:
            message = f"stream '{self.stream.name}': the first line of {file.path} has {_counted(found)}"
            shown = f"{message}\n   declared: {', '.join(self.stream.schema.names)}\n   found:    {line}"
            raise DataError("D103", shown, hint="declare every column")


_NO_HEADER = "If the first line is data, add the option header = 'false'."


def _is_character(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in "\r\n\0"


def _counted(fields: int) -> str:
    return "1 field" if fields == 1 else f"{fields} fields"


def _single(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array; a column without rows may have no chunk at all."""
    return column.combine_chunks()
