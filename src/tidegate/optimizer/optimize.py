"""The optimiser: rules in an order, each with its law."""

from __future__ import annotations

from tidegate.algebra.plan import Plan
from tidegate.optimizer.columns import prune_columns
from tidegate.optimizer.filters import FILTER_RULES
from tidegate.optimizer.rule import apply_rules


def optimize(plan: Plan) -> tuple[Plan, tuple[str, ...]]:
    """A better plan of the same meaning, and the names of the rules that made it."""
    plan, applied = apply_rules(plan, FILTER_RULES)
    # Columns last: where the filters ended up decides what must be read.
    return prune_columns(plan), applied
