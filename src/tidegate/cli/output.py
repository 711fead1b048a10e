"""Results on standard output: as a table, CSV or JSON lines."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa

from tidegate.cli.table import AlignedTable
from tidegate.connectors.sinks import TextFormat, render
from tidegate.errors import printable
from tidegate.runtime.outputs import in_time_order
from tidegate.runtime.port import DEAD_LETTERS
from tidegate.runtime.shedding import SHEDDING, shed_in_words

SHOWN_DEAD_LETTERS = 10
TABLE_CHUNK = 100_000


class Printer:
    """Takes rows of outputs as they come; queries to stdout, dead letters to stderr.

    `queries` are those whose rows are printed, with their columns. Tables are held to be sorted and
    aligned, a large part at a time, unless they are wanted at once.
    """

    def __init__(self, format_: str, queries: Mapping[str, pa.Schema], *, at_once: bool = False) -> None:
        self.format = format_
        self.chunk = 1 if at_once else TABLE_CHUNK
        self.held: dict[str, list[pa.RecordBatch]] = {}
        self.tables = {name: AlignedTable(schema) for name, schema in queries.items()}
        self.is_headed = False
        """Whether the header of a CSV was printed."""
        self.last: str | None = None
        """The query whose rows were printed last in a table."""
        self.dead = 0
        self.is_cut_off = False
        """Whether nobody reads standard output any more, as after ``| head``."""

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        with self._unless_cut_off():
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

    def close(self) -> None:
        """Print what is still held."""
        with self._unless_cut_off():
            for name in [name for name in self.tables if self.held.get(name)]:
                self._table(name)
            if self.dead > SHOWN_DEAD_LETTERS:
                print(f"… and {self.dead - SHOWN_DEAD_LETTERS} more dead letters", file=sys.stderr)
            sys.stdout.flush()

    def complete(self) -> None:
        """Print the headers of what has no rows."""
        with self._unless_cut_off():
            for name, table in self.tables.items():
                if self.format == "table" and not table.is_headed:
                    self._print_rows(name, table.schema.empty_table())
                elif self.format == "csv" and not self.is_headed:
                    self._lines(name, pa.RecordBatch.from_pylist([], schema=table.schema))
            sys.stdout.flush()

    @contextmanager
    def _unless_cut_off(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.is_cut_off = True
            # What is still to be written goes nowhere, also what Python itself writes when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _lines(self, name: str, rows: pa.RecordBatch) -> None:
        if len(self.tables) > 1:
            rows = rows.add_column(0, "query", pa.array([name] * rows.num_rows, pa.string()))
        format_: TextFormat = "csv" if self.format == "csv" else "jsonl"
        sys.stdout.write(render(rows, format_, header=not self.is_headed))
        sys.stdout.flush()  # a reader at the other end of a pipe waits for it
        self.is_headed = True

    def _table(self, name: str) -> None:
        self._print_rows(name, in_time_order(pa.Table.from_batches(self.held.pop(name))))
        sys.stdout.flush()

    def _print_rows(self, name: str, rows: pa.Table) -> None:
        if len(self.tables) > 1 and self.last != name:
            print(f"{name}:")
            self.last = name
        sys.stdout.write(self.tables[name].text(rows))

    def _letters(self, rows: pa.RecordBatch) -> None:
        # Without the time: a Python date cannot hold all of them.
        shown = rows.select(["reason", "detail", "row", "file", "line"]).slice(
            0, max(0, SHOWN_DEAD_LETTERS - self.dead)
        )
        for letter in shown.to_pylist():
            said = ": ".join(printable(part) for part in (letter["detail"], letter["row"]) if part is not None)
            print(f"dead letter ({letter['reason']}){_place(letter)}: {said}", file=sys.stderr)
        self.dead += rows.num_rows

    def _shed(self, rows: pa.RecordBatch) -> None:
        """Of each batch of results that is not all there is, which share it is."""
        for row in rows.to_pylist():
            if row["compared_share"] < 1:
                said = shed_in_words({name.removesuffix("_share"): value for name, value in row.items()})
                print(f"step {row['step']} of {row['query']} sheds: {said}", file=sys.stderr)


def _place(letter: Mapping[str, object]) -> str:
    """Return where a dead letter was read, as compilers and editors write it.

    Examples
    --------
    >>> _place({"file": "data/bid.csv", "line": 7}), _place({"file": None, "line": None})
    (' data/bid.csv:7', '')
    """
    file, line = letter["file"], letter["line"]
    return "" if file is None else f" {printable(str(file))}" + ("" if line is None else f":{line}")
