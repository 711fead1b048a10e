"""Rows that could not take part, with the reason: nothing is lost silently."""

from __future__ import annotations

from enum import Enum

import pyarrow as pa


class Reason(Enum):
    """Why a row was set aside; the value is the code that users see."""

    LATE = "late"
    MALFORMED = "malformed"
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
    ]
)

NO_DEAD_LETTERS = pa.RecordBatch.from_pylist([], schema=DEAD_LETTER)
