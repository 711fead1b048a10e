"""Which stages may hold results back."""

from __future__ import annotations

from tidegate.physical.common.operator import EmitsAtOnce, Operator
from tidegate.runtime.stage_graph import StageGraph


def holds_back(graph: StageGraph) -> bool:
    """Return whether a stage may have results that it gives only when time goes on, or when the streams end."""
    operators = (node.operator for stage in graph.stages for node in stage.nodes)
    return any(each.partition_keys is not None and not _emits_at_once(each) for each in operators)


def _emits_at_once(operator: Operator) -> bool:
    return isinstance(operator, EmitsAtOnce) and operator.emits_at_once()
