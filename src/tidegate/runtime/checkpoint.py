"""The record of each step: watermarks, where its state is, what has been read and decided.

A step that is replayed starts from the record of the step before it, so it sees the same
watermarks and the same state, whatever became of the first attempt.

A damaged record is an error, also the newest one. The record before it would not do: the results
of the step are published, possibly with those of a step after it that has no record yet, and would
be published again under other labels if the rows are cut into other steps; Spark does not repeat
a step that it has committed.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import fs

from tidegate.errors import DataError
from tidegate.physical.common.operator import Facts
from tidegate.runtime.program_differences import differences
from tidegate.runtime.sealed import RESTORE, damaged, seal, unreadable, unseal
from tidegate.runtime.state import file_system

KEPT_RECORDS = 3
IDENTITY = "program.json"
_RECORD = re.compile(r"(\d{10,})\.json")


@dataclass(frozen=True, slots=True)
class Record:
    """What the next step needs to know of a finished one."""

    step: int
    watermarks: Mapping[str, int]
    state: Mapping[str, str] = field(default_factory=dict)
    """The state file of each ``stage/bucket``."""
    positions: Mapping[str, Any] = field(default_factory=dict)
    """How far each source has been read, where the runtime itself reads."""
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Raw rows of each source stream so far."""
    orders: Mapping[str, Facts] = field(default_factory=dict)
    """What steered operators are told in the next step, by ``stage/operator``."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Records below one folder or URI, and the identity of the program they belong to."""

    root: str

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Take the folder for a program, or make sure that it is this program's already."""
        if self.identity() is not None:
            self.check(identity)
        elif self._steps():
            message = f"the checkpoint {self.root} lacks the file {IDENTITY}, which says whose it is"
            raise DataError("D301", message, hint=RESTORE)
        else:
            self._write(IDENTITY, identity)

    def check(self, identity: Mapping[str, Any]) -> None:
        """Refuse a program to which the folder does not belong."""
        known, asked = self.identity(), json.loads(json.dumps(identity))
        if known is not None and known != asked:
            message = f"the checkpoint {self.root} belongs to another program or other settings"
            shown = "\n   ".join([message, *differences(known, asked)])
            hint = "use another --checkpoint folder, or remove this one to start from the beginning"
            raise DataError("D303", shown, hint=hint)

    def identity(self) -> Mapping[str, Any] | None:
        """The program that the folder belongs to, if it is taken."""
        known: Mapping[str, Any] | None = self._read(IDENTITY)
        return known

    def read(self, step: int) -> Record:
        """The record of a step; it must be there."""
        found = self._read(_name(step))
        if found is None:
            raise DataError("D304", f"the checkpoint {self.root} has no record of step {step}", hint=RESTORE)
        if found["step"] != step:
            raise damaged(self._path(_name(step)))
        return Record(**found)

    def last(self) -> Record | None:
        """The newest record, if any."""
        steps = self._steps()
        return self.read(max(steps)) if steps else None

    def write(self, record: Record) -> None:
        """Store a record; those of steps that cannot be replayed any more are removed."""
        self._write(_name(record.step), asdict(record))
        system, _ = file_system(self.root)
        for step in self._steps():
            if step <= record.step - KEPT_RECORDS:
                system.delete_file(self._path(_name(step)))

    def _steps(self) -> list[int]:
        system, path = file_system(posixpath.join(self.root, "steps"))
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        # Other files are not ours: drafts, and what file managers, editors and people leave.
        names = (_RECORD.fullmatch(info.base_name) for info in infos if info.type == fs.FileType.File)
        return [int(name[1]) for name in names if name]

    def _path(self, name: str) -> str:
        return file_system(posixpath.join(self.root, name))[1]

    def _read(self, name: str) -> Any:
        system, path = file_system(posixpath.join(self.root, name))
        try:
            if system.get_file_info(path).type == fs.FileType.NotFound:
                return None
            with system.open_input_stream(path) as file:
                data = file.read()
        except OSError as error:
            raise unreadable(path, error) from error
        return unseal(data, path)

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            system, path = file_system(posixpath.join(self.root, name))
            system.create_dir(posixpath.dirname(path), recursive=True)
            with system.open_output_stream(path + ".part") as out:
                out.write(seal(content))
            system.move(path + ".part", path)
        except OSError as error:
            raise DataError("D305", f"the checkpoint {self.root} cannot be written: {error}") from error


def _name(step: int) -> str:
    return f"steps/{step:010d}.json"
