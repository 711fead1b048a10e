"""Read text files as raw batches of lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Bytes, Ints
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.file_ranges import open_listed_file
from tidegate.connectors.files import File, FileSet, to_bad_file_error
from tidegate.connectors.formats import count_option
from tidegate.connectors.lines import BYTE_ORDER_MARK, LINE, mark_cut_lines
from tidegate.connectors.origins import with_places
from tidegate.connectors.quoted_lines import record_starts
from tidegate.connectors.ranges import Point, SourceRange
from tidegate.errors import DataError

BLOCK = 4 << 20
"""Number of bytes read at once."""

MAX_LINE = "max_line_bytes"
MAX_LINE_BYTES = 4 << 20
"""Default maximum length of a line; the option `max_line_bytes` overrides it."""

KEPT_BYTES = 1000
"""Maximum number of bytes kept of a line that is too long."""

_FIRST_BLOCK = 1 << 16
_ROW_BLOCK = 1 << 16
"""Number of bytes read at once to find the end of a row."""

_ENDLESS = 1 << 62


@dataclass(frozen=True, slots=True)
class LineRules:
    """Rules for splitting lines: with a `quote`, quoted fields may contain line ends; `limit` is the longest line."""

    limit: int = MAX_LINE_BYTES
    delimiter: str = ","
    quote: str = ""

    @property
    def kept_bytes(self) -> int:
        """Number of bytes kept of a line that is too long."""
        return min(self.limit, KEPT_BYTES)

    @staticmethod
    def of(stream: SourceStream, *, delimiter: str = ",", quote: str = "") -> LineRules:
        """Return the rules for a stream's files."""
        return LineRules(count_option(stream, MAX_LINE) or MAX_LINE_BYTES, delimiter, quote)


About = Callable[[File], Mapping[bytes, bytes]]
"""Function that returns metadata for the raw batches of a file; called only if there is something to read."""

_NOTHING: Mapping[bytes, bytes] = {}


def read_lines(
    files: FileSet, part: SourceRange, rows: int, rules: LineRules, *, about: About = lambda _: _NOTHING
) -> Iterator[tuple[pa.RecordBatch, Point]]:
    """Yield raw batches of the rows of a range, each with the point after it.

    A compressed file is not opened again later, so a last line without a line end always counts.
    """
    with open_listed_file(files, part) as file:
        if file.is_compressed and not part.begin.offset:
            files.verify(file)
        said: Mapping[bytes, bytes] | None = about(file) if file.is_compressed else None
        line = part.begin.lines + 1
        with files.open(file, offset=part.begin.offset) as data:
            for found in rows_of_range(data, file, part, rows, rules):
                said = about(file) if said is None else said
                batch = _raw_batch(found, rules, file, line)
                yield batch.replace_schema_metadata({**(batch.schema.metadata or {}), **said}), found.after
                line = found.after.lines + 1


def rows_of_range(data: Any, file: File, part: SourceRange, rows: int, rules: LineRules) -> Iterator[_FileRows]:
    if file.is_compressed:
        end = _ENDLESS if part.end is None else part.end
        return stream_rows(data, part.begin, rows, rules, BLOCK, growing=False, end=end)
    size = file.size if part.mark is None else part.mark.size
    listed = _ListedBytes(data, size - part.begin.offset)
    end = size if part.end is None else part.end
    return stream_rows(listed, part.begin, rows, rules, BLOCK, growing=not part.is_final, end=end)


class _ListedBytes:
    """The bytes of a file that were listed; later ones are not read, so that reading again gives the same."""

    def __init__(self, data: Any, left: int) -> None:
        self.data, self.left = data, left

    def read(self, size: int) -> bytes:
        block: bytes = self.data.read(min(size, self.left))
        self.left -= len(block)
        return block


def first_line(files: FileSet, file: File, rules: LineRules) -> str:
    """Return the first line of a file without its end; empty if the file is empty."""
    text, found = b"", _split_complete_rows(b"", rules, is_final=False)
    with files.open(file) as data:
        while not len(found.texts) and len(text) <= rules.limit and (block := data.read(_FIRST_BLOCK)):
            text += block
            found = _split_complete_rows(text, rules, is_final=False)
    first = found.texts[0].as_py() if len(found.texts) else text
    if len(first) > rules.limit:
        message = f"the first line of {file.path} is longer than {rules.limit:,} bytes"
        raise to_bad_file_error(
            file, DataError("D108", message, hint=f"is it a text file? If so, set the option {MAX_LINE}")
        )
    return str(first.decode("utf-8", errors="replace").removesuffix("\r").removeprefix(BYTE_ORDER_MARK))


class _FileRows(NamedTuple):
    """Some rows of a file, as bytes.

    `offsets` has the distance in lines of each row from the first; None if every row is one line. `cut` has the
    rows that were cut. `after` is the point in the file after the rows.
    """

    texts: pa.Array
    offsets: Ints | None
    cut: Ints
    after: Point


def _raw_batch(part: _FileRows, rules: LineRules, file: File, first: int) -> pa.RecordBatch:
    """Return a raw batch with a string column of unchecked bytes; the decoder checks that they are UTF-8."""
    texts = pa.concat_arrays([part.texts]) if part.texts.offset else part.texts
    _, starts, data = texts.buffers()
    batch = pa.RecordBatch.from_arrays([pa.StringArray.from_buffers(len(texts), starts, data)], [LINE])
    if len(part.cut):
        batch = mark_cut_lines(batch, part.cut, rules.limit)
    return with_places(batch, file.path, first, part.offsets)


def stream_rows(
    data: Any, at: Point, rows: int, rules: LineRules, block_size: int, *, growing: bool, end: int = _ENDLESS
) -> Iterator[_FileRows]:
    """Yield the rows that begin before `end`, at most `rows` at once; if `growing`, leave an incomplete last line."""
    rest, read_to = b"", at.offset
    while at.offset < end:
        # Beyond the end only the rest of a row that began before it is needed.
        block = data.read(min(block_size, max(end - read_to, _ROW_BLOCK)))
        if not block:
            yield from _split_rows(_split_complete_rows(rest, rules, is_final=not growing), at, rows, rules, end)
            return
        rest, read_to = rest + block, read_to + len(block)
        if b"\n" in block or len(rest) > rules.limit:
            found = _split_complete_rows(rest, rules, is_final=False)
            yield from _split_rows(found, at, rows, rules, end)
            rest, at = rest[found.size :], at.advance(found.size, found.lines)
        if len(rest) > rules.limit and at.offset < end:
            # Keep only the beginning of an overlong line, so that memory does not depend on its length.
            skipped, after = _skip_line(data, block_size)
            if after is None and growing:
                return
            read_to += skipped + len(after or b"")
            at = at.advance(len(rest) + skipped, 0 if after is None else 1)
            yield _FileRows(pa.array([rest[: rules.kept_bytes]], pa.binary()), None, np.zeros(1, np.int64), at)
            rest = after or b""


def _skip_line(data: Any, block_size: int) -> tuple[int, bytes | None]:
    """Read to the end of a line; return the number of bytes, and what follows, which is None at the end of the file."""
    size = 0
    while block := data.read(block_size):
        line, end, after = block.partition(b"\n")
        size += len(line) + len(end)
        if end:
            return size, after
    return size, None


class _CompleteRows(NamedTuple):
    """Complete rows at the beginning of a text.

    `starts` has the first line of each row; None if every row is one line. `size` and `lines` are the numbers of bytes
    and line ends that the rows take up.
    """

    texts: pa.Array
    starts: Ints | None
    size: int
    lines: int


def _split_complete_rows(text: bytes, rules: LineRules, *, is_final: bool) -> _CompleteRows:
    """Split a text at its line ends; a last line without an end counts only if the text `is_final`."""
    whole = len(text) if is_final else text.rfind(b"\n") + 1
    if not whole:
        return _CompleteRows(pa.array([], pa.binary()), None, 0, 0)
    is_ended = text[whole - 1] == ord("\n")
    # Split the buffer itself, to avoid a copy of the text.
    bounds = pa.py_buffer(np.array([0, whole - is_ended], np.int32))
    lines = pc.split_pattern(pa.Array.from_buffers(pa.binary(), 1, [None, bounds, pa.py_buffer(text)]), "\n").values
    if rules.quote and rules.quote.encode() in text:
        return _join_lines(text, lines, rules, whole, is_final=is_final)
    return _CompleteRows(lines, None, whole, len(lines) - (not is_ended))


def _join_lines(text: bytes, lines: pa.Array, rules: LineRules, whole: int, *, is_final: bool) -> _CompleteRows:
    """Join lines into one row where a quoted field contains line ends."""
    ends = _text_offsets(lines)[1:] + np.arange(len(lines))
    breaks = int((ends < whole).sum())
    data = np.frombuffer(text, np.uint8)
    starts, taken = _find_rows(text, data, ends, rules, is_final=is_final)
    size = min(int(ends[taken - 1]) + 1, whole) if taken else 0
    if len(starts) == taken:
        return _CompleteRows(lines.slice(0, taken), None, size, min(taken, breaks))
    lists = pa.ListArray.from_arrays(pa.array(np.append(starts, taken), pa.int32()), lines)
    return _CompleteRows(pc.binary_join(lists, b"\n"), starts, size, min(taken, breaks))


def _find_rows(text: bytes, data: Bytes, ends: Ints, rules: LineRules, *, is_final: bool) -> tuple[Ints, int]:
    """Return the first line of each row, and the number of lines of these rows; `ends` are those of all lines."""
    marks = ord(rules.delimiter), ord(rules.quote), rules.limit
    # Often only the names of columns are quoted. Where no quote is open, lines without quotes are rows.
    quoted = int(np.searchsorted(ends, text.rfind(rules.quote.encode()))) + 1
    starts, taken = record_starts(data, ends[:quoted], *marks, quoted == len(ends) and is_final)
    if taken == quoted:
        return np.concatenate((starts, np.arange(quoted, len(ends)))), len(ends)
    return record_starts(data, ends, *marks, is_final)


def _split_rows(found: _CompleteRows, at: Point, rows: int, rules: LineRules, end: int) -> Iterator[_FileRows]:
    """Split the rows that begin before `end` into parts of at most `rows`."""
    if not len(found.texts):
        return
    after, bounds = at.advance(found.size, found.lines), _text_offsets(found.texts)
    count = len(found.texts) if at.offset + found.size <= end else _rows_before(bounds, end - at.offset)
    for first in range(0, count, rows):
        last = min(first + rows, count)
        starts = None if found.starts is None else found.starts[first : last + 1]
        lines = last - first if starts is None else int(starts[-1] - starts[0])
        size = int(bounds[last] - bounds[first]) + last - first
        at = after if last == len(found.texts) else at.advance(size, lines)
        offsets = None if starts is None else starts[: last - first] - starts[0]
        texts, cut = found.texts.slice(first, last - first), np.zeros(0, np.int64)
        if bounds[last] - bounds[first] > rules.limit:
            texts, cut = _cut_long_lines(texts, bounds[first : last + 1], rules)
        yield _FileRows(texts, offsets, cut, at)


def _rows_before(bounds: npt.NDArray[np.int32], end: int) -> int:
    """Return the number of rows that begin before `end`; each row is followed by a line end."""
    rows = len(bounds) - 1
    return int(np.searchsorted(bounds[:-1].astype(np.int64) - bounds[0] + np.arange(rows), end))


def _cut_long_lines(texts: pa.Array, bounds: npt.NDArray[np.int32], rules: LineRules) -> tuple[pa.Array, Ints]:
    """Cut lines that are too long; return their positions, too. A row of several lines is never too long."""
    is_long = np.diff(bounds) > rules.limit
    return pc.if_else(is_long, pc.binary_slice(texts, 0, rules.kept_bytes), texts), np.flatnonzero(is_long)


def _text_offsets(texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return the offsets of the texts in their common buffer."""
    return np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
