"""Descriptions of the elements that threshold alerts keep, and why."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.explain import duration_text
from tidegate.algebra.extreme_demands import extreme_demand
from tidegate.algebra.plan import Aggregate, Plan, walk
from tidegate.algebra.similarity_join import Policy, Shedding
from tidegate.algebra.threshold_alert import Alert, Demand, KeepAll, Link


def certificates(plan: Plan, *, limits: bool = True) -> list[str]:
    """Describe, for each alert and each of its streams, which elements are kept, and why.

    With `limits`, the description of shedding includes its limits; without, it names the policy alone.
    """
    joins = [node for node in walk(plan) if isinstance(node, ThresholdJoin)]
    return [line for join in joins for alert in join.alerts for line in _certificate(alert, join, limits=limits)]


def omission_below_aggregates(plan: Plan) -> list[str]:
    """Describe, for each aggregate that an alert reads, which elements are omitted below it, or why none is."""
    joins = [node for node in walk(plan) if isinstance(node, ThresholdJoin)]
    found = [each for join in joins for own in join.inputs for each in walk(own) if isinstance(each, Aggregate)]
    return [f"below {_aggregate_text(each)}: {_below_text(extreme_demand(each))}" for each in dict.fromkeys(found)]


def _aggregate_text(plan: Aggregate) -> str:
    by = f" by {', '.join(plan.keys)}" if plan.keys else ""
    calls = ", ".join(f"{call.function}({', '.join(call.columns) or '*'})" for call in plan.calls)
    return f"{calls or 'a grouping'}{by}"


def _below_text(demand: Demand | KeepAll) -> str:
    if isinstance(demand, KeepAll):
        return f"no element is omitted: {demand.why}"
    side = "greater" if demand.above else "smaller"
    apart = duration_text(demand.window)
    return f"elements between two {side} values of {demand.value}, {apart} apart, are omitted: {demand.why}"


def _certificate(alert: Alert, join: ThresholdJoin, *, limits: bool) -> Iterator[str]:
    yield f"{alert.name}: {nearness_text(alert, [member_name(join, m) for m in alert.members])}"
    for member, demand in zip(alert.members, alert.demands, strict=False):
        yield f"  {member_name(join, member)}: {_demand_text(demand)}"
    if alert.shedding.policy is not Policy.OFF:
        how = _shedding_text(alert.shedding) if limits else alert.shedding.policy.value
        yield f"  sheds when omission is not enough: {how}"


def _shedding_text(shedding: Shedding) -> str:
    which = "some at random" if shedding.policy is Policy.DROP else "those of the most productive spreads"
    if shedding.budget is None:
        target = duration_text(shedding.target)
        return f"with more combinations than can be judged in {target} a step, only {which} are judged"
    return f"with more than {shedding.budget} combinations in a step, only {which} are judged"


def member_name(join: ThresholdJoin, which: int) -> str:
    """Return the name of a member: the prefix of its column names."""
    names = join.inputs[which].schema.names
    return names[0].rpartition(".")[0] or names[0] if names else f"input {which + 1}"


def nearness_text(alert: Alert, labels: list[str]) -> str:
    """Describe which members must be near each other in time, and how near."""
    if len(alert.members) == 1:
        return _representation_text(alert)
    if alert.step > 1:
        length, step = duration_text(alert.links[0].before), duration_text(alert.step)
        return f"all within one window of {length}, sliding by {step}"
    distances = {_distance_text(link) for link in alert.links}
    if len(distances) == 1 and 2 * len(alert.links) == len(labels) * (len(labels) - 1):
        return f"every pair {distances.pop()}"
    return ", ".join(f"{labels[x.left]} and {labels[x.right]} {_distance_text(x)}" for x in alert.links)


def _representation_text(alert: Alert) -> str:
    if alert.representation is None:
        return "each element is compared with the threshold"
    if not any(isinstance(demand, Demand) for demand in alert.demands):
        return "the function is computed for each element"
    less, length = "less than " * alert.representation.strict, duration_text(alert.representation.window)
    return f"the function is computed for elements that no others, {less}{length} apart, represent"


def _distance_text(link: Link) -> str:
    ends = {
        (True, True): ", ends excluded",
        (True, False): ", left end excluded",
        (False, True): ", right end excluded",
    }
    open_ends = ends.get((link.open_before, link.open_after), "")
    if link.before == link.after:
        return f"within {duration_text(link.before)}{open_ends}"
    return f"from {duration_text(link.before)} before to {duration_text(link.after)} after{open_ends}"


def _demand_text(demand: Demand | KeepAll) -> str:
    if isinstance(demand, KeepAll):
        return f"keeps every element: {demand.why}"
    what = {(True, False): "greatest", (False, True): "smallest"}.get(
        (demand.above, demand.below), "greatest or smallest"
    )
    return f"keeps the {what} {demand.value_text or demand.value} of any {duration_text(demand.window)}: {demand.why}"
