"""Alarms on total weights, by definition: every element is shown to every subscription, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from reference.changes import row_instants
from reference.members import History, Member
from reference.values import Row, is_equal, is_less, order_key, row_order
from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, TotalThreshold
from tidegate.algebra.plan import Plan
from tidegate.algebra.subscriptions import ConstantRange, Dimension, RangedAlert, TotalCompletion

Named = Mapping[str, object]


@dataclass
class Waiter:
    """Somebody who waits for a total, and the elements that count so far."""

    threshold: int
    subscription: Member | None = None
    counted: list[tuple[int, int]] = field(default_factory=list)

    def total(self, waiting: TotalCompletion, time: int) -> int:
        return sum(w for at, w in self.counted if waiting.within is None or at > time - waiting.within)


@dataclass
class Told:
    """What is said at an instant: alarms, and rows that cannot take part, with the reason."""

    alarms: list[Member] = field(default_factory=list)
    dead: list[tuple[str, Row]] = field(default_factory=list)


def total_alarms(
    plan: TotalThreshold, history: History, instant: int, counts: Callable[[Member], bool] = lambda _: True
) -> Told:
    """What is said at an instant, after all that came before it; elements count for which `counts` is true."""
    waiters: dict[Row, Waiter] = {}
    done: set[Row] = set()
    told = Told()
    for at in row_instants(plan.source, history.given, None, instant):
        told = Told() if at == instant else told
        for element in filter(counts, _in_order(plan.source, history, at)):
            row = _named(plan.source, element)
            key = tuple(None if row[k] is None else order_key(row[k]) for k in plan.keys)
            if not _is_weight(row[plan.waiting.weight]):
                told.dead.append(("bad_weight", element.values))
            elif None not in key and key not in done:
                waiter = waiters.setdefault(key, Waiter(plan.threshold))
                if _shown(waiter, plan.waiting, at, element, row, told) and not plan.waiting.repeats:
                    done.add(key)
    return told if instant in row_instants(plan.source, history.given, instant, instant) else Told()


def grouped_alarms(plan: GroupedTotals, history: History, instant: int) -> Told:
    """The same for each alert of a group, which counts the elements in its ranges; alarms have its number in front."""
    told = Told()
    for number, alert in enumerate(plan.group.alerts):
        alone = TotalThreshold(plan.source, plan.keys, plan.waiting, alert.threshold)
        own = _ranged_alarms(alone, plan.values, alert, history, instant)
        told.alarms += [Member(each.lineage, (number, *each.values), each.start) for each in own.alarms]
        told.dead += own.dead
    return told


def _ranged_alarms(
    plan: TotalThreshold, values: tuple[str, ...], alert: RangedAlert, history: History, instant: int
) -> Told:
    def counts(element: Member) -> bool:
        row = _named(plan.source, element)
        return all(_is_within(each, row[name]) for name, each in zip(values, alert.ranges, strict=True))

    return total_alarms(plan, history, instant, counts)


def _is_within(given: ConstantRange, value: object) -> bool:
    if value is None:
        return False
    low, high = (None if end is None else end.value for end in (given.low, given.high))
    above = low is None or is_less(low, value) or (is_equal(low, value) and not given.low_open)
    return above and (high is None or is_less(value, high) or (is_equal(value, high) and not given.high_open))


def range_alarms(plan: RangeThreshold, history: History, instant: int) -> Told:
    """The same for subscriptions that come and go."""
    live: dict[object, Waiter] = {}
    told = Told()
    instants = {at for side in (plan.elements, plan.subscriptions) for at in _instants(side, history, instant)}
    for at in sorted(instants):
        told = Told()
        for element in _in_order(plan.elements, history, at) if at in _instants(plan.elements, history, at) else ():
            _element(plan, live, at, element, told)
        if at in _instants(plan.subscriptions, history, at):
            rows = _in_order(plan.subscriptions, history, at)
            ended = [_is_ended(plan, row) for row in rows]
            for row, is_ended in zip(rows, ended, strict=True):
                if is_ended:
                    _terminate(plan, live, row, told)
            for row, is_ended in zip(rows, ended, strict=True):
                if not is_ended:
                    _register(plan, live, row, told)
    return told if instant in instants else Told()


def _instants(plan: Plan, history: History, until: int) -> set[int]:
    return set(row_instants(plan, history.given, None, until))


def _in_order(plan: Plan, history: History, at: int) -> list[Member]:
    return sorted(history.members(plan, at), key=lambda member: row_order(member.values))


def _element(plan: RangeThreshold, live: dict[object, Waiter], at: int, element: Member, told: Told) -> None:
    row = _named(plan.elements, element)
    if not _is_weight(row[plan.waiting.weight]):
        told.dead.append(("bad_weight", element.values))
        return
    for identity, waiter in list(live.items()):
        assert waiter.subscription is not None
        wanted = _named(plan.subscriptions, waiter.subscription)
        same = all(row[a] is not None and is_equal(row[a], wanted[b]) for a, b in zip(*plan.keys, strict=True))
        if same and all(_is_inside(d, row, wanted) for d in plan.subscribed.dimensions):
            complete = _shown(waiter, plan.waiting, at, element, row, told)
            if complete and not plan.waiting.repeats:
                del live[identity]


def _shown(waiter: Waiter, waiting: TotalCompletion, at: int, element: Member, row: Named, told: Told) -> bool:
    """Count an element; whether it completes the total, which is then told and begins anew."""
    weight = row[waiting.weight]
    assert isinstance(weight, int)
    waiter.counted.append((at, weight))
    total = waiter.total(waiting, at)
    if total < waiter.threshold:
        return False
    waiter.counted.clear()
    subscribed = () if waiter.subscription is None else waiter.subscription.values
    lineage = (element.lineage, *(() if waiter.subscription is None else (waiter.subscription.lineage,)))
    told.alarms.append(Member(lineage, (*element.values, *subscribed, total), at))
    return True


def _register(plan: RangeThreshold, live: dict[object, Waiter], member: Member, told: Told) -> None:
    row = _named(plan.subscriptions, member)
    threshold = row[plan.subscribed.threshold]
    if _lacks_identity(plan, row):
        told.dead.append(("no_id", member.values))
    elif not isinstance(threshold, int) or threshold < 1:
        told.dead.append(("bad_threshold", member.values))
    elif any(_is_empty(d, row) for d in plan.subscribed.dimensions):
        told.dead.append(("empty_range", member.values))
    elif (identity := _identity(plan, row)) in live:
        told.dead.append(("registered_twice", member.values))
    else:
        live[identity] = Waiter(threshold, member)


def _terminate(plan: RangeThreshold, live: dict[object, Waiter], member: Member, told: Told) -> None:
    row = _named(plan.subscriptions, member)
    if _lacks_identity(plan, row):
        told.dead.append(("no_id", member.values))
    elif live.pop(_identity(plan, row), None) is None:
        told.dead.append(("not_registered", member.values))


def _is_ended(plan: RangeThreshold, member: Member) -> bool:
    ended = plan.subscribed.ended
    return ended is not None and _named(plan.subscriptions, member)[ended] is True


def _lacks_identity(plan: RangeThreshold, row: Named) -> bool:
    return any(row[name] is None for name in (plan.subscribed.id, *plan.keys[1]))


def _identity(plan: RangeThreshold, row: Named) -> object:
    return tuple(order_key(row[name]) for name in (plan.subscribed.id, *plan.keys[1]))


def _is_weight(weight: object) -> bool:
    return isinstance(weight, int) and weight > 0


def _is_inside(dimension: Dimension, row: Named, wanted: Named) -> bool:
    value = row[dimension.value]
    low = None if dimension.low is None else wanted[dimension.low]
    high = None if dimension.high is None else wanted[dimension.high]
    if value is None:
        return False
    above = low is None or is_less(low, value) or (is_equal(low, value) and not dimension.low_open)
    return above and (high is None or is_less(value, high) or (is_equal(value, high) and not dimension.high_open))


def _is_empty(dimension: Dimension, row: Named) -> bool:
    """Whether no value can be inside; between two neighbouring integers there is none either."""
    if dimension.low is None or dimension.high is None:
        return False
    low, high = row[dimension.low], row[dimension.high]
    if low is None or high is None:
        return False
    either, both = dimension.low_open or dimension.high_open, dimension.low_open and dimension.high_open
    no_integer = both and isinstance(low, int) and isinstance(high, int) and low + 1 == high
    return is_less(high, low) or (is_equal(low, high) and either) or no_integer


def _named(plan: Plan, member: Member) -> Named:
    return dict(zip(plan.schema.names, member.values, strict=True))
