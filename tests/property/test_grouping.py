"""Grouping below a join on a KEY: the relation at every instant stays, for rows in which the keys hold."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from reference.semantics import Elements, failures_of, relations_of
from reference.values import Row
from strategies.grouped_joins import grouped_joins
from support.examples import examples

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.plan import Plan
from tidegate.optimizer.advice import GroupPosition, KeyedJoins, PlanAdvice, PlanChoices
from tidegate.optimizer.grouping import group_below_join_on_key
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.rule import apply_rule

INSTANTS = range(-1, 16)
CHOICES = st.builds(PlanChoices, st.sampled_from(GroupPosition), st.sampled_from(KeyedJoins))


@settings(max_examples=examples(150), suppress_health_check=list(HealthCheck), deadline=None)
@given(grouped_joins())
def test_grouping_below_a_join_keeps_the_relation(case: tuple[Plan, Elements]) -> None:
    plan, rows = case
    better = apply_rule(group_below_join_on_key, plan)
    event("applies" if better is not None else "does not apply")
    assume(better is not None)
    assert better is not None
    assert relations_of(better, rows, INSTANTS) == relations_of(plan, rows, INSTANTS)
    assert _failed(better, rows) == _failed(plan, rows)


@settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)
@given(grouped_joins(), CHOICES, st.sampled_from(ConstraintUse))
def test_every_choice_keeps_the_relation(case: tuple[Plan, Elements], choices: PlanChoices, use: ConstraintUse) -> None:
    plan, rows = case
    better, applied = optimize(plan, ConstraintSettings(use), advice=PlanAdvice(choices=choices))
    assert better.schema == plan.schema
    assert relations_of(better, rows, INSTANTS) == relations_of(plan, rows, INSTANTS)
    assert use is not ConstraintUse.OFF or "group_below_join_on_key" not in applied


def _failed(plan: Plan, rows: Elements) -> Counter[tuple[frozenset[str], Row]]:
    failures = failures_of(plan, rows, INSTANTS)
    return Counter((each.kinds, each.row) for each in failures.elements())
