"""What a run has shown of the joins of a query: advice for a better order of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tidegate.costs.estimates import NOTHING_KNOWN
from tidegate.expressions.nodes import TRUE, Call, Column, Expression, conjuncts
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.advice import PlanAdvice
from tidegate.physical.join.operator import JoinOperator
from tidegate.runtime.costs.explain import span_of_run
from tidegate.runtime.costs.knowledge import Knowledge, know_streams
from tidegate.runtime.costs.learn import learn
from tidegate.runtime.graph_parts import carry_figures, carry_sizes, part_of_query
from tidegate.runtime.job import Job, Progress
from tidegate.runtime.metadata import Observed
from tidegate.runtime.stage_graph import StageGraph
from tidegate.schema import Type


def advise_on_joins(job: Job, observed: Observed, query: str) -> PlanAdvice:
    """Return the rows of all sources, the time in which they came, and the selectivities of a query's joins."""
    progress, part = observed.progress, part_of_query(job.graph, query)
    figures = carry_figures(progress.operators.copy(), job.graph, part)
    sizes = carry_sizes(observed.sizes, job.graph, part)
    span = span_of_run(replace(progress, operators=figures), replace(observed, sizes=sizes))
    if span is None:
        return rows_of_sources(progress)
    known = know_streams({s: job.sources[s].stream for s in part.streams}, [progress], job.buckets)
    found = selectivities_of_joins(part, learn(part, known, span, {}))
    return replace(rows_of_sources(progress), span=round(span.time), selectivities=found)


def rows_of_sources(progress: Progress) -> PlanAdvice:
    """Return the rows that each source has had."""
    return PlanAdvice(rows={stream: each.rows for stream, each in progress.sources.copy().items()})


def selectivities_of_joins(graph: StageGraph, known: Knowledge) -> Mapping[str, float]:
    """Return the share of the pairs that satisfy each condition of the joins, by the text of the condition.

    Of several conditions of one join, only their product is known. They share it evenly.
    """
    found: dict[str, float] = {}
    for stage in graph.stages:
        for number, (operator, _) in enumerate(stage.numbered_operators):
            selectivity = known.operators.get((stage.number, number), NOTHING_KNOWN).selectivity
            if not isinstance(operator, JoinOperator) or selectivity is None:
                continue
            terms = list(_terms_of(operator))
            for term in terms:
                found |= dict.fromkeys(_texts_of(term), selectivity ** (1 / len(terms)))
    return found


def _terms_of(join: JoinOperator) -> Iterator[Expression]:
    for left, right in zip(join.left_keys, join.right_keys, strict=True):
        columns = Column(left, join.left.type_of(left)), Column(right, join.right.type_of(right))
        yield Call("=", columns, Type.BOOLEAN)
    yield from () if join.residual == TRUE else conjuncts(join.residual)


def _texts_of(term: Expression) -> Iterator[str]:
    """Yield the text of a condition, and of an equality also the text from right to left."""
    yield to_sql(term)
    match term:
        case Call("=", (left, right)):
            yield to_sql(replace(term, arguments=(right, left)))
