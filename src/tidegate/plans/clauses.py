"""Queries as their clauses: what operators add, and when a query becomes the source of another one."""

from __future__ import annotations

from dataclasses import replace

from tidegate.plans.text import Text, in_parentheses, join_texts
from tidegate.values import value


@value
class FromTable:
    """One entry of FROM: a stream by its name, or a query in parentheses, with its clauses on time."""

    base: Text
    alias: Text | None = None
    window: Text | None = None
    granularity: Text | None = None
    name: Text | None = None
    """The name of the stream."""

    @property
    def text(self) -> Text:
        alias: Text = () if self.alias is None else (" AS ", *self.alias)
        window: Text = () if self.window is None else (" WINDOW(", *self.window, ")")
        granularity: Text = () if self.granularity is None else (" GRANULARITY(", *self.granularity, ")")
        return (*self.base, *alias, *window, *granularity)


@value
class FromJoin:
    """A join in FROM."""

    text: Text


@value
class SelectClauses:
    """A SELECT; without `items` it has all columns, and further clauses can be added to it."""

    source: FromTable | FromJoin
    where: tuple[Text, ...] = ()
    items: tuple[Text, ...] = ()
    keys: tuple[Text, ...] = ()
    quantifier: str = ""
    is_total: bool = False
    """Whether there is one group of all rows, which an aggregation has even without keys."""

    @property
    def is_open(self) -> bool:
        return not (self.items or self.quantifier)

    @property
    def text(self) -> Text:
        items = join_texts(self.items) if self.items else ("*",)
        terms = self.where if len(self.where) == 1 else tuple(map(in_parentheses, self.where))
        where: Text = ("\nWHERE ", *join_texts(terms, " AND ")) if terms else ()
        keys: Text = ("\nGROUP BY ", *join_texts(self.keys)) if self.keys else ()
        having: Text = ("\nHAVING TRUE",) if self.is_total else ()
        return ("SELECT ", self.quantifier, *items, "\nFROM ", *self.source.text, *where, *keys, *having)


@value
class WholeQuery:
    """A query that is no SELECT: a set operation, LIMIT, or the changes of a query."""

    text: Text


Clauses = SelectClauses | WholeQuery


def as_term(query: Clauses) -> Text:
    """Return a query as a side of a set operation."""
    return query.text if isinstance(query, SelectClauses) else in_parentheses(query.text)


def as_open(query: Clauses) -> SelectClauses:
    """Return a SELECT to which clauses can be added."""
    return query if isinstance(query, SelectClauses) and query.is_open else SelectClauses(_from_query(query))


def as_source(query: Clauses) -> FromTable | FromJoin:
    """Return a query as an entry of FROM, or as a join."""
    match query:
        case SelectClauses(source=source, where=()) if query.is_open:
            return source
    return _from_query(query)


def as_table(query: Clauses) -> FromTable:
    """Return a query as one entry of FROM."""
    source = as_source(query)
    return source if isinstance(source, FromTable) else _from_query(query)


def _from_query(query: Clauses) -> FromTable:
    """Return a query in parentheses; rows that are only filtered keep their name."""
    match query:
        case SelectClauses(source=FromTable(alias=alias, name=name)) if query.is_open:
            return FromTable(in_parentheses(query.text), alias or name)
    return FromTable(in_parentheses(query.text))


def with_window(query: Clauses, window: Text) -> SelectClauses:
    table = as_table(query)
    if table.window is not None or table.granularity is not None:
        table = _from_query(SelectClauses(table))
    return SelectClauses(replace(table, window=window))


def with_granularity(query: Clauses, granularity: Text) -> SelectClauses:
    table = as_table(query)
    if table.granularity is not None:
        table = _from_query(SelectClauses(table))
    return SelectClauses(replace(table, granularity=granularity))


def with_alias(query: Clauses, alias: Text) -> SelectClauses:
    match query:
        case SelectClauses(source=FromTable() as table) if query.is_open:
            return replace(query, source=replace(table, alias=alias))
    return SelectClauses(FromTable(in_parentheses(query.text), alias))
