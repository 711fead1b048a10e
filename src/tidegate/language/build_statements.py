"""From Lark's tree to the syntax tree: queries and statements."""

from __future__ import annotations

from typing import Any, NamedTuple

from lark import Token, v_args
from lark.tree import Meta

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.build_expressions import ExpressionBuilder, microseconds, span_of, unquote
from tidegate.language.syntax import Expression, Name, Query, Select, Source, Statement
from tidegate.time import CHRONON


class _Amount(NamedTuple):
    microseconds: int
    span: Span


class _Clause(NamedTuple):
    """A clause of CREATE STREAM: what it is about, what it says and where."""

    about: str
    says: Any
    span: Span


@v_args(meta=True, inline=True)
class StatementBuilder(ExpressionBuilder):
    """One method for each rule of the grammar."""

    def start(self, meta: Meta, *statements: Statement) -> tuple[Statement, ...]:
        return statements

    # ---- streams

    def create_source(self, meta: Meta, name: Name, *parts: Any) -> Statement:
        columns = tuple(p for p in parts if isinstance(p, syntax.ColumnDefinition))
        clauses = _each_once([p for p in parts if isinstance(p, _Clause)])
        location = next(unquote(p) for p in parts if isinstance(p, Token))
        time, delay, options = clauses.get("TIMESTAMP BY"), clauses.get("DELAY", 0), clauses.get("WITH", ())
        return syntax.CreateSource(name, columns, location, time, delay, options, span_of(meta))

    def create_derived(self, meta: Meta, name: Name, query: Query) -> Statement:
        return syntax.CreateDerived(name, query, span_of(meta))

    def insert(self, meta: Meta, path: Token, query: Query) -> Statement:
        return syntax.Insert(unquote(path), query, span_of(meta))

    def query_statement(self, meta: Meta, query: Query) -> Statement:
        return syntax.QueryStatement(query, span_of(meta))

    def column(self, meta: Meta, name: Name, type_: Name) -> syntax.ColumnDefinition:
        return syntax.ColumnDefinition(name, type_, span_of(meta))

    def time_clause(self, meta: Meta, name: Name) -> _Clause:
        return _Clause("TIMESTAMP BY", name, span_of(meta))

    def delay_clause(self, meta: Meta, amount: _Amount) -> _Clause:
        return _Clause("DELAY", amount.microseconds, span_of(meta))

    def options_clause(self, meta: Meta, *options: tuple[str, str]) -> _Clause:
        return _Clause("WITH", options, span_of(meta))

    def option(self, meta: Meta, key: str, value: str) -> tuple[str, str]:
        return key, value

    def option_key(self, meta: Meta, key: Token) -> str:
        return unquote(key)

    def option_value(self, meta: Meta, *parts: Token) -> str:
        value = "".join(unquote(part) for part in parts)
        return value.lower() if value.lower() in ("true", "false") else value

    # ---- queries

    def union(self, meta: Meta, *queries: Query) -> Query:
        # UNION ALL is associative: parenthesised unions inside it need no node of their own.
        flat = [s for q in queries for s in (q.queries if isinstance(q, syntax.UnionAll) else (q,))]
        return syntax.UnionAll(tuple(flat), span_of(meta))

    def select(
        self,
        meta: Meta,
        distinct: bool,  # noqa: FBT001 - Lark calls by position
        items: tuple[syntax.Item | syntax.Star, ...],
        sources: tuple[Source, ...],
        where: Expression | None,
        group_by: tuple[Expression, ...] | None,
        having: Expression | None,
    ) -> Query:
        return Select(items, sources, where, group_by or (), having, distinct, span_of(meta))

    def quantifier(self, meta: Meta, word: Token | None) -> bool:
        return word is not None and word.type == "DISTINCT"

    def items(self, meta: Meta, *items: syntax.Item | syntax.Star) -> tuple[syntax.Item | syntax.Star, ...]:
        return items

    def item(self, meta: Meta, expression: Expression, alias: Name | None) -> syntax.Item:
        return syntax.Item(expression, alias, span_of(meta))

    def star(self, meta: Meta, qualifier: Name | None) -> syntax.Star:
        return syntax.Star(qualifier, span_of(meta))

    def alias(self, meta: Meta, name: Name) -> Name:
        return name

    def where(self, meta: Meta, condition: Expression) -> Expression:
        return condition

    having = where

    def group_by(self, meta: Meta, *keys: Expression) -> tuple[Expression, ...]:
        return keys

    # ---- what a query reads

    def sources(self, meta: Meta, *sources: Source) -> tuple[Source, ...]:
        return sources

    def stream_reference(
        self, meta: Meta, name: Name, first: Name | None, window: syntax.WindowClause | None, second: Name | None
    ) -> Source:
        return syntax.StreamReference(name, window, _one_alias(first, second), span_of(meta))

    def subquery(
        self, meta: Meta, query: Query, first: Name | None, window: syntax.WindowClause | None, second: Name | None
    ) -> Source:
        return syntax.Subquery(query, window, _one_alias(first, second), span_of(meta))

    def join(self, meta: Meta, left: Source, right: Source, condition: Expression) -> Source:
        return syntax.JoinClause(left, right, condition, span_of(meta))

    def cross_join(self, meta: Meta, left: Source, right: Source) -> Source:
        return syntax.JoinClause(left, right, None, span_of(meta))

    # ---- windows

    def window(self, meta: Meta, frame: tuple[int | None, int]) -> syntax.WindowClause:
        return syntax.WindowClause(*frame, span_of(meta))

    def range_frame(self, meta: Meta, size: _Amount, slide: _Amount | None) -> tuple[int | None, int]:
        return _positive("RANGE", size), CHRONON if slide is None else _positive("SLIDE", slide)

    def unbounded_frame(self, meta: Meta) -> tuple[int | None, int]:
        return None, CHRONON

    def now_frame(self, meta: Meta) -> tuple[int | None, int]:
        return CHRONON, CHRONON

    def amount(self, meta: Meta, number: Token, unit: Token | None) -> _Amount:
        return _Amount(microseconds(number, unit), span_of(meta))


def _each_once(clauses: list[_Clause]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    for clause in clauses:
        if clause.about in said:
            raise QueryError("Q105", f"{clause.about} is given twice", clause.span)
        said[clause.about] = clause.says
    return said


def _one_alias(before: Name | None, after: Name | None) -> Name | None:
    if before is not None and after is not None:
        hint = "an alias stands before or after the window"
        raise QueryError("Q105", f"'{before.text}' already is the alias here", after.span, hint=hint)
    return before or after


def _positive(word: str, amount: _Amount) -> int:
    if amount.microseconds <= 0:
        raise QueryError("Q114", f"{word} must be longer than zero", amount.span)
    return amount.microseconds
