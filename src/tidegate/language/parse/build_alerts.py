"""From Lark's tree to the syntax tree: alerts."""

from __future__ import annotations

from dataclasses import replace

from lark import Token, v_args
from lark.tree import Meta

from tidegate.errors import QueryError
from tidegate.language import syntax
from tidegate.language.parse.build_alert_kinds import AlertParts, function_alert, is_about_total, total_alert
from tidegate.language.parse.build_clauses import CreateClause, contents_by_keywords
from tidegate.language.parse.build_expressions import microseconds, span_of, unquote
from tidegate.language.parse.build_queries import QueryBuilder
from tidegate.language.syntax import Distance, Expression, Name, Source, Statement


@v_args(meta=True, inline=True)
class AlertBuilder(QueryBuilder):
    """One method for each grammar rule about alerts."""

    def create_alert(
        self,
        meta: Meta,
        word: Token,
        name: Name,
        sources: tuple[Source, ...],
        within: syntax.Within | None,
        *clauses: CreateClause | None,
    ) -> Statement:
        given = tuple(clause for clause in clauses if clause is not None)
        written = AlertParts(
            word.upper() == "ALERTS", name, sources, within, contents_by_keywords(given), given, span_of(meta)
        )
        return total_alert(written) if is_about_total(written) else function_alert(written)

    def member(self, meta: Meta, token: Token) -> Name:
        return Name(unquote(token), span_of(meta))

    # ---- WITHIN

    def distance(self, meta: Meta, minus: Token | None, number: Token, unit: Token | None) -> Distance:
        if minus is not None:
            hint = f"a distance has no direction: write WITHIN {' '.join(filter(None, (number, unit)))}"
            raise QueryError("Q211", "a distance cannot be negative", span_of(meta), hint=hint)
        return Distance(microseconds(number, unit), span_of(meta))

    def every_pair(self, meta: Meta, distance: Distance, ends: Token | None, centre: Name | None) -> syntax.Within:
        return syntax.EveryPair(_with_open_ends(distance, ends), centre, span_of(meta))

    def named_pairs(self, meta: Meta, *pairs: syntax.NamedPair | None) -> syntax.Within:
        return syntax.NamedPairs(tuple(pair for pair in pairs if pair is not None), span_of(meta))

    def named_pair(
        self, meta: Meta, distance: Distance, ends: Token | None, left: Name, right: Name, later: Token | None
    ) -> syntax.NamedPair:
        if ends is not None and later is not None:
            raise QueryError("Q105", "OPEN is given twice", span_of(later), hint="remove one of them")
        return syntax.NamedPair(_with_open_ends(distance, ends or later), left, right, span_of(meta))

    def hops(self, meta: Meta, length: Distance, slide: Distance | None) -> syntax.Within:
        slide = slide or length
        for word, each in (("WINDOWS OF", length), ("SLIDE", slide)):
            if each.length == 0:
                hint = f"write for example {word} 10 SECONDS"
                raise QueryError("Q211", f"{word} must be longer than zero", each.span, hint=hint)
        if slide.length > length.length:
            hint = "use a SLIDE of at most the length of the windows; without SLIDE they follow each other"
            raise QueryError("Q211", "elements between two windows would meet no others", slide.span, hint=hint)
        return syntax.Hops(length.length, slide.length, span_of(meta))

    # ---- other clauses

    def when_clause(self, meta: Meta, condition: Expression) -> CreateClause:
        return CreateClause("WHEN", condition, span_of(meta))

    def where_clause(self, meta: Meta, condition: Expression) -> CreateClause:
        return CreateClause("WHERE", condition, span_of(meta))

    def matching_clause(self, meta: Meta, *names: Name) -> CreateClause:
        return CreateClause("MATCHING", names, span_of(meta))

    def repeat_clause(self, meta: Meta, _word: Token) -> CreateClause:
        return CreateClause("REPEAT", True, span_of(meta))  # noqa: FBT003 - the presence of the clause is all it states

    def id_clause(self, meta: Meta, first: Name, second: Name | None) -> CreateClause:
        qualifier, name = (None, first) if second is None else (first, second)
        place = first.span if second is None else first.span.to(second.span)
        return CreateClause("ID", syntax.ColumnReference(qualifier, name, place), span_of(meta))

    def terminate_clause(self, meta: Meta, condition: Expression) -> CreateClause:
        return CreateClause("TERMINATE WHEN", condition, span_of(meta))

    def assume_clause(self, meta: Meta, *names: Name | None) -> CreateClause:
        given = tuple(name for name in names if name is not None)
        return CreateClause("ASSUME QUASICONVEX", syntax.Assumption(given, span_of(meta)), span_of(meta))

    def emit_clause(self, meta: Meta) -> CreateClause:
        return CreateClause("EMIT ALL", True, span_of(meta))  # noqa: FBT003 - the presence of the clause is all it states

    def notify_clause(self, meta: Meta, text: Token) -> CreateClause:
        return CreateClause("NOTIFY", unquote(text), span_of(meta))

    def shedding_clause(self, meta: Meta, options: syntax.QueryOptions) -> CreateClause:
        return CreateClause("WITH", options, span_of(meta))


def _with_open_ends(distance: Distance, ends: Token | None) -> Distance:
    if ends is None:
        return distance
    if distance.length == 0:
        hint = "remove OPEN for elements of the same instant, or write a longer distance"
        raise QueryError("Q211", "no two elements are less than 0 apart", span_of(ends), hint=hint)
    word = ends.lower()
    return replace(distance, left_open=not word.startswith("right"), right_open=not word.startswith("left"))
