"""What a run has shown of the joins of a query: advice for a better order of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from math import inf, prod

from tidegate.costs.estimates import NO_SIZES, NOTHING_KNOWN, CostEstimate, Flow
from tidegate.expressions.nodes import Call, Column, Expression, columns_of
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.advice import PlanAdvice
from tidegate.physical.common.operator import Chunks, Operator
from tidegate.physical.estimate import estimate_operator
from tidegate.physical.join.operator import JoinOperator
from tidegate.runtime.costs.condition_texts import terms_of_join, texts_of
from tidegate.runtime.costs.estimate import walk_estimates
from tidegate.runtime.costs.explain import span_of_run
from tidegate.runtime.costs.held_rows import MatchCount, count_matches, sample_base_inputs
from tidegate.runtime.costs.knowledge import Knowledge, Place, know_streams
from tidegate.runtime.costs.learn import learn_sources, learn_whole_run
from tidegate.runtime.costs.query_knowledge import QueryKnowledge, know_query
from tidegate.runtime.graph_parts import carry_figures, carry_sizes, part_of_query
from tidegate.runtime.job import Job, Progress
from tidegate.runtime.metadata import Observed
from tidegate.runtime.stage_graph import StageGraph
from tidegate.schema import Type
from tidegate.values import value

StatesOfStages = Mapping[int, Sequence[Chunks]]
"""The state of each stage in all buckets, by the number of the stage."""

NO_STATES: StatesOfStages = {}
NO_COUNTS: Mapping[str, MatchCount] = {}


@value
class QueryStudy:
    """What a run has shown of a query: advice on its joins, and what the costs of its plans follow from."""

    advice: PlanAdvice
    known: QueryKnowledge | None = None
    """None if the time of the run has not advanced."""


def study_query(job: Job, observed: Observed, query: str, states: StatesOfStages = NO_STATES) -> QueryStudy:
    """Return what a run has shown of a query. `states` has the states of its stages with joins, if they can be read."""
    progress, part = observed.progress, part_of_query(job.graph, query)
    figures = carry_figures(progress.operators.copy(), job.graph, part)
    sizes = carry_sizes(observed.sizes, job.graph, part)
    span = span_of_run(replace(progress, operators=figures), replace(observed, sizes=sizes))
    if span is None:
        return QueryStudy(rows_of_sources(progress))
    known = know_streams({s: job.sources[s].stream for s in part.streams}, [progress], job.buckets)
    # Orders are compared for windows that are full.
    learnt = replace(learn_whole_run(part, known, span, {}), elapsed=inf)
    found = selectivities_of_joins(part, learnt, count_matches_of_joins(job.graph, states))
    inputs = inputs_of_joins(part, learnt)
    advice = replace(rows_of_sources(progress), span=round(span.time), selectivities=found, inputs=inputs)
    known_of_query = know_query(part, learnt, found)
    return QueryStudy(replace(advice, kept=known_of_query.kept), known_of_query)


def study_sources(job: Job, observed: Observed) -> QueryStudy:
    """Return what a run has shown of its sources: how fast they are."""
    progress = observed.progress
    span, advice = span_of_run(progress, observed), rows_of_sources(progress)
    if span is None:
        return QueryStudy(advice)
    known = know_streams({s: job.sources[s].stream for s in job.graph.streams}, [progress], job.buckets)
    learnt = learn_sources(job.graph, known, span)
    of_sources = QueryKnowledge(learnt.sources, prices=learnt.prices, step=learnt.step)
    return QueryStudy(replace(advice, span=round(span.time)), of_sources)


def rows_of_sources(progress: Progress) -> PlanAdvice:
    """Return the rows that each source has had."""
    return PlanAdvice(rows={stream: each.rows for stream, each in progress.sources.copy().items()})


def stages_to_read(graph: StageGraph, query: str) -> list[int]:
    """Return the stages with joins of a query; none if it has too few joins for a choice of their order."""
    stages = part_of_query(graph, query).stages
    numbers = [each.number for each in stages for node in each.nodes if isinstance(node.operator, JoinOperator)]
    return sorted(set(numbers)) if len(numbers) > 1 else []


def inputs_of_joins(graph: StageGraph, known: Knowledge) -> dict[str, tuple[float, float]]:
    """Return the valid rows and the length of the base input of joins with a column, by the name of the column."""
    found: dict[str, tuple[float, float]] = {}

    def note_inputs(place: Place, operator: Operator, inputs: list[Flow]) -> CostEstimate:
        if isinstance(operator, JoinOperator):
            # The lowest join comes first: its inputs are the base inputs.
            for flow, schema in zip(inputs, (operator.left, operator.right), strict=True):
                each = flow.characteristics
                found.update({name: (each.valid_rows, each.length) for name in schema.names if name not in found})
        return estimate_operator(operator, inputs, known.context(place, NO_SIZES))

    for _ in walk_estimates(graph, known, note_inputs):
        pass
    return found


def count_matches_of_joins(graph: StageGraph, states: StatesOfStages) -> dict[str, MatchCount]:
    """Return how often rows of base inputs satisfy the conditions of joins, by the text of the condition."""
    known = {number: chunks for number, chunks in states.items() if number in graph.numbers}
    operators = [node.operator for number in known for node in graph.by_number[number].nodes]
    terms = [term for each in operators if isinstance(each, JoinOperator) for term in terms_of_join(each)]
    inputs = sample_base_inputs(graph, known, frozenset().union(*map(columns_of, terms)))
    found: dict[str, MatchCount] = {}
    for term in (*terms, *_implied_equalities(terms)):
        count = count_matches(term, inputs)
        found |= {} if count is None else dict.fromkeys(texts_of(term), count)
    return found


def selectivities_of_joins(
    graph: StageGraph, known: Knowledge, counts: Mapping[str, MatchCount] = NO_COUNTS
) -> Mapping[str, float]:
    """Return the share of the pairs that satisfy each condition of the joins, by the text of the condition.

    What the rows of the inputs show is certain where they have enough matches. Of the other conditions of a join, only
    the product is known. They share it evenly.
    """
    found = {text: count.share for text, count in counts.items()}
    for stage in graph.stages:
        for number, (operator, _) in enumerate(stage.numbered_operators):
            selectivity = known.operators.get((stage.number, number), NOTHING_KNOWN).selectivity
            if not isinstance(operator, JoinOperator) or selectivity is None:
                continue
            found.update(
                _share_results([tuple(texts_of(term)) for term in terms_of_join(operator)], selectivity, counts)
            )
    return found


def _share_results(
    terms: Sequence[tuple[str, ...]], selectivity: float, counts: Mapping[str, MatchCount]
) -> Iterator[tuple[str, float]]:
    """Yield the shares of conditions of a join that the rows of its inputs leave open, by each of their texts."""
    certain = [counts[texts[0]] for texts in terms if texts[0] in counts and counts[texts[0]].is_certain]
    left = selectivity / prod(each.share for each in certain)
    for texts in terms:
        share, count = left ** (1 / max(len(terms) - len(certain), 1)), counts.get(texts[0])
        if count is None or not count.is_certain:
            limited = min(share, 1.0) if count is None else count.limit(share)
            yield from ((text, limited) for text in texts)


def _implied_equalities(terms: Sequence[Expression]) -> Iterator[Expression]:
    """Yield equalities of columns that follow from others, and are not written."""
    classes: list[set[Column]] = []
    for term in terms:
        match term:
            case Call("=", (Column() as a, Column() as b)):
                touched = [each for each in classes if each & {a, b}]
                classes = [each for each in classes if each not in touched] + [{a, b}.union(*touched)]
    written = {text for term in terms for text in texts_of(term)}
    for each in classes:
        for a, b in combinations(sorted(each, key=lambda column: column.name), 2):
            term = Call("=", (a, b), Type.BOOLEAN)
            if to_sql(term) not in written:
                yield term
