"""Keyed joins mean what the plain joins mean whose place they take, if the keys hold."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, event, given, settings
from reference.semantics import Elements, failures_of, relations_of
from reference.values import Row
from strategies.many_one import SETTINGS, keyed_joins
from support.examples import examples

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.explain_keyed_join import describe_join_graphs
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Plan, walk
from tidegate.optimizer.keyed_join import find_keyed_joins
from tidegate.optimizer.optimize import optimize

INSTANTS = range(-1, 16)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(keyed_joins(), SETTINGS)
def test_the_relation_at_every_instant_stays(case: tuple[Plan, Elements], chosen: ConstraintSettings) -> None:
    plan, rows = case
    better, _ = optimize(plan, chosen)
    joins = [node for node in walk(better) if isinstance(node, KeyedJoin)]
    event(f"{len(joins)} keyed joins")
    assert better.schema == plan.schema
    assert chosen.use is not ConstraintUse.OFF or not joins
    assert relations_of(better, rows, INSTANTS) == relations_of(plan, rows, INSTANTS)
    assert bool(describe_join_graphs(better)) == bool(joins)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(keyed_joins())
def test_the_same_rows_fail_as_before(case: tuple[Plan, Elements]) -> None:
    plan, rows = case
    better = find_keyed_joins(plan, ConstraintSettings(ConstraintUse.MONITORED))
    assert _failed(better, rows) == _failed(plan, rows)


def _failed(plan: Plan, rows: Elements) -> Counter[tuple[frozenset[str], Row]]:
    failures = failures_of(plan, rows, INSTANTS)
    return Counter((each.kinds, each.row) for each in failures.elements())
