"""What the resource manager knows of streams and operators, when graphs change and where little was measured."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from math import sqrt
from statistics import median

from tidegate.runtime.costs.knowledge import Knowledge
from tidegate.runtime.costs.learn import RunSpan
from tidegate.runtime.graph_parts import carry_places
from tidegate.runtime.stage_graph import StageGraph
from tidegate.time import BEGINNING

STEADY_ROWS = 50.0
"""Rows for which the rate of a stream counts that was known before."""

CLEAR_CHANGE = 4.0
"""Standard deviations of the number of rows from which on a rate has changed for certain."""


def assume_unread(known: Knowledge, read: Collection[str]) -> Knowledge:
    """Return the knowledge in which streams that no query has read are assumed to be as fast as those that are read.

    With the usual rate of a stream, the first estimate of a query that reads one may be far above each limit, and
    shrink all windows for nothing.
    """
    distances = [known.sources[each].characteristics.distance for each in read if known.sources[each].mark > BEGINNING]
    if not distances:
        return known
    usual = {
        stream: flow.with_distance(median(distances), max(flow.mark - flow.head - flow.characteristics.distance, 0.0))
        for stream, flow in known.sources.items()
        if stream in known.assumed and stream not in read and flow.mark > BEGINNING
    }
    return replace(known, sources={**known.sources, **usual})


def smooth_rates(learnt: Knowledge, known: Knowledge, span: RunSpan, measured: Collection[str]) -> Knowledge:
    """Return what was learnt of sources, in which rates that were measured before change only as far as rows say.

    A few rows that come at random times say little: those of a span count as rows that come after `STEADY_ROWS` at the
    rate of before. If they are many more or fewer than that rate lets expect, only they count.
    """
    found = {}
    for stream, rows in span.rows.items():
        flow = known.sources.get(stream)
        if flow is None or stream not in measured or flow.mark <= BEGINNING:
            continue
        before = flow.characteristics.distance
        expected = span.time / before
        has_changed = abs(rows - expected) > CLEAR_CHANGE * sqrt(max(expected, 1.0))
        more = 0.0 if has_changed and rows else STEADY_ROWS
        new = learnt.source(stream)
        delay = max(new.mark - new.head - new.characteristics.distance, 0.0)
        found[stream] = new.with_distance((span.time + more * before) / (rows + more), delay)
    return replace(learnt, sources={**learnt.sources, **found})


def only_of_stages(learnt: Knowledge, known: Knowledge, stages: Collection[int]) -> Knowledge:
    """Return what was learnt, but of the operators of other stages what was known."""
    operators = {**known.operators, **{place: each for place, each in learnt.operators.items() if place[0] in stages}}
    factors = {**known.factors, **{place: each for place, each in learnt.factors.items() if place[0] in stages}}
    return replace(learnt, operators=operators, factors=factors)


def carry_knowledge(known: Knowledge, before: StageGraph, after: StageGraph) -> Knowledge:
    """Return what is known of one graph for another one, by the operators that both have."""
    operators, factors = carry_places(known.operators, before, after), carry_places(known.factors, before, after)
    return replace(known, operators=operators, factors=factors)
