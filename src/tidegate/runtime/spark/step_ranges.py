"""Choose the ranges that a step reads, and divide them among tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from time import perf_counter

from tidegate.connectors.ranges import Point, RangeEnd, Source, SourcePosition, SourceRange
from tidegate.connectors.source import step_limits

ROWS_PER_STEP = 2_000_000
"""Number of rows that a step reads of a stream, unless fewer are available."""

_FIRST_BYTES_PER_ROW = 40
"""Estimate of the length of a row in a text file, before the first one was read."""

_BYTES_PER_STORED_ROW = 10
"""Estimate of the length of a row in a file of columns or a compressed one."""

_LARGE_FILE = 32 << 20
"""Files of columns that are larger than this are read in parts."""


class RangeQueue:
    """The ranges of a stream that wait to be read, and the position before them."""

    def __init__(self, source: Source, position: SourcePosition) -> None:
        self.source, self.position = source, position
        self._waiting: list[SourceRange] = []
        self._taken: list[tuple[SourceRange, SourceRange]] = []  # as taken, and as it waited
        self._bytes_per_row = float(_FIRST_BYTES_PER_ROW)
        self._ahead: list[SourceRange] = []
        self._ended: set[str] = set()
        """Files of columns that may have been cut after their last row: their rest is read as a whole."""
        self.listing_seconds = 0.0
        """How long the last listing took."""

    def list_ranges(self, *, growing: bool) -> None:
        """List the source, unless listed ranges still wait."""
        if not self._waiting:
            self._waiting = self._list_after(self.position, growing=growing)

    def list_ahead(self, *, growing: bool) -> None:
        """List the source for the step after the one that runs, unless that one leaves ranges waiting."""
        if not self._waiting and all(taken.end == waiting.end for taken, waiting in self._taken):
            # Where ranges end is known, but not how many lines they have: `settle` sets where the next ones begin.
            ends = [RangeEnd(taken, Point(taken.end or 0)) for taken, _ in self._taken]
            self._ahead = self._list_after(self.position.after(ends), growing=growing)

    def _list_after(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        began = perf_counter()
        found = self.source.find_ranges(position, growing=growing)
        self.listing_seconds = perf_counter() - began
        return found

    def forget_listing(self) -> None:
        self._waiting = []

    def take(self, rows: int, *, in_parts: bool = False) -> tuple[SourceRange, ...]:
        """Return the next ranges, with about as many rows.

        With `in_parts`, row groups of files of columns are cut, too, although each of their parts reads all of it.
        """
        limits = step_limits(self.source)
        rows = min(rows, limits.rows or rows)
        left = int(rows * self._bytes_per_row) if self.source.counts_bytes else rows
        self._taken = []
        while self._waiting and left > 0 and len(self._taken) != limits.ranges:
            waiting = self._next_waiting()
            taken = self._cut(waiting, left, in_parts=in_parts)
            self._taken.append((taken, waiting))
            left -= _rows_of(taken) if taken.end is None else _size_of(taken)
        return tuple(taken for taken, _ in self._taken)

    def _cut(self, waiting: SourceRange, size: int, *, in_parts: bool) -> SourceRange:
        """Return the beginning of a range that is larger than `size`."""
        # Of files of columns, only whole row groups are read: their number of rows is not known here.
        has_groups = waiting.mark is not None and not self.source.counts_bytes
        is_short = waiting.part in self._ended or _rows_of(waiting) <= size
        if has_groups and (is_short or not in_parts):
            return waiting
        if waiting.end is None and not has_groups:
            return waiting
        end = waiting.begin.offset + size
        return replace(waiting, end=end if waiting.end is None else min(waiting.end, end))

    def _next_waiting(self) -> SourceRange:
        """Return the next range; one in a large file of columns is divided first."""
        first = self._waiting.pop(0)
        if first.end is None and not self.source.counts_bytes and _size_of(first) > _LARGE_FILE:
            parts = self.source.split_range(first, -(-_size_of(first) // _LARGE_FILE))
            first, self._waiting = parts[0], [*parts[1:], *self._waiting]
        return first

    def settle(self, ends: Sequence[RangeEnd], rows: int) -> None:
        """Advance the position after the ranges of a step were read, which had some rows."""
        self.position = self.position.after(ends)
        reached = {each.range.part: each for each in ends}
        cut = [taken for taken, waiting in self._taken if waiting.end is None and taken.end is not None]
        if rows < sum(map(_size_of, cut)):
            self._ended |= {each.part for each in cut}
        rest = [_rest_of(taken, waiting, reached.get(taken.part)) for taken, waiting in self._taken]
        bad = {each.range.part for each in ends if each.is_bad}
        self._waiting = [each for each in (*rest, *self._waiting) if each is not None and each.part not in bad]
        self._taken = []
        # A bad file is not read further, but it may have been replaced.
        ahead, self._ahead = (each for each in self._ahead if each.part not in bad or each.is_replaced), []
        self._waiting += [replace(each, begin=self._begin_of(each, reached)) for each in ahead]
        if self.source.counts_bytes and rows:
            read = sum(each.reached.offset - each.range.begin.offset for each in ends)
            self._bytes_per_row = max(1.0, read / rows)

    def _begin_of(self, listed: SourceRange, reached: Mapping[str, RangeEnd]) -> Point:
        """Return where a range begins that was listed while its part was read."""
        return self.position.of_part(listed.part).point if listed.part in reached else listed.begin


def _rest_of(taken: SourceRange, waiting: SourceRange, end: RangeEnd | None) -> SourceRange | None:
    """Return what is left of a range of which only the first part was taken."""
    if taken.end == waiting.end or end is None or end.reached <= taken.begin:
        return None
    return replace(waiting, begin=end.reached)


def _rows_of(each: SourceRange) -> int:
    """Return about how many rows a range has that counts rows."""
    return _size_of(each) if each.end is not None else _size_of(each) // _BYTES_PER_STORED_ROW


def _size_of(each: SourceRange) -> int:
    """Return the size of a range in its unit; for whole files of columns, the bytes of the file."""
    if each.end is not None:
        return each.end - each.begin.offset
    return each.mark.size if each.mark is not None else 0


def divide(
    sources: Mapping[str, Source], ranges: Mapping[str, Sequence[SourceRange]], tasks: int
) -> list[list[tuple[str, SourceRange]]]:
    """Divide ranges among tasks, so that each gets about as much to read; large ranges are split."""
    pieces: list[tuple[str, SourceRange]] = []
    for stream, some in ranges.items():
        parts = max(1, tasks // max(1, len(some)))
        pieces += [(stream, p) for each in some for p in sources[stream].split_range(each, parts)]
    shares: list[list[tuple[str, SourceRange]]] = [[] for _ in range(min(tasks, len(pieces)))]
    sizes = [0] * len(shares)
    for piece in sorted(pieces, key=lambda each: -_size_of(each[1])):
        least = sizes.index(min(sizes))
        shares[least].append(piece)
        sizes[least] += _size_of(piece[1])
    return shares


def total_bytes(sources: Mapping[str, Source], ranges: Mapping[str, Sequence[SourceRange]]) -> int:
    """Return an estimate of the bytes in ranges."""
    return sum(
        _size_of(each) * (1 if sources[stream].counts_bytes or each.end is None else _FIRST_BYTES_PER_ROW)
        for stream, some in ranges.items()
        for each in some
    )
