"""Aligned text tables."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from tidegate.errors import printable
from tidegate.expressions.column_texts import column_texts


class AlignedTable:
    """Table that is printed in parts under one heading; a longer cell widens its column from then on."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self.is_headed = False
        self._widths = [len(name) for name in schema.names]
        self._right = [pa.types.is_integer(t) or pa.types.is_floating(t) for t in schema.types]

    def format_rows(self, rows: pa.Table) -> str:
        """Format the next rows, the first time below the heading."""
        columns = [_cells(column) for column in rows.columns]
        self._widths = [max([width, *map(len, cells)]) for width, cells in zip(self._widths, columns, strict=True)]
        lines = [*([] if self.is_headed else [self.schema.names]), *zip(*columns, strict=True)]
        self.is_headed = True
        return "".join(map(self._format_line, lines))

    def _format_line(self, cells: Sequence[str]) -> str:
        columns = zip(cells, self._widths, self._right, strict=True)
        return "  ".join(cell.rjust(w) if right else cell.ljust(w) for cell, w, right in columns).rstrip() + "\n"


def align_table(table: pa.Table) -> str:
    """Format rows under their headings, with numbers aligned to the right.

    Examples
    --------
    >>> print(align_table(pa.table({"name": ["a", "bcd"], "n": [1, 20]})), end="")
    name   n
    a      1
    bcd   20
    """
    return AlignedTable(table.schema).format_rows(table)


def _cells(column: pa.ChunkedArray) -> list[str]:
    type_ = column.type
    if pa.types.is_float32(type_):
        column = column.cast(pa.string()).cast(pa.float64())  # show the shortest decimal of a REAL
    is_plain = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_boolean(type_)
    if is_plain:
        return ["NULL" if value is None else str(value) for value in column.to_pylist()]
    texts = column_texts(column.combine_chunks()).to_pylist()
    return ["NULL" if text is None else printable(text, None) for text in texts]
