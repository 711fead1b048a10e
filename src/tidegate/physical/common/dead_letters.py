"""Dead letters: rows that could not be processed, with the reason, so that nothing is lost silently."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import pyarrow as pa

from tidegate.expressions.column_texts import json_rows


class Reason(Enum):
    """Reason why a row became a dead letter; the value is the code that users see."""

    LATE = "late"
    MALFORMED = "malformed"
    BAD_FILE = "bad_file"
    NO_TIME = "no_time"
    TIME_RANGE = "time_range"
    OUTSIDE_DOMAIN = "outside_domain"
    DIVISION_BY_ZERO = "division_by_zero"
    OVERFLOW = "overflow"
    INVALID_CAST = "invalid_cast"
    DOMAIN = "domain"
    USER_FUNCTION = "user_function"
    BAD_WEIGHT = "bad_weight"
    BAD_THRESHOLD = "bad_threshold"
    EMPTY_RANGE = "empty_range"
    NO_ID = "no_id"
    REGISTERED_TWICE = "registered_twice"
    NOT_REGISTERED = "not_registered"
    REPEATED_KEY = "repeated_key"


DEAD_LETTER = pa.schema(
    [
        ("origin", pa.string()),  # the stream or query in which it happened
        ("reason", pa.string()),  # a code, the value of a Reason
        ("detail", pa.string()),  # a sentence
        ("time", pa.int64()),  # application time of the row, where it is known
        ("row", pa.string()),  # the row as JSON, or the raw text if it could not be read
        ("file", pa.string()),  # the path of the file that it was read from, where there is one
        ("line", pa.int64()),  # its line in that file, or its row in a Parquet file, counted from 1
    ]
)

NO_DEAD_LETTERS = pa.RecordBatch.from_pylist([], schema=DEAD_LETTER)


def rows_as_json(names: Sequence[str], columns: Sequence[pa.Array], count: int) -> list[str]:
    """Return rows as JSON, as dead letters show them; without columns, each row is an empty object."""
    if not names:
        return ["{}"] * count
    return list(json_rows(pa.RecordBatch.from_arrays(list(columns), list(names))).to_pylist())
