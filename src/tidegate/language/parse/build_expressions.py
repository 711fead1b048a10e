"""From Lark's tree to the syntax tree: names, constants and expressions."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lark import Token, Transformer, v_args
from lark.tree import Meta

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.syntax import Expression, Name, Query
from tidegate.time import LATEST, duration, parse_duration

MOST_TERMS = 10_000
"""Greatest number of conditions that AND or OR can link."""

_CONSTANTS = {"true": True, "false": False, "null": None}


def span_of(place: Meta | Token) -> Span:
    return Span(place.start_pos or 0, place.end_pos or 0)


def unsupported_error(what: str, span: Span, *, hint: str | None = None) -> QueryError:
    """Return the error for valid SQL that is not supported."""
    return QueryError("Q002", f"{what} not supported yet", span, hint=hint)


def unquote(token: Token) -> str:
    """Return the text between quotes, with doubled quotes undoubled; other tokens as they are."""
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote) if quote in "'\"`" else str(token)


def combine_terms(operator: str, terms: tuple[Expression, ...]) -> Expression:
    """Return AND or OR of many terms, as a tree of logarithmic depth."""
    if len(terms) == 1:
        return terms[0]
    middle = len(terms) // 2
    left, right = combine_terms(operator, terms[:middle]), combine_terms(operator, terms[middle:])
    return syntax.Operation(operator, (left, right), left.span.to(right.span))


def _check_term_count(word: str, terms: tuple[Expression, ...], span: Span) -> tuple[Expression, ...]:
    """Return the terms of AND or OR; refuse too many to optimise in a reasonable time."""
    if len(terms) > MOST_TERMS:
        message = f"{len(terms):,} conditions are linked by {word}; at most {MOST_TERMS:,} are possible"
        hint = (
            "write x IN (…) for many values of one column, or join with a table that has them: CREATE TABLE … FROM '…'"
        )
        raise QueryError("Q003", message, span, hint=hint)
    return terms


def _negate_if(negated: Token | None, expression: Expression) -> Expression:
    return expression if negated is None else syntax.Operation("not", (expression,), expression.span)


def microseconds(number: Token, unit: Token | None) -> int:
    """Return an amount of time in microseconds, checked to be whole and within the range of time."""
    span = span_of(number) if unit is None else span_of(number).to(span_of(unit))
    if not number.isdigit():
        raise QueryError("Q111", f"'{number}' is not a whole number", span, hint="use a smaller unit of time")
    try:
        amount = duration(int(number), unit or "microsecond")
    except QueryError as error:
        raise QueryError(error.code, error.message, span_of(unit or number), hint=error.hint) from None
    return _check_time_range(amount, span)


def _check_time_range(amount: int, span: Span) -> int:
    if amount > LATEST:
        raise QueryError("Q111", "this length of time is too long", span, hint="the longest is about 73,000 years")
    return amount


@v_args(meta=True, inline=True)
class ExpressionBuilder(Transformer[Token, Any]):
    """One method for each grammar rule about expressions."""

    def name(self, meta: Meta, token: Token) -> Name:
        return Name(unquote(token), span_of(meta))

    def type(self, meta: Meta, name: Name, _length: None) -> Name:
        return name

    def array_type(self, meta: Meta, element: Name) -> Name:
        return Name(f"ARRAY<{element.text}>", span_of(meta))

    def map_type(self, meta: Meta, key: Name, value: Name) -> Name:
        return Name(f"MAP<{key.text}, {value.text}>", span_of(meta))

    def length(self, meta: Meta, *_numbers: Token) -> None:
        raise unsupported_error("a length or precision of a type is", span_of(meta), hint="write the type alone")

    def number(self, meta: Meta, token: Token) -> Expression:
        return syntax.Constant(int(token) if token.isdigit() else float(token), span_of(meta))

    def text(self, meta: Meta, token: Token) -> Expression:
        return syntax.Constant(unquote(token), span_of(meta))

    def constant(self, meta: Meta, token: Token) -> Expression:
        return syntax.Constant(_CONSTANTS[token.lower()], span_of(meta))

    def timestamp(self, meta: Meta, token: Token) -> Expression:
        try:
            value = datetime.fromisoformat(unquote(token))
        except ValueError:
            hint = "write for example TIMESTAMP '2026-01-31 12:00:00'"
            raise QueryError("Q111", f"{token} is not a point in time", span_of(token), hint=hint) from None
        return syntax.Constant(value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC), span_of(meta))

    def interval(self, meta: Meta, amount: Token, unit: Token | None) -> Expression:
        if amount.type == "NUMBER":
            return self._interval(meta, microseconds(amount, unit))
        try:
            length = parse_duration(f"{unquote(amount)} {unit or ''}".strip())
        except QueryError as error:
            raise QueryError(error.code, error.message, span_of(amount), hint=error.hint) from None
        return self._interval(meta, _check_time_range(length, span_of(meta)))

    def _interval(self, meta: Meta, amount: int) -> Expression:
        return syntax.Constant(timedelta(microseconds=amount), span_of(meta))

    def column_reference(self, meta: Meta, first: Name, second: Name | None) -> Expression:
        qualifier, name = (None, first) if second is None else (first, second)
        return syntax.ColumnReference(qualifier, name, span_of(meta))

    def disjunction(self, meta: Meta, *terms: Expression) -> Expression:
        return combine_terms("or", _check_term_count("OR", terms, span_of(meta)))

    def conjunction(self, meta: Meta, *terms: Expression) -> Expression:
        return combine_terms("and", _check_term_count("AND", terms, span_of(meta)))

    def negation(self, meta: Meta, argument: Expression) -> Expression:
        return syntax.Operation("not", (argument,), span_of(meta))

    def binary(self, meta: Meta, left: Expression, sign: Token, right: Expression) -> Expression:
        return syntax.Operation(_operator_name(sign), (left, right), span_of(meta))

    def between(
        self, meta: Meta, argument: Expression, negated: Token | None, low: Expression, high: Expression
    ) -> Expression:
        return _negate_if(negated, syntax.Between(argument, low, high, span_of(meta)))

    def in_list(self, meta: Meta, argument: Expression, negated: Token | None, *options: Expression) -> Expression:
        match options:
            case (syntax.QueryValue(query=query),):
                return syntax.InQuery(argument, query, span_of(meta), negated is not None)
        return _negate_if(negated, syntax.OneOf(argument, options, span_of(meta)))

    def like(
        self, meta: Meta, argument: Expression, negated: Token | None, pattern: Expression, escape: Expression | None
    ) -> Expression:
        arguments = (argument, pattern) if escape is None else (argument, pattern, escape)
        return _negate_if(negated, syntax.Operation("like", arguments, span_of(meta)))

    def is_constant(self, meta: Meta, argument: Expression, negated: Token | None, constant: Token) -> Expression:
        return _negate_if(negated, syntax.Operation(f"is_{constant.lower()}", (argument,), span_of(meta)))

    def is_distinct(self, meta: Meta, left: Expression, negated: Token | None, right: Expression) -> Expression:
        same = syntax.SameAs(left, right, span_of(meta))
        return same if negated is not None else syntax.Operation("not", (same,), same.span)

    def minus(self, meta: Meta, _sign: Token, argument: Expression) -> Expression:
        match argument:
            case syntax.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return syntax.Constant(-value, span_of(meta))
        return syntax.Operation("negate", (argument,), span_of(meta))

    def plus(self, meta: Meta, _sign: Token, argument: Expression) -> Expression:
        return argument

    def cast(self, meta: Meta, argument: Expression, type_: Name) -> Expression:
        return syntax.CastTo(argument, type_, span_of(meta))

    cast_call = cast

    def element(self, meta: Meta, collection: Expression, place: Expression) -> Expression:
        return syntax.Operation("element", (collection, place), span_of(meta))

    def array(self, meta: Meta, *elements: Expression | None) -> Expression:
        return syntax.Operation("array", tuple(e for e in elements if e is not None), span_of(meta))

    def map(self, meta: Meta, keys: Expression, values: Expression) -> Expression:
        return syntax.Operation("map", (keys, values), span_of(meta))

    def when(self, meta: Meta, condition: Expression, value: Expression) -> tuple[Expression, Expression]:
        return condition, value

    def case(self, meta: Meta, subject: Expression | None, *rest: Any) -> Expression:
        *branches, otherwise = rest
        return syntax.CaseWhen(subject, tuple(branches), otherwise, span_of(meta))

    def call(self, meta: Meta, name: Name, *arguments: Expression | None) -> Expression:
        given = tuple(a for a in arguments if a is not None)
        return syntax.FunctionCall(name, given, span_of(meta))

    def call_star(self, meta: Meta, name: Name) -> Expression:
        return syntax.CountStar(name, span_of(meta))

    def call_distinct(self, meta: Meta, name: Name, *arguments: Expression) -> Expression:
        return syntax.FunctionCall(name, arguments, span_of(meta), distinct=True)

    def filtered(self, meta: Meta, call: syntax.FunctionCall | syntax.CountStar, condition: Expression) -> Expression:
        return replace(call, filter=condition, span=span_of(meta))

    # ---- queries inside expressions

    def query_value(self, meta: Meta, query: Query) -> Expression:
        return syntax.QueryValue(query, span_of(meta))

    def exists(self, meta: Meta, query: Query) -> Expression:
        return syntax.Exists(query, span_of(meta))

    def in_query(self, meta: Meta, argument: Expression, negated: Token | None, query: Query) -> Expression:
        return syntax.InQuery(argument, query, span_of(meta), negated is not None)

    def quantified(self, meta: Meta, argument: Expression, sign: Token, quantifier: Token, query: Query) -> Expression:
        every = quantifier.lower() == "all"
        return syntax.QuantifiedComparison(argument, _operator_name(sign), every, query, span_of(meta))


def _operator_name(sign: Token) -> str:
    return "<>" if sign == "!=" else " ".join(sign.lower().split())
