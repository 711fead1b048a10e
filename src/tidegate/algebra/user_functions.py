"""The user-defined functions that a plan calls."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.plan import Aggregate, Filter, Join, Map, Plan, SemiJoin, walk
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.expressions import nodes
from tidegate.expressions.nodes import Call, Expression


def user_signatures(plan: Plan) -> tuple[str, ...]:
    """Return the signatures of the user-defined functions and aggregates, each once, in order."""
    return tuple(sorted({signature for node in walk(plan) for signature in _operator_signatures(node)}))


def _operator_signatures(plan: Plan) -> Iterator[str]:
    match plan:
        case Aggregate(calls=calls):
            yield from (call.user.signature for call in calls if call.user is not None)
        case Filter() | Join() | SemiJoin():
            yield from _expression_signatures(plan.predicate)
        case SimilarityJoin(predicate=predicate, shedding=shedding):
            for each in (predicate, *(shedding.utility.types if shedding.utility else ())):
                yield from _expression_signatures(each)
        case Map(outputs=outputs):
            for output in outputs:
                yield from _expression_signatures(output.expression)


def _expression_signatures(expression: Expression) -> Iterator[str]:
    for part in nodes.walk(expression):
        if isinstance(part, Call) and part.user is not None:
            yield part.user.signature
