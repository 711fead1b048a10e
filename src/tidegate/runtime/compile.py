"""From a bound program to a job: optimise, lower, cut, open the sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate.algebra.constraints import Settings
from tidegate.algebra.explain import explain
from tidegate.algebra.explain_alerts import certificates
from tidegate.algebra.explain_many_one import join_graphs
from tidegate.algebra.explain_shedding import kept_words
from tidegate.algebra.plan import Plan
from tidegate.algebra.shedding import Shedding
from tidegate.algebra.user_functions import signatures
from tidegate.catalog.catalog import Program, Query, SourceStream
from tidegate.connectors.sinks import FileSink
from tidegate.connectors.source import Source, open_source
from tidegate.errors import InternalError
from tidegate.optimizer.grouping import group_alerts
from tidegate.optimizer.optimize import optimize
from tidegate.optimizer.plain import plain_joins
from tidegate.optimizer.sharing import share
from tidegate.optimizer.similarity import plain_pairs
from tidegate.physical.lower import lower
from tidegate.physical.plan import PhysicalPlan
from tidegate.runtime.cut import cut
from tidegate.runtime.port import Job
from tidegate.runtime.stage import StageGraph


@dataclass(frozen=True, slots=True)
class Compiled:
    """A query with its plan before and after the optimiser, and the physical plan."""

    query: Query
    optimized: Plan
    rules: tuple[str, ...]
    physical: PhysicalPlan
    plain: tuple[str, ...] = ()
    """Why joins are plain though something is declared of their streams, or rows are alike, or could be shed."""


def compile_queries(program: Program) -> tuple[tuple[Compiled, ...], StageGraph]:
    """Optimise the queries of a program, find what they have in common, and cut them into stages."""
    grouped = group_alerts([q.plan for q in program.queries])
    optimized = [
        optimize(plan, program.settings, query.shedding) for query, plan in zip(program.queries, grouped, strict=True)
    ]
    plans = share([plan for plan, _ in optimized])
    compiled = tuple(
        Compiled(query, plan, rules, lower(plan), _plain(plan, program.settings, query.shedding))
        for query, plan, (_, rules) in zip(program.queries, plans, optimized, strict=True)
    )
    return compiled, cut([(c.query.name, c.physical) for c in compiled])


def _plain(plan: Plan, settings: Settings, shedding: Shedding) -> tuple[str, ...]:
    return (*plain_joins(plan, settings), *plain_pairs(plan, shedding))


def compile_job(
    program: Program,
    *,
    buckets: int = 1,
    sinks: Mapping[str, FileSink],
    sources: Mapping[str, Source] | None = None,
) -> Job:
    """A job that can be started; the sources are opened and checked.

    `sources` are streams that are not opened by their location, by name.
    """
    compiled, graph = compile_queries(program)
    given = sources or {}
    opened = {s: given.get(s) or open_source(_source_stream(program, s)) for s in graph.streams}
    for source in opened.values():
        source.check()
    return Job(graph, opened, sinks, buckets, _identity(compiled, {s: source.stream for s, source in opened.items()}))


def program_identity(program: Program) -> dict[str, object]:
    """What must not change between runs over one checkpoint; its sources are those that it names."""
    compiled, graph = compile_queries(program)
    return _identity(compiled, {s: _source_stream(program, s) for s in graph.streams})


def _source_stream(program: Program, name: str) -> SourceStream:
    stream = program.catalog.find(name)
    if not isinstance(stream, SourceStream):
        raise InternalError("I301", f"'{name}' is read as a source stream but is none")
    return stream


def _identity(compiled: tuple[Compiled, ...], streams: Mapping[str, SourceStream]) -> dict[str, object]:
    functions = sorted({signature for c in compiled for signature in signatures(c.optimized)})
    return {
        **({"functions": functions} if functions else {}),
        "queries": {c.query.name: _meaning(c.optimized) for c in compiled},
        "streams": {name: [each.location, each.time_column, each.delay] for name, each in streams.items()},
    }


def _meaning(plan: Plan) -> str:
    """A plan with all that its state depends on."""
    return "\n".join([explain(plan), *certificates(plan, limits=False), *join_graphs(plan), *kept_words(plan)])
