"""EXPLAIN COST: the stages of a query with what each operator is estimated to need, and what it really did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.costs.estimates import NO_SIZES, SECOND, USUAL_ELAPSED
from tidegate.runtime.costs.estimate import OperatorEstimate, estimate_graph, total_of
from tidegate.runtime.costs.knowledge import Knowledge, Place, know_streams
from tidegate.runtime.costs.learn import RunSample, RunSpan, learn_whole_run, sample_run, span_between
from tidegate.runtime.explain_stages import annotate_stages
from tidegate.runtime.graph_parts import carry_figures, carry_sizes, part_of_query
from tidegate.runtime.job import Job, Progress
from tidegate.runtime.metadata import Observed
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import NO_SIZE
from tidegate.time import BEGINNING

_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def explain_cost(
    graph: StageGraph, knowledge: Knowledge, span: RunSpan | None = None, sizes: Mapping[str, float] = NO_SIZES
) -> str:
    """Show the stages of a graph with the estimates of their operators; with a span of a run, also what they did."""
    estimates = estimate_graph(graph, knowledge, sizes)
    notes = {place: _describe_operator(place, each, span) for place, each in estimates.items()}
    sources = [f"  {_describe_source(knowledge, each)}" for each in graph.streams]
    total = _describe_total(estimates, span)
    return "\n".join([annotate_stages(graph, notes), "", "sources", *sources, "", "total", f"  {total}"])


def explain_cost_of_running(
    job: Job, observed: Observed, query: str, sizes_in_force: Mapping[str, float] = NO_SIZES
) -> str:
    """Show the stages of a query that runs, with estimates and measurements.

    What the operators gave is known of the run; what they keep and how long they take are estimated.
    """
    part = part_of_query(job.graph, query)
    progress = observed.progress
    figures = carry_figures(progress.operators.copy(), job.graph, part)
    sizes = carry_sizes(observed.sizes, job.graph, part)
    span = span_of_run(replace(progress, operators=figures), replace(observed, sizes=sizes))
    streams = {stream: job.sources[stream].stream for stream in part.streams}
    known = know_streams(streams, [progress], job.buckets)
    if span is not None:
        learnt = learn_whole_run(part, known, span, sizes_in_force)
        known_of = {place: replace(each, row_bytes=None) for place, each in learnt.operators.items()}
        known = replace(learnt, operators=known_of, factors={})
    return f"query {query}\n\n{explain_cost(part, known, span, sizes_in_force)}"


def span_of_run(progress: Progress, observed: Observed) -> RunSpan | None:
    """Return what a run has done since its start; None if its time has not advanced."""
    began = {stream: each.since for stream, each in progress.distances.items() if each.since > BEGINNING}
    rows = {stream: each.rows for stream, each in progress.sources.items()}
    span = span_between(RunSample(watermarks=began), sample_run(progress, observed.sizes, rows))
    # The first watermark is known only after the first step, whose rows count.
    return span and replace(span, time=span.time * span.steps / max(span.steps - 1, 1))


# ---- text


def _describe_operator(place: Place, each: OperatorEstimate, span: RunSpan | None) -> str:
    """Describe the estimate of an operator, and the measurement if there is one."""
    state = f", {each.rows:,.0f} rows of state, {describe_bytes(each.bytes)}" if each.rows else ""
    valid = f", {each.characteristics.valid_rows:,.0f} valid" if each.characteristics.valid_rows >= 1 else ""
    said = f"{describe_rate(each.characteristics.rate)}{valid}{state}, CPU {describe_share(each.seconds)}"
    figures = None if span is None else span.figures.get(place)
    if span is None or figures is None:
        return said
    size = span.sizes.get(place, NO_SIZE)
    kept = f", {size.rows:,} rows of state, {describe_bytes(size.bytes)}" if size.rows else ""
    rate, share = figures.rows_out / span.time, span.seconds_of(place)
    return f"{said}; measured {describe_rate(rate)}{kept}, CPU {describe_share(share)}"


def _describe_source(knowledge: Knowledge, stream: str) -> str:
    source = knowledge.source(stream).characteristics
    if source.rate * USUAL_ELAPSED < 1:
        return f"{stream}: {source.valid_rows:,.0f} rows"
    known = ", assumed" if stream in knowledge.assumed else ""
    return f"{stream}: {describe_rate(source.rate)}{known}"


def _describe_total(estimates: Mapping[Place, OperatorEstimate], span: RunSpan | None) -> str:
    size, seconds = total_of(estimates)
    said = f"memory {describe_bytes(size)}, CPU {describe_share(seconds)} of a core"
    if span is None:
        return said
    measured = sum(span.sizes.get(place, NO_SIZE).bytes for place in estimates)
    spent = sum(span.seconds_of(place) for place in estimates)
    return f"{said}; measured memory {describe_bytes(measured)}, CPU {describe_share(spent)}"


def describe_rate(rate: float) -> str:
    """Describe elements in a microsecond.

    Examples
    --------
    >>> describe_rate(0.0125), describe_rate(2.5e-7)
    ('12,500 rows/s', '0.25 rows/s')
    """
    rate *= SECOND
    return f"{rate:,.0f} rows/s" if rate >= 10 else f"{rate:.2g} rows/s"


def describe_bytes(size: float) -> str:
    """Describe a number of bytes.

    Examples
    --------
    >>> describe_bytes(1_234_567), describe_bytes(12)
    ('1.2 MB', '12 bytes')
    """
    for unit, name in _SIZES:
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size:.0f} bytes"


def describe_share(seconds: float) -> str:
    """Describe processor seconds of a second as a share of a core.

    Examples
    --------
    >>> describe_share(0.0123)
    '1.2 %'
    >>> describe_share(12.34)
    '1,234 %'
    """
    return f"{100 * seconds:.2g} %" if seconds < 1 else f"{100 * seconds:,.0f} %"
