"""Descriptions of similarity joins: how they find pairs, and what they may shed."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.equalities import is_by_key
from tidegate.algebra.explain import duration_text, pair_condition_text
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.similarity_join import Measure, Policy, Shedding, SimilarityCondition, SimilarityJoin, Utility
from tidegate.expressions.sql_text import to_sql


def describe_similarity_joins(plan: Plan) -> list[str]:
    """Describe each similarity join: its condition, how it finds pairs, and what it may shed."""
    return [line for join in _similarity_joins(plan) for line in _describe_join(join)]


def describe_state_basis(plan: Plan) -> list[str]:
    """Describe what the state of similarity joins depends on, besides the condition on pairs.

    Budgets and targets are left out: state kept under other budgets and targets remains usable.
    """
    return [
        f"{pair_condition_text(join)}: slots of {join.width}, {join.shedding.policy.value}, "
        f"{_utility_text(join.shedding.utility)}"
        for join in _similarity_joins(plan)
    ]


def _similarity_joins(plan: Plan) -> list[SimilarityJoin]:
    return list(dict.fromkeys(node for node in walk(plan) if isinstance(node, SimilarityJoin)))


def _describe_join(join: SimilarityJoin) -> Iterator[str]:
    yield pair_condition_text(join) or "all pairs"
    yield f"  {_method_text(join)}"
    rows = (
        "each bucket gets the rows of its keys"
        if is_by_key(join)
        else "every bucket gets all rows, and compares a part of them"
    )
    yield f"  in slots of {duration_text(join.width)}; {rows}"
    yield f"  {describe_shedding(join.shedding)}"
    if join.shedding.utility is not None:
        yield f"  {_utility_text(join.shedding.utility)}"


def _method_text(join: SimilarityJoin) -> str:
    match join.similarity:
        case None if is_by_key(join):
            return "found by comparing the rows with equal keys, by an index of the keys of each slot"
        case None:
            return "found by comparing every pair"
        case SimilarityCondition(measure=Measure.DISTANCE):
            return "found in the sorted order of the compared values"
    return "found by an index of the rarest items of each row"


def describe_shedding(shedding: Shedding) -> str:
    """Describe what may be shed, and when.

    Examples
    --------
    >>> describe_shedding(Shedding(Policy.ON, budget=1000))
    'with more than 1000 comparisons in a step, only the most productive ones are made'
    """
    budget = shedding.budget
    too_much = (
        f"with more than {budget} comparisons in a step"
        if budget is not None
        else f"with more comparisons than fit in {duration_text(shedding.target)} a step"
    )
    match shedding.policy:
        case Policy.OFF:
            return "nothing is shed"
        case Policy.ON:
            return f"{too_much}, only the most productive ones are made"
        case Policy.DROP:
            return f"{too_much}, only those of some rows, chosen at random, are made"
        case Policy.SAMPLE:
            return "aggregates are estimated from a sample"


def _utility_text(utility: Utility | None) -> str:
    if utility is None:
        return "all pairs are worth the same"
    by = " or ".join(map(to_sql, utility.types))
    values = ", ".join(f"{value} {worth}" for value, worth in utility.by_value)
    known = f"{values}, others {utility.otherwise}" if values else f"its value, others {utility.otherwise}"
    joint = "the average" if utility.average else "the greater"
    return f"worth of a row, by {by}: {known}; a pair is worth {joint} of both"
