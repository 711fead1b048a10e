"""Totals as written."""

from __future__ import annotations

from tidegate.language.syntax.expressions import CountStar, FunctionCall


def is_total(node: object) -> bool:
    """Return whether a node is TOTAL(…) or COUNT(*)."""
    match node:
        case FunctionCall(name=name):
            return name.text.lower() == "total"
        case CountStar(name=name):
            return name.text.lower() in ("total", "count")
    return False
