"""Merge alerts over the same streams into one join, so that each stream has one store for all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate.algebra.adaptable import worst_sizes
from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.plan import Filter, Map, Output, Plan, rewrite, walk
from tidegate.algebra.threshold_alert import NUMBER, Alert
from tidegate.expressions.nodes import Call, Column, Literal
from tidegate.optimizer.names import rename
from tidegate.optimizer.plan_keys import plan_key
from tidegate.schema import Type


@dataclass(slots=True)
class _AlertGroup:
    """A threshold join under construction."""

    inputs: list[Plan] = field(default_factory=list)
    keys: list[tuple[str, ...]] = field(default_factory=list)
    alerts: list[Alert] = field(default_factory=list)

    def has_common_input(self, join: ThresholdJoin) -> bool:
        """Return whether the group already has one of the join's inputs, with the same key columns."""
        return bool(self.matching_inputs(join))

    def matching_inputs(self, join: ThresholdJoin) -> dict[int, int]:
        """Map inputs of the join to equal inputs of the group, each used at most once."""
        found: dict[int, int] = {}
        for which, plan in enumerate(join.inputs):
            same = [
                at
                for at, own in enumerate(self.inputs)
                if at not in found.values()
                and plan_key(own) == plan_key(plan)
                and worst_sizes(own) == worst_sizes(plan)
            ]
            same = [
                at for at in same if _positions(self.inputs[at], self.keys[at]) == _positions(plan, join.keys[which])
            ]
            if same:
                found[which] = same[0]
        return found

    def add(self, join: ThresholdJoin) -> tuple[int, Mapping[str, str]]:
        """Add a join of one alert; return the number of the alert, and the group's names of the join's columns."""
        places, names = self.matching_inputs(join), dict[str, str]()
        for which, plan in enumerate(join.inputs):
            if which not in places:
                places[which] = len(self.inputs)
                self.inputs.append(self._with_unique_names(plan))
                self.keys.append(())
            own = self.inputs[places[which]]
            names |= dict(zip(plan.schema.names, own.schema.names, strict=True))
            self.keys[places[which]] = tuple(names[key] for key in join.keys[which])
        (alert,) = join.alerts
        members = tuple(places[member] for member in alert.members)
        value, condition = rename(alert.value, names), rename(alert.condition, names)
        self.alerts.append(replace(alert, members=members, value=value, condition=condition))
        return len(self.alerts) - 1, names

    def _with_unique_names(self, plan: Plan) -> Plan:
        """Return the plan with column names that no other input has."""
        taken = {name for each in self.inputs for name in each.schema.names}
        if not taken & set(plan.schema.names):
            return plan
        mark = f"{len(self.inputs)}:"
        return Map(plan, tuple(Output(mark + f.name, Column(f.name, f.type)) for f in plan.schema))

    @property
    def threshold_join(self) -> ThresholdJoin:
        return ThresholdJoin(tuple(self.inputs), tuple(self.keys), tuple(self.alerts))


def group_alerts(plans: Sequence[Plan]) -> tuple[Plan, ...]:
    """Return the plans, with alerts that have a stream in common reading from one shared join."""
    groups: list[_AlertGroup] = []
    placed: dict[ThresholdJoin, tuple[_AlertGroup, int, Mapping[str, str]]] = {}
    for join in (node for plan in plans for node in walk(plan) if isinstance(node, ThresholdJoin)):
        if join in placed or len(join.inputs) == 1:
            # A plan that reads the alarms of an alert also contains its join. An alert on one stream joins nothing.
            continue
        width = len(join.keys[0])
        group = next((g for g in groups if len(g.keys[0]) == width and g.has_common_input(join)), None)
        if group is None:
            groups.append(group := _AlertGroup())
        placed[join] = (group, *group.add(join))
    new = {join: _alarms_of_alert(join, *place) for join, place in placed.items()}
    return tuple(
        rewrite(p, lambda node: new.get(node, node) if isinstance(node, ThresholdJoin) else node) for p in plans
    )


def _alarms_of_alert(join: ThresholdJoin, group: _AlertGroup, number: int, names: Mapping[str, str]) -> Plan:
    """Return the alarms of one alert of a group, under the original column names."""
    if len(group.alerts) == 1:
        return join
    column = Column(NUMBER.name, NUMBER.type)
    mine = Filter(group.threshold_join, Call("=", (column, Literal(number, Type.INT)), Type.BOOLEAN))
    return Map(mine, tuple(Output(f.name, Column(names.get(f.name, f.name), f.type)) for f in join.schema))


def _positions(plan: Plan, keys: Sequence[str]) -> list[int]:
    return [plan.schema.names.index(key) for key in keys]
