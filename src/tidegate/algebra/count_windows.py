"""Count windows as inputs of joins."""

from __future__ import annotations

from tidegate.algebra.plan import CountWindow, Filter, Map, Plan


def count_window_below(plan: Plan) -> CountWindow | None:
    """Return the count window below the filters and maps at the top of a plan; None if there is none."""
    while isinstance(plan, Filter | Map):
        plan = plan.source
    return plan if isinstance(plan, CountWindow) else None
