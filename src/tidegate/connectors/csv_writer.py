"""Format rows as CSV lines, and durations; `column_texts` formats the values."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expressions.column_texts import column_texts, is_text
from tidegate.time import MICROSECONDS


def csv_lines(rows: pa.RecordBatch) -> pa.Array:
    """Format each row as a line of RFC 4180 without its end: NULL is empty, an empty string is ``""``."""
    texts = [_csv_fields(column) for column in rows.columns]
    return pc.binary_join_element_wise(*[t.fill_null("") for t in texts], ",")


def _csv_fields(column: pa.Array) -> pa.Array:
    """Format the values of a column as CSV fields; numbers and times need no quotes."""
    if is_text(column.type) or pa.types.is_nested(column.type):
        return _quote_texts(column_texts(column))
    return column_texts(column)


def csv_header(schema: pa.Schema) -> str:
    names = pa.array(schema.names, pa.string())
    return ",".join(_quote_texts(names).to_pylist())


def human_duration(microseconds: int) -> str:
    """Format a duration in the largest unit in which it is at least one.

    Examples
    --------
    >>> human_duration(2_500_000)
    '2.5 seconds'
    """
    name, size = next((n, s) for n, s in reversed(_READABLE) if microseconds >= s or s == 1)
    amount = f"{microseconds / size:.6f}".rstrip("0").rstrip(".")
    return f"{amount} {name}" + ("" if amount == "1" else "s")


_READABLE = [(name, size) for name, size in MICROSECONDS.items() if name != "week"]


def _quote_texts(values: pa.Array) -> pa.Array:
    """Quote texts for CSV, where quotes are needed to read the same text again."""
    texts = values.cast(pa.string())
    doubled = pc.replace_substring(texts, '"', '""')
    needed = pc.match_substring_regex(texts, r'[",\r\n]|^\s|\s$|^$')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), texts)
