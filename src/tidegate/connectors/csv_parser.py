"""Parse CSV as defined by RFC 4180.

A quoted field may contain line ends, and doubled quotes. A quote inside an unquoted field is an ordinary
character. An empty field is NULL unless it is quoted. Each file has its own header, and columns are found
by name.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv

from tidegate.arrays import Mask
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.csv_numbers import parse_plain_lines
from tidegate.connectors.decode import (
    ParsedColumn,
    ParsedRows,
    parse_texts,
)
from tidegate.connectors.formats import check_options, find_name, flag_option, option
from tidegate.connectors.lines import BYTE_ORDER_MARK, clean_lines, has_cut_lines, is_any_true, join_lines
from tidegate.connectors.text_files import MAX_LINE
from tidegate.errors import DataError
from tidegate.schema import Field, Type

NO_QUOTES = ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Dialect of a CSV file; `null` is a text for NULL besides the empty one."""

    header: bool = True
    delimiter: str = ","
    quote: str = '"'
    null: str = ""

    @staticmethod
    def of(stream: SourceStream) -> Dialect:
        """Return the dialect that the stream's options describe."""
        check_options(stream, ("header", "delimiter", "quote", "null", MAX_LINE))
        delimiter = option(stream, "delimiter", default=",")
        delimiter = "\t" if delimiter in ("\\t", "tab") else delimiter
        quote = option(stream, "quote", default='"')
        if not _is_character(delimiter) or (quote and not _is_character(quote)) or quote == delimiter:
            message = f"stream '{stream.name}': delimiter = '{delimiter}', quote = '{quote}'"
            raise DataError(
                "D105", message, hint="each must be one ASCII character, and they must differ; quote may be empty"
            )
        return Dialect(
            flag_option(stream, "header", default=True), delimiter, quote, option(stream, "null", default="")
        )

    def fields(self, line: str) -> list[str]:
        """Split a line into fields."""
        quoting = {"quotechar": self.quote} if self.quote else {"quoting": csv.QUOTE_NONE}
        return next(csv.reader([line], delimiter=self.delimiter, **quoting), [])

    def names(self, header: str) -> list[str]:
        """Return the column names in a header line."""
        return [name.strip() for name in self.fields(header)]

    @property
    def pattern(self) -> str:
        """Regular expression for a well-formed record: quotes are closed, and line ends are inside quotes."""
        if self.quote == NO_QUOTES:
            return r"^[^\r\n]*$"
        d, q = re.escape(self.delimiter), re.escape(self.quote)
        field = rf"(?:{q}(?:[^{q}]|{q}{q})*{q}|(?:[^{q}{d}\r\n][^{d}\r\n]*)?)"
        return rf"^{field}(?:{d}{field})*$"


_DIRECT = (Type.INT, Type.BIGINT, Type.REAL, Type.DOUBLE)
"""Types that Arrow parses as we do."""


@dataclass(frozen=True, slots=True)
class CsvParser:
    """Parser of CSV lines; `header` is the line to skip, `width` the number of fields of a line."""

    dialect: Dialect
    header: str | None
    width: int
    fields: tuple[Field, ...]
    places: tuple[int, ...]
    times: frozenset[str]

    def parse(self, raw: pa.RecordBatch) -> ParsedRows:
        return self.parse_block(raw) or self.parse_carefully(raw)

    def parse_block(self, raw: pa.RecordBatch) -> ParsedRows | None:
        """Let Arrow parse all lines at once; return None if the result might differ from `parse_carefully`."""
        texts, places = raw.column(0), None
        if self.header is not None and len(texts) and texts[0].as_py() == self.header:
            texts, places = texts.slice(1), np.arange(1, len(texts))
        if not self._is_plain(raw, texts):
            return None
        try:
            texts.validate(full=True)  # UTF-8
            columns = self._parse_numbers(texts) or self._parse_columns(texts)
        except pa.ArrowInvalid:
            return None
        if columns is None:
            return None
        parsed = {}
        for field, column in zip(self.fields, columns, strict=True):
            if field.type in _DIRECT:
                parsed[field.name] = ParsedColumn(column, np.zeros(len(column), np.bool_), column)
            else:
                parsed[field.name] = parse_texts(column, field.type, is_time=field.name in self.times)
        return ParsedRows(texts, parsed, {}, places)

    def _parse_numbers(self, texts: pa.Array) -> list[pa.Array] | None:
        """Parse lines that are plainer still by a loop of our own."""
        types = [field.type for field in self.fields]
        if self.dialect.null or Type.REAL in types:
            return None
        return parse_plain_lines(texts, self.width, self.places, types, self.dialect.delimiter)

    def _parse_columns(self, texts: pa.Array) -> list[pa.Array] | None:
        """Let Arrow parse lines; return None if it finds another number of them."""
        types = [field.type.arrow if field.type in _DIRECT else pa.string() for field in self.fields]
        table = self._read_columns(join_lines(texts), types)
        if table.num_rows != len(texts):
            return None
        return [_single_array(table.column(str(place))) for place in self.places]

    def _is_plain(self, raw: pa.RecordBatch, texts: pa.Array) -> bool:
        """Return whether Arrow's parser agrees with ours on these lines, if it can read them.

        An empty line is no row, but Arrow makes one of it. A repeated header is no row. Arrow reads 0x10 as 16.
        """
        direct = any(field.type in _DIRECT for field in self.fields)
        if not direct or self.width == 1 or not len(texts) or has_cut_lines(raw):
            return False
        _, offsets, buffer = texts.buffers()
        bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        data = buffer.slice(bounds[0], bounds[-1] - bounds[0]).to_pybytes() if buffer is not None else b""
        unlike = (self.dialect.quote.encode(), b"\0", b"x", b"X", BYTE_ORDER_MARK.encode()[:1])
        if any(each in data for each in unlike if each) and not self._is_like(data):
            return False
        return bool(np.diff(bounds).min() >= self.width - 1 + (b"\r" in data))

    def _is_like(self, data: bytes) -> bool:
        """Look more closely at a text with a suspicious character."""
        unlike = (self.dialect.quote.encode(), b"\0", b"0x", b"0X", BYTE_ORDER_MARK.encode())
        return not any(each in data for each in unlike if each)

    def parse_carefully(self, raw: pa.RecordBatch) -> ParsedRows:
        """Parse each line by itself as far as needed, which is slower and defines the meaning of a line."""
        lines = clean_lines(raw, header=self.header)
        broken = self._find_ill_formed(lines.texts) | lines.broken
        sound = np.ones(len(lines.texts), np.bool_)
        sound[list(broken)] = False
        texts, counts = self._split_fields(lines.texts, sound)
        columns = {
            field.name: parse_texts(column, field.type, is_time=field.name in self.times)
            for field, column in zip(self.fields, texts, strict=True)
        }
        return ParsedRows(lines.texts, columns, broken | counts, lines.places)

    def _find_ill_formed(self, texts: pa.Array) -> dict[int, str]:
        """Describe the errors of ill-formed lines; only lines with quotes or line ends inside are checked."""
        suspects = pc.match_substring_regex(texts, f"[\r\n{re.escape(self.dialect.quote)}]")
        if not is_any_true(suspects):
            return {}
        rows = np.flatnonzero(suspects.to_numpy(zero_copy_only=False))
        sound = pc.match_substring_regex(texts.take(pa.array(rows)), self.dialect.pattern)
        wrong = rows[~sound.to_numpy(zero_copy_only=False)]
        return {row: self._describe_fault(texts[row].as_py()) for row in wrong.tolist()}

    def _describe_fault(self, text: str) -> str:
        if self.dialect.quote and self.dialect.quote in text:
            return "a quote is not closed, or is followed by something other than a delimiter"
        return "the line contains a carriage return"

    def _split_fields(self, texts: pa.Array, sound: Mask) -> tuple[list[pa.Array], dict[int, str]]:
        """Return the requested fields as texts, with NULL for bad lines, and the errors of lines with a wrong width."""
        rows = np.flatnonzero(sound)
        wrong: dict[int, str] = {}
        if not len(rows):
            return [pa.nulls(len(texts), pa.string()) for _ in self.fields], wrong

        def note_wrong_width(row: Any) -> str:
            wrong[int(rows[row.number - 1])] = (
                f"{field_count_text(row.actual_columns)} where {row.expected_columns} belong"
            )
            return "skip"

        lines = join_lines(texts if sound.all() else texts.take(pa.array(rows)))
        table = self._read_columns(lines, [pa.string()] * len(self.fields), note_wrong_width)
        columns = [_single_array(table.column(str(place))) for place in self.places]
        if len(wrong) + len(texts) - len(rows) == 0:
            return columns, wrong
        sound = sound.copy()
        sound[list(wrong)] = False
        places = pa.array(np.cumsum(sound) - 1, mask=~sound)
        return [column.take(places) for column in columns], wrong

    def _read_columns(self, text: pa.Buffer, types: Sequence[pa.DataType], note: Any = None) -> pa.Table:
        """Read the requested fields; `note` is called for each line with another number of fields."""
        names = [str(i) for i in range(self.width)]
        used = {str(place): type_ for place, type_ in zip(self.places, types, strict=True)}
        # Use one block and one thread: otherwise the handler does not get the number of the row.
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
                include_columns=list(used),
                column_types=used,
                null_values=["", self.dialect.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )


HEADER = b"tidegate.header"
"""Metadata key of a raw batch for the header line of its file."""


@dataclass(frozen=True, slots=True)
class FileParser:
    """Parser that uses the header of the file that a raw batch comes from."""

    stream: SourceStream
    dialect: Dialect
    fields: tuple[Field, ...]

    def parse(self, raw: pa.RecordBatch) -> ParsedRows:
        header = (raw.schema.metadata or {}).get(HEADER)
        line = None if header is None else header.decode()
        names = self.stream.schema.names if line is None else self.dialect.names(line)
        places = [place for field in self.fields if (place := find_name(field.name, names)) is not None]
        parser = CsvParser(self.dialect, line, len(names), self.fields, tuple(places), self.stream.times)
        return parser.parse(raw)


def _is_character(text: str) -> bool:
    return len(text) == 1 and text.isascii() and text not in "\r\n\0"


def field_count_text(fields: int) -> str:
    return "1 field" if fields == 1 else f"{fields} fields"


def _single_array(column: pa.ChunkedArray) -> pa.Array:
    """Return the column as one array; a column without rows may have no chunks."""
    return column.combine_chunks()
