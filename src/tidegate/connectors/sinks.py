"""Write results to folders of files, exactly once.

The runtime gives each step a label, for example its number. Workers stage the rows of a step, and the
driver publishes them. Publishing the same label again replaces what an earlier attempt published.
After a crash at any point, running the step again, or only its `publish`, leads to the same files:

    <folder>/.staging/<label>-<token>/<part>.<ext>     staged
    <folder>/.staging/<label>-<token>.manifest         the parts, once publishing has begun
    <folder>/<label>-<part>.<ext>                      published
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from tidegate.connectors.csv_writer import csv_header, csv_lines
from tidegate.connectors.files import reach_file_system
from tidegate.connectors.lines import join_lines
from tidegate.connectors.locations import is_uri
from tidegate.errors import DataError, InternalError, suggest_name
from tidegate.expressions.column_texts import json_rows

TextFormat = Literal["csv", "jsonl"]
SinkFormat = TextFormat | Literal["parquet"]
_FORMATS: tuple[SinkFormat, ...] = ("csv", "jsonl", "parquet")
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*")  # no hyphen, because the last hyphen of a file name ends the label
_LABEL_OF_A_RUN = re.compile(r"batch-\d+|final")
_PUBLISHED = re.compile(rf"{_PART.pattern}\.(?:{'|'.join(_FORMATS)})")


@dataclass(frozen=True, slots=True)
class FileSink:
    """Sink that writes files to a folder, which is an absolute path or a URI, so that all workers agree on it."""

    folder: str
    format: SinkFormat

    def begin(self, label: str) -> str:
        """Start a step: remove what earlier attempts staged, and return a token for this attempt."""
        token = secrets.token_hex(8)
        with self._open_folder() as (system, folder):
            for info in _children(system, f"{folder}/.staging"):
                if info.base_name.rpartition("-")[0] == label:
                    _delete(system, info)
            system.create_dir(_staging_folder(folder, label, token), recursive=True)
        return token

    def write(self, label: str, token: str, part: str, rows: pa.RecordBatch) -> int:
        """Stage the rows of one part atomically and return their size in bytes.

        A part that is written again is replaced. Without rows, no file is written.
        """
        if rows.num_rows == 0:
            return 0
        with self._open_folder() as (system, folder):
            path = f"{_staging_folder(folder, label, token)}/{_check_name(_PART, part)}.{self.format}"
            temporary = f"{path}.{secrets.token_hex(4)}.tmp"
            with system.open_output_stream(temporary) as out:
                _write_rows(rows, self.format, out)
                size = int(out.tell())
            system.move(temporary, path)
        return size

    def publish(self, label: str, token: str, *, is_new: bool = False) -> None:
        """Publish the staged parts of the label in place of earlier ones; can be repeated after a crash.

        A label that `is_new` has no earlier ones: the folder, which may hold very many files, is not searched for them.
        """
        with self._open_folder() as (system, folder):
            staging = _staging_folder(folder, label, token)
            staged = {info.base_name for info in _children(system, staging)}
            parts = _parts_to_publish(system, staging, {name for name in staged if name.endswith(f".{self.format}")})
            if parts is None:
                return
            if not is_new:
                _remove_published(system, folder, label, keep=parts - staged)
            for part in sorted(staged & parts):
                system.move(f"{staging}/{part}", f"{folder}/{label}-{part}")
            # Delete the manifest last: without it, an empty folder would mean that nothing was staged.
            with suppress(FileNotFoundError):
                system.delete_dir(staging)
            system.delete_file(f"{staging}.manifest")

    def published_labels(self) -> set[str]:
        """Return the labels under which something is published."""
        with self._open_folder() as (system, folder):
            return {info.base_name.rpartition("-")[0] for info in _children(system, folder)}

    def withdraw(self, label: str) -> None:
        """Remove what was published under a label."""
        with self._open_folder() as (system, folder):
            _remove_published(system, folder, label, keep=set())

    def clear(self) -> None:
        """Remove the results of an earlier run, which a run from the beginning writes again; keep other files."""
        with self._open_folder() as (system, folder):
            for info in _children(system, folder):
                label, _, part = info.base_name.rpartition("-")
                if _LABEL_OF_A_RUN.fullmatch(label) and _PUBLISHED.fullmatch(part):
                    system.delete_file(info.path)

    @contextmanager
    def _open_folder(self) -> Iterator[tuple[Any, str]]:
        try:
            system, folder = reach_file_system(self.folder)
            yield system, folder.rstrip("/")
        except OSError as error:
            hint = "check the free space and the permissions of the folder"
            raise DataError("D106", f"cannot write to {self.folder}: {error}", hint=hint) from error


def open_sink(location: str, *, format: str = "jsonl") -> FileSink:  # noqa: A002 - the word of the language
    """Return the sink at a location; a relative path starts at the current folder."""
    chosen = next((f for f in _FORMATS if f == format.lower()), None)
    if chosen is None:
        raise DataError("D101", f"results cannot be written as '{format}'", hint=suggest_name(format, _FORMATS))
    return FileSink(location if is_uri(location) else str(Path(location).absolute()), chosen)


def render(rows: pa.RecordBatch, format: TextFormat, *, header: bool = True) -> str:  # noqa: A002
    r"""Format rows as CSV or JSON lines, each with a line end.

    Examples
    --------
    >>> render(pa.RecordBatch.from_pydict({"a": [1, None], "b": ["x", ""]}), "csv")
    'a,b\n1,x\n,""\n'
    """
    heading = csv_header(rows.schema) + "\n" if format == "csv" and header else ""
    return heading + _body(rows, format).decode()


def _write_rows(rows: pa.RecordBatch, format_: SinkFormat, out: Any) -> None:
    if format_ == "parquet":
        pq.write_table(pa.Table.from_batches([rows]), out, compression="zstd")
        return
    if format_ == "csv":
        out.write(csv_header(rows.schema).encode() + b"\n")
    out.write(_body(rows, format_))


def _body(rows: pa.RecordBatch, format_: TextFormat) -> bytes:
    return bytes(join_lines(csv_lines(rows) if format_ == "csv" else json_rows(rows)))


def _staging_folder(folder: str, label: str, token: str) -> str:
    return f"{folder}/.staging/{_check_name(_LABEL, label)}-{token}"


def _check_name(pattern: re.Pattern[str], name: str) -> str:
    """Return the name if it is safe in a path and lets label and part be separated again; else raise an error."""
    if not pattern.fullmatch(name):
        raise InternalError("I302", f"'{name}' cannot name a label or a part of results")
    return name


def _children(system: Any, folder: str) -> list[Any]:
    return list(system.get_file_info(fs.FileSelector(folder, allow_not_found=True)))


def _parts_to_publish(system: Any, staging: str, staged: set[str]) -> set[str] | None:
    """Return the parts to publish, from the manifest, which is written only once; None if all are published."""
    path = f"{staging}.manifest"
    if system.get_file_info(path).type == fs.FileType.File:
        with system.open_input_stream(path) as stored:
            return set(json.loads(stored.read()))
    if system.get_file_info(staging).type == fs.FileType.NotFound:
        return None
    with system.open_output_stream(f"{path}.tmp") as out:
        out.write(json.dumps(sorted(staged)).encode())
    system.move(f"{path}.tmp", path)
    return staged


def _remove_published(system: Any, folder: str, label: str, *, keep: set[str]) -> None:
    """Remove what earlier attempts published; `keep` has the parts that this attempt has already moved."""
    for info in _children(system, folder):
        whose, _, part = info.base_name.rpartition("-")
        if whose == label and _PUBLISHED.fullmatch(part) and part not in keep:
            system.delete_file(info.path)


def _delete(system: Any, info: Any) -> None:
    system.delete_dir(info.path) if info.type == fs.FileType.Directory else system.delete_file(info.path)
