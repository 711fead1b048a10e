"""Text files as raw batches of lines, and lines made ready for decoding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.connectors.files import File, FileSet, Progress
from tidegate.connectors.formats import Position
from tidegate.errors import DataError

LINE = "line"
"""The one column of a raw batch of text."""

BLOCK = 4 << 20
"""How many bytes are read at once."""

MARK = "\ufeff"
"""The byte order mark, which some programs put before the first line."""


@dataclass(frozen=True, slots=True, eq=False)
class Lines:
    """Lines that hold rows, and what is wrong with those that are no text."""

    texts: pa.Array
    broken: dict[int, str]


def read_lines(
    files: FileSet, position: Position | None, rows: int, *, growing: bool
) -> Iterator[tuple[pa.RecordBatch, Position]]:
    """Raw batches of all files in order of name, from a position on.

    Plain files are known by how many bytes of them were read, so that lines appended later are
    found; a compressed file is done once its end was reached.
    """
    progress = Progress.of(position)
    for file in files.files():
        if file.name not in progress.done:
            begin = progress.offsets.get(file.name, 0)
            for batch, offset, is_last in _file_batches(files, file, begin, rows, growing=growing):
                progress = progress.after(file, offset, is_done=is_last and file.is_compressed)
                yield batch, progress.position


def first_line(files: FileSet, file: File) -> str:
    """The first line of a file, without its end; empty if the file is."""
    with files.opened(file) as data:
        block = b""
        while b"\n" not in block and (more := data.read(1 << 16)):
            block += more
    text = block.split(b"\n", 1)[0].decode("utf-8", errors="replace")
    return text.removesuffix("\r").removeprefix(MARK)


def clean_lines(raw: pa.RecordBatch, *, header: str | None = None, space: str = "") -> Lines:
    """The lines of a raw batch that hold rows: without line ends, outer space, blank lines and header lines."""
    texts, broken = _readable(raw.column(0).cast(pa.string()).fill_null(""))
    texts = _without_ends(texts)
    texts = pc.ascii_trim(texts, space) if space else texts
    keep = pc.not_equal(texts, "")
    if header is not None:
        keep = pc.and_(keep, pc.not_equal(texts, header))
    return _filtered(texts, keep.to_numpy(zero_copy_only=False), broken)


def joined(lines: pa.Array) -> pa.Buffer:
    """All lines as one text, each with its end.

    The last one too: without it, Arrow takes an empty field at the end of a text to be quoted if
    the field before it is.
    """
    ended = pa.concat_arrays([lines, pa.array([""], pa.string())])
    whole = pa.ListArray.from_arrays(pa.array([0, len(ended)], pa.int32()), ended)
    return pc.binary_join(whole, "\n")[0].as_buffer()


def any_true(mask: pa.Array) -> bool:
    return bool(pc.any(mask, min_count=0).as_py())


def _file_batches(
    files: FileSet, file: File, offset: int, rows: int, *, growing: bool
) -> Iterator[tuple[pa.RecordBatch, int, bool]]:
    if not file.is_compressed and file.size <= offset:
        if file.size < offset:
            message = f"{file.path} has {file.size} bytes, of which {offset} were already read"
            raise DataError("D104", message, hint="write new data to a new file, or append it")
        return
    held: tuple[pa.RecordBatch, int] | None = None
    with files.opened(file, offset=offset) as data:
        for item in _stream_batches(data, offset, rows, growing=growing):
            if held is not None:
                yield *held, False
            held = item
    if held is not None:
        yield *held, True


def _stream_batches(data: Any, offset: int, rows: int, *, growing: bool) -> Iterator[tuple[pa.RecordBatch, int]]:
    rest = b""
    while block := data.read(BLOCK):
        whole, newline, tail = block.rpartition(b"\n")
        if not newline:
            rest += block
            continue
        yield from (batches := list(_split(rest + whole, offset, rows)))
        offset, rest = batches[-1][1], tail
    if rest and not growing:
        # The last line of a file often has no end; a file that is being written may still get more.
        yield _raw(pa.array([rest], pa.binary())), offset + len(rest)


def _split(text: bytes, offset: int, rows: int) -> Iterator[tuple[pa.RecordBatch, int]]:
    lines = pc.split_pattern(pa.array([text], pa.binary()), "\n").values
    for first in range(0, len(lines), rows):
        part = lines.slice(first, rows)
        offset += pc.sum(pc.binary_length(part)).as_py() + len(part)
        yield _raw(part), offset


def _raw(lines: pa.Array) -> pa.RecordBatch:
    """A raw batch of bytes called text: whether they are is for the decoder to find out."""
    if lines.offset:
        lines = pa.concat_arrays([lines])
    _, starts, data = lines.buffers()
    texts = pa.StringArray.from_buffers(len(lines), starts, data, offset=lines.offset)
    return pa.RecordBatch.from_arrays([texts], [LINE])


def _readable(texts: pa.Array) -> tuple[pa.Array, dict[int, str]]:
    """The same lines, with those that are no UTF-8 made printable and named."""
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        lines = [line.decode("utf-8", errors="backslashreplace") for line in texts.cast(pa.binary()).to_pylist()]
        fixed = pa.array(lines, pa.string())
        changed = pc.not_equal(fixed.cast(pa.binary()), texts.cast(pa.binary())).to_numpy(zero_copy_only=False)
        return fixed, dict.fromkeys(np.flatnonzero(changed).tolist(), "the line is not UTF-8")
    return texts, {}


def _without_ends(texts: pa.Array) -> pa.Array:
    if any_true(pc.starts_with(texts, MARK)):
        texts = pc.replace_substring_regex(texts, f"^{MARK}", "")
    if any_true(pc.ends_with(texts, "\r")):
        texts = pc.replace_substring_regex(texts, "\r$", "")
    return texts


def _filtered(texts: pa.Array, keep: npt.NDArray[np.bool_], broken: dict[int, str]) -> Lines:
    if keep.all():
        return Lines(texts, broken)
    moved = np.cumsum(keep) - 1
    return Lines(texts.filter(pa.array(keep)), {int(moved[i]): why for i, why in broken.items() if keep[i]})
