"""How large the plan of a query may be: more than people write, and little enough to be optimised in time."""

from __future__ import annotations

from tidegate.algebra.plan import Plan, SetOperation, inputs
from tidegate.errors import QueryError, Span

MOST_DEEP = 400
"""The most operators on top of each other. A set operation counts as the four that it is made of."""

MOST_OPERATORS = 20_000
"""The most operators altogether; a stream that is read twice counts twice."""

_HINT = "write a stream in between to files with INSERT INTO, and read it from there"


def refuse_too_large(plan: Plan, span: Span) -> None:
    """Refuse a plan that is nested too deeply, or has too many operators, those of streams that it reads included."""
    depth, size = _measure(plan)
    if depth > MOST_DEEP:
        message = f"this is nested too deeply: {depth:,} operators, of which at most {MOST_DEEP} are possible"
        raise QueryError("Q003", message, span, hint=_HINT)
    if size > MOST_OPERATORS:
        message = f"this is too large: {size:,} operators, of which at most {MOST_OPERATORS:,} are possible"
        raise QueryError("Q003", message, span, hint=_HINT)


def _measure(plan: Plan) -> tuple[int, int]:
    """The depth and the number of operators; without recursion, and each object is looked at once."""
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
