"""The `edge` command: it filters readings from standard input to standard output."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from tidegate.errors import DataError, QueryError
from tidegate.time import parse_duration


class ShapeOption(StrEnum):
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
    value: Annotated[str, typer.Option(metavar="COLUMN", help="Column that the alert reads.")],
    key: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Column of MATCHING; may be given several times.")
    ] = None,
    within: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The alert's WITHIN, such as '10 seconds'.")
    ] = None,
    streams: Annotated[int, typer.Option(min=2, help="Number of streams that the alert joins.")] = 2,
    window: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The length of a bracket, instead of --within.")
    ] = None,
    shape: Annotated[
        ShapeOption, typer.Option(help="Shape of the alert's function in this value.")
    ] = ShapeOption.QUASICONVEX,
    boundary: Annotated[
        Boundary, typer.Option(help="Whether readings exactly at the distance count.")
    ] = Boundary.CLOSED,
    hold: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long to hold a row; by default the length of a bracket."),
    ] = None,
    format: Annotated[LineFormat, typer.Option(help="Format of the rows.")] = LineFormat.CSV,  # noqa: A002 - the option's name
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print a summary.")] = False,
) -> None:
    """Pass on the rows that a threshold alert may need.

    The rows of standard input that cannot change whether an alarm is raised are omitted.

    Rows keep all their columns. Each row is held until the command can decide
    whether to omit it, so rows of different keys may come out in another order.
    A row without a value or a key is always passed on. Rows that cannot be read
    go to standard error, with the reason.

    Exit codes: 0 for success, 2 for a wrong option, 3 if rows could not be read.
    """
    from tidegate.cli.edge_work import filter_rows

    work = filter_rows(
        time,
        value,
        tuple(key or ()),
        window=_bracket_length(within, window, streams),
        shape=shape.value,
        boundary=boundary.value,
        hold=None if hold is None else parse_duration(hold),
        format=format.value,
    )
    if not quiet:
        print(work.summary, file=sys.stderr)
    if work.bad:
        raise typer.Exit(DataError.exit_code)


def _bracket_length(within: str | None, window: str | None, streams: int) -> int:
    match within, window:
        case str(), None:
            return parse_duration(within) * (2 if streams == 2 else 1)
        case None, str():
            return parse_duration(window)
    raise QueryError("Q304", "either --within or --window is needed", hint="for example --within '10 seconds'")
