"""Reports on shedding: as rows for each step, in the summary of a run, and for SHOW SHEDDING."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from tidegate.catalog.shedding import SheddingSummary
from tidegate.physical.common.operator import Facts
from tidegate.runtime.control import SHED, OrdersByOperator

SHEDDING = "shedding"
"""Name of the output with the share of comparisons made in each step. The other outputs are named by query."""

SHEDDING_SCHEMA = pa.schema(
    {
        "step": pa.int64(),
        "query": pa.string(),
        "join": pa.string(),
        "compared_share": pa.float64(),
        "results_share": pa.float64(),
        "utility_share": pa.float64(),
        "comparisons": pa.int64(),
        "of_comparisons": pa.int64(),
        "found": pa.int64(),
        "dropped": pa.int64(),
        "budget": pa.float64(),
    }
)
"""Schema with one row for each step and join that may shed. The shares of results and utility are estimates."""

_FIGURES = (
    "step",
    "query",
    "join",
    "compared",
    "results",
    "utility",
    "comparisons",
    "volume",
    "found",
    "dropped",
    "budget",
)


def shedding_figures(orders: OrdersByOperator) -> tuple[Facts, ...]:
    """Return the figures on shedding, of the last step and overall, that the orders contain."""
    return tuple(facts for order in orders.values() for facts in order.get(SHED, ()))


def shedding_step_rows(orders: OrdersByOperator) -> pa.RecordBatch:
    """Return the figures of `shedding_figures` as rows."""
    rows = [
        dict(zip(SHEDDING_SCHEMA.names, (facts.get(f) for f in _FIGURES), strict=True))
        for facts in shedding_figures(orders)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SHEDDING_SCHEMA)


def shedding_of_runs(runs: Iterable[OrdersByOperator]) -> tuple[SheddingSummary, ...]:
    """Describe what runs have shed, from the newest orders of their operators."""
    return tuple(_summarize_shedding(facts) for orders in runs for facts in shedding_figures(orders))


def describe_shed_work(facts: Facts) -> str:
    """Describe in one line what was shed, in one step or overall.

    Examples
    --------
    >>> describe_shed_work({"compared": 0.05, "results": 0.28, "utility": None, "dropped": 0})
    '5 % of comparisons made, about 28 % of results found'
    """
    said = [f"{percent(facts['compared'])} of comparisons made", f"about {percent(facts['results'])} of results found"]
    if facts.get("utility") is not None:
        said.append(f"about {percent(facts['utility'])} of their utility")
    if facts.get("dropped"):
        said.append(f"{facts['dropped']:,} rows dropped")
    return ", ".join(said)


def percent(share: float | None) -> str:
    """Format a share as a percentage; only a share of 1 or more becomes 100 %.

    Examples
    --------
    >>> percent(0.2849), percent(0.00123), percent(0.9999), percent(1)
    ('28 %', '0.12 %', '99.9 %', '100 %')
    """
    if share is None:
        return ""
    amount = 100 * share if share >= 1 else min(100 * share, 99.9)
    return f"{amount:.1f} %" if 99 < amount < 100 else f"{amount:.2g} %" if amount < 10 else f"{amount:.0f} %"


def _summarize_shedding(facts: Facts) -> SheddingSummary:
    budget, overall = facts.get("budget"), facts.get("overall", facts)
    return SheddingSummary(
        query=facts.get("query", ""),
        join=facts.get("join", ""),
        policy=facts.get("policy", ""),
        compared=_now_and_overall(facts, overall, "compared"),
        results=_now_and_overall(facts, overall, "results"),
        utility=_now_and_overall(facts, overall, "utility"),
        dropped=f"{overall.get('dropped') or 0:,}",
        budget="" if budget is None else f"{budget:,.0f}",
        history=", ".join(f"{percent(share)} from step {step}" for step, share in facts.get("history", ())),
    )


def _now_and_overall(facts: Facts, overall: Any, what: str) -> str:
    if facts.get(what) is None:
        return ""
    return f"{percent(facts[what])} now, {percent(overall[what])} in all"
