"""Refuse plans that would need unbounded state, or would split time into too many pieces."""

from __future__ import annotations

from tidegate.algebra.explain import duration_text
from tidegate.algebra.plan import (
    Aggregate,
    Coalesce,
    CountWindow,
    Distinct,
    Granularity,
    Join,
    Limit,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Window,
    inputs,
    rewrite,
    walk,
)
from tidegate.algebra.properties import calls
from tidegate.algebra.properties.regions import has_own_times, sees_own_times
from tidegate.algebra.properties.validities import granule, is_bounded, is_chronon, validity_extent
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.algebra.whole_elements import extend_as_sets
from tidegate.errors import NOWHERE, QueryError, Span
from tidegate.time import CHRONON

MOST_PIECES = 1_000_000
"""Greatest number of pieces into which one element may be split; more would take too long."""

_Remembering = Join | SimilarityJoin | SemiJoin | SetOperation | Aggregate | Distinct | Limit | Coalesce


def refuse_unsupported(plan: Plan) -> None:
    """Raise a QueryError if the plan would need unbounded state, or too many pieces of time."""
    for node in walk(rewrite(plan, extend_as_sets)):
        match node:
            case Join() if _may_be_keyed(node):
                pass  # only the optimised plan shows whether constraints bound what it keeps
            case (
                Join()
                | SimilarityJoin()
                | SemiJoin()
                | SetOperation()
                | Aggregate()
                | Distinct()
                | Limit()
                | Coalesce()
            ):
                _refuse_unbounded(node)
            case Window(whole=True):
                pass
            case Window(source=source) | CountWindow(source=source) if not is_chronon(source):
                _refuse_pieces(source, granule(source), "a window over", node.span)
            case Split(source=source, length=length) if not is_chronon(source):
                _refuse_pieces(source, length, "RSTREAM of" if length == CHRONON else "a split of", node.span)
        _refuse_finer(node)
        _refuse_own_times(node)


def _refuse_unbounded(plan: _Remembering) -> None:
    for each in inputs(plan):
        if not is_bounded(each):
            message = f"{_operator_name(plan)} over an unbounded window would have to keep all elements for ever"
            hint = "give the window a RANGE, such as RANGE 1 HOUR"
            if isinstance(plan, Join):
                hint += ", or declare the KEY of a stream and how rows arrive"
            raise QueryError("Q201", message, span_of_unbounded(each), hint=hint)


def _may_be_keyed(join: Join) -> bool:
    """Return whether a join may become a keyed join, whose constraints may bound what it keeps."""
    return any(isinstance(node, Scan) and node.key for node in walk(join))


def _operator_name(plan: _Remembering) -> str:
    match plan:
        case Join() | SimilarityJoin():
            return "a join"
        case SemiJoin():
            return "a subquery condition"
        case SetOperation(rule=rule):
            return rule.value.upper()
        case Aggregate():
            return "an aggregate"
        case Distinct():
            return "DISTINCT"
        case Limit():
            return "LIMIT"
        case Coalesce():
            return "a coalesce"


def span_of_unbounded(plan: Plan) -> Span:
    """Return the position of an unbounded window of a plan."""
    for node in walk(plan):
        match node:
            case Window(size=None, span=span) | CountWindow(rows=None, span=span):
                return span
    return NOWHERE


def _refuse_pieces(source: Plan, length: int, what: str, span: Span) -> None:
    known = validity_extent(source)
    hint = "read its rows as they appear, with ISTREAM(…), or in steps: FROM (SELECT * FROM … GRANULARITY(1 MINUTE))"
    if not known.ends:
        message = f"{what} elements that may be valid for ever would process every instant one by one"
        raise QueryError("Q202", message, span, hint=hint)
    if known.length is not None and known.length > MOST_PIECES * length:
        pieces = -(-known.length // length)
        message = (
            f"{what} elements that are valid for up to {duration_text(known.length)} would make {pieces} pieces of each"
        )
        raise QueryError("Q202", message, span, hint=hint)


def _refuse_own_times(node: Plan) -> None:
    """Refuse FIRST and LAST over grouped rows: only their relation is defined, not how it is cut in time."""
    if isinstance(node, Aggregate) and sees_own_times(node) and not has_own_times(node.source):
        names = " and ".join(sorted({c.function.upper() for c in node.calls if calls.sees_own_times(c)}))
        message = f"{names} over rows that were grouped, limited or compared: such rows have no time of their own"
        hint = "put a window on ISTREAM(…) of the query, or use ARG_MAX and ARG_MIN"
        raise QueryError("Q206", message, node.span, hint=hint)


def _refuse_finer(node: Plan) -> None:
    """Refuse finer time above coarser time (PIPES, section 20.4)."""
    match node:
        case Granularity(source=source, size=size, span=span) if size % granule(source):
            below = duration_text(granule(source))
            message = f"a granularity of {duration_text(size)} above one of {below} needs instants that are left out"
            raise QueryError("Q203", message, span, hint=f"use a multiple of {below}")
        case Window(source=source, size=int(size), slide=slide, span=span) if granule(source) > 1 and (
            size % granule(source) or (slide > 1 and slide % granule(source))
        ):
            below = duration_text(granule(source))
            message = f"a window over a stream of granularity {below} must move in the same steps"
            raise QueryError("Q203", message, span, hint=f"give it a RANGE and a SLIDE that are multiples of {below}")
