"""Descriptions of why joins of streams with declared keys or constraints are plain joins."""

from __future__ import annotations

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.explain_keyed_join import describe_unused, input_name
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Join, Plan, Scan, inputs, walk
from tidegate.optimizer.join_clusters import is_inner
from tidegate.optimizer.keyed_join import analyse_joins


def describe_plain_joins(plan: Plan, settings: ConstraintSettings) -> list[str]:
    """Describe each tree of plain joins: its inputs, and why it is no keyed join."""
    below, lines = inputs(plan), list[str]()
    if isinstance(plan, Join) and is_inner(plan):
        found = analyse_joins(plan, settings)
        below = tuple(leaf.plan for leaf in found.leaves)
        refused = "; ".join(group.refused for group in found.groups if group.refused)
        unfit = [
            (p, leaf.origin)
            for leaf in found.leaves
            if isinstance(leaf.origin, str) and not _has_keyed_join(p := leaf.plan)
        ]
        why = refused or "; ".join(f"{plan_name(each)} takes no part, since {reason}" for each, reason in unfit)
        lines = _describe_inputs(below, why or "no equality with another stream covers all columns of a key", settings)
        lines += [f"  {line}" for group in found.groups if lines and refused for line in describe_unused(group.join)]
    elif isinstance(plan, Join):
        lines = _describe_inputs(
            below, "a condition can fail, and is evaluated only on the pairs of this join", settings
        )
    return [*lines, *(line for each in below for line in describe_plain_joins(each, settings))]


def _describe_inputs(joined: tuple[Plan, ...], why: str, settings: ConstraintSettings) -> list[str]:
    scans = [node for each in joined for node in walk(each) if isinstance(node, Scan)]
    if not any(scan.key or scan.constraints for scan in scans):
        return []
    reason = "constraints are off" if settings.use is ConstraintUse.OFF else why
    return [f"{', '.join(map(plan_name, joined))}: {reason}"]


def plan_name(plan: Plan) -> str:
    """Return a name for a joined plan, from the streams that it reads."""
    scans = [node.stream for node in walk(plan) if isinstance(node, Scan)]
    return input_name(plan, scans[0]) if len(scans) == 1 else f"({', '.join(scans)})"


def _has_keyed_join(plan: Plan) -> bool:
    return any(isinstance(node, KeyedJoin) for node in walk(plan))
