"""Which users' functions a plan calls."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.plan import Aggregate, Filter, Join, Map, Plan, SemiJoin, walk
from tidegate.expressions import nodes
from tidegate.expressions.nodes import Call, Expression


def signatures(plan: Plan) -> tuple[str, ...]:
    """Names, arguments and results of the users' functions and aggregates, each once."""
    return tuple(sorted({signature for node in walk(plan) for signature in _own(node)}))


def _own(plan: Plan) -> Iterator[str]:
    match plan:
        case Aggregate(calls=calls):
            yield from (call.user.signature for call in calls if call.user is not None)
        case Filter(predicate=predicate) | Join(predicate=predicate) | SemiJoin(predicate=predicate):
            yield from _called(predicate)
        case Map(outputs=outputs):
            for output in outputs:
                yield from _called(output.expression)


def _called(expression: Expression) -> Iterator[str]:
    for part in nodes.walk(expression):
        if isinstance(part, Call) and part.user is not None:
            yield part.user.signature
