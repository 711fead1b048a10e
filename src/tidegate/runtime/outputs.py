"""Convert results and dead letters to output rows: for sinks, callbacks and results in memory, in every runtime.

Internally, times are integer microseconds. In output rows they are timestamps in UTC. A validity
without a beginning or an end has NULL there. With the `TimeFormat` "micros" times stay integers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa

from tidegate.catalog.catalog import OP, Query
from tidegate.physical.common.batch import CHANGE, VALID_FROM, VALID_TO, Batch, concat_columns
from tidegate.physical.common.dead_letters import DEAD_LETTER
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.schema import Type
from tidegate.time import BEGINNING, EARLIEST, FOREVER, TimeFormat

Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)

_DEAD_LETTER = DEAD_LETTER.set(
    DEAD_LETTER.get_field_index("time"), DEAD_LETTER.field("time").with_type(Type.TIMESTAMP.arrow)
)


def output_rows(outbox: Outbox, times: TimeFormat) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the results and dead letters of a step as output rows, with the name of their output."""
    for query, batch in outbox.results:
        yield query, result_rows(batch, times)
    for dead in outbox.dead:
        yield DEAD_LETTERS, dead.cast(dead_letter_schema(times))


def result_rows(batch: Batch, times: TimeFormat = "iso") -> pa.RecordBatch:
    """Convert elements to rows with valid_from, valid_to and the columns of the query.

    Rows of a changelog have op and valid_from instead.

    Examples
    --------
    >>> import numpy as np
    >>> columns = pa.RecordBatch.from_pydict({"a": [7]})
    >>> rows = result_rows(Batch(np.array([1_000_000]), np.array([FOREVER]), columns))
    >>> print(rows.column("valid_from")[0], rows.column("valid_to")[0])
    1970-01-01 00:00:01+00:00 None
    """
    # No input row starts at or before EARLIEST: such a start means "no beginning", even if a granularity rounded it up.
    start = pa.array(batch.start, mask=batch.start <= EARLIEST)
    if batch.columns.schema.names[:1] == [CHANGE]:
        change, *columns = batch.columns.columns
        arrays = [change, start, *columns]
        schema = _output_schema([_OP, _VALIDITY[0], *list(batch.columns.schema)[1:]], times)
    else:
        end = pa.array(batch.end, mask=batch.end >= FOREVER)
        arrays = [start, end, *batch.columns.columns]
        schema = _output_schema([*_VALIDITY, *batch.columns.schema], times)
    cast = [each if each.type == type_ else each.cast(type_) for each, type_ in zip(arrays, schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(cast, schema=schema)


def merge_by_output(leaving: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Merge the batches of a step into one batch per output for callbacks, with results in time order."""
    parts: dict[str, list[pa.RecordBatch]] = {}
    for name, rows in leaving:
        parts.setdefault(name, []).append(rows)
    for name, batches in parts.items():
        yield name, sort_by_time(concat_columns(batches))


def sort_by_time(rows: Rows) -> Rows:
    """Sort rows by valid_from, then valid_to. NULL sorts first in valid_from and last in valid_to.

    Rows without these columns are returned unchanged. Changes of one instant stay in their order.
    """
    if VALID_FROM not in rows.schema.names:
        return rows
    start = rows.column(VALID_FROM).cast(pa.int64()).fill_null(BEGINNING).to_numpy()
    if VALID_TO not in rows.schema.names:
        return rows.take(pa.array(np.argsort(start, kind="stable"))) if (start[1:] < start[:-1]).any() else rows
    end = rows.column(VALID_TO).cast(pa.int64()).fill_null(FOREVER).to_numpy()
    later, same = start[1:] > start[:-1], start[1:] == start[:-1]
    if (later | (same & (end[1:] >= end[:-1]))).all():
        return rows
    return rows.take(pa.array(np.lexsort((end, start))))


def query_schema(query: Query, times: TimeFormat = "iso") -> pa.Schema:
    """Return the schema of the output rows of a query."""
    columns = list(query.columns.arrow)
    return _output_schema([_OP, _VALIDITY[0], *columns] if query.is_changelog else [*_VALIDITY, *columns], times)


def dead_letter_schema(times: TimeFormat = "iso") -> pa.Schema:
    """Return the schema of dead letters as output rows."""
    return _output_schema(_DEAD_LETTER, times)


_OP = pa.field(OP, pa.string())
_VALIDITY = (pa.field(VALID_FROM, Type.TIMESTAMP.arrow), pa.field(VALID_TO, Type.TIMESTAMP.arrow))


def _output_schema(fields: pa.Schema | list[pa.Field], times: TimeFormat) -> pa.Schema:
    return pa.schema(fields if times == "iso" else [field.with_type(_micros_type(field.type)) for field in fields])


def _micros_type(type_: pa.DataType) -> pa.DataType:
    match type_:
        case Type.TIMESTAMP.value:
            return pa.int64()
        case Type.ARRAY_TIMESTAMP.value:
            return pa.list_(pa.int64())
    return type_
