"""The command that leaves out readings on their way: rows from standard input to standard output."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

import typer

from tidegate.cli.edge_lines import Columns, CsvReader, Fields, JsonReader, Reader, number, times
from tidegate.edge import KeyedThresholdFilter
from tidegate.errors import DataError, QueryError
from tidegate.time import parse_duration

_BLOCK = 1 << 16
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Shape(StrEnum):
    QUASICONVEX = "quasiconvex"
    RISING = "rising"
    FALLING = "falling"


class Boundary(StrEnum):
    CLOSED = "closed"
    OPEN = "open"


class LineFormat(StrEnum):
    CSV = "csv"
    JSONL = "jsonl"


def edge(
    time: Annotated[str, typer.Option(metavar="COLUMN", help="Microseconds since 1970, or a timestamp as text.")],
    value: Annotated[str, typer.Option(metavar="COLUMN", help="What the alert reads.")],
    key: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="What the alert matches; can be given several times.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The alert's WITHIN, such as '10 seconds'.")
    ] = None,
    streams: Annotated[int, typer.Option(min=2, help="How many streams the alert joins.")] = 2,
    window: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The length of a bracket, instead of --within.")
    ] = None,
    shape: Annotated[Shape, typer.Option(help="Of the alert's function in this value.")] = Shape.QUASICONVEX,
    boundary: Annotated[
        Boundary, typer.Option(help="Whether readings exactly at the distance count.")
    ] = Boundary.CLOSED,
    hold: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to hold a row: unless given, the length of a bracket."),
    ] = None,
    format: Annotated[LineFormat, typer.Option(help="Of the rows.")] = LineFormat.CSV,  # noqa: A002 - the option's name
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False,
) -> None:
    """Pass on the rows of standard input that a threshold alert can need, and leave out the others.

    Rows keep all their columns. Each is held until it is known whether it can be left out, and so
    they come out in order of time. A row without a value or a key is passed on. Rows that cannot be
    read go to standard error, with the reason. Ends with 0 if all went well, 2 if an option is wrong,
    3 if rows could not be read.
    """
    rows: KeyedThresholdFilter[_Reading] = KeyedThresholdFilter(
        _window(within, window, streams),
        shape=shape.value,
        boundary=boundary.value,
        hold=None if hold is None else parse_duration(hold),
    )
    columns = Columns(time, value, tuple(key or ()))
    work = _Work(rows, CsvReader(columns) if format is LineFormat.CSV else JsonReader(columns))
    try:
        with _signals() as source:
            work.run(source)
    except BrokenPipeError:
        # Nobody reads any more, as after ``| head``; what Python itself writes when it ends goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not quiet:
        print(work.summary, file=sys.stderr)
    if work.bad:
        raise typer.Exit(DataError.exit_code)


def _window(within: str | None, window: str | None, streams: int) -> int:
    match within, window:
        case str(), None:
            return parse_duration(within) * (2 if streams == 2 else 1)
        case None, str():
            return parse_duration(window)
    raise QueryError("Q304", "one of --within and --window is needed", hint="for instance --within '10 seconds'")


class _Reading(NamedTuple):
    time: int
    line: bytes


class _Line(NamedTuple):
    """A row whose fields were found, before they are read."""

    number: int
    raw: bytes
    fields: Fields


@dataclass(slots=True)
class _Work:
    """Reads lines, passes on rows, and counts both."""

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
            self._decide(list(filter(None, map(self._parsed, block))))
        self._pass_on(self.rows.flush())

    def _parsed(self, raw: bytes) -> _Line | None:
        self.lines += 1
        try:
            text = raw.decode()
        except UnicodeDecodeError:
            self._refuse(self.lines, raw, "the line is not UTF-8 text")
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
            self._refuse(self.lines, raw, fields)
            return None
        return _Line(self.lines, raw, fields)

    def _decide(self, lines: list[_Line]) -> None:
        """Offer rows that came together, and pass on what that lets out."""
        sent: list[_Reading] = []
        for line, time in zip(lines, times([line.fields.time for line in lines]), strict=True):
            value = number(line.fields.value)
            if time is None:
                self._refuse(line.number, line.raw, f"'{line.fields.time or ''}' is no time")
            elif value is None:
                self._refuse(line.number, line.raw, f"'{line.fields.value}' is no number")
            else:
                self.read += 1
                sent += self.rows.offer(_key(line.fields), time, value, _Reading(time, line.raw))
        self._pass_on(sent)

    def _pass_on(self, readings: list[_Reading]) -> None:
        if readings:
            readings.sort(key=lambda reading: reading.time)
            _write(b"".join(reading.line + b"\n" for reading in readings))
            self.kept += len(readings)

    def _refuse(self, line: int, raw: bytes, reason: str) -> None:
        self.bad += 1
        print(f"line {line}: {reason}: {raw.decode(errors='replace')}", file=sys.stderr)


def _key(fields: Fields) -> Hashable:
    """What the row shares with others; one that lacks something has nothing in common with any."""
    return object() if fields.value is None or None in fields.key else fields.key


def _write(lines: bytes) -> None:
    sys.stdout.buffer.write(lines)
    sys.stdout.buffer.flush()  # a reader at the other end of a pipe waits for it


class _Source:
    """Standard input, until it ends or a signal comes."""

    def __init__(self) -> None:
        self._stopped = self._reading = False

    def stop(self, *_signal: object) -> None:
        self._stopped = True
        if self._reading:
            raise KeyboardInterrupt

    def blocks(self) -> Iterator[list[bytes]]:
        """Lines that have come together; the last one need not be ended, unless it was cut off by a signal."""
        rest, begun = b"", False
        while block := self._read():
            block = block if begun else block.removeprefix(_BYTE_ORDER_MARK)
            begun = True
            *lines, rest = (rest + block).split(b"\n")
            yield [line.removesuffix(b"\r") for line in lines]
        if rest and not self._stopped:
            yield [rest]

    def _read(self) -> bytes:
        try:
            self._reading = True
            return b"" if self._stopped else os.read(sys.stdin.fileno(), _BLOCK)
        except KeyboardInterrupt:
            return b""
        finally:
            self._reading = False


@contextmanager
def _signals() -> Iterator[_Source]:
    """Let signals end the input rather than the command: what is held is still passed on."""
    source = _Source()
    before = {each: signal.signal(each, source.stop) for each in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield source
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
