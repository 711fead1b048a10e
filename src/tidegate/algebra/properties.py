"""What is known of a plan's output without running it, and which plans are refused for it."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Union,
    Validity,
    Window,
    inputs,
    walk,
)
from tidegate.errors import QueryError
from tidegate.time import CHRONON


def is_chronon(plan: Plan) -> bool:
    """Whether every element of the output is valid for one chronon only.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> is_chronon(Scan("bid", Schema.of())), is_chronon(Window(Scan("bid", Schema.of()), 10))
    (True, False)
    """
    match plan:
        case Scan(validity=validity):
            return validity is Validity.INSTANT
        case Filter(source=source) | Map(source=source) | Limit(source=source):
            return is_chronon(source)
        case Split(source=source, length=length):
            return length == CHRONON or is_chronon(source)
        case Union(inputs=many):
            return all(is_chronon(each) for each in many)
        case Join(left=left, right=right):
            return is_chronon(left) or is_chronon(right)
        case SemiJoin(left=left):
            return is_chronon(left)
        case (
            Window()
            | CountWindow()
            | Granularity()
            | Coalesce()
            | Changes()
            | SetOperation()
            | Aggregate()
            | Distinct()
        ):
            return False


def validity_bound(plan: Plan) -> int | None:
    """The longest validity, in microseconds, that an element of the output can have; None: there is none.

    Operators may cut validities, and may join those of equal neighbours again; the bound is that
    of elements before this last, which is what decides how long state is kept.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> validity_bound(Window(Scan("bid", Schema.of()), 10, 4))
    12
    """
    match plan:
        case Scan():
            return CHRONON
        case Window(size=None):
            return None
        case Split(source=source, length=length):
            return length
        case SemiJoin(left=left):
            return validity_bound(left)
        case SetOperation(left=left, right=right):
            return _longest((validity_bound(left), validity_bound(right)))
        case Window(source=source, size=int(size), slide=slide):
            # Slides start at multiples of the slide: an element is in ceil(size / slide) of them at most.
            longest = -(-size // slide) * slide
            within = validity_bound(source)
            return None if within is None else within - CHRONON + longest
        case Union(inputs=many):
            return _longest(validity_bound(each) for each in many)
        case Join(left=left, right=right):
            known = [b for b in (validity_bound(left), validity_bound(right)) if b is not None]
            return min(known, default=None)
        case _:
            return validity_bound(plan.source)


def _longest(bounds: Iterable[int | None]) -> int | None:
    known = list(bounds)
    return None if None in known else max(b for b in known if b is not None)


def refuse_unsupported(plan: Plan) -> None:
    """Raise a QueryError if the plan would need unbounded state, or is not supported yet."""
    for node in walk(plan):
        match node:
            case Join() | Aggregate() | Distinct():
                _refuse_unbounded(node)
            case Window(source=source) if not is_chronon(source):
                raise _window_over_validities(node)


def _refuse_unbounded(plan: Join | Aggregate | Distinct) -> None:
    for each in inputs(plan):
        if validity_bound(each) is None:
            window = next(w for w in walk(each) if isinstance(w, Window) and w.size is None)
            what = {Join: "a join", Aggregate: "an aggregate", Distinct: "DISTINCT"}[type(plan)]
            message = f"{what} over an unbounded window would have to remember all elements for ever"
            raise QueryError("Q201", message, window.span, hint="give the window a RANGE, such as RANGE 1 HOUR")


def _window_over_validities(window: Window) -> QueryError:
    message = "a window over elements that are valid for longer than an instant is not supported yet"
    hint = "below it is another window, an aggregate or DISTINCT; put the window on the stream that this reads"
    return QueryError("Q202", message, window.span, hint=hint)
