"""Descriptions of similarity joins: how they find pairs, and what they may shed."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.explain import in_words, pair_words
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.similarity_join import Likeness, Measure, Policy, Shedding, SimilarityJoin, Utility
from tidegate.expressions.sql_text import to_sql


def joins_by_likeness(plan: Plan) -> list[str]:
    """Describe each similarity join: its condition, how it finds pairs, and what it may shed."""
    return [line for join in _joins(plan) for line in _lines(join)]


def kept_words(plan: Plan) -> list[str]:
    """Describe what the state of similarity joins depends on, besides the condition on pairs.

    Budgets and targets are left out: state kept under other budgets and targets remains usable.
    """
    return [
        f"{pair_words(join)}: slots of {join.width}, {join.shedding.policy.value}, {_worth(join.shedding.utility)}"
        for join in _joins(plan)
    ]


def _joins(plan: Plan) -> list[SimilarityJoin]:
    return list(dict.fromkeys(node for node in walk(plan) if isinstance(node, SimilarityJoin)))


def _lines(join: SimilarityJoin) -> Iterator[str]:
    yield pair_words(join) or "all pairs"
    yield f"  {_way(join.likeness)}"
    yield f"  in slots of {in_words(join.width)}; every bucket gets all rows, and compares a part of them"
    yield f"  {shedding_words(join.shedding)}"
    if join.shedding.utility is not None:
        yield f"  {_worth(join.shedding.utility)}"


def _way(likeness: Likeness | None) -> str:
    match likeness:
        case None:
            return "found by comparing every pair"
        case Likeness(measure=Measure.DISTANCE):
            return "found in the order of what is compared"
    return "found by lists of rows by item, those of the rarest items"


def shedding_words(shedding: Shedding) -> str:
    """Describe what may be shed, and when.

    Examples
    --------
    >>> shedding_words(Shedding(Policy.ON, budget=1000))
    'of more than 1000 comparisons in a step, the most productive ones are made'
    """
    budget = shedding.budget
    too_much = (
        f"of more than {budget} comparisons in a step"
        if budget is not None
        else f"of more than what can be compared in {in_words(shedding.target)} a step"
    )
    match shedding.policy:
        case Policy.OFF:
            return "nothing is shed"
        case Policy.ON:
            return f"{too_much}, the most productive ones are made"
        case Policy.DROP:
            return f"{too_much}, those of some rows are made, which are chosen at random"


def _worth(utility: Utility | None) -> str:
    if utility is None:
        return "all pairs are worth the same"
    by = " or ".join(map(to_sql, utility.types))
    values = ", ".join(f"{value} {worth}" for value, worth in utility.worth)
    known = f"{values}, others {utility.otherwise}" if values else f"as it says, others {utility.otherwise}"
    joint = "the average" if utility.average else "the greater"
    return f"rows are worth, by {by}: {known}; a pair is worth {joint} of both"
