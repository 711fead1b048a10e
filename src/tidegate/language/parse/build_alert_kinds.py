"""Determine the kind of an alert, and check that it has the clauses that this kind needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.build_clauses import CreateClause
from tidegate.language.syntax import Name, Source, Statement
from tidegate.language.syntax.totals import is_total

_FOR_SUBSCRIPTIONS = "it is for subscriptions: write CREATE ALERTS name FROM stream t, subscription r …, or remove it"


@dataclass(frozen=True, slots=True)
class AlertParts:
    """The parts of a CREATE ALERT or, with `many`, a CREATE ALERTS."""

    many: bool
    name: Name
    sources: tuple[Source, ...]
    within: syntax.Within | None
    contents: dict[str, Any]
    clauses: tuple[CreateClause, ...]
    span: Span


def is_about_total(written: AlertParts) -> bool:
    """Return whether an alert counts elements of one stream; others compare a function of elements."""
    said = written.contents
    counts = any(map(is_total, syntax.walk(said.get("WHEN"))))
    return written.many or counts or (_reads_one_stream(written) and ("WHEN" not in said or "REPEAT" in said))


def _reads_one_stream(written: AlertParts) -> bool:
    return len(written.sources) == 1 and not isinstance(written.sources[0], syntax.JoinClause)


def function_alert(written: AlertParts) -> Statement:
    """Return an alert on a function of elements of several streams, or of one."""
    said = written.contents
    alone = _reads_one_stream(written)
    if written.within is None and not alone:
        hint = "add WITHIN after FROM, for example WITHIN 5 SECONDS"
        raise QueryError(
            "Q210",
            "this alert has no WITHIN: it must say how near in time elements are",
            _place_of_within(written),
            hint=hint,
        )
    _refuse_without_when(written, "WHEN a.value + b.value > 10")
    hint = "it is for alerts on totals: write WHEN TOTAL(…) >= …, or remove it"
    kind = "an alert on a function of one stream" if alone else "an alert that joins streams"
    _refuse_clauses(written, ("REPEAT", "ID", "TERMINATE WHEN"), kind, hint)
    if alone:
        hint = "remove it: an alert on one stream makes no combinations that could be shed"
        _refuse_clauses(written, ("WITH",), kind, hint)
    return syntax.CreateAlert(
        written.name,
        written.sources,
        written.within,
        said.get("MATCHING", ()),
        said["WHEN"],
        said.get("WHERE"),
        said.get("ASSUME QUASICONVEX"),
        "EMIT ALL" in said,
        said.get("NOTIFY"),
        written.span,
        said.get("WITH"),
    )


def total_alert(written: AlertParts) -> Statement:
    """Return an alert on a total, or one for each subscription."""
    said = written.contents
    _refuse_without_when(
        written, "WHEN TOTAL(t.weight) >= r.threshold" if written.many else "WHEN TOTAL(weight) >= 1000"
    )
    hint = "remove it: a total is exact and raises one alarm when it is reached, with REPEAT one each time"
    _refuse_clauses(written, ("EMIT ALL", "ASSUME QUASICONVEX"), "an alert on a total", hint)
    hint = "remove it: a total makes no comparisons that could be shed"
    _refuse_clauses(written, ("WITH",), "an alert on a total", hint)
    subscribing = syntax.SubscriptionClauses(said.get("ID"), said.get("TERMINATE WHEN")) if written.many else None
    if subscribing is None:
        _refuse_clauses(written, ("ID", "TERMINATE WHEN"), "CREATE ALERT", _FOR_SUBSCRIPTIONS)
    return syntax.CreateTotalAlert(
        written.name,
        written.sources,
        written.within,
        said.get("MATCHING", ()),
        said["WHEN"],
        said.get("WHERE"),
        "REPEAT" in said,
        said.get("NOTIFY"),
        subscribing,
        written.span,
    )


def _refuse_without_when(written: AlertParts, instance: str) -> None:
    if "WHEN" not in written.contents:
        message = "this alert has no WHEN: it must say when to raise an alarm"
        raise QueryError("Q210", message, written.name.span, hint=f"write for example {instance}")


def _refuse_clauses(written: AlertParts, words: tuple[str, ...], kind: str, hint: str) -> None:
    for clause in written.clauses:
        if clause.keywords in words:
            raise QueryError("Q215", f"{kind} has no {clause.keywords}", clause.span, hint=hint)


def _place_of_within(written: AlertParts) -> Span:
    """Return the position where WITHIN should be: before the first other clause."""
    if written.clauses:
        return written.clauses[0].span
    return Span(written.span.end, written.span.end + 1)
