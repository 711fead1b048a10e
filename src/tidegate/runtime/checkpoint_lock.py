"""The lock of a checkpoint: only one run at a time may use it.

The file `owner.json` says which process owns the checkpoint, and when it last said so. The owner renews it every few
seconds. A lock is stale if its process has ended, or, on another machine, if it was not renewed for a while.
"""

from __future__ import annotations

import json
import os
import posixpath
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from pyarrow import fs

from tidegate.connectors.locations import file_system
from tidegate.errors import DataError

OWNER = "owner.json"
SECONDS_BETWEEN_BEATS = 5.0
SECONDS_UNTIL_STALE = 30.0


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns a checkpoint."""

    key: str
    host: str
    process: int
    born: str
    """When the process started, as the system says it; its number may be used again by another process."""
    beat: float
    """When the owner last renewed the lock, in seconds since 1970."""

    @staticmethod
    def of_this_process() -> Owner:
        return Owner(secrets.token_hex(8), socket.gethostname(), os.getpid(), _birth_of(os.getpid()), time.time())

    @property
    def is_alive(self) -> bool:
        if self.host != socket.gethostname():
            return time.time() < self.beat + SECONDS_UNTIL_STALE
        return _is_running(self.process) and _birth_of(self.process) == self.born


class CheckpointLock:
    """The lock of a checkpoint in a folder or at a URI, held until it is released."""

    def __init__(self, root: str) -> None:
        self.root, self.owner = root, Owner.of_this_process()
        self._system, self._path = file_system(posixpath.join(root, OWNER))
        self._released = threading.Event()
        self.is_lost = False
        """Whether another process has taken the lock."""
        self._take()
        self._thread = threading.Thread(target=self._renew, name="tidegate-lock", daemon=True)
        self._thread.start()

    def release(self) -> None:
        if not self._released.is_set():
            self._released.set()
            self._thread.join()
            with suppress(OSError):
                if self._is_mine():
                    self._system.delete_file(self._path)

    def check(self) -> None:
        """Raise an error if another process has taken the lock."""
        if self.is_lost:
            message = f"another run has taken the checkpoint {self.root}, because this one seemed to have ended"
            raise DataError("D312", message, hint="was this machine asleep, or cut off from the storage?")

    def _take(self) -> None:
        known = self._read()
        if known is not None and known.is_alive:
            raise _in_use_error(self.root, known)
        try:
            self._system.create_dir(posixpath.dirname(self._path), recursive=True)
            if known is not None:
                self._system.delete_file(self._path)
            self._create()
        except OSError as error:
            if isinstance(error, FileExistsError) and (other := self._read()) is not None:
                raise _in_use_error(self.root, other) from error
            raise DataError("D305", f"the checkpoint {self.root} cannot be written: {error}") from error

    def _create(self) -> None:
        """Write the file, unless another process has just done so."""
        if isinstance(self._system, fs.LocalFileSystem):
            with Path(self._path).open("x") as out:
                out.write(_to_text(self.owner))
        else:
            self._write()

    def _write(self) -> None:
        with self._system.open_output_stream(self._path) as out:
            out.write(_to_text(self.owner).encode())

    def _read(self) -> Owner | None:
        try:
            with self._system.open_input_stream(self._path) as file:
                return Owner(**json.loads(file.read()))
        except (OSError, ValueError, TypeError):
            return None  # there is none, or it is just being written

    def _is_mine(self) -> bool:
        known = self._read()
        return known is None or known.key == self.owner.key

    def _renew(self) -> None:
        while not self._released.wait(SECONDS_BETWEEN_BEATS):
            self.owner = replace(self.owner, beat=time.time())
            with suppress(OSError):  # the next step will fail, and say why
                if not self._is_mine():
                    self.is_lost = True
                    return
                self._write()


def _to_text(owner: Owner) -> str:
    return json.dumps(asdict(owner))


def _in_use_error(root: str, owner: Owner) -> DataError:
    message = f"the checkpoint {root} is in use by process {owner.process} on {owner.host}"
    hint = "wait for that run, or stop it; or use another --checkpoint folder"
    return DataError("D311", message, hint=hint)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _birth_of(process: int) -> str:
    """Return when a process started, as text; empty if it has ended, or where the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] == "Z" else fields[19]  # Z: it has ended, but its parent does not know yet
