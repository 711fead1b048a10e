"""Answer to SHOW SHEDDING: the queries that may shed, with the shares of results found and of comparisons made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, fields

from tidegate.algebra.plan import EVERY_ROW
from tidegate.algebra.similarity_join import Policy
from tidegate.catalog.catalog import Query
from tidegate.values import value


@value
class SheddingSummary:
    """Description of what a run knows about a join that may shed; fields are empty where it knows nothing.

    query: name of the query
    join: the inputs of the join
    policy: the policy that chooses what to shed
    results_found: estimated share of all results that was found
    utility_found: estimated share of the utility of all results that was found
    comparisons_made: share of all comparisons that was made
    rows_dropped: number of rows dropped
    budget: maximum number of comparisons in a step
    history: earlier shares of comparisons, by step, or rates, by the time of rows
    rate: share of the rows that a sample keeps
    """

    query: str
    join: str = ""
    policy: str = ""
    results_found: str = ""
    utility_found: str = ""
    comparisons_made: str = ""
    rows_dropped: str = ""
    budget: str = ""
    history: str = ""
    rate: str = ""


COLUMNS = tuple(field.name for field in fields(SheddingSummary))
"""Columns of SHOW SHEDDING."""


def shedding_rows(queries: Iterable[Query], shed: Sequence[SheddingSummary] = ()) -> list[tuple[str, ...]]:
    """Return a row with the `COLUMNS` for each join in `shed`, and for each other query that may shed."""
    told = list(shed)
    # A join that several queries share has one entry, with the names of all of them.
    known = {name for each in shed for name in each.query.lower().split(", ")}
    told += [
        SheddingSummary(query.name, policy=query.shedding.policy.value, rate=_rate_text(query))
        for query in queries
        if query.may_shed and query.name.lower() not in known
    ]
    return [astuple(each) for each in told]


def _rate_text(query: Query) -> str:
    shedding = query.shedding
    if shedding.policy is not Policy.SAMPLE:
        return ""
    return "auto" if shedding.rate is None else f"{100 * shedding.rate / EVERY_ROW:.3g} %"
