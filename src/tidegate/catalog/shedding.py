"""What SHOW SHEDDING answers: which queries leave out comparisons, and what became of their results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, fields

from tidegate.catalog.catalog import Query


@dataclass(frozen=True, slots=True)
class Shed:
    """What a run knows of a join that leaves out comparisons, in words; nothing where it knows nothing.

    query: the name of the query
    join: what is joined
    policy: what is left out when not all comparisons can be made in time
    compared: how many of the comparisons were made
    results: how many of the results there are
    utility: how much of what all results are worth
    dropped: how many rows were not taken in
    budget: how many comparisons a step may make
    history: how that changed
    """

    query: str
    join: str = ""
    policy: str = ""
    compared: str = ""
    results: str = ""
    utility: str = ""
    dropped: str = ""
    budget: str = ""
    history: str = ""


COLUMNS = tuple(field.name for field in fields(Shed))
"""What SHOW SHEDDING answers."""


def shedding_rows(queries: Iterable[Query], shed: Sequence[Shed] = ()) -> list[tuple[str, ...]]:
    """A row with the `COLUMNS` for each join that sheds, and for each query that may of which nothing is known."""
    told = list(shed)
    # Queries may have a join in common, which then is told of once.
    known = {name for each in shed for name in each.query.lower().split(", ")}
    told += [
        Shed(query.name, policy=query.shedding.policy.value)
        for query in queries
        if query.may_shed and query.name.lower() not in known
    ]
    return [astuple(each) for each in told]
