"""The record of each step: watermarks, where its state is, what has been read and decided.

A step that is replayed starts from the record of the step before it, so it sees the same
watermarks and the same state, whatever became of the first attempt.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pyarrow import fs

from tidegate.errors import DataError
from tidegate.physical.operator import Facts
from tidegate.runtime.state import file_system

KEPT_RECORDS = 3


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
        if self.identity() is None:
            self._write("program.json", identity)
        else:
            self.check(identity)

    def check(self, identity: Mapping[str, Any]) -> None:
        """Refuse a program to which the folder does not belong."""
        if self.identity() != json.loads(json.dumps(identity)):
            raise DataError(
                "D303",
                f"the checkpoint {self.root} belongs to another program or other settings",
                hint="use another --checkpoint folder, or remove this one to start anew",
            )

    def identity(self) -> Mapping[str, Any] | None:
        """The program that the folder belongs to, if it is taken."""
        known: Mapping[str, Any] | None = self._read("program.json")
        return known

    def read(self, step: int) -> Record:
        """The record of a step; it must be there."""
        found = self._read(_name(step))
        if found is None:
            raise DataError("D304", f"the checkpoint {self.root} has no record of step {step}")
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
        return [int(i.base_name.removesuffix(".json")) for i in infos if i.base_name.endswith(".json")]

    def _path(self, name: str) -> str:
        return file_system(posixpath.join(self.root, name))[1]

    def _read(self, name: str) -> Any:
        system, path = file_system(posixpath.join(self.root, name))
        if system.get_file_info(path).type == fs.FileType.NotFound:
            return None
        with system.open_input_stream(path) as file:
            text = file.read()
        try:
            return json.loads(text)
        except ValueError as error:
            hint = "start anew with an empty checkpoint folder"
            raise DataError("D302", f"the file {path} of the checkpoint is damaged", hint=hint) from error

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        try:
            system, path = file_system(posixpath.join(self.root, name))
            system.create_dir(posixpath.dirname(path), recursive=True)
            with system.open_output_stream(path + ".part") as out:
                out.write(json.dumps(content).encode())
            system.move(path + ".part", path)
        except OSError as error:
            raise DataError("D305", f"the checkpoint {self.root} cannot be written: {error}") from error


def _name(step: int) -> str:
    return f"steps/{step:010d}.json"
