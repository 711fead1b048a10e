"""Learn about operators from what they did between two moments of a run.

All of it is pure: from figures and sizes of states to knowledge. The same formulas that estimate an operator also say
what to conclude from what it did: its output is linear in the selectivity, and its live groups follow from all groups.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from tidegate.costs.estimates import (
    NOTHING_KNOWN,
    SECOND,
    CostContext,
    CostEstimate,
    Flow,
    OperatorKnowledge,
)
from tidegate.physical.aggregate.cost import count_groups
from tidegate.physical.common.operator import Operator
from tidegate.physical.estimate import estimate_operator
from tidegate.runtime.costs.estimate import walk_estimates
from tidegate.runtime.costs.knowledge import Knowledge, Place
from tidegate.runtime.costs.prices import MeasuredWork
from tidegate.runtime.figures import OperatorFigures, OperatorPlace, add_counts, figures_of_operators
from tidegate.runtime.job import Progress
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import NO_SIZE, StateSize, sizes_of_operators
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

FEWEST_ROWS = 20
"""Elements that an operator must have got before anything is concluded from what it gave."""

ASSUMED = 0.1
"""Number of results for which an assumed selectivity counts."""

CLEARLY_LATER = 4.0
"""Distances and steps by which a stream trails another one at least, if its clock is another one."""

DATA_DEPENDENT = frozenset({"alert", "totals", "subscriptions", "keyed join", "similarity join"})
"""Kinds of operators of which the values of rows decide how many they keep."""

_LIVE_GROUPS = frozenset({"aggregate", "slots", "limit", "semi join"})
"""Kinds of operators that keep a group as long as it has a valid element."""


@value
class RunSample:
    """What a run knows of itself at one moment: all counts are since its start."""

    figures: Mapping[Place, OperatorFigures] = field(default_factory=dict)
    sizes: Mapping[Place, StateSize] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    """Rows of each source."""
    steps: int = 0


NO_SAMPLE = RunSample()


def sample_run(progress: Progress, sizes: Mapping[OperatorPlace, StateSize], rows: Mapping[str, int]) -> RunSample:
    """Return what a run knows of itself now."""
    figures = figures_of_operators(progress.operators.copy())
    return RunSample(figures, sizes_of_operators(sizes), dict(progress.watermarks), dict(rows), progress.steps)


@value
class RunSpan:
    """What a run did between two moments, and the sizes of states at the second one."""

    time: float
    """Advance of application time, in microseconds."""
    steps: int
    figures: Mapping[Place, OperatorFigures]
    sizes: Mapping[Place, StateSize]
    rows: Mapping[str, int]
    watermarks: Mapping[str, int] = field(default_factory=dict)
    """Those at the end."""

    def rate_of(self, place: Place) -> tuple[float, float] | None:
        """Return the elements that an operator got and gave in a microsecond; None if they were too few."""
        each = self.figures.get(place)
        if each is None or each.rows_in < FEWEST_ROWS:
            return None
        return each.rows_in / self.time, each.rows_out / self.time

    def seconds_of(self, place: Place) -> float:
        """Return the seconds that an operator took in a second of application time."""
        each = self.figures.get(place)
        return 0.0 if each is None else each.seconds / self.time * SECOND


def span_between(before: RunSample, after: RunSample) -> RunSpan | None:
    """Return what happened between two moments; None if application time has not advanced."""
    # The newest watermark is the clock: that of a slow stream is late, and then jumps.
    marks = [
        (before.watermarks[stream], mark)
        for stream, mark in after.watermarks.items()
        if before.watermarks.get(stream, BEGINNING) > BEGINNING and mark < FOREVER
    ]
    time = max(mark for _, mark in marks) - max(mark for mark, _ in marks) if marks else 0
    if time <= 0:
        return None
    none = OperatorFigures()
    figures = {place: _subtract(each, before.figures.get(place, none)) for place, each in after.figures.items()}
    rows = {stream: count - before.rows.get(stream, 0) for stream, count in after.rows.items()}
    return RunSpan(float(time), max(after.steps - before.steps, 1), figures, after.sizes, rows, after.watermarks)


def _subtract(after: OperatorFigures, before: OperatorFigures) -> OperatorFigures:
    return after._replace(
        rows_in=after.rows_in - before.rows_in,
        rows_out=after.rows_out - before.rows_out,
        omitted=after.omitted - before.omitted,
        seconds=after.seconds - before.seconds,
        omitted_of_inputs=add_counts(after.omitted_of_inputs, tuple(-each for each in before.omitted_of_inputs)),
    )


# ---- learning


def learn(
    graph: StageGraph,
    known: Knowledge,
    span: RunSpan,
    sizes: Mapping[str, float],
    *,
    evidence: Mapping[Place, float] | None = None,
) -> Knowledge:
    """Return the knowledge after a span of a run; `sizes` are those of adjusted windows in it.

    In the span, windows should be full, or `known.elapsed` and `known.ages` should say how long streams had lasted in
    its middle: an operator gives less while they fill. A short span says little: with `evidence`, the selectivity that
    was known counts as much as that number of results.
    """
    knowledge = replace(known, step=span.time / span.steps)
    knowledge = replace(knowledge, sources={**known.sources, **_learn_sources(graph, knowledge, span)})
    learner = _Learner(knowledge, span, sizes, evidence)
    for place, estimate in walk_estimates(graph, knowledge, learner.learn_operator):
        learner.learn_seconds(place, estimate)
    operators, factors = {**known.operators, **learner.operators}, {**known.factors, **learner.factors}
    return replace(knowledge, operators=operators, factors=factors)


def learn_whole_run(graph: StageGraph, known: Knowledge, span: RunSpan, sizes: Mapping[str, float]) -> Knowledge:
    """Return the knowledge after a run, by figures that are averages since its beginning.

    Windows that still fill were half as full on average as they are now.
    """
    learnt = learn(graph, replace(known, elapsed=known.elapsed / 2), span, sizes)
    return replace(learnt, elapsed=known.elapsed)


def learn_sources(graph: StageGraph, known: Knowledge, span: RunSpan) -> Knowledge:
    """Return the knowledge with the rates of sources, and the length of a step, in a span of a run."""
    sources = _learn_sources(graph, known, span)
    return replace(known, step=span.time / span.steps, sources={**known.sources, **sources})


def measure_work(graph: StageGraph, known: Knowledge, span: RunSpan) -> list[MeasuredWork]:
    """Return the estimated work of all operators, with the seconds that they took."""
    learner = _Learner(known, span, {})
    found = walk_estimates(graph, known, learner.estimate)
    measured = ((known.count_buckets(each.work), span.seconds_of(place)) for place, each in found)
    return [MeasuredWork(work, seconds) for work, seconds in measured if seconds]


def _learn_sources(graph: StageGraph, known: Knowledge, span: RunSpan) -> dict[str, Flow]:
    """Return the flows of sources of which rows have arrived, with the distances in the span."""
    found = {}
    for stream, rows in span.rows.items():
        flow = known.source(stream)
        is_table = flow.mark <= BEGINNING
        is_known = stream in known.sources and stream not in known.assumed
        if stream in graph.readers and not is_table and (rows >= FEWEST_ROWS or not is_known):
            # Half a row, if none has come.
            distance = span.time / max(rows, 0.5)
            delay = max(flow.mark - flow.head - flow.characteristics.distance, 0.0)
            found[stream] = replace(flow, head=0.0).with_distance(distance, delay)
    return _learn_heads({**known.sources, **found}, found, span)


def _learn_heads(flows: Mapping[str, Flow], learnt: dict[str, Flow], span: RunSpan) -> dict[str, Flow]:
    """Return flows with the clocks of their streams: how far the newest element of each trails that of all.

    Streams may have times of their own, such as those of their end. A difference that could be the time since the
    newest row is none.
    """
    newest = {
        stream: mark + flows[stream].mark - flows[stream].head - flows[stream].characteristics.distance
        for stream, mark in span.watermarks.items()
        if stream in flows and BEGINNING < mark < FOREVER and flows[stream].mark > BEGINNING
    }
    found = {}
    for stream, flow in learnt.items():
        behind = max(newest.values()) - newest[stream] if stream in newest else 0.0
        is_clear = behind > CLEARLY_LATER * (flow.characteristics.distance + span.time / span.steps)
        found[stream] = flow.delay(behind) if is_clear else flow
    return found


class _Learner:
    """Collector of what is learnt of operators, as they are estimated bottom-up."""

    def __init__(
        self,
        known: Knowledge,
        span: RunSpan,
        sizes: Mapping[str, float],
        evidence: Mapping[Place, float] | None = None,
    ) -> None:
        self.known, self.span, self.sizes, self.evidence = known, span, sizes, evidence
        self.operators: dict[Place, OperatorKnowledge] = {}
        self.factors: dict[Place, float] = {}

    def estimate(self, place: Place, operator: Operator, inputs: list[Flow]) -> CostEstimate:
        return estimate_operator(operator, inputs, self.known.context(place, self.sizes))

    def learn_operator(self, place: Place, operator: Operator, inputs: list[Flow]) -> CostEstimate:
        """Return the estimate of an operator after learning from what it did."""
        context = self.known.context(place, self.sizes)
        size = self.span.sizes.get(place, NO_SIZE)
        found = context.known
        if size.groups and inputs:
            kind = estimate_operator(operator, inputs, context).work.kind
            groups = (
                count_groups(inputs[0].characteristics, float(size.groups))
                if kind in _LIVE_GROUPS
                else float(size.groups)
            )
            found = replace(found, groups=groups)
        rates = self.span.rate_of(place)
        if rates is not None:
            results = 0.0 if self.evidence is None else max(self.evidence.get(place, 0.0), ASSUMED)
            found = replace(
                found,
                selectivity=_learn_selectivity(
                    operator, inputs, context, found, rates[1], before=results / self.span.time
                ),
            )
        estimate = estimate_operator(operator, inputs, replace(context, known=found))
        if estimate.work.kind in DATA_DEPENDENT and size.rows and estimate.rows:
            # Sizes are those at the end of the span, of which the estimate knows the middle.
            later = 1.0 + self.span.time / 2.0 / context.elapsed if any(each.fills for each in inputs) else 1.0
            found = replace(found, kept=size.rows / later / estimate.rows * (found.kept or 1.0))
        if size.rows and size.bytes:
            found = replace(found, row_bytes=size.bytes / size.rows)
        if found == NOTHING_KNOWN:
            return estimate
        self.operators[place] = found
        return estimate_operator(operator, inputs, replace(context, known=found))

    def learn_seconds(self, place: Place, estimate: CostEstimate) -> None:
        """Learn how much an operator costs, relative to its prices."""
        measured = self.span.seconds_of(place)
        priced = replace(self.known, factors={}).seconds_of(place, estimate.work)
        if measured and priced:
            self.factors[place] = measured / priced


def _learn_selectivity(
    operator: Operator,
    inputs: list[Flow],
    context: CostContext,
    found: OperatorKnowledge,
    rate: float,
    *,
    before: float,
) -> float:
    """Return the selectivity with which the formulas give the rate that was measured.

    `before` is a rate, too: as many more results count as given by the selectivity that was known or assumed.
    """

    def rate_with(selectivity: float | None) -> float:
        known = replace(found, selectivity=selectivity)
        return estimate_operator(operator, inputs, replace(context, known=known)).flow.rate

    whole = rate_with(1.0)
    # What is given in any case: elements that are cut at watermarks.
    least = rate_with(0.0) if whole else 0.0
    if whole <= least:
        return 1.0
    usual = (rate_with(found.selectivity) - least) / (whole - least) if before else 0.0
    more = before / usual if usual > 0 else 0.0
    return (max(rate - least, 0.0) + (before if more else 0.0)) / (whole - least + more)
