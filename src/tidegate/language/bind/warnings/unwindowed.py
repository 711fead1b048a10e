"""Warnings about streams without a window: their rows are valid for one instant, which is seldom intended.

`WINDOW(NOW)` states the intention.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidegate.algebra.plan import Plan
from tidegate.algebra.properties import is_chronon
from tidegate.catalog.catalog import SourceStream
from tidegate.errors import TidegateWarning
from tidegate.language import syntax
from tidegate.language.bind.context import BindContext
from tidegate.language.syntax import Name

NO_WINDOW = "W101"

GROUPED = "an aggregate sees only the rows of one instant"
JOINED = "they join only rows that are valid at that very instant"
LIMITED = "LIMIT counts only the rows of one instant"
DISTINCT_ROWS = "DISTINCT removes only duplicates of one instant"
COMPARED = "the subquery finds only rows of that very instant"


def unwindowed_names(source: syntax.StreamReference | syntax.Subquery, plan: Plan) -> tuple[Name, ...]:
    """Return the name of a source in FROM if it has no window and its rows are valid for one instant."""
    if source.window is not None or source.granularity is not None or not is_chronon(plan):
        return ()
    match source:
        case syntax.StreamReference(name=name):
            return (Name(name.text, source.span),)
        case syntax.Subquery(alias=alias, span=span):
            return (Name(alias.text if alias else "this subquery", span),)


def is_lookup(source: syntax.StreamReference | syntax.Subquery, plan: Plan) -> bool:
    """Return whether a source holds rows to look up, like a table or the last row of each key.

    A join of such a source with a stream without a window looks up each row of the stream as it arrives. This is a
    common use, so it causes no warning.
    """
    if source.window is None:
        return not is_chronon(plan)
    return isinstance(source.window, syntax.RowsClause)


def warn_unwindowed(names: Iterable[Name], so: str, around: BindContext, *, has_keys: bool = False) -> None:
    """Warn about sources without a window and the consequence `so`, once per position.

    With `has_keys`, they are joined with keys: then constraints may bound what a join without windows keeps.
    """
    for name in names:
        message = f"{name.text} has no window: its rows are valid for one instant, so {so}"
        written = "" if name.text == "this subquery" else f"{name.text} "
        window = f"{written}WINDOW(RANGE 10 MINUTES)"
        window += ", WINDOW(RANGE UNBOUNDED) if constraints bound the join" if has_keys else ""
        hint = f"give it a window, for example {window}, or WINDOW(NOW) if this is meant"
        if all((w.code, w.span) != (NO_WINDOW, name.span) for w in around.warnings):
            around.warnings.append(TidegateWarning(NO_WINDOW, message, name.span, hint=hint))


def warn_instants(query: syntax.Query, plan: Plan, so: str, around: BindContext) -> None:
    """Warn about the sources of a whole query if its rows are valid for one instant."""
    if is_chronon(plan):
        warn_unwindowed(_sources_without_window(query, around), so, around)


def _sources_without_window(query: syntax.Query, around: BindContext) -> Iterator[Name]:
    match query:
        case syntax.Select(sources=sources):
            yield from _names_in_from(sources, around)
        case syntax.UnionAll(queries=queries):
            for each in queries:
                yield from _sources_without_window(each, around)
        case syntax.SetQuery(left=left, right=right):
            yield from _sources_without_window(left, around)
            yield from _sources_without_window(right, around)
        case syntax.OrderedQuery(query=below) | syntax.WithQuery(query=below) | syntax.ChangesOf(query=below):
            yield from _sources_without_window(below, around)


def _names_in_from(sources: Sequence[syntax.Source], around: BindContext) -> Iterator[Name]:
    for source in sources:
        match source:
            case syntax.JoinClause(left=left, right=right):
                yield from _names_in_from((left, right), around)
            case syntax.StreamReference(name=name, window=None, granularity=None, span=span):
                stream = around.catalog.find(name.text)
                if not (isinstance(stream, SourceStream) and stream.is_table):
                    yield Name(name.text, span)
            case syntax.Subquery(query=query, window=None, granularity=None):
                yield from _sources_without_window(query, around)
