"""Output rows in the one form that all outputs of the same meaning share, as text to be read in a diff.

How an output is cut into rows in time does not matter. Here each row is valid for as long as it
can be: where a value is there n times, the k-th row of it lasts while there are at least k.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from reference.instants import OutputRow
from reference.values import Row, canonical_row
from support.micros import in_micros

from tidegate.schema import Schema
from tidegate.time import FOREVER

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def output_rows(batches: Iterable[pa.RecordBatch]) -> list[OutputRow]:
    return [(start, end, values) for b in batches for start, end, *values in zip(*_lists(in_micros(b)), strict=True)]


def _lists(batch: pa.RecordBatch | pa.Table) -> list[list[object]]:
    return [column.to_pylist() for column in batch.columns]


def canonical_text(schema: Schema, rows: Iterable[OutputRow]) -> str:
    """The rows as CSV, sorted: equal texts mean equal relations at every instant."""
    lines = [",".join(("valid_from", "valid_to", *schema.names))]
    lines += [",".join(map(_shown, (_Time(a), _Time(b), *values))) for a, b, values in coalesced(rows)]
    return "".join(f"{line}\n" for line in lines)


def coalesced(rows: Iterable[OutputRow]) -> list[OutputRow]:
    changes: dict[Row, Counter[int]] = {}
    for start, end, values in rows:
        assert start < end, "an output row has an empty validity"
        change = changes.setdefault(canonical_row(values), Counter())
        change[start] += 1
        change[end] -= 1
    found = [(a, b, values) for values, change in changes.items() for a, b in _levels(change)]
    return sorted(found, key=lambda row: (row[0], row[1], [_order(v) for v in row[2]]))


def _levels(change: Counter[int]) -> Iterator[tuple[int, int]]:
    """Validities, longest first: of the row that is there once, then of the second one, and so on."""
    begun: list[int] = []
    for instant in sorted(change):
        begun += [instant] * change[instant]
        for _ in range(-change[instant]):
            yield begun.pop(), instant
    assert not begun


def _order(value: object) -> tuple[bool, str, object]:
    return (value is not None, type(value).__name__, 0 if value is None else _key(value))


def _key(value: object) -> object:
    return repr(value) if isinstance(value, float) else value


class _Time(int):
    """An instant, to be shown as one."""


def _shown(value: object) -> str:
    match value:
        case None:
            return ""
        case _Time():
            return "forever" if value == FOREVER else _shown(EPOCH + timedelta(microseconds=value))
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
        case bool():
            return str(value).lower()
        case str():
            return _quoted(value)
    return repr(value)


def _quoted(text: str) -> str:
    needs_quotes = text == "" or set(text) & set(',"\n') or text != text.strip()
    return '"' + text.replace('"', '""') + '"' if needs_quotes else text
