"""What a rule is, and how rules are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidegate.algebra.plan import Plan, rewrite
from tidegate.errors import InternalError


@dataclass(frozen=True, slots=True)
class Rule:
    """A rewriting that keeps the meaning of a plan, with the law that says why."""

    name: str
    law: str
    rewrite: Callable[[Plan], Plan | None]


def rule(law: str) -> Callable[[Callable[[Plan], Plan | None]], Rule]:
    """Make a rule of a function that answers a better plan, or None where the rule does not apply."""
    return lambda function: Rule(function.__name__, law, function)


def apply_rules(plan: Plan, rules: Sequence[Rule], *, passes: int = 50) -> tuple[Plan, tuple[str, ...]]:
    """Apply the rules bottom-up until none applies; also answer the names of those that did."""
    applied: list[str] = []

    def visit(node: Plan) -> Plan:
        for each in rules:
            if (better := each.rewrite(node)) is not None:
                if better.schema != node.schema:
                    raise InternalError("I201", f"rule {each.name} changed the schema of the plan")
                applied.append(each.name)
                return better
        return node

    for _ in range(passes):
        before = len(applied)
        plan = rewrite(plan, visit)
        if len(applied) == before:
            return plan, tuple(dict.fromkeys(applied))
    raise InternalError("I202", f"no fixed point after {passes} passes; last rules: {applied[-4:]}")
