"""Rules, and their application to plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

from tidegate.algebra.plan import Plan, inputs, with_inputs
from tidegate.algebra.properties import is_reducible
from tidegate.errors import InternalError
from tidegate.values import value

MOST_APPLICATIONS = 1_000_000
"""Limit on the applications of a rule, to detect rules that undo each other."""


class Scope(Enum):
    """The part of a plan where a rule holds (PIPES, section 10.3)."""

    REGION = "inside a snapshot-reducible region"  # a rule of SQL, at every instant
    TIME = "at an operator of time"  # a window, granularity, split, coalesce or changes, and its neighbour
    PLAN = "on the whole plan"  # a pass from the root, made once


@value
class Rule:
    """A rewriting that preserves the relation of a plan at every instant, with the law that justifies it."""

    name: str
    law: str
    rewrite: Callable[[Plan], Plan | None]
    scope: Scope


def rule(law: str, *, scope: Scope = Scope.REGION) -> Callable[[Callable[[Plan], Plan | None]], Rule]:
    """Make a rule of a function that returns a better plan, or None where the rule does not apply."""
    return lambda function: Rule(function.__name__, law, function, scope)


def plan_rule(law: str, function: Callable[..., Plan], *settings: object) -> Rule:
    """Make a rule of a function that rewrites a whole plan, given some settings, and may return it as it was."""

    def rewrite(plan: Plan) -> Plan | None:
        better = function(plan, *settings)
        return None if better == plan else better

    return Rule(function.__name__, law, rewrite, Scope.PLAN)


def apply_rule(each: Rule, node: Plan) -> Plan | None:
    """Return the result of the rule on an operator; None if the rule does not apply."""
    if each.scope is Scope.REGION and not is_reducible(node):
        return None
    better = each.rewrite(node)
    if better is not None and better.schema != node.schema:
        raise InternalError("I201", f"rule {each.name} changed the schema of the plan")
    return better


def apply_rules(plan: Plan, rules: Sequence[Rule]) -> tuple[Plan, tuple[str, ...]]:
    """Apply the rules until none applies; also return the names of those that did.

    Rules of whole plans come first, once each. The others are tried at every operator, bottom-up.
    """
    applied: dict[str, int] = {}
    for each in rules:
        if each.scope is Scope.PLAN:
            plan = _try_rule(each, plan, applied) or plan
    rules = [each for each in rules if each.scope is not Scope.PLAN]
    if not rules:
        return plan, tuple(applied)
    # A rule reads an operator and the plan below it. Where none applied, none will until that part changes.
    final: dict[int, Plan] = {}

    def rewrite_fully(node: Plan) -> Plan:
        while id(node) not in final:
            # Not a comprehension: that would double the depth of recursion.
            node = with_inputs(node, tuple(map(rewrite_fully, inputs(node))))
            better = next((found for each in rules if (found := _try_rule(each, node, applied)) is not None), None)
            if better is None:
                final[id(node)] = node
            else:
                node = better
        return node

    return rewrite_fully(plan), tuple(applied)


def _try_rule(each: Rule, node: Plan, applied: dict[str, int]) -> Plan | None:
    better = apply_rule(each, node)
    if better is not None:
        applied[each.name] = applied.get(each.name, 0) + 1
        if applied[each.name] > MOST_APPLICATIONS:
            raise InternalError("I202", f"no fixed point; rules that applied: {applied}")
    return better
