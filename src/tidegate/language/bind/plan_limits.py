"""Limits on the size of plans: larger than people write, and small enough to optimise in time."""

from __future__ import annotations

from tidegate.algebra.plan import Plan, SetOperation, inputs
from tidegate.errors import QueryError, Span

MOST_DEEP = 400
"""Greatest depth of a plan in operators. A set operation counts as the four operators that it consists of."""

MOST_OPERATORS = 20_000
"""Greatest number of operators; a stream that is read twice counts twice."""

_HINT = "write an intermediate stream to files with INSERT INTO, and read it from there"


def refuse_too_large(plan: Plan, span: Span) -> None:
    """Refuse a plan that is too deep or has too many operators, including those of the streams that it reads."""
    depth, size = _measure(plan)
    if depth > MOST_DEEP:
        message = f"this is nested too deeply: {depth:,} operators, but at most {MOST_DEEP} are possible"
        raise QueryError("Q003", message, span, hint=_HINT)
    if size > MOST_OPERATORS:
        message = f"this is too large: {size:,} operators, but at most {MOST_OPERATORS:,} are possible"
        raise QueryError("Q003", message, span, hint=_HINT)


def _measure(plan: Plan) -> tuple[int, int]:
    """Return the depth and the number of operators, without recursion and visiting each object once."""
    known: dict[int, tuple[int, int]] = {}
    waiting = [plan]
    while waiting:
        node = waiting[-1]
        new = [each for each in inputs(node) if id(each) not in known]
        if new:
            waiting += new
            continue
        waiting.pop()
        below = [known[id(each)] for each in inputs(node)]
        own = 4 if isinstance(node, SetOperation) else 1
        known[id(node)] = own + max((depth for depth, _ in below), default=0), 1 + sum(size for _, size in below)
    return known[id(plan)]
