"""Pass rows from standard input to standard output, without those that no threshold alert needs."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, NamedTuple

from tidegate.cli.edge_lines import Columns, CsvReader, Fields, JsonReader, Reader, parse_number, parse_times
from tidegate.edge import Boundary, KeyedThresholdFilter, Shape

_BLOCK = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def filter_rows(
    time: str,
    value: str,
    key: tuple[str, ...],
    *,
    window: int,
    shape: Shape,
    boundary: Boundary,
    hold: int | None,
    format: Literal["csv", "jsonl"],  # noqa: A002 - the option's name
) -> EdgeFilter:
    """Pass on the rows that an alert may need; return the work done, with its counts."""
    rows: KeyedThresholdFilter[_Reading] = KeyedThresholdFilter(window, shape=shape, boundary=boundary, hold=hold)
    columns = Columns(time, value, key)
    work = EdgeFilter(rows, CsvReader(columns) if format == "csv" else JsonReader(columns))
    try:
        with _input_until_signal() as source:
            work.run(source)
    except BrokenPipeError:
        # The reader has closed the pipe, as ``| head`` does. Discard what Python writes when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return work


class _Reading(NamedTuple):
    time: int
    line: bytes


class _Line(NamedTuple):
    """A row that was split into fields, before their texts are parsed."""

    number: int
    raw: bytes
    fields: Fields


@dataclass(slots=True)
class EdgeFilter:
    """State of the command: it reads lines, passes on rows, and counts both."""

    rows: KeyedThresholdFilter[_Reading]
    reader: Reader
    lines: int = 0
    read: int = 0
    kept: int = 0
    bad: int = 0
    begun: bool = False

    @property
    def summary(self) -> str:
        unreadable = f"; {self.bad:,} could not be read" if self.bad else ""
        return f"kept {self.kept:,} of {self.read:,} rows{unreadable}"

    def run(self, source: _Source) -> None:
        for block in source.blocks():
            self._filter_lines(list(filter(None, map(self._parse_line, block))))
        self._pass_on(self.rows.flush())

    def _parse_line(self, raw: bytes) -> _Line | None:
        self.lines += 1
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self._report_bad_line(self.lines, raw, "the line is not UTF-8 text")
            return None
        if not text or text.isspace():
            return None
        if not self.begun:
            self.begun = True
            if self.reader.is_header(text):
                _write(raw + b"\n")
                return None
        fields = self.reader.fields(text)
        if isinstance(fields, str):
            self._report_bad_line(self.lines, raw, fields)
            return None
        return _Line(self.lines, raw, fields)

    def _filter_lines(self, lines: list[_Line]) -> None:
        """Offer the rows of a block to the filter, and pass on the rows that it releases."""
        sent: list[_Reading] = []
        for line, time in zip(lines, parse_times([line.fields.time for line in lines]), strict=True):
            value = parse_number(line.fields.value)
            if time is None:
                self._report_bad_line(line.number, line.raw, f"'{line.fields.time or ''}' is not a time")
            elif value is None:
                self._report_bad_line(line.number, line.raw, f"'{line.fields.value}' is not a number")
            else:
                self.read += 1
                sent += self.rows.offer(_row_key(line.fields), time, value, _Reading(time, line.raw))
        self._pass_on(sent)

    def _pass_on(self, readings: list[_Reading]) -> None:
        if readings:
            readings.sort(key=lambda reading: reading.time)
            _write(b"".join(reading.line + b"\n" for reading in readings))
            self.kept += len(readings)

    def _report_bad_line(self, line: int, raw: bytes, reason: str) -> None:
        self.bad += 1
        print(f"line {line}: {reason}: {raw.decode(errors='replace')}", file=sys.stderr)


def _row_key(fields: Fields) -> Hashable:
    """Return the key of a row; a row without a value or a key field gets a unique key, so it is never omitted."""
    return object() if fields.value is None or None in fields.key else fields.key


def _write(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()  # the reader of a pipe waits for the rows


class _Source:
    """Standard input, up to its end or a signal.

    A signal writes a byte to a separate pipe, so that a signal just before a read also ends the input.
    """

    def __init__(self, signals: int) -> None:
        self._signals = signals
        self._stopped = False

    def blocks(self) -> Iterator[list[bytes]]:
        """Yield the lines of each block read. A last line without an end counts, unless a signal ended the input."""
        rest, begun = b"", False
        while block := self._read():
            block = block if begun else block.removeprefix(_BYTE_ORDER_MARK)
            begun = True
            *lines, rest = (rest + block).split(b"\n")
            yield [line.removesuffix(b"\r") for line in lines]
        if rest and not self._stopped:
            yield [rest]

    def _read(self) -> bytes:
        ready, _, _ = select.select([sys.stdin.fileno(), self._signals], [], [])
        self._stopped = self._signals in ready
        return b"" if self._stopped else os.read(sys.stdin.fileno(), _BLOCK)


@contextmanager
def _input_until_signal() -> Iterator[_Source]:
    """Let SIGINT and SIGTERM end the input instead of the process, so that held rows are still passed on."""
    receiver, sender = os.pipe()
    os.set_blocking(sender, False)
    wakeup = signal.set_wakeup_fd(sender, warn_on_full_buffer=False)
    before = {each: signal.signal(each, lambda *_: None) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield _Source(receiver)
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        signal.set_wakeup_fd(wakeup)
        os.close(receiver)
        os.close(sender)
