"""Streaming DataFrames: Spark writes their rows to an inbox in the checkpoint, which steps read like other sources.

Only Structured Streaming can read a streaming DataFrame, and it decides by itself what a micro-batch holds. So each
DataFrame gets a streaming query of its own, which writes every micro-batch to files of the inbox and then lists them in
a *delivery*. A delivery that exists is complete and never changes; a repeated micro-batch is skipped. From there on a
step is a set of ranges, here of deliveries, whatever else it reads.
"""

from __future__ import annotations

import posixpath
import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
from pyarrow import fs

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder
from tidegate.connectors.formats import Format
from tidegate.connectors.locations import file_system
from tidegate.connectors.ranges import Point, SourcePosition, SourceRange, split_rows
from tidegate.connectors.typed_columns import typed_decoder
from tidegate.errors import DataError
from tidegate.runtime.sealed_files import RESTORE, seal, unseal

WANTED = "wanted__"
"""Column in which Spark marks the rows that some stage needs."""

_DELIVERY = re.compile(r"(\d{10,})\.json")


@dataclass(frozen=True, slots=True)
class InboxSource:
    """Source of the deliveries in a folder. Ranges count deliveries."""

    stream: SourceStream
    folder: str

    format: ClassVar[Format] = Format.DATAFRAME
    counts_bytes: ClassVar[bool] = False

    def check(self) -> None:
        """Do nothing: the stream has the schema of the frame."""

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        begin, end = position.of_part("").point, self.delivery_count
        return [SourceRange("", begin, end)] if begin.offset < end else []

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        return split_rows(whole, parts, end=whole.end or self.delivery_count)

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        end = self.delivery_count if part.end is None else part.end
        for number in range(part.begin.offset, end):
            for batch in (b for file in self._files_of(number) for b in self._read_file(file)):
                for first in range(0, batch.num_rows, rows):
                    yield batch.slice(first, rows), Point(number)

    @property
    def delivery_count(self) -> int:
        """Number of deliveries so far."""
        system, path = file_system(self.folder)
        infos = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
        numbers = [int(name[1]) for info in infos if (name := _DELIVERY.fullmatch(info.base_name))]
        return max(numbers, default=-1) + 1

    def has_delivery(self, number: int) -> bool:
        system, path = file_system(self._delivery_path(number))
        return bool(system.get_file_info(path).type == fs.FileType.File)

    def deliver(self, number: int, files: list[str]) -> None:
        """Complete a delivery: list its files."""
        system, path = file_system(self._delivery_path(number))
        system.create_dir(posixpath.dirname(path), recursive=True)
        with system.open_output_stream(path + ".part") as out:
            out.write(seal({"delivery": number, "files": files}))
        system.move(path + ".part", path)

    def forget(self, before: int) -> None:
        """Remove the files of deliveries that are never read again. The list of the last one stays, as a mark."""
        system, path = file_system(self.folder)
        for info in system.get_file_info(fs.FileSelector(path, allow_not_found=True)):
            number = re.match(r"(\d{10,})[-.]", info.base_name)
            if number and info.type == fs.FileType.File and int(number[1]) < before:
                system.delete_file(info.path)

    def write_file(self, number: int, batches: Iterator[pa.RecordBatch]) -> str | None:
        """Write rows to a new file of a delivery; return its name, or None if there is no row. Runs in a worker."""
        first = next(batches, None)
        if first is None:
            return None
        name = f"{number:010d}-{secrets.token_hex(8)}.arrow"
        system, path = file_system(posixpath.join(self.folder, name))
        system.create_dir(posixpath.dirname(path), recursive=True)
        with system.open_output_stream(path) as out, pa.ipc.new_stream(out, first.schema) as writer:
            writer.write_batch(first)
            for batch in batches:
                writer.write_batch(batch)
        return name

    def _delivery_path(self, number: int) -> str:
        return posixpath.join(self.folder, f"{number:010d}.json")

    def _files_of(self, number: int) -> list[str]:
        system, path = file_system(self._delivery_path(number))
        try:
            with system.open_input_stream(path) as file:
                found: list[str] = unseal(file.read(), path)["files"]
        except FileNotFoundError as error:
            raise DataError("D301", f"the checkpoint lacks the file {path}", hint=RESTORE) from error
        return found

    def _read_file(self, name: str) -> Iterator[pa.RecordBatch]:
        system, path = file_system(posixpath.join(self.folder, name))
        try:
            with system.open_input_file(path) as file:
                yield from pa.ipc.open_stream(file)
        except FileNotFoundError as error:
            raise DataError("D301", f"the checkpoint lacks the file {path}", hint=RESTORE) from error


def file_writer(inbox: InboxSource, number: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that writes rows to a file of a delivery, and returns its name."""

    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = inbox.write_file(number, (batch for batch in batches if batch.num_rows))
        yield pa.RecordBatch.from_pydict({"file": [] if name is None else [name]}, pa.schema([("file", pa.string())]))

    return write
