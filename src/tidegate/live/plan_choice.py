"""Choose among plans of a query that runs, by what they are estimated to cost.

Plans that mean the same differ in where they group, in the operators that join, and in whether they use an operator of
another query that has more columns or rows than they need. One choice is made at a time, for all operators of the
query. Only the outcome is recorded, so that making the plan again needs no estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import Aggregate, Join, Plan, Scan, walk
from tidegate.algebra.similarity_join import Measure, SimilarityJoin
from tidegate.catalog.catalog import Catalog, Program, Query
from tidegate.live.exactness import parts_of
from tidegate.live.state import CompiledPhase, LiveProgram, compile_live
from tidegate.optimizer.advice import NO_ADVICE, USUAL_CHOICES, GroupPosition, KeyedJoins, PlanAdvice, PlanChoices
from tidegate.optimizer.sharing import SubplanTable
from tidegate.physical.common.plan import PhysicalPlan
from tidegate.runtime.compile import source_stream_of
from tidegate.values import value

if TYPE_CHECKING:
    from tidegate.runtime.costs.join_statistics import QueryStudy
    from tidegate.runtime.costs.plan_costs import PlanCost

LEAST_GAIN = 1.5
"""A plan is chosen, and a query moves to it, if the present one is estimated to cost this many times as much.

While it moves, both plans may run for as long as a window. So a move has paid after at most two more windows.
"""

LEAST_SAVED = 1e-4
"""Cores that another plan must save at least: below that, it is not worth a move."""

FEWEST_ROWS = 10_000
"""Number of rows of the sources of a query before which nothing is concluded from them."""

FEWEST_OF_STREAM = 20
"""Number of rows before which the rate of a stream is not known."""

ALL_CHOICES = tuple(each.name for each in fields(PlanChoices))

MEANINGS = {
    ("grouping", GroupPosition.ABOVE): "group above joins",
    ("grouping", GroupPosition.BELOW): "group below joins on a KEY",
    ("keyed_joins", KeyedJoins.ALWAYS): "keyed joins in place of plain joins",
    ("keyed_joins", KeyedJoins.NEVER): "plain joins in place of keyed joins",
    ("similarity_joins", False): "plain joins in place of similarity joins",
    ("covered", False): "joins of its own, and not those of other queries with more rows or columns",
}
"""What EXPLAIN says of each choice that is not usual."""


@value
class Proposal:
    """Advice for another plan of a query, and how many times as much the present one costs, by estimate."""

    advice: PlanAdvice
    gain: float | None = None
    """None if too little is known."""


@value
class _Candidate:
    choices: PlanChoices
    compiled: CompiledPhase
    cost: PlanCost


def propose_plan(live: LiveProgram, query: str, study: QueryStudy, table: SubplanTable, number: int) -> Proposal:
    """Return the advice for a query that runs, with the choices by cost; `number` is that of a phase to come."""
    phases = [phase for phase in live.running_phases() if phase.query == query]
    advice = replace(study.advice, replaced=tuple(phase.number for phase in phases))
    if not phases:
        return Proposal(advice)
    now, known = phases[-1], study.known
    kept = {**now.advice.kept, **advice.kept}
    advice = replace(advice, kept=kept, choices=now.advice.choices, reasons=now.advice.reasons)
    if known is None or not _are_known(live.compiled[now.number].streams, live.catalog, advice):
        return Proposal(advice)
    # With the operators of all features, which a session need not import before.
    from tidegate.runtime.costs.plan_costs import cost_of_plan

    free, known = _parts_of_others(live, query), known.with_kept(kept)

    def cost_of(plan: PhysicalPlan) -> PlanCost:
        return cost_of_plan(plan, known, free)

    def compile_with(choices: PlanChoices) -> CompiledPhase:
        own = live.bound[now.definition.text]
        try:
            return compile_live(own, live.query(query), table, number, replace(advice, choices=choices))
        finally:
            table.forget([number])

    chosen, reasons = choose_by_cost(now.advice.choices, compile_with, cost_of)
    before = {name: why for name, why in advice.reasons.items() if _is_same(name, chosen.choices, now.advice.choices)}
    present = cost_of(live.compiled[now.number].physical)
    better = replace(advice, choices=chosen.choices, reasons={**before, **reasons})
    return Proposal(better, gain_of(present, chosen.cost))


def depends_on_rates(query: Query) -> bool:
    """Return whether the plan of a new query may depend on the rates of its streams."""
    scans = [each for each in walk(query.plan) if isinstance(each, Scan)]
    return _has(query.plan, Join) and (len(scans) > 2 or any(each.key for each in scans))


def advise_new_query(
    program: Program, query: Query, live: LiveProgram, study: QueryStudy, *, table: SubplanTable, number: int
) -> PlanAdvice:
    """Return the advice for a new query over streams whose rates are known: which joins are keyed, and their order.

    Other choices depend on what only the query itself will show.
    """
    streams = {each.stream for each in walk(query.plan) if isinstance(each, Scan)}
    known = study.known
    if known is None or not _are_known(streams, program.catalog, study.advice):
        return NO_ADVICE
    from tidegate.runtime.costs.plan_costs import cost_of_plan

    free = _parts_of_others(live, query.name)

    def compile_with(advice: PlanAdvice) -> CompiledPhase:
        try:
            return compile_live(program, query, table, number, advice)
        finally:
            table.forget([number])

    def cost_of(plan: PhysicalPlan) -> PlanCost:
        return cost_of_plan(plan, known, free)

    usual = cost_of(compile_with(NO_ADVICE).physical)
    by_rates = replace(study.advice, rows={each: study.advice.rows[each] for each in sorted(streams)})
    chosen, reasons = choose_by_cost(
        USUAL_CHOICES, lambda choices: compile_with(replace(by_rates, choices=choices)), cost_of, ("keyed_joins",)
    )
    if gain_of(usual, chosen.cost) < LEAST_GAIN:
        return NO_ADVICE
    return replace(by_rates, choices=chosen.choices, reasons=reasons)


def _are_known(streams: Collection[str], catalog: Catalog, advice: PlanAdvice) -> bool:
    """Return whether there have been enough rows to conclude something from them."""
    tables = [each for each in streams if source_stream_of(catalog, each).is_table]
    rows = [advice.rows.get(each, 0) for each in streams if each not in tables]
    return sum(rows) >= FEWEST_ROWS and min(rows) >= FEWEST_OF_STREAM and all(each in advice.rows for each in tables)


def gain_of(present: PlanCost, better: PlanCost) -> float:
    """Return how many times as much a plan costs as another one; 1 if that saves hardly anything."""
    if present.total - better.total < LEAST_SAVED:
        return 1.0
    return present.total / max(better.total, 1e-12)


def choose_by_cost(
    now: PlanChoices,
    compile_with: Callable[[PlanChoices], CompiledPhase],
    cost_of: Callable[[PhysicalPlan], PlanCost],
    names: Sequence[str] = ALL_CHOICES,
) -> tuple[_Candidate, dict[str, str]]:
    """Return the best choices, made one after the other, and why each was made that is not usual.

    A choice changes only if that is clearly better: estimates have errors, and a query must not move to and fro.
    """

    def candidate(choices: PlanChoices) -> _Candidate:
        compiled = compile_with(choices)
        return _Candidate(choices, compiled, cost_of(compiled.physical))

    best, reasons = candidate(now), dict[str, str]()
    for name in names:
        others = [candidate(each) for each in _other_choices(name, best)]
        found = min(others, key=lambda each: each.cost.total, default=best)
        if gain_of(best.cost, found.cost) >= LEAST_GAIN:
            if getattr(found.choices, name) != getattr(USUAL_CHOICES, name):
                what = MEANINGS[name, getattr(found.choices, name)]
                reasons[name] = f"{what}: {found.cost.describe()}, instead of {best.cost.describe()}"
            best = found
    return best, reasons


def _other_choices(name: str, now: _Candidate) -> Iterator[PlanChoices]:
    """Yield the other values of a choice that may make a difference to a plan."""
    plan, choices = now.compiled.given, now.choices
    match name:
        case "grouping":
            if _has(plan, Aggregate) and (_has(plan, Join) or _has(plan, KeyedJoin)):
                yield from (replace(choices, grouping=e) for e in GroupPosition if e is not choices.grouping)
        case "keyed_joins":
            if any(isinstance(each, Scan) and each.key for each in walk(plan)):
                yield from (replace(choices, keyed_joins=e) for e in KeyedJoins if e is not choices.keyed_joins)
        case "similarity_joins":
            if not choices.similarity_joins or _compares_numbers(plan):
                yield replace(choices, similarity_joins=not choices.similarity_joins)
        case "covered":
            if not choices.covered or now.compiled.used:
                yield replace(choices, covered=not choices.covered)


def _has(plan: Plan, kind: type[Plan]) -> bool:
    return any(isinstance(each, kind) for each in walk(plan))


def _compares_numbers(plan: Plan) -> bool:
    """Return whether there are similarity joins, all of them of numbers: what others cost as plain joins is unknown."""
    alike = [each.similarity for each in walk(plan) if isinstance(each, SimilarityJoin)]
    return bool(alike) and all(each is not None and each.measure is Measure.DISTANCE for each in alike)


def _is_same(name: str, one: PlanChoices, other: PlanChoices) -> bool:
    return bool(getattr(one, name) == getattr(other, name))


def _parts_of_others(live: LiveProgram, query: str) -> frozenset[PhysicalPlan]:
    """Return the parts of plans that run for other queries in any case: operators with state, and all below them."""
    others = (live.compiled[phase.number] for phase in live.running_phases() if phase.query != query)
    return frozenset(below for each in others for part in each.parts for below in parts_of(part))
