"""Admission: a query that does not fit into the limits, even at the lowest quality of all queries, is refused."""

from __future__ import annotations

from collections.abc import Iterable

from tidegate.catalog.catalog import Query
from tidegate.catalog.limits import NO_LIMITS, RESERVE
from tidegate.errors import QueryError
from tidegate.runtime.job import Job
from tidegate.runtime.resources.managed_job import resource_manager_of


def refuse_overload(before: Job, after: Job, new: Iterable[Query]) -> None:
    """Raise an error if a job with new queries cannot keep its limits, unless these are to be admitted anyway.

    Nothing is refused before the rates of all streams are known.
    """
    asked = [query for query in new if not query.admit_anyway]
    manager = resource_manager_of(after.adapt) if asked and after.limits != NO_LIMITS else None
    if manager is None:
        return
    needed = manager.least_usage(after.graph, after.source_streams, after.adjusted)
    excess = None if needed is None else needed.exceeds(after.limits.without_reserve())
    if needed is None or excess is None:
        return
    running = manager.least_usage(before.graph, before.source_streams, before.adjusted)
    names = ", ".join(query.name for query in asked)
    others = "" if running is None else f"; without it, {running.describe()}"
    message = f"'{names}' does not fit: at the lowest quality, all queries would need {needed.describe()}{others}"
    hint = (
        f"{excess} ({1 - RESERVE:.0%} of the limit); allow smaller windows with RANGE MIN … MAX …, "
        "raise the limit, drop another query, or add ADMIT ANYWAY"
    )
    raise QueryError("Q326", message, hint=hint)
