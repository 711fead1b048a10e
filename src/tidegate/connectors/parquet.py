"""Read Parquet files."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder, requested_schema
from tidegate.connectors.file_ranges import find_file_ranges, open_listed_file
from tidegate.connectors.files import File, FileSet, to_bad_file_error
from tidegate.connectors.formats import Format, check_options
from tidegate.connectors.origins import with_places
from tidegate.connectors.ranges import FileMark, Point, SourcePosition, SourceRange
from tidegate.connectors.typed_columns import check_column, check_schema, typed_decoder
from tidegate.errors import BadFileError, DataError

SECONDS_TO_WRITE = 10
"""A file that is not complete and has not changed for so long is damaged."""
_MAGICS = (b"PAR1", b"PARE")
"""Last bytes of Parquet files, plain and encrypted."""


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """Source of one Parquet file, or a folder or glob of them. A file must not change once it exists."""

    stream: SourceStream
    files: FileSet

    format: ClassVar[Format] = Format.PARQUET
    counts_bytes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_options(self.stream, ())

    def check(self) -> None:
        for file in self.files.existing_files(self.stream):
            self.check_file(file)

    def check_file(self, file: File) -> None:
        """Raise an error if the file as a whole is bad."""
        with self._open(file) as data, _blame_file(file):
            check_schema(self.stream, data.schema_arrow, file.path)

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def find_ranges(self, position: SourcePosition, *, growing: bool) -> list[SourceRange]:
        found = find_file_ranges(self.files, position, growing=growing, appendable=False)
        return [each for each in found if not self._is_being_written(each)] if growing else found

    def _is_being_written(self, listed: SourceRange) -> bool:
        """Return whether a local file has changed just now and does not end as a Parquet file must."""
        now, mark = time.time_ns(), listed.mark
        if mark is None or not self.files.is_local or now - mark.changed > SECONDS_TO_WRITE * 1e9:
            return False
        file = self.files.find(listed.part)
        if file is None or FileMark(file.size, file.changed) != mark or file.size < len(_MAGICS[0]):
            return True
        with self.files.open(file, offset=file.size - len(_MAGICS[0])) as data:
            return data.read(len(_MAGICS[0])) not in _MAGICS

    def split_range(self, whole: SourceRange, parts: int) -> list[SourceRange]:
        """Split a range at the row groups of its file."""
        try:
            with open_listed_file(self.files, whole) as file, self._open(file) as data:
                return _split_at_row_groups(whole, parts, data.metadata)
        except BadFileError:
            return [whole]  # reading it will fail, and say why

    def read_range(
        self, part: SourceRange, rows: int, *, columns: frozenset[str] | None = None
    ) -> Iterator[tuple[pa.RecordBatch, Point]]:
        with open_listed_file(self.files, part) as file, self._open(file) as data:
            with _blame_file(file):
                names = self._column_names(file, data.schema_arrow, columns)
            offset = part.begin.offset
            for batch in _read_batches(data, offset, rows, names, part.end):
                placed = with_places(batch, file.path, offset + 1)
                offset += batch.num_rows
                yield placed, Point(offset)

    def _column_names(self, file: File, schema: pa.Schema, columns: frozenset[str] | None) -> list[str]:
        wanted = self.stream.schema if columns is None else requested_schema(self.stream, columns, time=True)
        return [schema.names[check_column(self.stream, schema, field, file.path)] for field in wanted]

    @contextmanager
    def _open(self, file: File) -> Iterator[Any]:
        with self.files.open(file) as data, pq.ParquetFile(data) as parquet:
            yield parquet


@contextmanager
def _blame_file(file: File) -> Iterator[None]:
    try:
        yield
    except DataError as error:
        raise to_bad_file_error(file, error) from error


def _split_at_row_groups(whole: SourceRange, parts: int, metadata: Any) -> list[SourceRange]:
    ends = np.cumsum([metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)], dtype=np.int64)
    end = metadata.num_rows if whole.end is None else whole.end
    inside = ends[(ends > whole.begin.offset) & (ends < end)]
    wanted = whole.begin.offset + (end - whole.begin.offset) * np.arange(1, parts) // parts
    nearest = np.searchsorted(inside, wanted)
    cuts = np.unique(inside[nearest[nearest < len(inside)]]).tolist()
    begins, stops = [whole.begin.offset, *cuts], [*cuts, whole.end]
    return [replace(whole, begin=Point(begin), end=stop) for begin, stop in zip(begins, stops, strict=True)]


def _read_batches(data: Any, offset: int, rows: int, names: list[str], end: int | None) -> Iterator[pa.RecordBatch]:
    """Yield rows from an offset up to an end; other row groups are not read.

    A row group is read as a whole, so that the number of rows used of a damaged one does not depend on the batch size.
    """
    first, stop = 0, data.metadata.num_rows if end is None else end
    for group in range(data.num_row_groups):
        size = data.metadata.row_group(group).num_rows
        if offset < first + size and first < stop:
            at = first
            for batch in list(data.iter_batches(batch_size=rows, row_groups=[group], columns=names)):
                skip, until = max(0, offset - at), min(batch.num_rows, stop - at)
                if skip < until:
                    yield batch.slice(skip, until - skip)
                at += batch.num_rows
        first += size
