"""What a rule is, and how rules are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from tidegate.algebra.plan import Plan, inputs, with_inputs
from tidegate.algebra.properties import is_reducible
from tidegate.errors import InternalError


class Scope(Enum):
    """Where a rule holds (PIPES, section 10.3)."""

    REGION = "inside a snapshot-reducible region"  # a rule of SQL, at every instant
    TIME = "at an operator of time"  # a window, granularity, split, coalesce or changes, and its neighbour


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewriting that keeps the relation of a plan at every instant, with the law that says why."""

    name: str
    law: str
    rewrite: Callable[[Plan], Plan | None]
    scope: Scope


def rule(law: str, *, scope: Scope = Scope.REGION) -> Callable[[Callable[[Plan], Plan | None]], Rule]:
    """Make a rule of a function that answers a better plan, or None where the rule does not apply."""
    return lambda function: Rule(function.__name__, law, function, scope)


def apply_rule(each: Rule, node: Plan) -> Plan | None:
    """What the rule makes of an operator; None where it does not apply."""
    if each.scope is Scope.REGION and not is_reducible(node):
        return None
    better = each.rewrite(node)
    if better is not None and better.schema != node.schema:
        raise InternalError("I201", f"rule {each.name} changed the schema of the plan")
    return better


def apply_rules(plan: Plan, rules: Sequence[Rule], *, passes: int = 200) -> tuple[Plan, tuple[str, ...]]:
    """Apply the rules bottom-up until none applies; also answer the names of those that did."""
    applied: list[str] = []
    # A rule looks at an operator and what is below it: where none applied, none will as long as it stays the same.
    final: dict[int, Plan] = {}

    def visit(node: Plan) -> Plan:
        if id(node) in final:
            return node
        below = inputs(node)
        new = tuple(visit(each) for each in below)
        is_settled = all(a is b and id(a) in final for a, b in zip(below, new, strict=True))
        node = with_inputs(node, new)
        for each in rules:
            if (better := apply_rule(each, node)) is not None:
                applied.append(each.name)
                return better
        if is_settled:
            final[id(node)] = node
        return node

    for _ in range(passes):
        before = len(applied)
        plan = visit(plan)
        if len(applied) == before:
            return plan, tuple(dict.fromkeys(applied))
    raise InternalError("I202", f"no fixed point after {passes} passes; last rules: {applied[-4:]}")
