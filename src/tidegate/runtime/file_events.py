"""Wait for changes in the folders of sources, so that a live run reacts at once.

Linux reports changes of local folders (inotify). Elsewhere, and for other storage, sources are listed at intervals.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

from pyarrow import fs

from tidegate.connectors.files import FileSet, reach_file_system
from tidegate.connectors.ranges import Source
from tidegate.errors import DataError

SECONDS_BETWEEN_LISTINGS = 0.2
"""Interval at which sources are listed if the system does not report their changes."""

SECONDS_AT_MOST = 1.0
"""Interval at which all sources are listed: a reported change may be lost."""

_MODIFIED, _CLOSED, _MOVED_TO, _CREATED, _DELETED = 0x2, 0x8, 0x80, 0x100, 0x200
_CHANGES = _MODIFIED | _CLOSED | _MOVED_TO | _CREATED | _DELETED


class FileEvents:
    """Reports of changes in the folders of sources, and calls of `wake` from other threads."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self._closing, self._is_closed = threading.Lock(), False
        self._woken, self._waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC) if hasattr(os, "pipe2") else os.pipe()
        self._changes, self._patience = -1, SECONDS_BETWEEN_LISTINGS
        file_sets = [files for source in sources if isinstance(files := getattr(source, "files", None), FileSet)]
        folders = {_local_folder(files) for files in file_sets}
        if sys.platform == "linux" and folders and None not in folders:
            self._changes = _watch_folders([folder for folder in folders if folder is not None])
        if self._changes >= 0:
            self._patience = SECONDS_AT_MOST

    def wait(self) -> None:
        """Wait until something may have changed, or for a while."""
        with selectors.DefaultSelector() as selector:  # not `select`, which takes no descriptor above 1023
            for each in (self._woken, self._changes):
                if each >= 0:
                    selector.register(each, selectors.EVENT_READ)
            for key, _ in selector.select(self._patience):
                _drain(key.fd)

    def wake(self) -> None:
        """End a `wait` of another thread."""
        with self._closing:
            # Once it is closed, the number of the descriptor may be that of another file.
            if not self._is_closed:
                os.write(self._waker, b"!")

    def close(self) -> None:
        with self._closing:
            self._is_closed = True
            for each in (self._woken, self._waker, self._changes):
                if each >= 0:
                    os.close(each)


def _local_folder(files: FileSet) -> str | None:
    """Return the folder in which new files appear; None if it is not local, or not one folder."""
    try:
        system, path = reach_file_system(files.location)
    except DataError:
        return None
    if not isinstance(system, fs.LocalFileSystem):
        return None
    folder = path if Path(path).is_dir() else str(Path(path).parent)
    return folder if Path(folder).is_dir() else None


def _watch_folders(folders: list[str]) -> int:
    """Return a file descriptor that is readable when something changes in the folders; -1 if there is none."""
    library = ctypes.CDLL(None, use_errno=True)
    descriptor = int(library.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
    if descriptor < 0:
        return -1
    for folder in folders:
        if library.inotify_add_watch(descriptor, os.fsencode(folder), _CHANGES) < 0:
            os.close(descriptor)
            return -1
    return descriptor


def _drain(descriptor: int) -> None:
    try:
        while len(os.read(descriptor, 1 << 16)) == 1 << 16:
            pass
    except BlockingIOError:
        pass
