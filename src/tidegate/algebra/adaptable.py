"""Windows and granularities whose size may change while a query runs.

A window with a range of sizes is *adaptable* if its size can follow a history: which size an element gets must depend
on its start alone, not on when it arrived or how an operator below has cut it. So the elements must be those of
streams, each in the step in which it arrives. Windows over validities are not adaptable, because they split an element
into instants that may come after the next change.

Granules form a chain in which each divides the next (errata E-41, E-42), so that time in coarse granules is also time
in fine ones.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from operator import mul

from tidegate.algebra.plan import (
    LEAST_RATE,
    CountWindow,
    Filter,
    Granularity,
    Map,
    Plan,
    Sample,
    Scan,
    Split,
    Stamp,
    Union,
    Validity,
    Window,
    inputs,
    walk,
)
from tidegate.algebra.properties.validities import is_chronon, is_source

Adaptable = Window | CountWindow | Granularity | Sample
"""Operators that may have a range of sizes; the size of a sample is its rate."""

LARGEST_FACTOR = 1 << 20
"""Prime factors above this are not looked for: what is left counts as one factor."""


def is_adaptable(plan: Plan) -> bool:
    """Return whether the size of a window or granularity may change while the query runs.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> bids = Scan("bid", Schema.of())
    >>> is_adaptable(Window(bids, 10, least=5)), is_adaptable(Window(bids, 10))
    (True, False)
    """
    return has_range(plan) and why_fixed(plan) is None


def has_range(plan: Plan) -> bool:
    """Return whether an operator has more than one size to choose from."""
    match plan:
        case Window(size=int(best), least=int(worst)) | CountWindow(rows=int(best), least=int(worst)):
            return worst < best
        case Granularity(size=size, coarsest=int(coarsest)):
            return coarsest >= 2 * size
        case Sample(rate=None):
            return True
    return False


def why_fixed(plan: Plan) -> str | None:
    """Return why an operator with a range of sizes always has the best one; None if it is adaptable."""
    match plan:
        case CountWindow(slide=slide) if slide != 1:
            return "the window moves in steps of rows"
        case Window(source=source) | CountWindow(source=source) if any(
            isinstance(node, Granularity) for node in walk(source)
        ):
            return "the window is over time in granules"
        case Window() | CountWindow() | Granularity() | Sample() if any(_reads_table(node) for node in walk(plan)):
            return "it is over a table"
        case Window() | CountWindow() | Granularity() | Sample() if not _passes_arrivals(plan.source):
            return "it is over the results of a query that keeps rows"
        case Window(source=source) | CountWindow(source=source) if not is_chronon(source):
            return "the window extends every instant of rows that last"
    return None


def granule_chain(plan: Granularity) -> tuple[int, ...]:
    """Return the sizes of a granularity, from the finest on; each divides the next, with the smallest factors first.

    A coarsest size that is no multiple of the finest one is rounded down to one.

    Examples
    --------
    >>> from tidegate.schema import Schema
    >>> granule_chain(Granularity(Scan("bid", Schema.of()), 2, coarsest=25))
    (2, 4, 8, 24)
    """
    if not is_adaptable(plan):
        return (plan.size,)
    assert plan.coarsest is not None
    return tuple(accumulate(_prime_factors(plan.coarsest // plan.size), mul, initial=plan.size))


def with_one_size(plan: Plan) -> Plan:
    """Return a window or granularity that always has the best size."""
    match plan:
        case Window() | CountWindow():
            return replace(plan, least=None)
        case Granularity():
            return replace(plan, coarsest=None)
    return plan


def worst_sizes(plan: Plan) -> tuple[int | None, ...]:
    """Return the worst sizes of the adaptable operators of a plan, in the order of `walk`.

    Two plans with the same key differ in nothing else.
    """
    return tuple(worst_size(node) for node in walk(plan) if is_adaptable(node))


def worst_size(plan: Plan) -> int | None:
    """Return the worst size that the text of a query allows a window or granularity."""
    match plan:
        case Sample(rate=None):
            return LEAST_RATE
        case Window(least=worst) | CountWindow(least=worst) | Granularity(coarsest=worst):
            return worst
    return None


def _passes_arrivals(plan: Plan) -> bool:
    """Return whether each element follows at once from one element of a stream, in the step in which that arrives."""
    match plan:
        case Scan():
            return True
        case Stamp(source=source):
            return _passes_arrivals(source) and (is_source(source) or is_chronon(source))
        case Split(source=source):
            return is_chronon(source) and _passes_arrivals(source)
        case Window(source=source):
            return is_chronon(source) and _passes_arrivals(source)
        case Filter() | Map() | Sample() | Union() | Granularity():
            return all(_passes_arrivals(each) for each in inputs(plan))
    return False


def _reads_table(plan: Plan) -> bool:
    return isinstance(plan, Scan) and plan.validity is Validity.RELATION


def _prime_factors(number: int) -> tuple[int, ...]:
    """Return the prime factors of a number in ascending order; what is left of very large ones is one factor."""
    found, factor = [], 2
    while factor * factor <= number and factor <= LARGEST_FACTOR:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return (*found, number) if number > 1 else tuple(found)
