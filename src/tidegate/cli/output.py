"""Results on standard output: as a table, CSV or JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import datetime

import pyarrow as pa

from tidegate.connectors.sinks import TextFormat, render
from tidegate.entries import is_collection
from tidegate.expressions.column_texts import column_texts
from tidegate.runtime.port import DEAD_LETTERS
from tidegate.runtime.shedding import SHEDDING, shed_in_words

SHOWN_DEAD_LETTERS = 10
TABLE_CHUNK = 100_000


class Printer:
    """Takes rows of outputs as they come; queries to stdout, dead letters to stderr.

    Tables are held to be sorted and aligned, a large part at a time, unless they are wanted at once.
    """

    def __init__(self, format_: str, queries: Sequence[str], *, at_once: bool = False) -> None:
        self.format, self.queries = format_, queries
        self.chunk = 1 if at_once else TABLE_CHUNK
        self.held: dict[str, list[pa.RecordBatch]] = {}
        self.begun: set[str] = set()
        self.dead = 0
        self.is_cut_off = False
        """Whether nobody reads standard output any more, as after ``| head``."""

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        try:
            self._add(name, rows)
        except BrokenPipeError:
            self._cut_off()

    def close(self) -> None:
        """Print what is still held."""
        try:
            self._close()
        except BrokenPipeError:
            self._cut_off()

    def _add(self, name: str, rows: pa.RecordBatch) -> None:
        if name == DEAD_LETTERS:
            self._letters(rows)
        elif name == SHEDDING:
            self._shed(rows)
        elif self.format == "table":
            self.held.setdefault(name, []).append(rows)
            if sum(b.num_rows for b in self.held[name]) >= self.chunk:
                self._table(name)
        else:
            self._lines(name, rows)

    def _cut_off(self) -> None:
        self.is_cut_off = True
        # What is still to be written goes nowhere, also what Python itself writes when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _close(self) -> None:
        for name in self.queries:
            if self.held.get(name):
                self._table(name)
        if self.dead > SHOWN_DEAD_LETTERS:
            print(f"… and {self.dead - SHOWN_DEAD_LETTERS} more dead letters", file=sys.stderr)
        sys.stdout.flush()

    def _lines(self, name: str, rows: pa.RecordBatch) -> None:
        if len(self.queries) > 1:
            rows = rows.add_column(0, "query", pa.array([name] * rows.num_rows))
        # Several queries have several headers: a reader of CSV tells them apart by the first column.
        format_: TextFormat = "csv" if self.format == "csv" else "jsonl"
        sys.stdout.write(render(rows, format_, header=name not in self.begun))
        sys.stdout.flush()  # a reader at the other end of a pipe waits for it
        self.begun.add(name)

    def _table(self, name: str) -> None:
        table = pa.Table.from_batches(self.held.pop(name)).sort_by([("valid_from", "ascending")])
        if len(self.queries) > 1:
            print(f"{name}:")
        sys.stdout.write(aligned(table))
        sys.stdout.flush()

    def _letters(self, rows: pa.RecordBatch) -> None:
        for letter in rows.to_pylist()[: max(0, SHOWN_DEAD_LETTERS - self.dead)]:
            print(f"dead letter ({letter['reason']}): {letter['detail']}: {letter['row']}", file=sys.stderr)
        self.dead += rows.num_rows

    def _shed(self, rows: pa.RecordBatch) -> None:
        """Of each batch of results that is not all there is, which share it is."""
        for row in rows.to_pylist():
            if row["compared_share"] < 1:
                said = shed_in_words({name.removesuffix("_share"): value for name, value in row.items()})
                print(f"step {row['step']} of {row['query']} sheds: {said}", file=sys.stderr)


def aligned(table: pa.Table) -> str:
    """Rows under their headings, numbers to the right.

    Examples
    --------
    >>> print(aligned(pa.table({"name": ["a", "bcd"], "n": [1, 20]})), end="")
    name   n
    a      1
    bcd   20
    """
    columns = [_cells(column.combine_chunks()) for column in table.columns]
    right = [pa.types.is_integer(t) or pa.types.is_floating(t) for t in table.schema.types]
    widths = [
        max([len(name), *(len(c) for c in cells)]) for name, cells in zip(table.column_names, columns, strict=True)
    ]
    lines = [table.column_names, *zip(*columns, strict=True)]
    return "".join(_line(line, widths, right) for line in lines)


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = [c.rjust(w) if r else c.ljust(w) for c, w, r in zip(cells, widths, right, strict=True)]
    return "  ".join(padded).rstrip() + "\n"


def _cells(column: pa.Array) -> list[str]:
    shown = column_texts(column) if is_collection(column.type) else column
    return [_cell(value) for value in shown.to_pylist()]


def _cell(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").replace("+00:00", "Z")
    return str(value)
