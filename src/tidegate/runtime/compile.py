"""Compile a bound program to a job: optimise, lower, cut into stages, open the sources."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidegate.algebra.alert_operators import GroupedTotals
from tidegate.algebra.constraints import ConstraintSettings
from tidegate.algebra.explain import explain
from tidegate.algebra.explain_keyed_join import describe_join_graphs
from tidegate.algebra.explain_similarity_join import describe_state_basis
from tidegate.algebra.explain_threshold_alert import certificates
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.similarity_join import Shedding
from tidegate.algebra.size_columns import same_windows
from tidegate.algebra.user_functions import user_signatures
from tidegate.catalog.catalog import Catalog, Program, Query, SourceStream
from tidegate.connectors.functions import NO_CONNECTORS, Connectors
from tidegate.connectors.ranges import Source
from tidegate.connectors.sinks import FileSink
from tidegate.connectors.source import check_start, open_source
from tidegate.errors import NOWHERE, InternalError, QueryError, TidegateWarning, deep_recursion
from tidegate.optimizer.advice import NO_ADVICE, PlanAdvice
from tidegate.optimizer.alert_grouping import group_alerts
from tidegate.optimizer.explain_fallback import describe_plain_joins
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.sharing import SubplanTable, share_subplans
from tidegate.optimizer.shed_results import can_shed, can_shed_comparisons, refuse_wrong_results
from tidegate.optimizer.similarity_join import describe_missed_similarity
from tidegate.optimizer.total_grouping import group_totals
from tidegate.optimizer.unbounded_joins import growth_warnings, refuse_growing_joins
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.lower import lower
from tidegate.runtime.adaptation import adjusted_windows
from tidegate.runtime.cut_stages import cut_into_stages
from tidegate.runtime.job import Job
from tidegate.runtime.stage_graph import StageGraph
from tidegate.time import FOREVER


@dataclass(frozen=True, slots=True)
class CompiledQuery:
    """A query with its logical, optimised and physical plan."""

    query: Query
    optimized: Plan
    rules: tuple[str, ...]
    physical: PhysicalPlan
    plain_reasons: tuple[str, ...] = ()
    """Reasons why joins are plain although they could be keyed joins or similarity joins, or could shed."""
    given: Plan | None = None
    """The optimised plan before subplans were shared; it has the query's own bounds of sizes."""

    @property
    def own_plan(self) -> Plan:
        return self.given or self.optimized


@deep_recursion()
def compile_queries(program: Program) -> tuple[tuple[CompiledQuery, ...], StageGraph]:
    """Optimise the queries of a program, share common parts, and cut them into stages."""
    joined = group_alerts([q.plan for q in program.queries])
    grouped = group_totals(joined)
    optimized = [
        optimize(plan, program.settings, query.shedding) for query, plan in zip(program.queries, grouped, strict=True)
    ]
    optimized = [
        (plan, rules if own is given else (group_totals.__name__, *rules))
        for (plan, rules), own, given in zip(optimized, grouped, joined, strict=True)
    ]
    _refuse_wrong_plans(program, [plan for plan, _ in optimized])
    plans = share_subplans([plan for plan, _ in optimized])
    compiled = tuple(
        CompiledQuery(
            query,
            plan,
            rules,
            report_changes(query, _lower_query(query, plan, given)),
            _plain_join_reasons(plan, program.settings, query.shedding),
            given,
        )
        for query, plan, (given, rules) in zip(program.queries, plans, optimized, strict=True)
    )
    return compiled, cut_into_stages([(c.query.name, c.physical) for c in compiled])


@deep_recursion()
def compile_phase(
    program: Program, query: Query, known: SubplanTable, owner: int, advice: PlanAdvice = NO_ADVICE
) -> tuple[CompiledQuery, frozenset[int]]:
    """Compile one query of a live graph, made of known subplans; return it with the other owners of these.

    Alerts are not merged with those of other queries: that would change the plans of the others.
    """
    (plan,) = group_alerts([query.plan])
    optimized, rules = optimize(plan, program.settings, query.shedding, advice)
    _refuse_wrong_plans(replace(program, queries=(query,)), [optimized])
    once, covered = _emission(query) is Emit.ENDED, advice.choices.covered
    shared, used = known.share_plan(optimized, owner, once=once, replaced=advice.replaced, covered=covered)
    if query.sizes and not same_windows(optimized, shared):
        shared = optimized  # a wider plan has windows over other rows, with histories of their own
    reasons = _plain_join_reasons(shared, program.settings, query.shedding)
    return CompiledQuery(query, shared, rules, _lower_query(query, shared, optimized), reasons, optimized), used


def _refuse_wrong_plans(program: Program, plans: Sequence[Plan]) -> None:
    """Raise a QueryError if an optimised plan would give wrong results, or keep rows in memory for ever."""
    try:
        for query, plan in zip(program.queries, plans, strict=True):
            refuse_growing_joins(query.plan, plan, program.settings)
            if not query.shedding.approximate:
                refuse_wrong_results(plan)
    except QueryError as error:
        raise error.with_text(program.text) from None


def plan_warnings(program: Program, compiled: Sequence[CompiledQuery]) -> tuple[TidegateWarning, ...]:
    """Return warnings that only the optimised plans show."""
    growing = (each for c in compiled for each in growth_warnings(c.own_plan))
    return (*_idle_shedding_warnings(program, compiled), *(each.with_text(program.text) for each in growing))


def _idle_shedding_warnings(program: Program, compiled: Sequence[CompiledQuery]) -> tuple[TidegateWarning, ...]:
    """Return warnings about shedding that is turned on where nothing can be shed.

    A query that turns shedding on itself gets its own warning. SET gets one only if no query can shed.
    """
    asked = [c for c in compiled if c.query.may_shed]
    idle = [c for c in asked if not can_shed(c.optimized)]
    found = [_idle_warning(c.query.name, (c,)) for c in idle if c.query.shedding.span != NOWHERE]
    if idle and len(idle) == len(asked) and not found:
        found = [_idle_warning("SET", idle)]
    return tuple(each.with_text(program.text) for each in found)


def _idle_warning(asking: str, idle: Sequence[CompiledQuery]) -> TidegateWarning:
    why = (
        re.sub("(not|nothing to) shed: ", "", line) for each in idle for line in each.plain_reasons if "shed: " in line
    )
    reasons = "; ".join(dict.fromkeys(why)) or "there is no join"
    message = f"{asking} turns shedding on, but nothing can be shed: {reasons}"
    hint = "remove shedding: all results are made, whatever the load"
    return TidegateWarning("W201", message, idle[0].query.shedding.span, hint=hint)


def report_changes(query: Query, plan: PhysicalPlan, end: int = FOREVER) -> PhysicalPlan:
    """Return the plan with a changelog up to `end` on top, if the query reports one."""
    if not query.is_changelog:
        return plan
    from tidegate.physical.relation.changes import ChangelogOperator

    return Apply(ChangelogOperator(plan.schema, end), (plan,))


def _lower_query(query: Query, plan: Plan, own: Plan) -> PhysicalPlan:
    """Lower the plan of a query; its own one is the plan before subplans were shared."""
    if not query.sizes:
        return lower(plan, emit=_emission(query))
    from tidegate.runtime.size_columns import lower_with_sizes

    return lower_with_sizes(plan, own, query.sizes, _emission(query))


def _emission(query: Query) -> Emit:
    if query.is_view or query.is_changelog:
        return Emit.SETTLED
    return Emit.EARLY if query.early else Emit.ENDED


def _plain_join_reasons(plan: Plan, settings: ConstraintSettings, shedding: Shedding) -> tuple[str, ...]:
    return (*describe_plain_joins(plan, settings), *describe_missed_similarity(plan, shedding))


@deep_recursion()
def compile_job(
    program: Program,
    *,
    buckets: int = 1,
    sinks: Mapping[str, FileSink],
    sources: Mapping[str, Source] | None = None,
    connectors: Connectors = NO_CONNECTORS,
    live: bool = False,
    is_resumed: bool = False,
) -> Job:
    """Compile a program to a job that can be started; open and check its sources.

    `sources` has, by stream name, sources that need not be opened; `connectors` are those that users registered.
    A `live` run may wait for its first files. A run with `is_resumed` continues from a checkpoint.
    """
    compiled, graph = compile_queries(program)
    given = sources or {}
    catalog = program.catalog
    opened = {
        s: given.get(s) or open_source(source_stream_of(catalog, s), connectors=connectors) for s in graph.streams
    }
    places = {s: check_start(source, live=live, is_resumed=is_resumed) for s, source in opened.items()}
    awaited = {s: place for s, place in places.items() if place is not None}
    identity = _identity(compiled, {s: source.stream for s, source in opened.items()})
    warnings = plan_warnings(program, compiled)
    adjusted = adjusted_windows(
        [(c.query.name, c.optimized) for c in compiled], [(c.query.name, c.own_plan) for c in compiled]
    )
    job = Job(graph, opened, sinks, buckets, identity, warnings=warnings, awaited=awaited, adjusted=adjusted)
    sheds = any(can_shed_comparisons(c.optimized) for c in compiled)
    return replace(job, limits=program.catalog.limits, sheds=sheds)


@deep_recursion()
def program_identity(program: Program) -> dict[str, object]:
    """Return what must not change between runs with one checkpoint; all sources come from the catalog."""
    compiled, graph = compile_queries(program)
    return _identity(compiled, {s: source_stream_of(program.catalog, s) for s in graph.streams})


def source_stream_of(catalog: Catalog, name: str) -> SourceStream:
    """Return the source stream of a name."""
    stream = catalog.find(name)
    if not isinstance(stream, SourceStream):
        raise InternalError("I301", f"'{name}' is read as a source stream but is not one")
    return stream


def _identity(compiled: tuple[CompiledQuery, ...], streams: Mapping[str, SourceStream]) -> dict[str, object]:
    functions = sorted({signature for c in compiled for signature in user_signatures(c.optimized)})
    return {
        **({"functions": functions} if functions else {}),
        "queries": {c.query.name: query_identity(c) for c in compiled},
        "streams": {name: _stream_identity(each) for name, each in streams.items()},
    }


def _stream_identity(stream: SourceStream) -> list[object]:
    """Return the location of a stream and the declarations that determine the validity of its rows."""
    known: list[object] = [stream.location, stream.time_column, stream.delay]
    return known if stream.unit is None else [*known, stream.unit.value]


def query_identity(compiled: CompiledQuery) -> str:
    """Return a text of the plan with everything that its state depends on, including EMIT EARLY."""
    plan, early = compiled.optimized, ["EMIT EARLY"] if compiled.query.early else []
    early += ["EMIT CHANGES"] if compiled.query.is_changelog else []
    early += [f"sizes as {', '.join(each.name for each in compiled.query.sizes)}"] if compiled.query.sizes else []
    return "\n".join(
        [
            explain(plan),
            *certificates(plan, limits=False),
            *describe_join_graphs(plan),
            *describe_state_basis(plan),
            *(node.group.digest for node in walk(plan) if isinstance(node, GroupedTotals)),
            *early,
        ]
    )
