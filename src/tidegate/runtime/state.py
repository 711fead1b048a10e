"""Versioned state in files: the changes of each step, checksummed and never overwritten.

A *version* of the state of one bucket of a stage is one file. It holds the chunks that changed
since the previous version, and a manifest with the place of every chunk: in this file or in that of
an earlier version. Files are written under a temporary name and then renamed. Their names have a
random part, so two attempts at the same step cannot overwrite each other. The record of the step
names the file that counts (see `checkpoint`).

*Cold* chunks are rarely read. If files are local, cold chunks are not held in memory: a version maps
their file into memory, and the operating system loads it on access.

    chunk … chunk manifest(JSON) | length of manifest | crc32 of manifest | magic
"""

from __future__ import annotations

import json
import posixpath
import re
import secrets
import struct
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
from pyarrow import fs

from tidegate.connectors.locations import file_system
from tidegate.errors import DataError
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.runtime.figures import OperatorPlace
from tidegate.runtime.sealed_files import FORMAT, RESTORE, damaged_file_error, other_format_error, unreadable_file_error

MAGIC = b"TGST"
FOOTER = struct.Struct("<QI4s")
MOST_FILES = 24
"""A version that refers to more files than this rewrites the chunks of the smaller half of them."""
CLEAN_EVERY = 8
_NAME = re.compile(r"(\d{10,})-[0-9a-f]{8}(\.part)?")
COLD = "cold"
"""Prefix of the names of cold chunks, after the number of their operator."""
_GROUPS = "/groups"
"""End of the name of the chunk in which an operator keeps its groups, if it has any."""


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Place of a chunk: a file in the bucket's folder, and a range of bytes in it."""

    file: str
    offset: int
    length: int
    crc: int


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """State of one bucket of a stage after one step, and the places of its chunks."""

    file: str | None = None
    chunks: Chunks = field(default_factory=lambda: NO_STATE)
    places: Mapping[str, ChunkPlace] = field(default_factory=dict)

    def operator_sizes(self) -> dict[int, StateSize]:
        """Return the size of the state of each operator, by number."""
        sizes: dict[int, StateSize] = {}
        for name, chunk in self.chunks.items():
            number = int(name.partition("/")[0])
            size, rows, cold, groups = sizes.get(number, NO_SIZE)
            if is_cold(name):
                sizes[number] = StateSize(size, rows, cold + chunk.nbytes, groups)
            else:
                groups += chunk.num_rows if name.endswith(_GROUPS) else 0
                sizes[number] = StateSize(size + chunk.nbytes, rows + chunk.num_rows, cold, groups)
        return sizes

    @property
    def size(self) -> StateSize:
        """Size of the whole state."""
        return add_sizes(self.operator_sizes().values())


class StateSize(NamedTuple):
    """Bytes and rows of a state without its cold part, the bytes of the cold part, and the groups among the rows."""

    bytes: int
    rows: int
    cold_bytes: int
    groups: int = 0


NO_SIZE = StateSize(0, 0, 0)


def add_sizes(sizes: Iterable[StateSize]) -> StateSize:
    """Return the size of several states together."""
    return StateSize(*map(sum, zip(NO_SIZE, *sizes, strict=True)))


def sizes_of_operators(sizes: Mapping[OperatorPlace, StateSize]) -> dict[tuple[int, int], StateSize]:
    """Return the sizes by stage and operator, added up over buckets."""
    found: dict[tuple[int, int], StateSize] = {}
    for (stage, operator, _), size in sizes.items():
        found[stage, operator] = add_sizes([found.get((stage, operator), NO_SIZE), size])
    return found


@dataclass(frozen=True, slots=True)
class StateStore:
    """Store of the state files of all stages and buckets in one folder or URI."""

    root: str

    def save(self, stage: int, bucket: int, step: int, chunks: Chunks, before: Version) -> Version:
        """Write the chunks that changed since the version `before`; return the new version once its file exists."""
        kept = {n: before.places[n] for n, c in chunks.items() if before.chunks.get(n) is c}
        for crowded in _files_to_rewrite(kept):
            kept = {n: p for n, p in kept.items() if p.file != crowded}
        name = f"{step:010d}-{secrets.token_hex(4)}"
        places, body = dict(kept), bytearray()
        for chunk_name in sorted(chunks.keys() - kept.keys()):
            data = serialize(chunks[chunk_name])
            places[chunk_name] = ChunkPlace(name, len(body), len(data), zlib.crc32(data))
            body += data
        self._write(stage, bucket, name, body, places)
        version = Version(name, self._with_cold_mapped(stage, bucket, name, chunks, places), places)
        if step % CLEAN_EVERY == 0:
            self._remove_old_files(stage, bucket, step, keep=_files_of(version) | _files_of(before))
        return version

    def load(self, stage: int, bucket: int, file: str | None, *, known: Version | None = None) -> Version:
        """Load the version in a file; None is the empty initial state. Chunks of a `known` version are not read."""
        if file is None:
            return Version()
        places = self._read_manifest(stage, bucket, file)
        before = Version() if known is None else known
        chunks = {n: before.chunks[n] for n, place in places.items() if before.places.get(n) == place}
        for name in sorted({p.file for n, p in places.items() if n not in chunks}):
            here = {n: p for n, p in places.items() if p.file == name and n not in chunks}
            path, has_cold = self._path(stage, bucket, name), any(map(is_cold, here))
            data = self._read(stage, bucket, name, mapped=has_cold)
            for chunk_name, place in here.items():
                part = _chunk_bytes(data, place, path)
                # Copy chunks that are not cold: they must not wait for the disk, nor keep the whole mapped file alive.
                copied = has_cold and not is_cold(chunk_name)
                chunks[chunk_name] = deserialize(part.to_pybytes() if copied else part)
        return Version(file, chunks, places)

    def keep_stages(self, numbers: Collection[int]) -> None:
        """Remove the state files of all other stages."""
        system, folder = file_system(posixpath.join(self.root, "state"))
        for info in system.get_file_info(fs.FileSelector(folder, allow_not_found=True)):
            if info.base_name.isdigit() and int(info.base_name) not in numbers:
                system.delete_dir(info.path)

    def _with_cold_mapped(
        self, stage: int, bucket: int, name: str, chunks: Chunks, places: Mapping[str, ChunkPlace]
    ) -> Chunks:
        """Replace the cold chunks that were just written by memory-mapped ones, to free their memory."""
        new = [n for n in chunks if is_cold(n) and places[n].file == name]
        if not new or not _is_local(self.root):
            return chunks
        data = self._read(stage, bucket, name, mapped=True)
        return {**chunks, **{n: deserialize(data.slice(places[n].offset, places[n].length)) for n in new}}

    def _path(self, stage: int, bucket: int, name: str) -> str:
        return posixpath.join(self.root, "state", str(stage), str(bucket), name)

    def _write(self, stage: int, bucket: int, name: str, body: bytearray, places: Mapping[str, ChunkPlace]) -> None:
        chunks = {n: [p.file, p.offset, p.length, p.crc] for n, p in places.items()}
        manifest = json.dumps({"format": FORMAT, "chunks": chunks}).encode()
        system, path = file_system(self._path(stage, bucket, name))
        system.create_dir(posixpath.dirname(path), recursive=True)
        with system.open_output_stream(path + ".part") as out:
            out.write(bytes(body))
            out.write(manifest)
            out.write(FOOTER.pack(len(manifest), zlib.crc32(manifest), MAGIC))
        system.move(path + ".part", path)

    def _read(self, stage: int, bucket: int, name: str, *, mapped: bool = False) -> pa.Buffer:
        system, path = file_system(self._path(stage, bucket, name))
        try:
            if mapped and isinstance(system, fs.LocalFileSystem):
                with pa.memory_map(path) as file:
                    return file.read_buffer()
            with system.open_input_file(path) as file:
                return file.read_buffer()
        except FileNotFoundError as error:
            raise DataError("D301", f"the checkpoint lacks the state file {path}", hint=RESTORE) from error
        except OSError as error:
            raise unreadable_file_error(path, error) from error

    def _read_manifest(self, stage: int, bucket: int, name: str) -> dict[str, ChunkPlace]:
        data, path = self._read(stage, bucket, name), self._path(stage, bucket, name)
        if data.size < FOOTER.size:
            raise damaged_file_error(path)
        length, crc, magic = FOOTER.unpack(data.slice(data.size - FOOTER.size).to_pybytes())
        if magic != MAGIC or length > data.size - FOOTER.size:
            raise damaged_file_error(path)
        manifest = data.slice(data.size - FOOTER.size - length, length)
        _verify_crc(manifest, crc, path)
        content = json.loads(manifest.to_pybytes())
        if content.get("format") != FORMAT:
            raise other_format_error(path)
        return {n: ChunkPlace(*where) for n, where in content["chunks"].items()}

    def _remove_old_files(self, stage: int, bucket: int, step: int, keep: frozenset[str]) -> None:
        """Remove files of steps that can no longer be replayed, unless a current version refers to them."""
        system, folder = file_system(posixpath.dirname(self._path(stage, bucket, "x")))
        for info in system.get_file_info(fs.FileSelector(folder)):
            written = _NAME.fullmatch(info.base_name)  # ignore other files
            if written and info.base_name not in keep and int(written[1]) < step - 2:
                system.delete_file(info.path)


def is_cold(name: str) -> bool:
    """Return whether the name is that of a cold chunk, which is rarely read.

    Examples
    --------
    >>> is_cold("3/cold-7"), is_cold("3/run-7")
    (True, False)
    """
    return name.partition("/")[2].startswith(COLD)


def _is_local(location: str) -> bool:
    return isinstance(file_system(location)[0], fs.LocalFileSystem)


def serialize(chunk: pa.RecordBatch) -> bytes:
    """Serialize a record batch as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, chunk.schema) as writer:
        writer.write_batch(chunk)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def deserialize(data: pa.Buffer | bytes) -> pa.RecordBatch:
    """Read a record batch from an Arrow IPC stream; the inverse of `serialize`."""
    return pa.ipc.open_stream(data).read_next_batch()


def _files_of(version: Version) -> frozenset[str]:
    return frozenset(p.file for p in version.places.values()) | ({version.file} if version.file else set())


def _files_to_rewrite(places: Mapping[str, ChunkPlace]) -> list[str]:
    """Return the files whose chunks to rewrite if a version depends on too many: those that hold the fewest bytes."""
    held: dict[str, int] = {}
    for place in places.values():
        held[place.file] = held.get(place.file, 0) + place.length
    if len(held) <= MOST_FILES:
        return []
    return sorted(held, key=lambda f: held[f])[: len(held) // 2]


def _chunk_bytes(data: pa.Buffer, place: ChunkPlace, path: str) -> pa.Buffer:
    if place.offset + place.length > data.size:
        raise damaged_file_error(path)
    part = data.slice(place.offset, place.length)
    _verify_crc(part, place.crc, path)
    return part


def _verify_crc(data: pa.Buffer, crc: int, path: str) -> None:
    if zlib.crc32(data) != crc:
        raise damaged_file_error(path)
