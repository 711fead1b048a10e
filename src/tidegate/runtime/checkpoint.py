"""What a run keeps of its steps: before a step its *intent*, after it its *record*.

The intent says what the step reads, and at what time. The record has the watermarks, state files, source positions and
control records after it. A step that was interrupted is repeated with the same intent, from the record of the previous
step. So it reads the same rows and sees the same watermarks and state, whatever happened in the first attempt.

A damaged record is an error, even if it is the newest one. The previous record cannot replace it: the results of the
step are published, possibly with those of a later step that has no record yet.
"""

from __future__ import annotations

import json
import posixpath
import re
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyarrow import fs

from tidegate.connectors.locations import file_system
from tidegate.connectors.ranges import SourcePosition, SourceRange
from tidegate.errors import DataError
from tidegate.physical.common.codec import Json, from_json, to_json
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.position_log import (
    PositionFile,
    PositionLog,
    Positions,
    merge_positions,
    parts_of,
    select_parts,
)
from tidegate.runtime.program_differences import describe_differences
from tidegate.runtime.sealed_files import RESTORE, damaged_file_error, seal, unreadable_file_error, unseal

KEPT_RECORDS = 3
IDENTITY = "program.json"
_INTENT = "intent.json"
_RECORD = re.compile(r"(\d{10,})\.json")
_FOLDER_OF_POSITIONS = "positions"
_POSITION_FILE = re.compile(r"(\d{10,}-[0-9a-f]{8})\.json")


@dataclass(frozen=True, slots=True)
class Intent:
    """What a step is going to do: everything that does not follow from the record of the previous step."""

    step: int
    now: int
    """Time of new rows that are timed by arrival."""
    ranges: Mapping[str, tuple[SourceRange, ...]] = field(default_factory=dict)
    """The ranges to read, by stream."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """The tables to read, with their versions."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Idle streams, each with the time to which the clock has advanced it."""


@dataclass(frozen=True, slots=True)
class Record:
    """Record of a finished step, with everything that the next step needs."""

    step: int
    watermarks: Mapping[str, int]
    state: Mapping[str, str] = field(default_factory=dict)
    """The state file of each ``stage/bucket``."""
    positions: Mapping[str, SourcePosition] = field(default_factory=dict)
    """Position in each stream."""
    tables: Mapping[str, str] = field(default_factory=dict)
    """Version of each table that was read."""
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Number of raw rows of each source stream so far."""
    control: Mapping[str, Json] = field(default_factory=dict)
    """Encoded control records of steered operators (`runtime.control`), by ``stage/operator``."""
    reaches: Mapping[str, int] = field(default_factory=dict)
    """The largest end of an element that a stage or a query gave so far; only in a live graph."""
    flushed: tuple[int, ...] = ()
    """Numbers of the phases whose held-back results were emitted."""
    sizes: Mapping[str, SizeHistory] = field(default_factory=dict)
    """Histories of the sizes of windows and granularities, for the next step."""
    readers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The queries that read each of these, and whose rows on quality were published."""


@dataclass(slots=True)
class _WrittenPositions:
    """Where the positions of the last records are; it changes with each record."""

    log: PositionLog = field(default_factory=PositionLog)
    files: deque[frozenset[str]] = field(default_factory=lambda: deque(maxlen=KEPT_RECORDS))
    """The position files that each of the kept records names, if this process has written it."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint in one folder or URI: the records of steps, and the identity of the program."""

    root: str
    _written: _WrittenPositions = field(default_factory=_WrittenPositions, compare=False, repr=False)

    def claim(self, identity: Mapping[str, Any]) -> None:
        """Assign an empty folder to the program; check that a used folder belongs to it."""
        if self.identity() is not None:
            self.check(identity)
        elif self._steps():
            message = f"the checkpoint {self.root} lacks the file {IDENTITY}, which identifies its program"
            raise DataError("D301", message, hint=RESTORE)
        else:
            self._write(IDENTITY, identity)

    def check(self, identity: Mapping[str, Any]) -> None:
        """Raise an error if the folder belongs to another program."""
        known, asked = self.identity(), json.loads(json.dumps(identity))
        if known is not None and known != asked:
            message = f"the checkpoint {self.root} belongs to another program or other settings"
            shown = "\n   ".join([message, *describe_differences(known, asked)])
            hint = "use another --checkpoint folder, or remove this one to start from the beginning"
            raise DataError("D303", shown, hint=hint)

    def identity(self) -> Mapping[str, Any] | None:
        """Return the identity of the program that the folder belongs to, if any."""
        known: Mapping[str, Any] | None = self._read(IDENTITY)
        return known

    def read(self, step: int) -> Record:
        """Return the record of a step; raise an error if it is missing."""
        found = self._read(_record_name(step))
        if found is None:
            raise DataError("D304", f"the checkpoint {self.root} has no record of step {step}", hint=RESTORE)
        if found["step"] != step:
            raise damaged_file_error(self._path(_record_name(step)))
        record = from_json(Record, found)
        written = {name: self._read_positions(name) for name in found["position_files"]}
        positions = merge_positions(record.positions, [*written.values(), record.positions])
        named = tuple(PositionFile(name, parts_of(some)) for name, some in written.items())
        self._written.log = PositionLog(positions, named, parts_of(record.positions))
        return replace(record, positions=positions)

    def last_record(self) -> Record | None:
        """Return the newest record, if any."""
        steps = self._steps()
        return self.read(max(steps)) if steps else None

    def write(self, record: Record) -> None:
        """Store a record and remove those of steps that can no longer be replayed."""
        log = self._written.log.after(record.positions, f"{record.step:010d}-{secrets.token_hex(4)}")
        for each in self._new_files(log):
            content = {"name": each.name, "positions": to_json(select_parts(record.positions, each.parts))}
            self._write(_position_file_name(each.name), content)
        recent = replace(record, positions=select_parts(record.positions, log.recent))
        self._write(_record_name(record.step), {**to_json(recent), "position_files": log.names})
        self._written.log = log
        self._remove_old_positions(log)
        system, _ = file_system(self.root)
        for step in self._steps():
            if step <= record.step - KEPT_RECORDS:
                system.delete_file(self._path(_record_name(step)))

    def intend(self, intent: Intent) -> None:
        """Store the intent of the next step."""
        self._write(_INTENT, to_json(intent))

    def interrupted_intent(self, last: Record | None) -> Intent | None:
        """Return the intent of a step that was interrupted, given the newest record; None if there is none."""
        found = self._read(_INTENT)
        if found is None:
            return None
        intent = from_json(Intent, found)
        return intent if intent.step == next_step(last) else None

    def last_program(self) -> Any:
        """Return the newest version of the program of a live graph, if any."""
        versions = self._numbers_in("programs")
        return self._read(_program_name(max(versions))) if versions else None

    def write_program(self, version: int, content: Mapping[str, Any]) -> None:
        """Store a version of the program of a live graph, and remove old ones."""
        self._write(_program_name(version), content)
        system, _ = file_system(self.root)
        for old in self._numbers_in("programs"):
            if old <= version - KEPT_RECORDS:
                system.delete_file(self._path(_program_name(old)))

    def _new_files(self, log: PositionLog) -> list[PositionFile]:
        known = self._written.log.names
        return [each for each in log.files if each.name not in known]

    def _read_positions(self, file: str) -> Positions:
        found = self._read(_position_file_name(file))
        path = self._path(_position_file_name(file))
        if found is None:
            raise DataError("D301", f"the checkpoint lacks the file {path}", hint=RESTORE)
        if found["name"] != file:
            raise damaged_file_error(path)
        return {stream: from_json(SourcePosition, each) for stream, each in found["positions"].items()}

    def _remove_old_positions(self, log: PositionLog) -> None:
        """Remove position files that none of the kept records names, also those that a crash left."""
        files = self._written.files
        is_first = len(files) < KEPT_RECORDS
        oldest = frozenset() if is_first else files[0]
        files.append(frozenset(log.names))
        named = frozenset().union(*files)
        # Before that, a record of an earlier process is among the kept ones.
        if len(files) == KEPT_RECORDS and (is_first or not oldest <= named):
            system, folder = file_system(posixpath.join(self.root, _FOLDER_OF_POSITIONS))
            for info in system.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
                named_file = _POSITION_FILE.fullmatch(info.base_name)
                if named_file and named_file[1] not in named:
                    system.delete_file(info.path)

    def _steps(self) -> list[int]:
        return self._numbers_in("steps")

    def _numbers_in(self, folder: str) -> list[int]:
        system, path = file_system(posixpath.join(self.root, folder))
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        # Ignore other files: drafts, and what file managers, editors and people leave.
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
            raise unreadable_file_error(path, error) from error
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


def next_step(last: Record | None) -> int:
    """Return the number of the step after a record; steps are counted from 1."""
    return 1 if last is None else last.step + 1


def step_label(step: int) -> str:
    """Return the label under which the results of a step are published."""
    return f"batch-{step:08d}"


def _program_name(version: int) -> str:
    return f"programs/{version:010d}.json"


def _position_file_name(file: str) -> str:
    return f"{_FOLDER_OF_POSITIONS}/{file}.json"


def _record_name(step: int) -> str:
    return f"steps/{step:010d}.json"
