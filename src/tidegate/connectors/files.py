"""Find and open the files of a source.

A location is an absolute path or a URI of a pyarrow file system. It names one file, a folder, or a
glob (``*``, ``?`` and ``[…]`` within one level). Files whose names begin with a dot or an underscore
are ignored, unless the location names them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Any

from pyarrow import fs

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.formats import SUFFIXES, Format, format_of_name, format_option, option
from tidegate.connectors.locations import file_system, is_uri
from tidegate.errors import BadFileError, DataError

SCHEMES = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
"""Schemes of URIs that name files."""

_WITHOUT_FOLDERS = ("s3", "gcs", "abfs")
"""File systems in which an empty folder does not exist."""

_BLOCK = 4 << 20

_MAX_NAMES_SHOWN = 5
"""Maximum number of file names in a message."""


@dataclass(frozen=True, slots=True)
class File:
    """One file: its name relative to the folder of its set, its path in the file system, and its size."""

    name: str
    path: str
    size: int
    changed: int = field(default=0, compare=False)
    """Modification time in nanoseconds since 1970; 0 if the file system does not know it."""

    @property
    def is_compressed(self) -> bool:
        return self.name.lower().endswith(".gz")


@dataclass(frozen=True, slots=True)
class FileSet:
    """All files at one location, now and later.

    `suffixes` restricts the files of a folder by their names (empty: all files). `tried` has the
    locations that were searched, for messages.
    """

    location: str
    suffixes: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()

    def files(self) -> list[File]:
        """Return the current files, sorted by name."""
        system, path = reach_file_system(self.location)
        try:
            info = system.get_file_info(path)
            if info.type == fs.FileType.File:
                return [File(info.base_name, info.path, info.size, info.mtime_ns or 0)]
            found = _list_files(system, path, is_folder=info.type == fs.FileType.Directory)
            return sorted((f for f in found if self._is_included(f)), key=lambda f: f.name)
        except OSError as error:
            raise DataError("D104", f"{self.location} cannot be read: {error}") from error

    def find(self, name: str) -> File | None:
        """Return the file with a name as it is now; None if it does not exist."""
        system, path = reach_file_system(self.location)
        try:
            info = system.get_file_info(path)
            if info.type != fs.FileType.File:
                folder = path if info.type == fs.FileType.Directory else _split_glob(path)[0]
                info = system.get_file_info(f"{folder.rstrip('/')}/{name}")
        except OSError as error:
            raise DataError("D104", f"{self.location} cannot be read: {error}") from error
        return File(name, info.path, info.size, info.mtime_ns or 0) if info.type == fs.FileType.File else None

    def path_of(self, name: str) -> str:
        """Return the path of a file that may no longer exist, for messages."""
        _, path = reach_file_system(self.location)
        if path.endswith("/" + name):
            return path
        return f"{_split_glob(path)[0].rstrip('/')}/{name}"

    @property
    def is_local(self) -> bool:
        return isinstance(reach_file_system(self.location)[0], fs.LocalFileSystem)

    @property
    def version(self) -> str:
        """Text that changes when the files change."""
        return json.dumps([[f.name, f.size, f.changed] for f in self.files()])

    def _is_included(self, file: File) -> bool:
        return not self.suffixes or file.name.lower().endswith(self.suffixes)

    @property
    def name_filter(self) -> str:
        """Hadoop glob for the names of files that count in a folder."""
        return f"*{{{','.join(self.suffixes)}}}" if self.suffixes else "*"

    def existing_files(self, stream: SourceStream) -> list[File]:
        """Return the current files; raise an error if there are none."""
        found = self.files()
        if not found:
            tried = self.tried or (self.location,)
            message = f"stream '{stream.name}': no data at {' or '.join(tried)}"
            raise DataError("D102", message, hint=_missing_hint(self))
        return found

    @contextmanager
    def open(self, file: File, *, offset: int = 0) -> Iterator[Any]:
        """Open a file at an offset (counted after decompression)."""
        system, _ = reach_file_system(self.location)
        try:
            with _open_at(system, file, offset) as data:
                yield data
        except (OSError, EOFError, ValueError) as error:
            raise _unreadable_error(system, file, error) from error

    def verify(self, file: File) -> None:
        """Read a compressed file to its end, to raise an error before any row of a damaged file is used."""
        with self.open(file) as data:
            while data.read(_BLOCK):
                pass

    @property
    def can_wait(self) -> bool:
        """Return whether files may still appear at the location: its folder exists, or the storage has no folders."""
        system, path = reach_file_system(self.location)
        folder, pattern = _split_glob(path)
        if system.type_name in _WITHOUT_FOLDERS:
            return bool(pattern) or format_of_name(self.location) is None
        return bool(system.get_file_info(folder if pattern else path).type == fs.FileType.Directory)


def to_bad_file_error(file: File, error: DataError) -> BadFileError:
    """Convert an error to the error of one file."""
    return BadFileError(error.code, error.message, name=file.name, path=file.path, hint=error.hint)


def _unreadable_error(system: Any, file: File, error: Exception) -> DataError:
    """Return the error of the file if it is gone or its bytes can be read; else of the storage, which may recover."""
    failed = DataError("D104", f"{file.path} cannot be read: {error}")
    try:
        _read_stored_bytes(system, file)
    except FileNotFoundError:
        return to_bad_file_error(file, DataError("D104", f"{file.path} no longer exists"))
    except OSError:
        return failed
    return to_bad_file_error(file, failed)


def _read_stored_bytes(system: Any, file: File) -> None:
    """Read the stored bytes of a file, without decompression."""
    with system.open_input_stream(file.path, compression=None) as data:
        while data.read(_BLOCK):
            pass


@lru_cache(maxsize=256)
def reach_file_system(location: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a location, and the path within it; raise a DataError if it cannot be reached."""
    try:
        return file_system(location)
    except (OSError, ValueError, NotImplementedError) as error:
        raise DataError("D104", f"{location} cannot be reached: {error}") from error


def is_hidden(name: str) -> bool:
    return name.startswith((".", "_"))


def resolve_files(stream: SourceStream) -> tuple[Format, FileSet]:
    """Return the format and the files of a stream that is read from files."""
    candidates = _candidates(stream)
    location = next((c for c in candidates if FileSet(c).files()), None)
    location = location or next((c for c in candidates if FileSet(c).can_wait), candidates[0])
    asked = format_option(stream)
    kind = asked or format_of_name(location) or _format_inside(stream, FileSet(location, tried=candidates))
    return kind, FileSet(location, () if asked else SUFFIXES[kind], candidates)


def _candidates(stream: SourceStream) -> tuple[str, ...]:
    if is_uri(stream.location):
        return (stream.location,)
    folders = dict.fromkeys([Path.cwd(), Path(option(stream, "base", default=".")).resolve()])
    return tuple(dict.fromkeys(str((folder / stream.location).resolve()) for folder in folders))


def _format_inside(stream: SourceStream, files: FileSet) -> Format:
    found = files.files()
    if not found and files.can_wait:
        message = f"stream '{stream.name}': {files.location} is empty, so its format is unknown"
        hint = "to wait for the first file, give its format: WITH (format = 'csv'), or FROM '…/*.csv'"
        raise DataError("D102", message, hint=hint)
    found = files.existing_files(stream)
    kinds = {kind for f in found if (kind := format_of_name(f.name)) is not None}
    if len(kinds) == 1:
        return kinds.pop()
    names = ", ".join(f.name for f in found[:_MAX_NAMES_SHOWN]) + (", …" if len(found) > _MAX_NAMES_SHOWN else "")
    what = "holds files of several formats" if kinds else "has no file ending that gives its format"
    message = f"stream '{stream.name}': {files.location} {what} ({names})"
    raise DataError("D101", message, hint="add the option format = 'csv', 'jsonl' or 'parquet'")


def _missing_hint(files: FileSet) -> str | None:
    if not is_uri(files.location) and Path(files.location).is_dir():
        endings = ", ".join(files.suffixes)
        return f"the folder exists, but no file in it ends in {endings}" if endings else "the folder is empty"
    return None


def _list_files(system: Any, path: str, *, is_folder: bool) -> Iterator[File]:
    root, pattern = (path, ["*"]) if is_folder else _split_glob(path)
    if not pattern:
        return
    for info in _match_files(system, root, pattern):
        yield File(info.path[len(root) :].lstrip("/"), info.path, info.size, info.mtime_ns or 0)


def _split_glob(path: str) -> tuple[str, list[str]]:
    """Split a path into the folder above the first wildcard and the patterns of the levels below."""
    parts = path.rstrip("/").split("/")
    first = next((i for i, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts))
    return "/".join(parts[:first]) or "/", parts[first:]


def _match_files(system: Any, folder: str, pattern: Sequence[str]) -> Iterator[Any]:
    head, *rest = pattern
    for info in system.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
        if not fnmatchcase(info.base_name, head) or (is_hidden(info.base_name) and not is_hidden(head)):
            continue
        if not rest and info.type == fs.FileType.File:
            yield info
        elif rest and info.type == fs.FileType.Directory:
            yield from _match_files(system, info.path, rest)


def _open_at(system: Any, file: File, offset: int) -> Any:
    if not file.is_compressed:
        data = system.open_input_file(file.path)
        data.seek(offset)
        return data
    data = system.open_input_stream(file.path, compression="gzip")
    while offset > 0 and (skipped := len(data.read(min(offset, 1 << 20)))):
        offset -= skipped
    return data
