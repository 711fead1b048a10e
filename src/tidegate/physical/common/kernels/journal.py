"""Journal of rows in the order of arrival, in chunks that never change, so that old rows are not written again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Columns

_MOST_CHUNKS = 16
"""Number of chunks above which some are merged."""

_MERGE_RATIO = 2
"""Ratio up to which a chunk is merged with all chunks after it."""


class JournalChunk(NamedTuple):
    """Rows from `begin` to before `end`, counted from the first row ever appended."""

    begin: int
    end: int
    columns: Columns


@dataclass(slots=True, eq=False)
class Journal:
    """Most recent of all rows appended so far."""

    names: tuple[str, ...]
    end: int = 0
    """Number of rows appended so far."""
    chunks: list[JournalChunk] = field(default_factory=list)

    def __len__(self) -> int:
        return self.end - self.chunks[0].begin if self.chunks else 0

    def copy(self) -> Journal:
        return Journal(self.names, self.end, list(self.chunks))

    def append(self, *columns: npt.NDArray[Any]) -> None:
        """Append copies of rows."""
        rows = len(columns[0])
        if rows:
            kept = {name: column.copy() for name, column in zip(self.names, columns, strict=True)}
            self.chunks.append(JournalChunk(self.end, self.end + rows, kept))
            self.end += rows
            if len(self.chunks) > _MOST_CHUNKS:
                self._merge()

    def _merge(self) -> None:
        place, behind = len(self.chunks), 0
        for at in reversed(range(len(self.chunks))):
            rows = self.chunks[at].end - self.chunks[at].begin
            place = at if rows <= _MERGE_RATIO * behind else place
            behind += rows
        place = min(place, len(self.chunks) - 2)
        some = self.chunks[place:]
        self.chunks[place:] = [JournalChunk(some[0].begin, self.end, self._concat_chunks(some))]

    def skip(self, rows: int) -> None:
        """Skip rows that are not needed, and drop all rows before them."""
        self.chunks = []
        self.end += rows

    def drop(self, begin: int) -> None:
        """Drop chunks whose rows are all before this one."""
        self.chunks = [chunk for chunk in self.chunks if chunk.end > begin]

    def columns_since(self, begin: int) -> list[npt.NDArray[Any]]:
        """Return the columns from a row on."""
        late = [chunk for chunk in self.chunks if chunk.end > begin]
        columns = self._concat_chunks(late)
        first = begin - late[0].begin if late else 0
        return [columns[name][first:] for name in self.names]

    def _concat_chunks(self, chunks: list[JournalChunk]) -> Columns:
        if len(chunks) == 1:
            return chunks[0].columns
        none = [np.empty(0, np.int64)] if not chunks else []
        return {name: np.concatenate([*none, *(chunk.columns[name] for chunk in chunks)]) for name in self.names}

    def to_columns(self, name: str) -> dict[str, Columns]:
        """Return the chunks as parts; the name of each contains its first row."""
        return {f"{name} {chunk.begin}": chunk.columns for chunk in self.chunks}


def journal_from(name: str, names: tuple[str, ...], parts: Mapping[str, Columns], end: int | None = None) -> Journal:
    """Return the journal whose parts are among these."""
    own = [(int(key.removeprefix(f"{name} ")), part) for key, part in parts.items() if key.startswith(f"{name} ")]
    chunks = [
        JournalChunk(begin, begin + len(part[names[0]]), part) for begin, part in sorted(own, key=lambda each: each[0])
    ]
    last = chunks[-1].end if chunks else 0
    return Journal(names, last if end is None else end, chunks)


def reuse_if_equal(before: Columns | None, now: Columns) -> Columns:
    """Return what was saved before if it is equal, else a copy of the current columns."""
    same = before is not None and all(np.array_equal(before[name], column) for name, column in now.items())
    return before if before is not None and same else {name: column.copy() for name, column in now.items()}
