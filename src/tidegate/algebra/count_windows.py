"""Windows of rows as inputs of joins."""

from __future__ import annotations

from tidegate.algebra.plan import CountWindow, Filter, Map, Plan


def counted(plan: Plan) -> CountWindow | None:
    """The window of rows that a plan is, with what filters and maps its elements above it; None if it is none."""
    while isinstance(plan, Filter | Map):
        plan = plan.source
    return plan if isinstance(plan, CountWindow) else None
