"""From Lark's tree to the syntax tree: queries and their sources."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from tidegate.errors import QueryError
from tidegate.language import syntax
from tidegate.language.parse.build_expressions import span_of
from tidegate.language.parse.build_shedding import SheddingBuilder
from tidegate.language.syntax import Expression, Name, Query, Select, Source

Items = tuple[syntax.Item | syntax.Star, ...]


@v_args(meta=True, inline=True)
class QueryBuilder(SheddingBuilder):
    """One method for each grammar rule about queries."""

    # ---- several queries

    def set_query(self, meta: Meta, first: Query, *rest: Any) -> Query:
        query, united = first, [first]
        for operator, right in zip(rest[::2], rest[1::2], strict=True):
            if operator == "union all":
                united.append(right)
                query = _flatten_unions(united)
            else:
                query = syntax.SetQuery(operator, query, right, query.span.to(right.span))
                united = [query]
        return query

    intersection = set_query

    def union_word(self, meta: Meta, word: Token, how: Token | None) -> str:
        operator = "except" if word.lower() == "minus" else word.lower()
        return operator if how is None or how.lower() == "distinct" else f"{operator} {how.lower()}"

    except_word = union_word
    intersect_word = union_word

    def changes_of(self, meta: Meta, function: Token, query: Query) -> Query:
        return syntax.ChangesOf(function.lower(), query, span_of(meta))

    def with_query(self, meta: Meta, *parts: Any) -> Query:
        *definitions, query = parts
        if isinstance(query, syntax.QueryWithOptions):  # the options belong to the whole query
            inner = syntax.WithQuery(tuple(definitions), query.query, span_of(meta))
            return replace(query, query=inner, span=span_of(meta))
        return syntax.WithQuery(tuple(definitions), query, span_of(meta))

    def definition(self, meta: Meta, name: Name, query: Query) -> syntax.Definition:
        return syntax.Definition(name, query, span_of(meta))

    # ---- order

    def ordered(self, meta: Meta, query: Query, *parts: Any) -> Query:
        order = next((p for p in parts if isinstance(p, tuple)), ())
        limit = next((p for p in parts if isinstance(p, syntax.LimitClause)), None)
        return syntax.OrderedQuery(query, order, limit, span_of(meta))

    def order_by(self, meta: Meta, *order: syntax.OrderBy) -> tuple[syntax.OrderBy, ...]:
        return order

    def order(self, meta: Meta, expression: Expression, direction: Token | None, nulls: Token | None) -> syntax.OrderBy:
        descending = direction is not None and direction.type == "DESC"
        nulls_first = None if nulls is None else nulls.type == "NULLS_FIRST"
        return syntax.OrderBy(expression, descending, nulls_first, span_of(meta))

    def limit(
        self, meta: Meta, count: int, ties: Token | None, offset: int | None, *keys: Expression | None
    ) -> syntax.LimitClause:
        groups = tuple(k for k in keys if k is not None)
        return syntax.LimitClause(count, offset or 0, groups, ties is not None, span_of(meta))

    def signed_number(self, meta: Meta, *parts: Token) -> int:
        number = "".join(parts)
        if not number.isdigit():
            raise QueryError("Q111", f"'{number}' is not a whole number of rows", span_of(meta), hint="write LIMIT 10")
        return int(number)

    # ---- SELECT

    def select(
        self,
        meta: Meta,
        coalesce: Token | None,
        distinct: bool,  # noqa: FBT001 - Lark calls by position
        items: Items,
        sources: tuple[Source, ...],
        *clauses: Any,
    ) -> Query:
        where, group_by, having, utility = clauses
        place = None if coalesce is None else span_of(coalesce)
        return Select(items, sources, where, group_by or (), having, distinct, span_of(meta), utility, place)

    def select_changes(
        self,
        meta: Meta,
        outer: bool,  # noqa: FBT001 - Lark calls by position
        function: Token,
        inner: bool,  # noqa: FBT001
        *parts: Any,
    ) -> Query:
        return syntax.ChangesOf(function.lower(), self.select(meta, None, outer or inner, *parts), span_of(meta))

    def quantifier(self, meta: Meta, word: Token | None) -> bool:
        return word is not None and word.type == "DISTINCT"

    def items(self, meta: Meta, *items: syntax.Item | syntax.Star) -> Items:
        return items

    def item(self, meta: Meta, expression: Expression, alias: Name | None) -> syntax.Item:
        return syntax.Item(expression, alias, span_of(meta))

    def star(self, meta: Meta, qualifier: Name | None) -> syntax.Star:
        return syntax.Star(qualifier, span_of(meta))

    def alias(self, meta: Meta, name: Name) -> Name:
        return name

    def repeat_alias(self, meta: Meta, word: Token) -> Name:
        return Name(str(word), span_of(word))

    def where(self, meta: Meta, condition: Expression) -> Expression:
        return condition

    having = where

    def group_by(self, meta: Meta, *keys: Expression) -> tuple[Expression, ...]:
        return keys

    # ---- sources

    def sources(self, meta: Meta, *sources: Source) -> tuple[Source, ...]:
        return sources

    def stream_reference(self, meta: Meta, name: Name, *parts: Any) -> Source:
        window, alias, granularity = _split_source_parts(parts)
        return syntax.StreamReference(name, window, alias, span_of(meta), granularity)

    def subquery(self, meta: Meta, query: Query, *parts: Any) -> Source:
        window, alias, granularity = _split_source_parts(parts)
        return syntax.Subquery(query, window, alias, span_of(meta), granularity)

    def bare_subquery(self, meta: Meta, query: Query) -> Source:
        return syntax.Subquery(query, None, None, span_of(meta))

    def stream_function(self, meta: Meta, function: Token, argument: Query, last: Token | None, *parts: Any) -> Source:
        if last is not None and function.lower() != "dstream":
            raise QueryError("Q107", f"{function.upper()} takes no LAST", span_of(last), hint="only DSTREAM does")
        changes = function.lower() if last is None else f"{function.lower()} last"
        window, alias, granularity = _split_source_parts(parts)
        query = syntax.ChangesOf(changes, argument, span_of(meta))
        return syntax.Subquery(query, window, alias, span_of(meta), granularity)

    def stream_argument(self, meta: Meta, argument: Name | Query, *parts: Any) -> Query:
        if not isinstance(argument, Name):
            return argument
        span = span_of(meta)
        source = syntax.StreamReference(argument, _split_source_parts(parts)[0], None, span)
        return Select((syntax.Star(None, span),), (source,), None, (), None, distinct=False, span=span)

    def join(self, meta: Meta, left: Source, kind: Token | None, right: Source, condition: Expression) -> Source:
        return syntax.JoinClause(left, right, condition, span_of(meta), _join_kind(kind))

    def join_using(self, meta: Meta, left: Source, kind: Token | None, right: Source, *names: Name) -> Source:
        return syntax.JoinClause(left, right, None, span_of(meta), _join_kind(kind), names)

    def cross_join(self, meta: Meta, left: Source, right: Source) -> Source:
        return syntax.JoinClause(left, right, None, span_of(meta))


def _flatten_unions(queries: list[Query]) -> Query:
    # UNION ALL is associative: parenthesised unions inside it need no node of their own.
    flat = (s for q in queries for s in (q.queries if isinstance(q, syntax.UnionAll) else (q,)))
    return syntax.UnionAll(tuple(flat), queries[0].span.to(queries[-1].span))


def _split_source_parts(
    parts: tuple[Any, ...],
) -> tuple[syntax.AnyWindow | None, Name | None, syntax.GranularityClause | None]:
    """Return the window, alias and granularity after a source, in any order."""
    aliases = [p for p in parts if isinstance(p, Name)]
    if len(aliases) > 1:
        hint = "write one alias, before or after the window"
        raise QueryError("Q105", f"'{aliases[0].text}' is already the alias here", aliases[1].span, hint=hint)
    window = next((p for p in parts if isinstance(p, (syntax.WindowClause, syntax.RowsClause))), None)
    granularity = next((p for p in parts if isinstance(p, syntax.GranularityClause)), None)
    return window, aliases[0] if aliases else None, granularity


def _join_kind(word: Token | None) -> syntax.JoinKind:
    return syntax.JoinKind.INNER if word is None else syntax.JoinKind[word.type]
