"""JSON lines: one object per line. Keys are column names in any case; other keys are ignored.

Reading line by line with `json` defines the meaning. A missing key is NULL. A number may have any form
that gives a value of the type (``1.0`` is an INT). A string is parsed like a field of a CSV file. An
object or array is a map or array, or a STRING with its JSON text. Blocks of lines go through Arrow's
faster reader where the result cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as arrow_json

from tidegate.catalog.catalog import SourceStream
from tidegate.collection_entries import entries_of, is_collection
from tidegate.connectors.decode import Decoder, ParsedColumn, ParsedRows, make_decoder, parse_texts, requested_schema
from tidegate.connectors.file_ranges import find_file_ranges
from tidegate.connectors.files import File, FileSet
from tidegate.connectors.formats import Format
from tidegate.connectors.json_keys import has_escapes, has_key, has_spelling, may_have_key, other_spellings, value_of
from tidegate.connectors.lines import Lines, clean_lines, is_any_true, join_lines
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange
from tidegate.connectors.text_files import LineRules, read_lines
from tidegate.connectors.text_splits import split_lines
from tidegate.expressions.parse.json_values import DECODER, is_unicode, text_of
from tidegate.schema import Field, Type

_PLAIN = (Type.BOOLEAN, Type.INT, Type.BIGINT, Type.REAL, Type.DOUBLE, Type.STRING)
_DIRECT = frozenset(t for t in Type if t in _PLAIN or (t.is_array and t.parts[0] in _PLAIN))
"""Types that Arrow's reader parses; values of other types are read as strings, then parsed."""


@dataclass(frozen=True, slots=True)
class JsonParser:
    """Parser of JSON lines."""

    fields: tuple[Field, ...]
    times: frozenset[str]

    def parse(self, raw: pa.RecordBatch) -> ParsedRows:
        lines = clean_lines(raw, space=" \t\r\n")
        return self.parse_block(lines) or self.parse_singly(lines)

    def parse_block(self, lines: Lines) -> ParsedRows | None:
        """Parse all lines at once; return None if the result might differ from `parse_singly`."""
        if not len(lines.texts) or lines.broken or not _is_plain(lines.texts):
            return None
        read = self._read_keys(lines.texts, [f.name for f in self.fields])
        table = None if read is None else self._with_other_spellings(lines.texts, read)
        if table is None:
            return None
        columns = {f.name: self._column_from_block(f, table.column(f.name).combine_chunks()) for f in self.fields}
        if any(_has_special(c.values) for c in columns.values()):
            return None
        empty = [f.name for f in self.fields if table.column(f.name).null_count == table.num_rows]
        lacking = frozenset(name for name in empty if not may_have_key(lines.texts, name))
        return ParsedRows(lines.texts, columns, {}, lines.places, lacking)

    def parse_singly(self, lines: Lines) -> ParsedRows:
        """Parse line by line, which is slower and defines the meaning of a line."""
        broken, objects = dict(lines.broken), []
        for row, line in enumerate(lines.texts.to_pylist()):
            value = _load_object(line) if row not in broken else {}
            if isinstance(value, str):
                broken[row] = value
            objects.append(value if isinstance(value, dict) else {})
        columns = {f.name: self._column_from_objects(f, objects) for f in self.fields}
        names = columns if len(broken) < len(objects) else ()
        lacking = frozenset(name for name in names if not any(has_key(each, name) for each in objects))
        return ParsedRows(lines.texts, columns, broken, lines.places, lacking)

    def _read_keys(self, texts: pa.Array, keys: Sequence[str]) -> pa.Table | None:
        """Read the values of keys, which may differ in case from their columns."""
        types = {f.name.lower(): f.type.arrow if f.type in _DIRECT else pa.string() for f in self.fields}
        table = _read_block(texts, pa.schema([(key, types[key.lower()]) for key in keys]))
        # Each line begins and ends with a brace, so equal numbers of rows and lines mean one row per line.
        return table if table is not None and table.num_rows == len(texts) else None

    def _with_other_spellings(self, texts: pa.Array, table: pa.Table) -> pa.Table | None:
        """Fill in values whose keys differ from the column's name in case; return None if they are ambiguous."""
        names = [name for name in table.column_names if table.column(name).null_count]
        if not names:
            return table
        missing = {name: table.column(name).combine_chunks().is_null() for name in names}
        searched = texts.filter(reduce(pc.or_, missing.values()))
        if has_escapes(searched, names):
            return None
        spellings = other_spellings(searched, names)
        if not spellings:
            return table
        if any(len(each) > 1 for each in spellings.values()):
            return None
        more = self._read_keys(texts, [spelling for (spelling,) in spellings.values()])
        for name, (spelling,) in spellings.items():
            if more is None or not _is_clear(texts, missing[name], more.column(spelling), name, spelling):
                return None
            filled = pc.coalesce(table.column(name), more.column(spelling))
            table = table.set_column(table.column_names.index(name), name, filled)
        return table

    def _column_from_block(self, field: Field, values: pa.Array) -> ParsedColumn:
        if field.type in _DIRECT:
            return ParsedColumn(values, np.zeros(len(values), np.bool_), values)
        return parse_texts(values, field.type, is_time=field.name in self.times)

    def _column_from_objects(self, field: Field, objects: list[dict[str, Any]]) -> ParsedColumn:
        texts = [text_of(value_of(each, field.name), field.type) for each in objects]
        column = pa.array([t if is_unicode(t) else None for t in texts], pa.string())
        parsed = parse_texts(column, field.type, is_time=field.name in self.times)
        wrong = np.fromiter((not is_unicode(t) for t in texts), np.bool_, len(texts))
        if not wrong.any():
            return parsed
        shown = [t if t is None else t.encode("utf-8", "backslashreplace").decode() for t in texts]
        return ParsedColumn(parsed.values, parsed.bad | wrong, pa.array(shown, pa.string()))


@dataclass(frozen=True, slots=True)
class JsonSource:
    """Source of one file of JSON lines, or a folder or glob of them."""

    stream: SourceStream
    files: FileSet
    rules: LineRules

    format: ClassVar[Format] = Format.JSONL
    counts_bytes: ClassVar[bool] = True

    def check(self) -> None:
        for file in self.files.existing_files(self.stream):
            self.check_file(file)

    def check_file(self, file: File) -> None:
        """Raise an error if the file as a whole is bad."""
        with self.files.open(file) as data:
            data.read(1)

    def decoder(self, columns: frozenset[str]) -> Decoder:
        fields = requested_schema(self.stream, columns, time=True).fields
        return make_decoder(self.stream, columns, JsonParser(fields, self.stream.times))

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        return find_file_ranges(self.files, position, growing=growing, appendable=True)

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        return split_lines(self.files, whole, parts, self.rules)

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        return read_lines(self.files, part, rows, self.rules)


def _is_plain(texts: pa.Array) -> bool:
    """Return whether Arrow's reader agrees with `json` on these lines, if it can read them.

    It stops reading at a NUL, and accepts `Inf` as a number.
    """
    braces = pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))
    odd = pc.or_(pc.match_substring(texts, "\0"), pc.match_substring(texts, "Inf"))
    return bool(pc.all(braces, min_count=0).as_py()) and not is_any_true(odd)


def _is_clear(texts: pa.Array, missing: pa.Array, values: pa.ChunkedArray, name: str, spelling: str) -> bool:
    """Return whether the values under another spelling belong to the column, in all lines without one under its name.

    They may not: a line may also have the exact key with NULL, or a string that looks like the key.
    """
    found = pc.and_(missing, values.combine_chunks().is_valid())
    looks_alike = pc.and_(missing, has_spelling(texts, spelling))
    return not is_any_true(pc.and_(found, has_spelling(texts, name))) and found.equals(looks_alike)


def _has_special(values: pa.Array) -> bool:
    """Return whether there is an infinity or NaN, also from a number that is too large for its type."""
    if is_collection(values.type):
        return _has_special(entries_of(values).values)
    return bool(pa.types.is_floating(values.type)) and is_any_true(pc.invert(pc.is_finite(values)))


def _read_block(texts: pa.Array, schema: pa.Schema) -> pa.Table | None:
    text = join_lines(texts)
    try:
        return arrow_json.read_json(
            pa.BufferReader(text),
            read_options=arrow_json.ReadOptions(use_threads=False, block_size=text.size + 1),
            parse_options=arrow_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
    except pa.ArrowInvalid:
        return None


def _load_object(line: str) -> dict[str, Any] | str:
    """Return the object of a line, or a description of the error."""
    try:
        value = DECODER.decode(line)
    except json.JSONDecodeError as error:
        return f"the line is not JSON: {error.msg} at character {error.pos + 1}"
    except RecursionError:
        return "the line is nested too deeply"
    return value if isinstance(value, dict) else "the line is not a JSON object"
