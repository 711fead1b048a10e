"""Answers to SHOW and DESCRIBE, as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidegate.algebra.explain import duration_text
from tidegate.catalog.catalog import (
    DerivedStream,
    Describe,
    Query,
    ShowAlerts,
    ShowConstraints,
    ShowQueries,
    ShowShedding,
    ShowStreams,
    ShowTables,
    ShowViews,
    SourceStream,
    Stream,
)
from tidegate.catalog.constraints import COLUMNS, ConstraintFinding, constraint_rows, describe_declarations
from tidegate.catalog.domains import describe_domain as domain_in_words
from tidegate.catalog.shedding import COLUMNS as SHEDDING_COLUMNS
from tidegate.catalog.shedding import SheddingSummary, shedding_rows
from tidegate.schema import Schema

AnswerableCommand = (
    ShowStreams | ShowTables | ShowViews | ShowQueries | ShowAlerts | ShowConstraints | ShowShedding | Describe
)
"""Commands that carry everything needed for the answer."""


def answer(
    command: AnswerableCommand, found: Sequence[ConstraintFinding] = (), shed: Sequence[SheddingSummary] = ()
) -> str:
    """Answer a command: one line for each item of SHOW, and for each column and constraint of DESCRIBE.

    `found` is what runs know about constraints beyond the declarations, `shed` what they know about shedding.

    Examples
    --------
    >>> from tidegate.schema import Type
    >>> print(answer(Describe(SourceStream("bid", Schema.of(price=Type.DOUBLE), "bid.csv", None))))
    stream bid from 'bid.csv', by time of arrival
      price  DOUBLE
    """
    match command:
        case ShowStreams(streams=streams):
            return _list_schemas(((s.name, s.schema) for s in streams), "there are no streams")
        case ShowTables(tables=tables):
            return _list_schemas(((t.name, t.schema) for t in tables), "there are no tables")
        case ShowViews(views=views):
            return _list_schemas(((v.name, v.schema) for v in views), "there are no views")
        case ShowQueries(queries=queries):
            return _list_schemas(((q.name, q.columns) for q in queries), "there are no queries")
        case ShowAlerts(alerts=alerts):
            return _list_schemas(((a.name, a.schema) for a in alerts), "there are no alerts")
        case ShowConstraints(streams=streams):
            rows = constraint_rows(streams, found)
            return "\n".join(align_rows([COLUMNS, *rows])) if rows else "there are no constraints"
        case ShowShedding(queries=queries):
            rows = shedding_rows(queries, shed)
            return "\n".join(align_rows([SHEDDING_COLUMNS, *rows])) if rows else "nothing is shed: shedding is off"
        case Describe(subject=subject):
            declared = describe_declarations(subject) if isinstance(subject, SourceStream) else ()
            return "\n".join(
                [_headline(subject), *(f"  {line}" for line in [*align_rows(_column_rows(subject)), *declared])]
            )


def _list_schemas(things: Iterable[tuple[str, Schema]], nothing: str) -> str:
    rows = [(name, ", ".join(f"{f.name} {f.type.name}" for f in schema)) for name, schema in things]
    return "\n".join(align_rows(rows)) or nothing


def align_rows(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return rows of texts as lines with aligned columns."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _column_rows(subject: Stream | Query) -> list[tuple[str, str]]:
    """Return the names of columns, each with its type and domain."""
    schema = subject.columns if isinstance(subject, Query) else subject.schema
    domains = dict(subject.domains) if isinstance(subject, SourceStream) else {}
    said = {name: domain_in_words(domain) for name, domain in domains.items()}
    return [(f.name, ", ".join(filter(None, [f.type.name, said.get(f.name)]))) for f in schema]


def _headline(subject: Stream | Query) -> str:
    match subject:
        case SourceStream(name=name, location=location) if subject.is_table:
            return f"table {name} from '{location}'"
        case SourceStream(name=name, location=location):
            return ", ".join([f"stream {name} from '{location}'", *_time_clauses(subject)])
        case Query(name=name, reads=reads, is_alert=True, notify=str(notify)):
            return f"alert {name} over {', '.join(sorted(reads))}, notify '{notify}'"
        case Query(name=name, reads=reads, is_alert=True) | DerivedStream(name=name, reads=reads, is_alert=True):
            return f"alert {name} over {', '.join(sorted(reads))}"
        case DerivedStream(name=name, reads=reads):
            return f"stream {name}, a query over {', '.join(sorted(reads))}"
        case Query(name=name, reads=reads):
            return f"query {name} over {', '.join(sorted(reads))}"


def _time_clauses(stream: SourceStream) -> Iterable[str]:
    """Describe the declarations of a stream on time and bad files."""
    if stream.is_timed_by_arrival:
        yield "by time of arrival"
    elif stream.end_column is None:
        yield f"timestamp by {stream.time_column}"
    else:
        yield f"valid from {stream.time_column} to {stream.end_column}"
    if stream.unit is not None:
        yield f"unit {stream.unit.value}"
    if stream.delay:
        yield f"delay {duration_text(stream.delay)}"
    if stream.idle_after is not None:
        yield f"idle after {duration_text(stream.idle_after)}"
    if stream.stops_at_bad_file:
        yield "on bad file stop"
