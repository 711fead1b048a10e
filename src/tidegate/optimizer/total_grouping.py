"""Merge alerts on totals of one stream into groups, so that one tracker counts for all of them.

Alerts belong to one group if they count the same elements, by the same keys and weights, and differ only in constants:
in the ends of their ranges and in their thresholds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.algebra.adaptable import worst_sizes
from tidegate.algebra.alert_operators import GroupedTotals, TotalThreshold
from tidegate.algebra.plan import Filter, Map, Output, Plan, rewrite, walk
from tidegate.algebra.subscriptions import ConstantRange, RangedAlert, RangedAlertGroup
from tidegate.algebra.threshold_alert import NUMBER
from tidegate.expressions.nodes import Call, Column, Expression, Literal, conjuncts
from tidegate.optimizer.constant_ranges import ValueRange, intersect_ranges, range_of_term
from tidegate.optimizer.names import filter_by, is_safe, rename
from tidegate.optimizer.plan_keys import plan_key
from tidegate.schema import Type
from tidegate.values import value

GROUPING_LAW = "alarms of totals of σr1(S), …, σrn(S) = alarms of totals of S in the ranges r1, …, rn"

MOST_VALUES = 4
"""Most values that have different ranges, as in alerts with subscriptions."""

MOST_ALERTS = 4096
"""Most alerts in a group: what is kept for each key has a bit for each of them."""


@value
class _GroupableAlert:
    """An alert on a total, taken apart: the elements, the weight, terms that can be shared, and ranges by value.

    Values and terms are over columns by position, so that candidates over the same elements can be compared.
    """

    node: TotalThreshold
    base: Plan
    weight: Expression
    terms: tuple[Expression, ...]
    ranges: Mapping[Expression, ConstantRange]

    @property
    def group_key(self) -> Hashable:
        """Return what all alerts of a group have in common."""
        waiting, at = self.node.waiting, _positions(self.base)
        keys = tuple(at[name] for name in self.node.keys)
        values = frozenset(self.ranges)
        elements = plan_key(self.base), worst_sizes(self.base), frozenset(self.terms)
        return elements, keys, self.weight, waiting.within, waiting.repeats, values


def group_totals(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Return the plans, with alerts on totals that differ only in constants reading from one shared operator."""
    nodes = dict.fromkeys(node for plan in plans for node in walk(plan) if isinstance(node, TotalThreshold))
    if len(nodes) < 2:
        return tuple(plans)
    groups: dict[Hashable, list[_GroupableAlert]] = {}
    for candidate in filter(None, map(_find_candidate, nodes)):
        groups.setdefault(candidate.group_key, []).append(candidate)
    new: dict[TotalThreshold, Plan] = {}
    for members in groups.values():
        for begin in range(0, len(members), MOST_ALERTS):
            new |= _merge(members[begin : begin + MOST_ALERTS])
    return tuple(rewrite(p, lambda n: new.get(n, n) if isinstance(n, TotalThreshold) else n) for p in plans)


def _find_candidate(node: TotalThreshold) -> _GroupableAlert | None:
    """Take an alert apart; return None if something in it can fail, for which elements depends on its ranges."""
    below, weight = _split_weight(node)
    base, terms = (below.source, conjuncts(below.predicate)) if isinstance(below, Filter) else (below, ())
    at, ranges, rest = _positions(base), dict[Expression, ConstantRange](), list[Expression]()
    for term in (rename(each, at) for each in terms):
        found = range_of_term(term)
        together = None if found is None else intersect_ranges(ranges.get(found.value), found.range)
        if found is None or together is None:
            rest.append(term)
        else:
            ranges[found.value] = together
    if not is_safe(weight, *ranges, *rest):
        return None
    return _GroupableAlert(node, base, rename(weight, at), tuple(rest), ranges)


def _split_weight(node: TotalThreshold) -> tuple[Plan, Expression]:
    """Return the elements without the weight that was computed for the alert, and the weight over their columns."""
    name = node.waiting.weight
    match node.source:
        case Map(source=below, outputs=(*own, Output(name=added, expression=weight))) if added == name:
            same = [Output(f.name, Column(f.name, f.type)) for f in below.schema]
            if own == same:
                return below, weight
    return node.source, Column(name, Type.BIGINT)


def _positions(base: Plan) -> dict[str, str]:
    return {name: f"#{place}" for place, name in enumerate(base.schema.names)}


def _merge(members: Sequence[_GroupableAlert]) -> dict[TotalThreshold, Plan]:
    """Return the alarms of each alert as a part of those of one operator; nothing if they stay as they are."""
    first = members[0]
    names = {place: name for name, place in _positions(first.base).items()}
    same = [v for v in first.ranges if all(each.ranges[v] == first.ranges[v] for each in members)]
    compared = [v for v in first.ranges if v not in same]
    if len(members) < 2 or len(compared) > MOST_VALUES:
        return {}
    shared = (*first.terms, *(term for v in same for term in ValueRange(v, first.ranges[v]).terms))
    source = filter_by(first.base, tuple(rename(term, names) for term in shared))
    wanted = {f"range:value:{place}": rename(v, names) for place, v in enumerate(compared)}
    source, columns = _with_columns(source, {"range:weight": rename(first.weight, names), **wanted})
    keys = tuple(names[_positions(first.base)[key]] for key in first.node.keys)
    waiting = replace(first.node.waiting, name=f"{len(members)} alerts", weight=columns[0])
    group = RangedAlertGroup.of(
        RangedAlert(each.node.waiting.name, tuple(each.ranges[v] for v in compared), each.node.threshold)
        for each in members
    )
    totals = GroupedTotals(source, keys, waiting, columns[1:], group, first.node.span)
    return {each.node: _alarms_of_alert(each, number, totals, names) for number, each in enumerate(members)}


def _with_columns(source: Plan, wanted: Mapping[str, Expression]) -> tuple[Plan, tuple[str, ...]]:
    """Return the plan with columns for the expressions that are not columns, and the names of the wanted columns."""
    own = (Output(f.name, Column(f.name, f.type)) for f in source.schema)
    new = tuple(Output(name, each) for name, each in wanted.items() if not isinstance(each, Column))
    columns = tuple(each.name if isinstance(each, Column) else name for name, each in wanted.items())
    return (Map(source, (*own, *new), source.span) if new else source), columns


def _alarms_of_alert(each: _GroupableAlert, number: int, totals: GroupedTotals, names: Mapping[str, str]) -> Plan:
    """Return the alarms of one alert of a group, under the original column names."""
    column, at = Column(NUMBER.name, NUMBER.type), _positions(each.base)
    mine = Filter(totals, Call("=", (column, Literal(number, Type.INT)), Type.BOOLEAN))
    return Map(mine, tuple(_original_columns(each, totals, {name: names[place] for name, place in at.items()})))


def _original_columns(each: _GroupableAlert, totals: GroupedTotals, names: Mapping[str, str]) -> Iterator[Output]:
    for own in each.node.schema:
        is_weight = own.name == each.node.waiting.weight
        yield Output(own.name, Column(totals.waiting.weight if is_weight else names.get(own.name, own.name), own.type))
