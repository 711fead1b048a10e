"""Steered operators: decide their orders from their reports, and extract what is shown to users.

After each step the driver has the reports of all buckets. It decides the orders of the next step and records
them with the step, together with the number of rows that have arrived. So a replayed step gets the same orders.

The rows that have *arrived* are all raw rows of a source stream, including dead letters. Their number does not
depend on which columns are read, which rows are wanted, or how rows are cut into steps and spread over tasks.
Rows of a table count each time they are read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidegate.physical.common.operator import NO_FACTS, Facts, Steered
from tidegate.runtime.stage import Stage, StageGraph, StageStep

OrdersByOperator = Mapping[str, Facts]
"""The newest order of each steered operator, by ``stage/operator``."""

NO_ORDERS: OrdersByOperator = {}
FOUND, LOSSES, SHED = "found", "losses", "shed"
"""Keys of an order that are shown to users: rows on constraints found, results lost, and work shed, for each join or
alert that may lose or shed."""


@dataclass(frozen=True, slots=True)
class Losses:
    """Estimated number of missing results, or of missing pairs of rows, with bounds.

    Without a sample there is no estimate, and the upper bound is the most that can be missing.
    """

    estimate: float | None
    low: float
    high: float
    of: str = "results"


def orders_of(stage: Stage, orders: OrdersByOperator) -> dict[int, Facts]:
    """Return the orders of the steered operators of a stage, by operator number."""
    pairs = ((_split_key(key), order) for key, order in orders.items())
    return {number: order for (at, number), order in pairs if at == stage.number}


def reports_of(stage: Stage, step: StageStep) -> dict[str, Facts]:
    """Return the reports of the steered operators of a stage in one bucket, by ``stage/operator``."""
    return {f"{stage.number}/{number}": report for number, report in step.reports.items()}


def decide_after_step(
    graph: StageGraph, orders: OrdersByOperator, buckets: Iterable[Mapping[str, Facts]], seconds: float
) -> dict[str, Facts]:
    """Decide the orders after a step that took some seconds, from its orders and the reports of its buckets."""
    reports: dict[str, list[Facts]] = {}
    for bucket in buckets:
        for key, report in bucket.items():
            reports.setdefault(key, []).append(_round_trip_json(report))
    return {
        **orders,
        **{key: _decide_for_operator(graph, key, orders, reports[key], seconds) for key in sorted(reports)},
    }


def add_counts(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Add up the rows that have arrived, by stream.

    Examples
    --------
    >>> add_counts({"a": 3, "b": 1}, {"a": 2})
    {'a': 5, 'b': 1}
    """
    return {stream: before.get(stream, 0) + more.get(stream, 0) for stream in {**before, **more}}


def constraint_findings(orders: OrdersByOperator) -> tuple[Facts, ...]:
    """Return what was found about constraints: a row for each stream and constraint."""
    return tuple(row for order in orders.values() for row in order.get(FOUND, ()))


def total_losses(orders: OrdersByOperator) -> Losses | None:
    """Add up the losses of all operators; return None if no operator reports any.

    Examples
    --------
    >>> total_losses({"2/0": {"losses": {"estimate": 4, "low": 1, "high": 9}}, "3/0": {"losses": {}}})
    Losses(estimate=4, low=1, high=9, of='results')
    """
    told = [order[LOSSES] for order in orders.values() if order.get(LOSSES)]
    if not told:
        return None
    low, high = (sum(each[bound] for each in told) for bound in ("low", "high"))
    estimates = [each["estimate"] for each in told]
    kinds = sorted({each.get("of", "results") for each in told})
    return Losses(None if None in estimates else sum(estimates), low, high, " or ".join(kinds))


def _decide_for_operator(
    graph: StageGraph, key: str, orders: OrdersByOperator, reports: Sequence[Facts], seconds: float
) -> Facts:  # fmt: skip
    stage, number = _split_key(key)
    operator = graph.stages[stage].nodes[number].operator
    assert isinstance(operator, Steered)
    order = _round_trip_json(operator.decide(orders.get(key, NO_FACTS), reports, seconds))
    shed = [{**facts, "query": graph.stages[stage].query} for facts in order.get(SHED, ())]
    return {**order, SHED: shed} if shed else order


def _split_key(key: str) -> tuple[int, int]:
    stage, _, number = key.partition("/")
    return int(stage), int(number)


def _round_trip_json(facts: Facts) -> Facts:
    """Convert facts to and from JSON, so that they are the same whether or not they were read from a record."""
    found: dict[str, Any] = json.loads(json.dumps(facts))
    return found
