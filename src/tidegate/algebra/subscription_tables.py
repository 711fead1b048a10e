"""Subscriptions whose rows are those of a table."""

from __future__ import annotations

from tidegate.algebra.plan import Filter, Map, Plan, Scan, Validity, walk


def reads_only_tables(plan: Plan) -> bool:
    """Return whether all sources of a plan are tables."""
    return all(node.validity is Validity.RELATION for node in walk(plan) if isinstance(node, Scan))


def reads_table(plan: Plan) -> bool:
    """Return whether the rows of a plan are those of one table, filtered and computed row by row."""
    match plan:
        case Scan(validity=validity):
            return validity is Validity.RELATION
        case Filter(source=source) | Map(source=source):
            return reads_table(source)
    return False
