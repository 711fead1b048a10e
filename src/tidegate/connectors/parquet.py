"""Read Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.decode import Decoder, requested_schema
from tidegate.connectors.files import File, FileProgress, FileSet, Point, to_bad_file_error
from tidegate.connectors.formats import Format, Position, check_options
from tidegate.connectors.origins import with_places
from tidegate.connectors.typed_columns import check_column, check_schema, typed_decoder
from tidegate.errors import DataError


@dataclass(frozen=True, slots=True)
class ParquetSource:
    """Source of one Parquet file, or a folder or glob of them. A file must not change once it exists."""

    stream: SourceStream
    files: FileSet

    def __post_init__(self) -> None:
        check_options(self.stream, ())

    @property
    def format(self) -> Format:
        return Format.PARQUET

    def check(self) -> None:
        for file in self.files.existing_files(self.stream):
            self.check_file(file)

    def check_file(self, file: File) -> None:
        """Raise an error if the file as a whole is bad."""
        with self._open(file) as data, _blame_file(file):
            check_schema(self.stream, data.schema_arrow, file.path)

    def decoder(self, columns: frozenset[str]) -> Decoder:
        return typed_decoder(self.stream, columns)

    def read(
        self, position: Position | None, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
    ) -> Iterator[tuple[pa.RecordBatch, Position]]:
        progress = FileProgress.of(position)
        for file in self.files.files():
            if file.name not in progress.done:
                begin = progress.point(file).offset
                for batch, offset, is_last in self._file_batches(file, begin, rows, columns):
                    progress = progress.after(file, Point(offset), is_done=is_last)
                    yield batch, progress.position

    def _file_batches(
        self, file: File, offset: int, rows: int, columns: frozenset[str] | None
    ) -> Iterator[tuple[pa.RecordBatch, int, bool]]:
        with self._open(file) as data:
            with _blame_file(file):
                names = self._column_names(file, data.schema_arrow, columns)
            for batch in _read_batches(data, offset, rows, names):
                placed = with_places(batch, file.path, offset + 1)
                offset += batch.num_rows
                yield placed, offset, offset == data.metadata.num_rows

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


def _read_batches(data: Any, offset: int, rows: int, names: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows starting at an offset; earlier row groups are not read.

    A row group is read as a whole, so that the number of rows used of a damaged one does not depend on the batch size.
    """
    first = 0
    for group in range(data.num_row_groups):
        size = data.metadata.row_group(group).num_rows
        skip = max(0, offset - first)
        if skip < size:
            for batch in list(data.iter_batches(batch_size=rows, row_groups=[group], columns=names)):
                if batch.num_rows > skip:
                    yield batch.slice(skip)
                skip = max(0, skip - batch.num_rows)
        first += size
