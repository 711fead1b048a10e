"""Estimate all operators of a graph, bottom-up; each at the place of its figures and of its state."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tidegate.costs.characteristics import Characteristics
from tidegate.costs.estimates import NO_SIZES, CostEstimate, Flow
from tidegate.physical.common.operator import Operator
from tidegate.physical.estimate import estimate_operator
from tidegate.physical.stateless.cost import unite_flows
from tidegate.runtime.costs.knowledge import Knowledge, Place
from tidegate.runtime.stage import FromStream, Stage, ToStage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.values import value

EstimateOne = Callable[[Place, Operator, list[Flow]], CostEstimate]
"""Function that estimates the operator at a place, given its inputs."""


@value
class OperatorEstimate:
    """Estimate of an operator in a steady state."""

    characteristics: Characteristics
    """Those of its output."""
    rows: float
    """Rows of its state."""
    bytes: float
    """Bytes of its state."""
    seconds: float
    """Processor seconds for each second of application time."""


def estimate_graph(
    graph: StageGraph, knowledge: Knowledge, sizes: Mapping[str, float] = NO_SIZES
) -> dict[Place, OperatorEstimate]:
    """Return the estimates of all operators, by stage and operator. What several queries share counts once.

    `sizes` are sizes of windows and granules that can be adjusted, by key, in microseconds or rows.
    """

    def estimate_one(place: Place, operator: Operator, inputs: list[Flow]) -> CostEstimate:
        return estimate_operator(operator, inputs, knowledge.context(place, sizes))

    return {
        place: OperatorEstimate(
            each.flow.characteristics, each.rows, each.bytes, knowledge.seconds_of(place, each.work)
        )
        for place, each in walk_estimates(graph, knowledge, estimate_one)
    }


def walk_estimates(
    graph: StageGraph, knowledge: Knowledge, estimate_one: EstimateOne
) -> Iterator[tuple[Place, CostEstimate]]:
    """Estimate all operators of a graph bottom-up, and yield each with its place."""
    arriving: dict[Place, list[Flow]] = {}
    for stage in in_running_order(graph):
        flows = [_flow_of_port(stage, port, arriving, knowledge) for port in range(len(stage.feeds))]
        for number, (operator, inputs) in enumerate(stage.numbered_operators):
            found = estimate_one((stage.number, number), operator, [flows[each] for each in inputs])
            flows.append(found.flow)
            yield (stage.number, number), found
        for outlet, output in zip(stage.outlets, stage.output_places, strict=True):
            if isinstance(outlet.target, ToStage):
                arriving.setdefault((outlet.target.stage, outlet.target.port), []).append(flows[output])


def in_running_order(graph: StageGraph) -> tuple[Stage, ...]:
    """Return the stages, each after those that feed it. A graph keeps them: estimates are made many times."""
    found: tuple[Stage, ...] | None = graph.memo.get("running order")
    if found is None:
        found = tuple(sorted(graph.stages, key=lambda each: (each.level, each.number)))
        graph.memo["running order"] = found
    return found


def _flow_of_port(stage: Stage, port: int, arriving: Mapping[Place, list[Flow]], knowledge: Knowledge) -> Flow:
    feed = stage.feeds[port]
    if isinstance(feed, FromStream):
        return knowledge.source(feed.stream)
    found = arriving[stage.number, port]
    flow = found[0] if len(found) == 1 else unite_flows(found)
    age = knowledge.ages.get(stage.number)
    return flow if age is None else flow.by_now(age)


def total_of(estimates: Mapping[Place, OperatorEstimate]) -> tuple[float, float]:
    """Return the bytes and the seconds of all operators together."""
    each = tuple(estimates.values())
    return sum(one.bytes for one in each), sum(one.seconds for one in each)
