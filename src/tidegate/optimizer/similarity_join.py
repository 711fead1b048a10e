"""Replace joins on a similarity condition, and joins that a query may shed, by similarity joins.

Joins with an equality between their sides stay as they are, because a hash lookup finds equal keys, unless they may
shed: then only rows with equal keys are compared, and the most productive of these comparisons are made.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.equalities import equalities
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Join, Map, Output, Plan, rewrite, walk
from tidegate.algebra.properties import unique_keys, validity_bound
from tidegate.algebra.similarity_join import NO_SHEDDING, SECOND, Policy, Shedding, SimilarityCondition, SimilarityJoin
from tidegate.expressions.nodes import Column, Expression, columns_of, conjunction, conjuncts
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.explain_fallback import plan_name
from tidegate.optimizer.names import select_columns
from tidegate.optimizer.similarity_conditions import SimilarityTerm, find_similarity

_SLOTS = 20
"""Number of slots into which the longest validity is divided."""


def find_similarity_joins(plan: Plan, shedding: Shedding = NO_SHEDDING) -> Plan:
    """Replace each join on a similarity condition, or that may be shed, by a similarity join."""
    return rewrite(plan, lambda node: _as_similarity_join(node, shedding) if isinstance(node, Join) else node)


def _as_similarity_join(join: Join, shedding: Shedding) -> Plan:
    if _why_not_similarity(join, shedding) is not None:
        return join
    if equalities(join)[0]:
        return _join_by_comparison(join, shedding)
    found = find_similarity(join)
    if isinstance(found, SimilarityTerm):
        return _join_by_similarity(join, found, shedding)
    if shedding.policy is Policy.OFF:
        return join
    return _join_by_comparison(join, shedding)


def _join_by_comparison(join: Join, shedding: Shedding) -> Plan:
    own = _shedding_of_join(shedding, join.left, join.right)
    return SimilarityJoin(join.left, join.right, None, join.predicate, own, _slot_width(join), join.span)


def _join_by_similarity(join: Join, found: SimilarityTerm, shedding: Shedding) -> Plan:
    left, left_name = _with_column(join.left, found.left, "like:left")
    right, right_name = _with_column(join.right, found.right, "like:right")
    likeness = SimilarityCondition(found.measure, left_name, right_name, found.bound)
    rest = tuple(term for term in conjuncts(join.predicate) if not found.exact or term != found.term)
    own = _shedding_of_join(shedding, join.left, join.right)
    made = SimilarityJoin(left, right, likeness, conjunction(rest), own, _slot_width(join), join.span)
    return select_columns(made, join.schema.names)


def _with_column(side: Plan, value: Expression, name: str) -> tuple[Plan, str]:
    """Add a column for the compared value to a side, if the value is computed."""
    if isinstance(value, Column):
        return side, value.name
    own = tuple(Output(f.name, Column(f.name, f.type)) for f in side.schema)
    return Map(side, (*own, Output(name, value))), name


def _shedding_of_join(shedding: Shedding, left: Plan, right: Plan) -> Shedding:
    """Return the shedding of a query for one of its joins, with only the row types that its sides have."""
    if shedding.policy is Policy.OFF:
        return NO_SHEDDING
    if shedding.utility is None:
        return shedding
    sides = [frozenset(side.schema.names) for side in (left, right)]
    types = tuple(t for t in shedding.utility.types if any(columns_of(t) <= names for names in sides))
    return replace(shedding, utility=replace(shedding.utility, types=types) if types else None)


def _slot_width(join: Join) -> int:
    """Return the length of slots: rows of a slot are processed together, and a window has several slots."""
    bounds = [validity_bound(each) for each in (join.left, join.right)]
    longest = max((each for each in bounds if each is not None), default=0) // _SLOTS
    return max(longest, SECOND if None in bounds else 1)


def _why_not_similarity(join: Join, shedding: Shedding) -> str | None:
    """Return why a similarity join has no benefit; None if it has one."""
    pairs, rest = equalities(join)
    keys = " and ".join(f"{to_sql(a)}, {to_sql(b)}" for a, b in pairs)
    if pairs and shedding.policy is Policy.OFF:
        return f"rows with equal {keys} are found by hash"
    names = (frozenset(each.name for each in side if isinstance(each, Column)) for side in zip(*pairs, strict=True))
    for side, equal in zip((join.left, join.right), tuple(names) or (frozenset(),) * 2, strict=True):
        if any(key <= equal for key in unique_keys(side)):
            alike = f" with equal {keys}" if pairs else ""
            return f"one side has at most one row{alike} at a time"
    if (
        pairs
        and not rest
        and shedding.policy is Policy.ON
        and _shedding_of_join(shedding, *_sides(join)).utility is None
    ):
        return (
            f"every pair with equal {keys} is a result, so no comparison promises more than another; "
            "all are made, by hash, and UTILITY BY would say which results to prefer"
        )
    return None


def _sides(join: Join) -> tuple[Plan, Plan]:
    return join.left, join.right


# ---- reasons for EXPLAIN


_ALONE = "a row has at most one partner on each edge, which is found by its key"


def describe_missed_similarity(plan: Plan, shedding: Shedding) -> list[str]:
    """Describe why joins on a similarity condition are no similarity joins, or why joins are not shed."""
    may_shed, lines, joins = shedding.policy is not Policy.OFF, list[str](), 0
    for node in walk(plan):
        match node:
            case Join() | SimilarityJoin(similarity=None):
                joins += 1
                lines += [f"{_input_names(node)}: {why}" for why in _reasons(node, shedding)]
            case SimilarityJoin() | ThresholdJoin():
                joins += 1
            case KeyedJoin():
                joins += 1
                lines += [f"{_input_names(node)}: not shed: {_ALONE}"] if may_shed else []
    return lines if joins or not may_shed else ["nothing to shed: there is no join"]


def _reasons(join: Join | SimilarityJoin, shedding: Shedding) -> list[str]:
    otherwise = _why_not_similarity(join, shedding) if isinstance(join, Join) else None
    if otherwise is not None:
        return [f"not shed: {otherwise}"] if shedding.policy is not Policy.OFF else []
    if equalities(join)[0]:
        return []
    refused = find_similarity(join)
    return [f"not a similarity join, since {refused}"] if isinstance(refused, str) else []


def _input_names(join: Join | SimilarityJoin | KeyedJoin) -> str:
    sides = join.inputs if isinstance(join, KeyedJoin) else (join.left, join.right)
    return ", ".join(map(plan_name, sides))
