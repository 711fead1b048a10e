"""Split ranges of text files at line ends, so that several tasks can read one file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tidegate.connectors.file_ranges import open_listed_file
from tidegate.connectors.files import File, FileSet
from tidegate.connectors.ranges import Point, SourceRange
from tidegate.connectors.text_files import LineRules, rows_of_range
from tidegate.errors import BadFileError

SMALLEST = 4 << 20
"""Fewest bytes of a part: less is read faster by one task than by two."""

_BLOCK = 1 << 20
_LINE_BLOCK = 1 << 14
_ROWS_BETWEEN_CUTS = 1024


def split_lines(files: FileSet, whole: SourceRange, parts: int, rules: LineRules) -> list[SourceRange]:
    """Split a range of a text file into ranges of similar size that begin at rows.

    All bytes are looked at, because a line end inside quotes does not end a row, and because messages have line
    numbers. That takes a small part of the time that decoding takes.
    """
    begin, end = whole.begin.offset, whole.end
    if end is None or whole.is_replaced:
        return [whole]
    parts = min(parts, (end - begin) // SMALLEST)
    wanted = [begin + (end - begin) * i // parts for i in range(1, parts)]
    try:
        cuts = _find_cuts(files, whole, wanted, rules) if wanted else []
    except BadFileError:
        return [whole]  # reading it will fail, and say why
    points = [whole.begin, *cuts]
    stops = [*(cut.offset for cut in cuts), end]
    return [replace(whole, begin=at, end=stop) for at, stop in zip(points, stops, strict=True) if at.offset < stop]


def _find_cuts(files: FileSet, whole: SourceRange, wanted: Sequence[int], rules: LineRules) -> list[Point]:
    with open_listed_file(files, whole) as file:
        if file.is_compressed:
            return []
        with files.open(file, offset=whole.begin.offset) as data:
            cuts = _cuts_at_line_ends(data, whole.begin, wanted, rules.quote.encode())
        return list(_cuts_at_rows(files, file, whole, wanted, rules)) if cuts is None else cuts


def _cuts_at_line_ends(data: Any, at: Point, wanted: Sequence[int], quote: bytes) -> list[Point] | None:
    """Return the point after the first line end at or after each wanted offset; None if the text has quotes."""
    cuts: list[Point] = []
    for target in wanted:
        while at.offset < target:
            block = data.read(min(_BLOCK, target - at.offset))
            if not block or (quote and quote in block):
                return None if block else cuts
            at = at.advance(len(block), block.count(b"\n"))
        line = _read_line(data)
        if quote and quote in line:
            return None
        if not line.endswith(b"\n"):
            return cuts
        at = at.advance(len(line), 1)
        cuts.append(at)
    return cuts


def _read_line(data: Any) -> bytes:
    """Read up to the next line end, and no further."""
    line, begin = bytearray(), data.tell()
    while block := data.read(_LINE_BLOCK):
        line += block
        if (end := line.find(b"\n", len(line) - len(block))) >= 0:
            data.seek(begin + end + 1)
            return bytes(line[: end + 1])
    return bytes(line)


def _cuts_at_rows(
    files: FileSet, file: File, whole: SourceRange, wanted: Sequence[int], rules: LineRules
) -> Iterator[Point]:
    """Yield a point between rows soon after each wanted offset."""
    left = list(wanted)
    with files.open(file, offset=whole.begin.offset) as data:
        for found in rows_of_range(data, file, whole, _ROWS_BETWEEN_CUTS, rules):
            if left and found.after.offset >= left[0]:
                left = [each for each in left if each > found.after.offset]
                yield found.after
