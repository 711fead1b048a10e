"""SET quality_columns = on: columns of results that say which sizes of windows and granularities were in force."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tidegate.algebra.plan import Granularity, Plan
from tidegate.algebra.size_columns import SizeColumn, Sized, adaptable_nodes_in_order, best_size, streams_of
from tidegate.catalog.catalog import OP, Query
from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.bind.names import unique_name

_TIMES = ("valid_from", "valid_to")


def with_size_columns(made: Query, query: syntax.Query) -> Query:
    """Return a query whose results have a column for each window or granularity that may change."""
    taken = (*made.plan.schema.names, *_TIMES, OP)
    columns = size_columns(made.plan, names_of_clauses(query), taken)
    if columns and made.early:
        message = f"EMIT EARLY cannot have a column '{columns[0].name}': a size is known when its time has passed"
        hint = "remove EMIT EARLY, or write SET quality_columns = off"
        raise QueryError("Q126", message, columns[0].place, hint=hint)
    return replace(made, sizes=columns)


def size_columns(plan: Plan, names: Mapping[Span, str], taken: Iterable[str]) -> tuple[SizeColumn, ...]:
    """Return the columns for a written plan; `names` are those of sources, by the places of their clauses.

    The window of a stream that another statement defines has the names of the streams that it reads.

    Examples
    --------
    >>> from tidegate.algebra.plan import Scan, Window
    >>> from tidegate.schema import Schema
    >>> bids = Window(Scan("bid", Schema.of()), 10, span=Span(3, 9), least=5)
    >>> [each.name for each in size_columns(bids, {Span(3, 9): "b"}, ["b_window"])]
    ['b_window_2']
    """
    used, found = list(taken), dict[tuple[object, ...], SizeColumn]()
    for node in adaptable_nodes_in_order(plan):
        if not isinstance(node, Sized):
            continue
        known = (node.span, type(node), best_size(node), streams_of(node))
        if known not in found:
            source = names.get(node.span) or "_".join(sorted(streams_of(node)))
            what = "granularity" if isinstance(node, Granularity) else "window"
            used.append(unique_name(f"{source}_{what}", used))
            found[known] = SizeColumn(used[-1], node.span, node)
    return tuple(found.values())


def names_of_clauses(query: syntax.Query) -> dict[Span, str]:
    """Return the aliases or names of the sources in a text, by the places of their windows and granularities."""
    found = dict[Span, str]()
    for node in syntax.walk(query):
        match node:
            case syntax.StreamReference(name=name, alias=alias):
                used = alias or name
            case syntax.Subquery(alias=syntax.Name() as used):
                pass
            case _:
                continue
        found |= {clause.span: used.text for clause in (node.window, node.granularity) if clause is not None}
    return found
