"""Plans that run with histories of sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate.algebra.plan import EVERY_ROW, CountWindow, Granularity, Plan, Sample, Window, rewrite
from tidegate.optimizer.quality import adaptable_nodes
from tidegate.physical.common.operator import adjust_operator
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.common.sizes import SizeHistories


def with_histories(plan: PhysicalPlan, sizes: SizeHistories) -> PhysicalPlan:
    """The physical plan, with its operators as they run."""
    if not isinstance(plan, Apply):
        return plan
    return Apply(adjust_operator(plan.operator, sizes), tuple(with_histories(each, sizes) for each in plan.inputs))


def at_best(plan: Plan) -> Plan:
    """The plan with fixed sizes."""

    def fix(node: Plan) -> Plan:
        match node:
            case Window() | CountWindow():
                return replace(node, least=None)
            case Granularity():
                return replace(node, coarsest=None)
            case Sample(rate=None):
                return replace(node, rate=EVERY_ROW)
        return node

    return rewrite(plan, fix)


def keys_of(plans: Sequence[Plan]) -> Mapping[str, Plan]:
    """The adaptable operators of plans, by key."""
    return {key: node for plan in plans for key, node in adaptable_nodes(plan).items()}
