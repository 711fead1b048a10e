"""The relation of a plan at an instant, by definition (PIPES, chapters 8, 17 and 20).

Streams are given raw, as (time, row) pairs, or as elements (start, end, row); a raw element is
valid in [time, time + 1). Rows are dicts by column name. The rows of a table are elements, too;
what never ends has the end `FOREVER`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from reference.aggregates import called
from reference.bags import combined, limited
from reference.changes import granule, is_chronon
from reference.expressions import evaluate, junction, key_terms, together
from reference.many_one import combined_along_edges
from reference.members import Elements, Member, Outcome, Raw, Sizes, failed, without_identity
from reference.sampling import MILLION, is_kept
from reference.similarity import are_alike
from reference.totals import grouped_alarms, range_alarms, total_alarms
from reference.values import Failed, Row, fit
from reference.windows import changed, coarsened, counted, size_at, windowed
from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, TotalThreshold
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    Split,
    Stamp,
    Union,
    Window,
    walk,
)
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

__all__ = [
    "Elements",
    "Raw",
    "Relation",
    "RowFailure",
    "elements_of",
    "failures",
    "failures_of",
    "is_chronon",
    "relation_at",
    "relation_of",
    "relations",
    "relations_of",
]

Relation = Counter[Row]


def relation_at(plan: Plan, streams: Raw, instant: int) -> Relation:
    """The multiset of rows of the plan at an instant, over raw streams."""
    return relation_of(plan, elements_of(streams), instant)


def relations(plan: Plan, streams: Raw, instants: Iterable[int]) -> dict[int, Relation]:
    """The relations at several instants."""
    return relations_of(plan, elements_of(streams), instants)


def relation_of(plan: Plan, given: Elements, instant: int) -> Relation:
    """The same, over streams whose elements have validities already."""
    return relations_of(plan, given, [instant])[instant]


def relations_of(
    plan: Plan, given: Elements, instants: Iterable[int], sizes: Sizes = MappingProxyType({})
) -> dict[int, Relation]:
    """The relations at several instants, over streams whose elements have validities already."""
    history = Memory(given, sizes)
    return {t: Counter(m.values for m in history.members(plan, t)) for t in instants}


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

    Elements are told apart by the raw elements that they come from. Those of operators that look
    at all rows of an instant together (Aggregate, Distinct, SetOperation) have no such identity:
    above them, rows with equal values count as one element.
    """
    return failures_of(plan, elements_of(streams), instants)


def failures_of(plan: Plan, given: Elements, instants: Iterable[int]) -> Counter[RowFailure]:
    """The same, over streams whose elements have validities already."""
    times, count, history = list(instants), Counter[RowFailure](), Memory(given)
    for operator in walk(plan):
        elements = {each for t in times for each in history.outcome(operator, t).failed}
        count.update(RowFailure(operator, f.kinds, f.member.values) for f in elements)
    return count


class Memory:
    """The streams, and what each operator makes of them at the instants it was asked about."""

    def __init__(self, given: Elements, sizes: Sizes = MappingProxyType({})) -> None:
        self.given, self.sizes = given, sizes
        self._known: dict[tuple[int, int], Outcome] = {}
        self._plans: list[Plan] = []  # kept, so that no other plan gets the identity of one of them

    def members(self, plan: Plan, instant: int) -> list[Member]:
        return self.outcome(plan, instant).kept

    def outcome(self, plan: Plan, instant: int) -> Outcome:
        key = (id(plan), instant)
        if key not in self._known:
            self._plans.append(plan)
            self._known[key] = _outcome(plan, self, instant)
        return self._known[key]


def _outcome(plan: Plan, history: Memory, instant: int) -> Outcome:
    """The rows at an instant, and the rows of the inputs for which this operator itself fails."""
    match plan:
        case Scan():
            return Outcome(_scanned(plan, history.given[plan.stream], instant), [])
        case Window():
            return Outcome(windowed(plan, history, instant), [])
        case CountWindow():
            return Outcome(counted(plan, history, instant), [])
        case Granularity():
            return Outcome(coarsened(plan, history, instant), [])
        case Changes():
            return Outcome(changed(plan, history, instant), [])
        case Split() | Coalesce():
            return Outcome(_cut_anew(plan, history.members(plan.source, instant), instant), [])
        case Stamp():
            return Outcome(_stamped(plan, history.members(plan.source, instant), instant), [])
        case Sample():
            return Outcome(_sampled(plan, history, instant), [])
        case Limit():
            return Outcome(limited(plan, history.members(plan.source, instant)), [])
        case Filter():
            return _filtered(plan, history.members(plan.source, instant))
        case Map():
            return _mapped(plan, history.members(plan.source, instant))
        case Union():
            return Outcome(_united([history.members(each, instant) for each in plan.inputs]), [])
        case Join():
            return _joined(plan, history.members(plan.left, instant), history.members(plan.right, instant))
        case SimilarityJoin():
            return _similar(plan, history.members(plan.left, instant), history.members(plan.right, instant))
        case KeyedJoin():
            return Outcome(combined_along_edges(plan, [history.members(each, instant) for each in plan.inputs]), [])
        case SemiJoin():
            return _semi_joined(plan, history.members(plan.left, instant), history.members(plan.right, instant))
        case SetOperation():
            left, right = (Counter(m.values for m in history.members(s, instant)) for s in (plan.left, plan.right))
            return Outcome(without_identity(combined(plan.rule, left, right).elements(), instant), [])
        case Aggregate():
            return _aggregated(plan, history.members(plan.source, instant), instant)
        case Distinct():
            rows = dict.fromkeys(m.values for m in history.members(plan.source, instant))
            return Outcome(without_identity(rows, instant), [])
        case TotalThreshold():
            return Outcome(total_alarms(plan, history, instant).alarms, [])
        case GroupedTotals():
            return Outcome(grouped_alarms(plan, history, instant).alarms, [])
        case RangeThreshold():
            return Outcome(range_alarms(plan, history, instant).alarms, [])
    raise AssertionError(plan)


def _scanned(scan: Scan, elements: Sequence[tuple[int, int, Mapping[str, object]]], instant: int) -> list[Member]:
    return [
        Member((scan.stream, position), tuple(_value(row[f.name], f.type) for f in scan.schema), start)
        for position, (start, end, row) in enumerate(elements)
        if start <= instant and (instant < end or end == FOREVER)
    ]


def _value(value: object, type_: Type) -> object:
    return None if value is None else fit(value, type_)


def _cut_anew(plan: Split | Coalesce, members: list[Member], instant: int) -> list[Member]:
    """The same rows; of chronons it is known when they start."""
    if isinstance(plan, Split) and plan.length == 1:
        at = instant // granule(plan.source) * granule(plan.source)
        return [Member((instant, *m.lineage), m.values, at) for m in members]
    return members


def _stamped(plan: Stamp, members: list[Member], instant: int) -> list[Member]:
    """The start of a row of a source; rows of anything else are taken instant by instant."""
    if _is_source(plan.source):
        return [Member(m.lineage, (*m.values, m.start), m.start) for m in members]
    at = instant // granule(plan.source) * granule(plan.source)
    return [Member((at, *m.lineage), (*m.values, at), at) for m in members]


def _sampled(plan: Sample, history: Memory, instant: int) -> list[Member]:
    """The rows that are kept by the rate in force at their start; without a history, an adaptable sample keeps all."""
    rated = [(m, plan.rate or size_at(plan, history, m.start, MILLION)) for m in history.members(plan.source, instant)]
    return [
        Member(m.lineage, (*m.values, MILLION / rate), m.start) for m, rate in rated if is_kept(m.values, m.start, rate)
    ]


def _is_source(plan: Plan) -> bool:
    return isinstance(plan, Scan) or (isinstance(plan, Filter | Map | Stamp | Sample) and _is_source(plan.source))


def _filtered(plan: Filter, members: list[Member]) -> Outcome:
    verdicts = [(m, evaluate(plan.predicate, _row(plan.schema, m.values))) for m in members]
    return Outcome([m for m, verdict in verdicts if verdict is True], failed(verdicts))


def _mapped(plan: Map, members: list[Member]) -> Outcome:
    results = [(m, _outputs(plan, m.values)) for m in members]
    kept = [Member(m.lineage, values, m.start) for m, values in results if not isinstance(values, Failed)]
    return Outcome(kept, failed(results))


def _outputs(plan: Map, values: Row) -> Row | Failed:
    row = _row(plan.source.schema, values)
    made = [evaluate(output.expression, row) for output in plan.outputs]
    return together(made) or tuple(made)


def _united(sides: list[list[Member]]) -> list[Member]:
    return [Member((side, *m.lineage), m.values, m.start) for side, members in enumerate(sides) for m in members]


def _paired(a: Member, b: Member) -> Member:
    return Member((*a.lineage, *b.lineage), a.values + b.values, max(a.start, b.start))


def _joined(plan: Join, left: list[Member], right: list[Member]) -> Outcome:
    pairs = [_paired(a, b) for a in left for b in right]
    verdicts = [(m, _verdict(plan, m)) for m in pairs]
    return Outcome([m for m, verdict in verdicts if verdict is True], failed(verdicts))


def _similar(plan: SimilarityJoin, left: list[Member], right: list[Member]) -> Outcome:
    """Nothing is shed: that is what a join means that may leave something out."""
    pairs = [_paired(a, b) for a in left for b in right if are_alike(plan, a.values, b.values)]
    verdicts = [(m, _verdict(plan, m)) for m in pairs]
    return Outcome([m for m, verdict in verdicts if verdict is True], failed(verdicts))


def _semi_joined(plan: SemiJoin, left: list[Member], right: list[Member]) -> Outcome:
    """EXISTS: a row of the left stays once, however many partners it has (erratum E-11)."""
    verdicts = [[(m, _verdict(plan, m)) for m in (_paired(a, b) for b in right)] for a in left]
    partners = [any(verdict is True for _, verdict in of_one) for of_one in verdicts]
    kept = [a for a, has_partner in zip(left, partners, strict=True) if has_partner is not plan.anti]
    return Outcome(kept, failed(pair for of_one in verdicts for pair in of_one))


def _verdict(join: Join | SemiJoin | SimilarityJoin, pair: Member) -> object:
    """Pairs whose keys are not known to be equal do not meet: then nothing else of them can fail."""
    row = _row(join.left.schema + join.right.schema, pair.values)
    keys, rest = key_terms(join.predicate, frozenset(join.left.schema.names))
    met = junction([evaluate(term, row) for term in keys], deciding=False)
    return junction([evaluate(term, row) for term in rest], deciding=False) if met is True else met


def _aggregated(plan: Aggregate, members: list[Member], instant: int) -> Outcome:
    groups: dict[Row, list[tuple[int, Mapping[str, object]]]] = {}
    for start, row in ((m.start, _row(plan.source.schema, m.values)) for m in members):
        groups.setdefault(tuple(row[k] for k in plan.keys), []).append((start, row))
    results = [(Member(key, key, instant), [called(call, rows) for call in plan.calls]) for key, rows in groups.items()]
    verdicts = [(m, together(values)) for m, values in results]
    kept = [Member(m.lineage, (*m.values, *values), instant) for m, values in results if together(values) is None]
    return Outcome(kept, failed(verdicts))


def _row(schema: Schema, values: Row) -> Mapping[str, object]:
    return dict(zip(schema.names, values, strict=True))
