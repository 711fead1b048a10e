"""The operators of plans by hand, each as clauses of a query."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Generic, Literal, Self, TypeVar, get_args

from tidegate.plans.clauses import (
    Clauses,
    FromJoin,
    FromTable,
    SelectClauses,
    WholeQuery,
    as_open,
    as_source,
    as_table,
    as_term,
    with_alias,
    with_granularity,
    with_window,
)
from tidegate.plans.fragments import (
    refuse,
    write_expression,
    write_item,
    write_name,
    write_named,
    write_order,
)
from tidegate.plans.text import Text, in_parentheses, join_texts, write_text
from tidegate.plans.windows import write_granularity, write_window
from tidegate.values import value

Given = TypeVar("Given")
Names = str | Iterable[str]
JoinKind = Literal["inner", "left", "right", "full", "cross"]


_COALESCE = "COALESCE TIME "


class PlanOperators(ABC):
    """The operators of a plan. Each method returns another plan and leaves this one as it is."""

    __slots__ = ()
    query: Clauses

    @abstractmethod
    def continue_with(self, query: Clauses) -> Self:
        """Return a plan with another query."""

    @abstractmethod
    def refuse_other(self, other: object) -> None:
        """Raise an error if another plan cannot be combined with this one."""

    # ---- rows and columns

    def where(self, *conditions: str) -> Self:
        """Keep the rows for which all conditions are true."""
        select = as_open(self.query)
        terms = _some([write_expression(each) for each in conditions], "where")
        return self.continue_with(replace(select, where=(*select.where, *terms)))

    def select(self, *items: str, **named: str) -> Self:
        """Compute columns: expressions with or without AS, ``*`` or ``b.*``; keywords name their columns."""
        written = [*map(write_item, items), *(write_named(name, text) for name, text in named.items())]
        return self.continue_with(replace(as_open(self.query), items=_some(written, "select")))

    def distinct(self) -> Self:
        """Keep each row at most once at every instant."""
        if isinstance(self.query, SelectClauses) and self.query.items and not self.query.quantifier:
            return self.continue_with(replace(self.query, quantifier="DISTINCT "))
        return self.continue_with(replace(as_open(self.query), quantifier="DISTINCT "))

    def alias(self, name: str) -> Self:
        """Give the rows a name, by which expressions and joins can qualify columns: ``b.price``."""
        return self.continue_with(with_alias(self.query, write_name(name)))

    def group_by(self, *keys: str, **named: str) -> GroupedRows[Self]:
        """Group rows by expressions; keywords name the columns of keys. `GroupedRows.aggregate` must follow."""
        given = [write_expression(each) for each in keys]
        _some([*given, *named], "group_by")
        pairs = [(write_expression(text), write_named(name, text)) for name, text in named.items()]
        return GroupedRows(self, (*((key, key) for key in given), *pairs))

    def aggregate(self, *calls: str, **named: str) -> Self:
        """Aggregate all rows of an instant into one."""
        select = as_open(self.query)
        return self.continue_with(replace(select, items=_aggregate_items(calls, named), is_total=True))

    # ---- time

    def window(
        self,
        range: str | None = None,  # noqa: A002 - the word of SQL
        *,
        slide: str | int | None = None,
        rows: int | str | None = None,
        partition_by: Names = (),
        min: str | int | None = None,  # noqa: A002 - the word of SQL
    ) -> Self:
        """Make rows valid for longer: by time, or until `rows` later ones have arrived.

        `range` is for example ``"10 minutes"``, ``"now"`` or ``"unbounded"``. `rows` is a number or ``"unbounded"``,
        counted for each value of `partition_by`. With `min`, the size may go down to it while the query runs.
        """
        keys = [write_expression(each) for each in _texts(partition_by)]
        return self.continue_with(with_window(self.query, write_window(range, slide, rows, keys, min)))

    def coalesce_time(self) -> Self:
        """Put equal rows that are adjacent in time together; which rows are valid at an instant stays the same."""
        query = self.query
        if isinstance(query, SelectClauses) and not query.quantifier.startswith(_COALESCE):
            return self.continue_with(replace(query, quantifier=_COALESCE + query.quantifier))
        return self.continue_with(replace(as_open(query), quantifier=_COALESCE))

    def granularity(self, size: str | None = None, *, coarsest: str | None = None, finest: str | None = None) -> Self:
        """Let time move in steps; with `coarsest` and `finest`, their size may change while the query runs."""
        return self.continue_with(with_granularity(self.query, write_granularity(size, coarsest, finest)))

    def istream(self) -> Self:
        """Return the rows that appear, each at the instant at which it appears."""
        return self.continue_with(WholeQuery(("ISTREAM(", *self.query.text, ")")))

    def dstream(self, *, last: bool = False) -> Self:
        """Return the rows that disappear, at the first instant without them; with `last`, at the last one with them."""
        if last:
            return self.continue_with(
                SelectClauses(FromTable(("DSTREAM(", *in_parentheses(self.query.text), ", LAST)")))
            )
        return self.continue_with(WholeQuery(("DSTREAM(", *self.query.text, ")")))

    def rstream(self) -> Self:
        """Return the rows of every instant, cut into instants."""
        return self.continue_with(WholeQuery(("RSTREAM(", *self.query.text, ")")))

    # ---- several plans

    def join(self, other: Self, on: str | None = None, *, using: Names = (), how: JoinKind = "inner") -> Self:
        """Join rows whose validities overlap: on a condition, or on equal columns; ``how="cross"`` takes neither."""
        if how not in (known := get_args(JoinKind)):
            raise refuse(f"there is no join '{how}'", f"available: {', '.join(known)}")
        columns = [write_name(each) for each in _texts(using)]
        if (on is not None) + bool(columns) != (how != "cross"):
            raise refuse("a join takes `on` or `using`, and a cross join neither", "write for example using='item'")
        word = "JOIN" if how == "inner" else f"{how.upper()} JOIN"
        condition: Text = ()
        if on is not None:
            condition = (" ON ", *write_expression(on))
        elif columns:
            condition = (" USING ", *in_parentheses(join_texts(columns)))
        left, right = as_source(self.query), as_table(self._query_of(other))
        return self.continue_with(SelectClauses(FromJoin((*left.text, f"\n{word} ", *right.text, *condition))))

    def semi_join(self, other: Self, on: str) -> Self:
        """Keep the rows while the other plan has a row that makes the condition true."""
        return self._exists("EXISTS ", other, on)

    def anti_join(self, other: Self, on: str) -> Self:
        """Keep the rows while the other plan has no row that makes the condition true."""
        return self._exists("NOT EXISTS ", other, on)

    def union(self, *others: Self) -> Self:
        """Return the rows that any of the plans has, each once."""
        return self._combine("UNION", others)

    def union_all(self, *others: Self) -> Self:
        """Return all rows of all plans."""
        return self._combine("UNION ALL", others)

    def union_max(self, *others: Self) -> Self:
        """Return each row as often as the plan that has it most often."""
        return self._combine("UNION MAX", others)

    def except_(self, *others: Self) -> Self:
        """Return the rows that the other plans do not have, each once."""
        return self._combine("EXCEPT", others)

    def except_all(self, *others: Self) -> Self:
        """Return the rows less the copies that the other plans have."""
        return self._combine("EXCEPT ALL", others)

    def except_strict(self, *others: Self) -> Self:
        """Return all copies of the rows that the other plans do not have."""
        return self._combine("EXCEPT STRICT", others)

    def intersect(self, *others: Self) -> Self:
        """Return the rows that all plans have, each once."""
        return self._combine("INTERSECT", others)

    def intersect_all(self, *others: Self) -> Self:
        """Return each row as often as the plan that has it least often."""
        return self._combine("INTERSECT ALL", others)

    def limit(self, count: int, *, order_by: Names = (), offset: int = 0, per: Names = (), ties: bool = False) -> Self:
        """Keep the first rows of every instant in an order, or of each group of it."""
        for number in (count, offset):
            if not isinstance(number, int) or number < 0:
                raise refuse(f"{number!r} is not a number of rows", "write for example limit(3, order_by='price DESC')")
        order = [write_order(each) for each in _texts(order_by)]
        groups = [write_expression(each) for each in _texts(per)]
        ordered: Text = ("\nORDER BY ", *join_texts(order)) if order else ()
        grouped: Text = (" PER ", *join_texts(groups)) if groups else ()
        skipped = f" OFFSET {offset}" if offset else ""
        limited = f"\nLIMIT {count}{' WITH TIES' if ties else ''}{skipped}"
        return self.continue_with(WholeQuery((*as_term(self.query), *ordered, limited, *grouped)))

    def _combine(self, word: str, others: Sequence[Self]) -> Self:
        terms = [self.query, *map(self._query_of, _some(others, word.lower()))]
        return self.continue_with(WholeQuery(join_texts([as_term(each) for each in terms], f"\n{word}\n")))

    def _exists(self, word: str, other: Self, on: str) -> Self:
        inner = as_open(self._query_of(other))
        tested = replace(inner, where=(*inner.where, write_expression(on)))
        select = as_open(self.query)
        return self.continue_with(replace(select, where=(*select.where, (word, *in_parentheses(tested.text)))))

    def _query_of(self, other: Self) -> Clauses:
        self.refuse_other(other)
        return other.query


Plan = TypeVar("Plan", bound=PlanOperators)


@value
class GroupedRows(Generic[Plan]):
    """Rows in groups, whose aggregates are still to be said."""

    _plan: Plan
    _keys: tuple[tuple[Text, Text], ...]
    """Each key as GROUP BY has it, and as SELECT has it."""

    def aggregate(self, *calls: str, **named: str) -> Plan:
        """Return a row for each group: its keys, then its aggregates; keywords name their columns."""
        keys = tuple(key for key, _ in self._keys)
        items = (*(item for _, item in self._keys), *_aggregate_items(calls, named, least=0))
        return self._plan.continue_with(replace(as_open(self._plan.query), items=items, keys=keys))

    def __repr__(self) -> str:
        return f"<groups by {', '.join(write_text(key) for key, _ in self._keys)}: call .aggregate(…)>"


def _aggregate_items(calls: Iterable[str], named: dict[str, str], least: int = 1) -> tuple[Text, ...]:
    written = [*map(write_item, calls), *(write_named(name, text) for name, text in named.items())]
    return _some(written, "aggregate") if least else tuple(written)


def _texts(texts: Names) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)


def _some(given: Sequence[Given], method: str) -> tuple[Given, ...]:
    if not given:
        raise refuse(f"{method.replace(' ', '_')} needs at least one argument", f"see help(QueryPlan.{method})")
    return tuple(given)
