"""Operators that look at all rows of an instant together: LIMIT and the set operations."""

from __future__ import annotations

from collections import Counter

from reference.members import Member
from reference.values import Row, order_key, row_order
from tidegate.algebra.plan import Limit, Order, SetRule


def limited(plan: Limit, members: list[Member]) -> list[Member]:
    """The first rows of each group of keys; rows that are equal in the order are ordered by all their columns."""
    ordered = sorted(members, key=lambda m: row_order(m.values))
    for order in reversed(plan.order):  # a stable sort by the last column first
        ordered = _sorted(ordered, order, plan.schema.names.index(order.column))
    groups: dict[Row, list[Member]] = {}
    for m in ordered:
        groups.setdefault(tuple(m.values[plan.schema.names.index(key)] for key in plan.keys), []).append(m)
    return [m for group in groups.values() for m in _first(plan, group)]


def _first(plan: Limit, ordered: list[Member]) -> list[Member]:
    until = plan.offset + plan.count
    last = ordered[until - 1 : until]
    while plan.ties and last and until < len(ordered) and _is_tied(plan, last[0], ordered[until]):
        until += 1
    return ordered[plan.offset : until]


def _is_tied(plan: Limit, one: Member, other: Member) -> bool:
    places = [plan.schema.names.index(order.column) for order in plan.order]
    return row_order(tuple(one.values[p] for p in places)) == row_order(tuple(other.values[p] for p in places))


def _sorted(members: list[Member], order: Order, place: int) -> list[Member]:
    """In the order of one column; `descending` turns the values round, not the place of the NULLs, nor ties."""
    nulls = [m for m in members if m.values[place] is None]
    known = [m for m in members if m.values[place] is not None]
    known.sort(key=lambda m: order_key(m.values[place]), reverse=order.descending)
    return nulls + known if order.nulls_first else known + nulls


def combined(rule: SetRule, left: Counter[Row], right: Counter[Row]) -> Counter[Row]:
    """Each row as often as the rule says of its number on both sides."""
    return Counter({row: times(rule, left[row], right[row]) for row in left | right})


def times(rule: SetRule, n: int, m: int) -> int:
    match rule:
        case SetRule.EXCEPT_ALL:
            return max(n - m, 0)
        case SetRule.INTERSECT_ALL:
            return min(n, m)
        case SetRule.MAX_UNION:
            return max(n, m)
        case SetRule.STRICT_EXCEPT_ALL:
            return n if m == 0 else 0
        case SetRule.EXCEPT:
            return 1 if n > 0 and m == 0 else 0
        case SetRule.INTERSECT:
            return 1 if n > 0 and m > 0 else 0
