"""Find the ranges of files that can be read, and check that a file is still the one that was listed."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from tidegate.connectors.files import File, FileSet, to_bad_file_error
from tidegate.connectors.ranges import FileMark, PartProgress, SourcePosition, SourceRange
from tidegate.errors import BadFileError, DataError

TAIL = 256
"""Number of bytes at the end of a file that its mark covers."""

_APPEND = "write new data to a new file, or append it"


def find_file_ranges(files: FileSet, position: SourcePosition, *, growing: bool, appendable: bool) -> list[SourceRange]:
    """Return a range for each file with something new, in order of name.

    A file that is `appendable` may get more lines later. Other files are read once, as a whole.
    """
    listed = files.files()
    if growing and position.parts and not listed and not files.can_wait:
        message = f"{files.location} was removed while the query ran"
        hint = "put it back and start again: with --checkpoint the query resumes where it stopped"
        raise DataError("D408", message, hint=hint)
    found = (
        _range_of_growing_file(files, file, position.of_part(file.name), growing=growing)
        if appendable and not file.is_compressed
        else _range_of_fixed_file(file, position.of_part(file.name))
        for file in listed
    )
    return [each for each in found if each is not None]


def _range_of_fixed_file(file: File, known: PartProgress) -> SourceRange | None:
    mark = FileMark(file.size, file.changed)
    if known.mark is not None and known.mark != mark:
        return SourceRange(file.name, known.point, mark=mark, is_replaced=True)
    return None if known.is_done else SourceRange(file.name, known.point, mark=mark)


def _range_of_growing_file(files: FileSet, file: File, known: PartProgress, *, growing: bool) -> SourceRange | None:
    begin, mark = known.point, known.mark
    if mark is not None and not _continues(files, file, mark):
        return SourceRange(file.name, begin, mark=_mark_of(files, file), is_replaced=True)
    if known.is_done or file.size <= (known.seen if growing else begin.offset):
        return None
    return SourceRange(file.name, begin, file.size, not growing, _mark_of(files, file))


def _continues(files: FileSet, file: File, mark: FileMark) -> bool:
    """Return whether a file begins with all bytes of the file that was listed before."""
    if (file.size, file.changed) == (mark.size, mark.changed):
        return True
    return file.size >= mark.size and mark.tail is not None and _tail_of(files, file, mark.size) == mark.tail


def _mark_of(files: FileSet, file: File) -> FileMark:
    return FileMark(file.size, file.changed, _tail_of(files, file, file.size))


def _tail_of(files: FileSet, file: File, size: int) -> int | None:
    """Return the checksum of the bytes before `size`; None where files are far away and cannot be appended to."""
    if not files.is_local:
        return None
    begin = max(0, size - TAIL)
    try:
        with files.open(file, offset=begin) as data:
            return zlib.crc32(data.read(size - begin))
    except BadFileError:
        return None  # reading the range will fail, and say why


@contextmanager
def open_listed_file(files: FileSet, listed: SourceRange) -> Iterator[File]:
    """Check that the file of a range is the one that was listed, then read it, then check it again.

    Raise a BadFileError if the file is gone, has become shorter, or was replaced.
    """
    file = _find_listed_file(files, listed)
    yield file
    now = files.find(listed.part)
    if now is None or now != file or now.changed != file.changed:
        _find_listed_file(files, listed)


def _find_listed_file(files: FileSet, listed: SourceRange) -> File:
    file, mark = files.find(listed.part), listed.mark
    if file is None:
        path = files.path_of(listed.part)
        raise BadFileError("D104", f"{path} no longer exists", name=listed.part, path=path)
    if listed.is_replaced:
        message = f"{file.path} was replaced: {listed.begin.offset:,} {_unit(mark)} of the file before it were read"
    elif mark is None or _continues(files, file, mark):
        return file
    elif file.size < mark.size:
        message = f"{file.path} has {file.size} bytes, but had {mark.size} when it was listed"
    else:
        message = f"{file.path} was replaced after it was listed"
    raise to_bad_file_error(file, DataError("D104", message, hint=_APPEND))


def _unit(mark: FileMark | None) -> str:
    return "bytes" if mark is not None and mark.tail is not None else "rows or bytes"
