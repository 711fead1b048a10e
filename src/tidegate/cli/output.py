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
from tidegate.expressions.parse.times import instant_text
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.runtime.outputs import sort_by_time
from tidegate.runtime.quality import QUALITY
from tidegate.runtime.shedding import SHEDDING, describe_shares

SHOWN_DEAD_LETTERS = 10
TABLE_CHUNK = 100_000


class Printer:
    """Printer of output rows: results to stdout, dead letters and figures on shedding to stderr.

    `queries` has the schemas of the queries whose rows are printed. In the table format, rows are held
    back to be sorted and aligned in large chunks, unless `at_once` is set.
    """

    def __init__(self, format_: str, queries: Mapping[str, pa.Schema], *, at_once: bool = False) -> None:
        self.format = format_
        self.chunk = 1 if at_once else TABLE_CHUNK
        self.held: dict[str, list[pa.RecordBatch]] = {}
        self.tables = {name: AlignedTable(schema) for name, schema in queries.items()}
        self.is_headed = False
        """True if the CSV header was printed."""
        self.last: str | None = None
        """The query whose table rows were printed last."""
        self.dead = 0
        self.is_cut_off = False
        """True if the reader of standard output has closed the pipe, as ``| head`` does."""

    def add(self, name: str, rows: pa.RecordBatch) -> None:
        with self._unless_cut_off():
            if name == DEAD_LETTERS:
                self._print_dead_letters(rows)
            elif name == SHEDDING:
                self._print_shedding(rows)
            elif name == QUALITY:
                self._print_quality(rows)
            elif self.format == "table":
                self.held.setdefault(name, []).append(rows)
                if sum(b.num_rows for b in self.held[name]) >= self.chunk:
                    self._print_table(name)
            else:
                self._print_lines(name, rows)

    def close(self) -> None:
        """Print the rows that are still held back."""
        with self._unless_cut_off():
            for name in [name for name in self.tables if self.held.get(name)]:
                self._print_table(name)
            if self.dead > SHOWN_DEAD_LETTERS:
                print(f"… and {self.dead - SHOWN_DEAD_LETTERS} more dead letters", file=sys.stderr)
            sys.stdout.flush()

    def print_missing_headers(self) -> None:
        """Print the headers of queries without rows."""
        with self._unless_cut_off():
            for name, table in self.tables.items():
                if self.format == "table" and not table.is_headed:
                    self._print_rows(name, table.schema.empty_table())
                elif self.format == "csv" and not self.is_headed:
                    self._print_lines(name, pa.RecordBatch.from_pylist([], schema=table.schema))
            sys.stdout.flush()

    @contextmanager
    def _unless_cut_off(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.is_cut_off = True
            # Discard all further output, also what Python writes when it exits.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def _print_lines(self, name: str, rows: pa.RecordBatch) -> None:
        if len(self.tables) > 1:
            rows = rows.add_column(0, "query", pa.array([name] * rows.num_rows, pa.string()))
        format_: TextFormat = "csv" if self.format == "csv" else "jsonl"
        sys.stdout.write(render(rows, format_, header=not self.is_headed))
        sys.stdout.flush()  # the reader of a pipe waits for the rows
        self.is_headed = True

    def _print_table(self, name: str) -> None:
        self._print_rows(name, sort_by_time(pa.Table.from_batches(self.held.pop(name))))
        sys.stdout.flush()

    def _print_rows(self, name: str, rows: pa.Table) -> None:
        if len(self.tables) > 1 and self.last != name:
            print(f"{name}:")
            self.last = name
        sys.stdout.write(self.tables[name].format_rows(rows))

    def _print_dead_letters(self, rows: pa.RecordBatch) -> None:
        # Omit the time: a Python datetime cannot represent all times.
        shown = rows.select(["reason", "detail", "row", "file", "line"]).slice(
            0, max(0, SHOWN_DEAD_LETTERS - self.dead)
        )
        for letter in shown.to_pylist():
            said = ": ".join(printable(part) for part in (letter["detail"], letter["row"]) if part is not None)
            print(f"dead letter ({letter['reason']}){_place_text(letter)}: {said}", file=sys.stderr)
        self.dead += rows.num_rows

    def _print_quality(self, rows: pa.RecordBatch) -> None:
        """Print the changes of sizes; those at the beginning of a run are none."""
        begins = rows.column("valid_from").cast(pa.int64()).to_pylist()
        columns = (rows.column(name).to_pylist() for name in ("query", "window", "size", "best", "reason"))
        for begin, query, window, size, best, reason in zip(begins, *columns, strict=True):
            if begin is not None:
                why = f": {reason}" if reason else ""
                text = f"{window} is {size / best:.2g} times its best size from {instant_text(begin)} on{why}"
                print(f"quality of {query}: {text}", file=sys.stderr)

    def _print_shedding(self, rows: pa.RecordBatch) -> None:
        """Print for each step that shed comparisons the share of results it found."""
        for row in rows.to_pylist():
            if row["rate"] is None and row["compared_share"] < 1:
                shares = row["results_share"], row["compared_share"], row["utility_share"]
                text = describe_shares(*shares, row["dropped"])
                print(f"step {row['step']} of {row['query']} found {text}", file=sys.stderr)


def _place_text(letter: Mapping[str, object]) -> str:
    """Format the file and line of a dead letter as compilers do.

    Examples
    --------
    >>> _place_text({"file": "data/bid.csv", "line": 7}), _place_text({"file": None, "line": None})
    (' data/bid.csv:7', '')
    """
    file, line = letter["file"], letter["line"]
    return "" if file is None else f" {printable(str(file))}" + ("" if line is None else f":{line}")
