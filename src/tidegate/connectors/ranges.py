"""Ranges: the parts of sources that a step reads.

A step of a run is a set of ranges, recorded before it runs. A repeated step reads the same ranges, so it reads the same
rows. A source has *parts* (its files, or one part without a name) and counts in each part: bytes in a text file, rows
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import pyarrow as pa

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format


class Point(NamedTuple):
    """Position in a part of a source: the number of bytes (or rows) and of line ends before it."""

    offset: int = 0
    lines: int = 0

    def advance(self, offset: int, lines: int) -> Point:
        return Point(self.offset + offset, self.lines + lines)


BEGIN = Point()


class FileMark(NamedTuple):
    """What a file looked like when it was listed. If it looks different later, it was changed."""

    size: int
    changed: int = 0
    """Modification time in nanoseconds since 1970; 0 if unknown."""
    tail: int | None = None
    """Checksum of the last bytes; None for files that do not grow, or that are far away."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Rows of one part of a source: those that begin at or after `begin` and before `end`."""

    part: str
    begin: Point = BEGIN
    end: int | None = None
    """None: up to the end of the part, whatever its size."""
    is_final: bool = True
    """Whether a last line without a line end counts as a row, because no more is written to it."""
    mark: FileMark | None = None
    """What the file looked like; None for parts that are not files."""
    is_replaced: bool = False
    """Whether the file is another one than the file of this name that was read before: its rows are not read."""


class PartProgress(NamedTuple):
    """How far a part has been read: up to `point`, after looking at everything before `seen`."""

    point: Point = BEGIN
    seen: int = 0
    """Greater than the offset of the point if the last line is incomplete."""
    is_done: bool = False
    """Whether the part is never read again: it was read to its end, or is a bad file."""
    mark: FileMark | None = None


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Position in a source, by part; reading resumes exactly there."""

    parts: Mapping[str, PartProgress] = field(default_factory=dict)

    def of_part(self, part: str) -> PartProgress:
        return self.parts.get(part, PartProgress())

    def after(self, read: Sequence[RangeEnd]) -> SourcePosition:
        """Return the position after some ranges were read; ranges of one part are in order."""
        return SourcePosition({**self.parts, **{each.range.part: each.progress for each in read}})


START = SourcePosition()
"""Position before everything."""


@dataclass(frozen=True, slots=True)
class RangeEnd:
    """How far a range was read."""

    range: SourceRange
    reached: Point
    is_exhausted: bool = True
    """Whether the range was read to its end."""
    is_bad: bool = False
    """Whether the range belongs to a bad file, which is set aside."""

    @property
    def progress(self) -> PartProgress:
        """Progress in the part of the range."""
        whole = self.is_exhausted and self.range.end is None
        seen = self.range.end if self.is_exhausted and self.range.end is not None else self.reached.offset
        seen = max(seen, self.reached.offset)
        return PartProgress(self.reached, seen, self.is_bad or whole, self.range.mark)

    @property
    def read(self) -> SourceRange:
        """The range that ends where reading stopped; reading it gives the same rows."""
        return self.range if self.is_exhausted or self.is_bad else replace(self.range, end=self.reached.offset)

    @property
    def rest(self) -> SourceRange | None:
        """The rest of a range that was not read to its end."""
        return None if self.is_exhausted or self.is_bad else replace(self.range, begin=self.reached)


class Source(Protocol):
    """Source of the rows of a stream.

    A raw batch of CSV or JSON lines has one string column `line`; other raw batches have typed,
    named columns. The decoder converts both to elements.
    """

    @property
    def stream(self) -> SourceStream: ...

    @property
    def format(self) -> Format: ...

    @property
    def counts_bytes(self) -> bool:
        """Whether ranges count bytes; otherwise they count rows."""
        ...

    def check(self) -> None:
        """Raise a DataError if the data is missing or does not match the declaration of the stream."""
        ...

    def decoder(self, columns: frozenset[str]) -> Decoder:
        """Return a decoder for some of the declared columns."""
        ...

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        """Return what can be read after a position, in order; at most one range per part.

        With `growing`, a last line without a line end is considered incomplete and left for later.
        """
        ...

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        """Split a range into at most `parts` ranges of similar size that hold the same rows."""
        ...

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        """Yield raw batches of at most `rows` rows of a range, each with the point after it.

        With `columns`, a source of typed columns may omit other columns.
        """
        ...


def split_rows(whole: SourceRange, parts: int, *, end: int) -> list[SourceRange]:
    """Split a range that counts rows into ranges of similar size.

    Examples
    --------
    >>> [(r.begin.offset, r.end) for r in split_rows(SourceRange("", Point(1), 8), 3, end=8)]
    [(1, 4), (4, 7), (7, 8)]
    """
    begin = whole.begin.offset
    size = -(-(end - begin) // parts)
    starts = range(begin, end, max(1, size))
    ends = [*starts[1:], whole.end]
    return [replace(whole, begin=Point(first), end=last) for first, last in zip(starts, ends, strict=True)]
