"""Turn queries that only ask whether a combination crosses a threshold into joins that omit elements."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import Distinct, Join, Map, Plan, Window, walk
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.threshold_alert import Alert, Demand, Link
from tidegate.expressions.nodes import Call, Cast, Column, Expression, columns_of, conjunction
from tidegate.optimizer.joins import parts_of_join
from tidegate.optimizer.names import is_safe
from tidegate.optimizer.omission import omit_what_cannot_alarm
from tidegate.optimizer.rule import rule
from tidegate.schema import Type
from tidegate.time import CHRONON

_COMPARISONS = (">", ">=", "<", "<=")


@rule("δπk(ωS1 ⋈k∧f>T ωS2) = δπk(alarms of f > T over S1, S2, by k)")
def find_threshold_join(plan: Plan) -> Plan | None:
    # At every instant it matters whether a combination crosses, not which, so the most extreme elements suffice.
    match plan:
        case Distinct(source=Map(source=Join() as join, outputs=outputs) as shown):
            found = _threshold_join(join, frozenset(name for o in outputs for name in columns_of(o.expression)))
            if found is not None and is_safe(*(o.expression for o in outputs)):
                return Distinct(Map(found, outputs, shown.span), plan.span)
    return None


def _threshold_join(join: Join, read: frozenset[str]) -> Plan | None:
    leaves, terms = parts_of_join(join)
    lasting = [each for leaf in leaves if (each := _source_and_duration(leaf)) is not None]
    if not is_safe(*terms) or len(lasting) < len(leaves):
        return None
    equal, others = [t for t in terms if _is_equality(t)], [t for t in terms if not _is_equality(t)]
    classes = _equality_classes(equal)
    keys = [tuple(n for n in leaf.schema.names if n in c) for c in classes for leaf in leaves]
    if len(others) != 1 or not _is_threshold(others[0]) or any(len(key) != 1 for key in keys):
        return None
    if not read <= frozenset().union(*classes):
        return None
    by_leaf = tuple(tuple(n for c in classes for n in leaf.schema.names if n in c) for leaf in leaves)
    made = omit_what_cannot_alarm(_build_threshold_join(lasting, by_leaf, others[0], join))
    is_worth_it = any(
        isinstance(demand, Demand)
        for node in walk(made)
        if isinstance(node, ThresholdJoin)
        for demand in node.alerts[0].demands
    )
    return made if is_worth_it else None


def _build_threshold_join(
    lasting: Sequence[tuple[Plan, int]], keys: tuple[tuple[str, ...], ...], threshold: Expression, join: Join
) -> Plan:
    sizes = tuple(size for _, size in lasting)
    pairs = [(i, j) for j in range(len(sizes)) for i in range(j)]
    links = tuple(Link(i, j, sizes[i], sizes[j], open_before=True, open_after=True) for i, j in pairs)
    assert isinstance(threshold, Call)
    value = Cast(threshold.arguments[0], Type.DOUBLE)
    members = tuple(range(len(sizes)))
    alert = Alert("threshold", members, links, value, conjunction((threshold,)), lasting=sizes)
    return ThresholdJoin(tuple(source for source, _ in lasting), keys, (alert,), join.span)


def _source_and_duration(plan: Plan) -> tuple[Plan, int] | None:
    """Return a plan whose elements are valid for one chronon, and how long the given plan keeps them valid."""
    match plan:
        case Window(source=source, size=int(size), slide=1) if is_chronon(source) and not is_adaptable(plan):
            return source, size
    return (plan, CHRONON) if is_chronon(plan) else None


def _is_equality(term: Expression) -> bool:
    match term:
        case Call("=", (Column(type=a), Column(type=b))):
            # 0.0 and -0.0 compare equal but are distinct values.
            return a == b and not a.is_floating
    return False


def _is_threshold(term: Expression) -> bool:
    match term:
        case Call(function=name, arguments=(a, b)) if name in _COMPARISONS:
            return a.type.is_numeric and b.type.is_numeric
    return False


def _equality_classes(terms: Sequence[Expression]) -> list[frozenset[str]]:
    """Return the classes of columns that are equal to each other."""
    classes: list[frozenset[str]] = []
    for term in terms:
        both = columns_of(term)
        joined = frozenset(both).union(*(c for c in classes if c & both))
        classes = [*(c for c in classes if not c & both), joined]
    return classes


THRESHOLD_RULES = (find_threshold_join,)
