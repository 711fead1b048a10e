"""Name resolution in a query: streams and columns in scope, types, names of outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tidegate.errors import QueryError, suggest_name
from tidegate.expressions.nodes import Column, Expression, columns_of
from tidegate.language import syntax
from tidegate.language.syntax import Name
from tidegate.schema import TYPE_NAMES, Field, Type
from tidegate.values import value


@value
class VisibleStream:
    """A stream of FROM: its alias, its own name, its columns and their names in the plan.

    `hidden` are columns, in lower case, that need a qualifier, because USING gave the unqualified name to another
    column. `origins` are the qualified names that the columns of a subquery without an alias have inside it.
    """

    alias: str
    stream: str | None
    columns: tuple[Field, ...]
    plan_names: tuple[str, ...]
    hidden: frozenset[str] = frozenset()
    origins: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[tuple[str, Column]]:
        for field, name in zip(self.columns, self.plan_names, strict=True):
            yield field.name, Column(name, field.type)

    def find(self, name: str) -> Column | None:
        return next((column for own, column in self if is_same_name(own, name)), None)

    def unqualified_columns(self) -> Iterator[tuple[str, Column]]:
        """Yield the columns that need no qualifier."""
        return ((own, column) for own, column in self if own.lower() not in self.hidden)

    def find_inside(self, qualifier: str, name: str) -> Column | None:
        """Return the column with this qualified name inside the subquery."""
        pairs = zip(self.origins, self, strict=False)
        return next((column for origin, (_, column) in pairs if is_same_name(origin, f"{qualifier}.{name}")), None)


Scope = tuple[VisibleStream, ...]
"""All streams of a FROM clause, in order."""


def is_same_name(a: str | None, b: str) -> bool:
    """Return whether two identifiers are the same, ignoring case."""
    return a is not None and a.lower() == b.lower()


def unique_name(wanted: str, taken: Iterable[str]) -> str:
    """Return the wanted name, or the first of name_2, name_3, … that is not taken, ignoring case."""
    known = {name.lower() for name in taken}
    number, name = 1, wanted
    while name.lower() in known:
        number += 1
        name = f"{wanted}_{number}"
    return name


def unique_names(wanted: Iterable[str]) -> tuple[str, ...]:
    names: list[str] = []
    for name in wanted:
        names.append(unique_name(name, names))
    return tuple(names)


def find_type(name: Name) -> Type:
    """Return the type with this name."""
    if (found := Type.from_name(name.text)) is None:
        hint = _COLLECTIONS.get(name.text.partition("<")[0].upper()) or suggest_name(name.text, TYPE_NAMES)
        raise QueryError("Q104", f"unknown type '{name.text}'", name.span, hint=hint)
    return found


_COLLECTIONS = {
    "ARRAY": "write for example ARRAY<BIGINT>: the elements are of any plain type",
    "MAP": "write for example MAP<STRING, DOUBLE>: keys are INT, BIGINT or STRING, values INT, BIGINT or DOUBLE",
}


def find_visible(scope: Scope, qualifier: Name) -> VisibleStream:
    """Return the stream with this alias, or with this name if only one stream has it."""
    by_alias = [visible for visible in scope if is_same_name(visible.alias, qualifier.text)]
    match by_alias or [visible for visible in scope if is_same_name(visible.stream, qualifier.text)]:
        case [one]:
            return one
        case [first, second, *_]:
            both = f"it may mean {first.alias} or {second.alias}"
            raise QueryError("Q103", f"'{qualifier.text}' is ambiguous", qualifier.span, hint=both)
    hint = suggest_name(qualifier.text, (visible.alias for visible in scope))
    raise QueryError("Q101", f"FROM has no '{qualifier.text}'", qualifier.span, hint=hint)


def find_column(scope: Scope, reference: syntax.ColumnReference) -> Column:
    """Return the column that a reference means."""
    name, qualifier = reference.name, reference.qualifier
    if qualifier is not None:
        return replace(_find_qualified(scope, qualifier, name), span=reference.span)
    found = [(v, c) for v in scope if name.text.lower() not in v.hidden and (c := v.find(name.text)) is not None]
    match found:
        case [(_, column)]:
            return Column(column.name, column.type, reference.span)
        case []:
            raise _unknown_column(scope, name)
    (first, _), (second, _) = found[:2]
    hint = f"write {first.alias}.{name.text} or {second.alias}.{name.text}"
    raise QueryError("Q103", f"column '{name.text}' is ambiguous", name.span, hint=hint)


def _find_qualified(scope: Scope, qualifier: Name, name: Name) -> Column:
    known = any(is_same_name(v.alias, qualifier.text) or is_same_name(v.stream, qualifier.text) for v in scope)
    inside = [c for v in scope if not known and (c := v.find_inside(qualifier.text, name.text)) is not None]
    if len(inside) == 1:
        return inside[0]
    visible = find_visible(scope, qualifier)
    column = visible.find(name.text)
    if column is None:
        raise _unknown_column((visible,), name)
    return column


def _unknown_column(among: Scope, name: Name) -> QueryError:
    where = f"{among[0].stream or among[0].alias} has" if len(among) == 1 else "the streams of FROM have"
    hint = suggest_name(name.text, (own for visible in among for own, _ in visible))
    return QueryError("Q102", f"{where} no column '{name.text}'", name.span, hint=hint)


def expand_star(scope: Scope, star: syntax.Star) -> tuple[tuple[str, Column], ...]:
    """Return the columns of a star, with their own names."""
    if star.qualifier is None:
        found = [pair for visible in scope for pair in visible.unqualified_columns()]
    else:
        found = list(find_visible(scope, star.qualifier))
    return tuple((own, Column(c.name, c.type, star.span)) for own, c in found)


def output_name(expression: syntax.Expression, position: int) -> str:
    """Return a readable name for a column without an alias."""
    match expression:
        case syntax.ColumnReference(name=name):
            return name.text
        case syntax.CountStar(name=name):
            return name.text.lower()
        case syntax.FunctionCall(name=name, arguments=arguments):
            columns = [a.name.text for a in arguments if isinstance(a, syntax.ColumnReference)]
            return "_".join([name.text.lower(), *columns])
        case syntax.CastTo(argument=argument):
            return output_name(argument, position)
    return f"column_{position}"


def source_positions(expression: Expression, scope: Scope) -> list[int]:
    """Return the positions in FROM of the streams whose columns an expression reads."""
    columns = columns_of(expression)
    return [i for i, visible in enumerate(scope) if columns & set(visible.plan_names)]
