"""Read all ranges of a source, as a run would; errors of bad files are raised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from tidegate.connectors.ranges import RangeEnd, SourcePosition
from tidegate.physical.common.codec import from_json, to_json


def read_rows(
    source: Any, position: Any, rows: int, *, columns: frozenset[str] | None = None, growing: bool = False
) -> Iterator[tuple[pa.RecordBatch, Any]]:
    """Yield raw batches after a position, each with the position after it as JSON; None is the beginning."""
    at = from_json(SourcePosition, position or {})
    for part in source.find_ranges(at, growing=growing):
        found = list(source.read_range(part, rows, columns=columns))
        for number, (batch, reached) in enumerate(found, 1):
            end = RangeEnd(part, reached, is_exhausted=number == len(found))
            yield batch, to_json(at.after([end]))
        at = at.after([RangeEnd(part, found[-1][1] if found else part.begin)])


def progress_of(position: Any) -> dict[str, int | None]:
    """Offset in each part of a position that was read as JSON; None for parts that are done."""
    return {name: None if done else point[0] for name, (point, _, done, _) in position["parts"].items()}
