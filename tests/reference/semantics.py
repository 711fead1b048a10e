"""The relation of a plan at an instant, by definition (PIPES, chapters 8 and 17).

Streams are given raw, as (time, row) pairs, or as elements (start, end, row); a raw element is
valid in [time, time + 1). Rows are dicts by column name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from reference.aggregates import aggregate
from reference.expressions import evaluate, junction, key_terms, together
from reference.values import Failed, Row, fit
from tidegate.algebra.plan import (
    Aggregate,
    AggregateCall,
    Distinct,
    Filter,
    Join,
    Map,
    Plan,
    Scan,
    Union,
    Window,
    inputs,
    walk,
)
from tidegate.schema import Schema, Type

Raw = Mapping[str, Sequence[tuple[int, Mapping[str, object]]]]
Elements = Mapping[str, Sequence[tuple[int, int, Mapping[str, object]]]]
Relation = Counter[Row]


def relation_at(plan: Plan, streams: Raw, instant: int) -> Relation:
    """The multiset of rows of the plan at an instant, over raw streams."""
    return relation_of(plan, elements_of(streams), instant)


def relations(plan: Plan, streams: Raw, instants: Iterable[int]) -> dict[int, Relation]:
    """The relations at several instants."""
    given = elements_of(streams)
    return {t: relation_of(plan, given, t) for t in instants}


def relation_of(plan: Plan, given: Elements, instant: int) -> Relation:
    """The same, over streams whose elements have validities already."""
    return Counter(m.values for m in outcome(plan, given, instant).kept)


def elements_of(streams: Raw) -> Elements:
    """Raw elements as elements of one chronon."""
    return {name: [(t, t + 1, row) for t, row in elements] for name, elements in streams.items()}


@dataclass(frozen=True, slots=True)
class RowFailure:
    """An operator could not compute a row; for an aggregate, `row` is the group's key."""

    operator: Plan
    kinds: frozenset[str]
    row: Row


def failures(plan: Plan, streams: Raw, instants: Iterable[int]) -> Counter[RowFailure]:
    """How many elements fail, and where; an element that is valid for long counts once.

    Elements are told apart by the raw elements that they come from. Those of Aggregate and
    Distinct have no such identity: above them, rows with equal values count as one element.
    """
    return failures_of(plan, elements_of(streams), instants)


def failures_of(plan: Plan, given: Elements, instants: Iterable[int]) -> Counter[RowFailure]:
    """The same, over streams whose elements have validities already."""
    times, count = list(instants), Counter[RowFailure]()
    for operator in walk(plan):
        elements = {failed for t in times for failed in outcome(operator, given, t).failed}
        count.update(RowFailure(operator, f.kinds, f.member.values) for f in elements)
    return count


@dataclass(frozen=True, slots=True)
class Member:
    """A row at an instant, and what it comes from: that makes it one element over time."""

    lineage: tuple[object, ...]
    values: Row


@dataclass(frozen=True, slots=True)
class FailedMember:
    member: Member
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operator makes of its inputs at one instant."""

    kept: list[Member]
    failed: list[FailedMember]


def outcome(plan: Plan, given: Elements, instant: int) -> Outcome:
    """The rows at an instant, and the rows of the inputs for which this operator itself fails."""
    match plan:
        case Scan():
            return Outcome(_scanned(plan, given[plan.stream], instant), [])
        case Window():
            return Outcome(_windowed(plan, given, instant), [])
        case Filter():
            return _filtered(plan, _members(plan.source, given, instant))
        case Map():
            return _mapped(plan, _members(plan.source, given, instant))
        case Union():
            return Outcome(_united([_members(each, given, instant) for each in plan.inputs]), [])
        case Join():
            return _joined(plan, _members(plan.left, given, instant), _members(plan.right, given, instant))
        case Aggregate():
            return _aggregated(plan, _members(plan.source, given, instant))
        case Distinct():
            rows = dict.fromkeys(m.values for m in _members(plan.source, given, instant))
            return Outcome([Member(row, row) for row in rows], [])
    raise AssertionError(plan)


def _members(plan: Plan, given: Elements, instant: int) -> list[Member]:
    return outcome(plan, given, instant).kept


def _scanned(scan: Scan, elements: Sequence[tuple[int, int, Mapping[str, object]]], instant: int) -> list[Member]:
    return [
        Member((scan.stream, position), tuple(_value(row[f.name], f.type) for f in scan.schema))
        for position, (start, end, row) in enumerate(elements)
        if start <= instant < end
    ]


def _value(value: object, type_: Type) -> object:
    return None if value is None else fit(value, type_)


def _windowed(window: Window, given: Elements, instant: int) -> list[Member]:
    """Formula (17.1), which with slide 1 is (8.17); without the bound of 0, times may be negative."""
    last = (instant + 1) // window.slide * window.slide - 1
    first = None if window.size is None else last + 1 - window.size
    return [
        Member((at, *m.lineage), m.values)
        for at in _instants(window.source, given, first, last)
        for m in _members(window.source, given, at)
    ]


def _instants(source: Plan, given: Elements, first: int | None, last: int) -> Iterable[int]:
    """The instants from `first` to `last` at which the source can have rows."""
    if is_chronon(source):
        times = {start for scan in walk(source) if isinstance(scan, Scan) for start, _, _ in given[scan.stream]}
        return sorted(t for t in times if t <= last and (first is None or first <= t))
    if first is None:
        raise ValueError("an unbounded window takes elements of one chronon")
    return range(first, last + 1)


def is_chronon(plan: Plan) -> bool:
    """Whether every element of the plan is valid for one chronon, if those of its scans are."""
    match plan:
        case Scan():
            return True
        case Window(size=size, slide=slide):
            return size == slide == 1 and is_chronon(plan.source)
        case Join():
            return is_chronon(plan.left) or is_chronon(plan.right)
    return all(is_chronon(each) for each in inputs(plan))


def _filtered(plan: Filter, members: list[Member]) -> Outcome:
    verdicts = [(m, evaluate(plan.predicate, _row(plan.schema, m.values))) for m in members]
    return Outcome([m for m, verdict in verdicts if verdict is True], _failed(verdicts))


def _mapped(plan: Map, members: list[Member]) -> Outcome:
    results = [(m, _outputs(plan, m.values)) for m in members]
    kept = [Member(m.lineage, values) for m, values in results if not isinstance(values, Failed)]
    return Outcome(kept, _failed(results))


def _outputs(plan: Map, values: Row) -> Row | Failed:
    row = _row(plan.source.schema, values)
    made = [evaluate(output.expression, row) for output in plan.outputs]
    return together(made) or tuple(made)


def _united(sides: list[list[Member]]) -> list[Member]:
    return [Member((side, *m.lineage), m.values) for side, members in enumerate(sides) for m in members]


def _joined(plan: Join, left: list[Member], right: list[Member]) -> Outcome:
    pairs = [Member((*a.lineage, *b.lineage), a.values + b.values) for a in left for b in right]
    verdicts = [(m, _verdict(plan, _row(plan.schema, m.values))) for m in pairs]
    return Outcome([m for m, verdict in verdicts if verdict is True], _failed(verdicts))


def _verdict(join: Join, row: Mapping[str, object]) -> object:
    """Pairs whose keys are not known to be equal do not meet: then nothing else of them can fail."""
    keys, rest = key_terms(join.predicate, frozenset(join.left.schema.names))
    met = junction([evaluate(term, row) for term in keys], deciding=False)
    return junction([evaluate(term, row) for term in rest], deciding=False) if met is True else met


def _aggregated(plan: Aggregate, members: list[Member]) -> Outcome:
    groups: dict[Row, list[Mapping[str, object]]] = {}
    for row in (_row(plan.source.schema, m.values) for m in members):
        groups.setdefault(tuple(row[k] for k in plan.keys), []).append(row)
    results = [(Member(key, key), [_called(call, rows) for call in plan.calls]) for key, rows in groups.items()]
    verdicts = [(m, together(values)) for m, values in results]
    kept = [Member(m.lineage, (*m.values, *values)) for m, values in results if together(values) is None]
    return Outcome(kept, _failed(verdicts))


def _called(call: AggregateCall, rows: list[Mapping[str, object]]) -> object:
    return aggregate(call.function, [1 if call.column is None else row[call.column] for row in rows], call.type)


def _row(schema: Schema, values: Row) -> Mapping[str, object]:
    return dict(zip(schema.names, values, strict=True))


def _failed(results: Iterable[tuple[Member, object]]) -> list[FailedMember]:
    return [FailedMember(m, result.kinds) for m, result in results if isinstance(result, Failed)]
