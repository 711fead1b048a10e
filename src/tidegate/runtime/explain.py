"""Stages as text, for EXPLAIN."""

from __future__ import annotations

from tidegate.expressions.nodes import TRUE, conjunction, conjuncts
from tidegate.expressions.spark import spark_sql
from tidegate.expressions.text import to_sql
from tidegate.runtime.stage import FromStage, FromStream, Node, Port, Stage, StageGraph, ToQuery, ToStage


def explain_stages(graph: StageGraph) -> str:
    """All stages: where their elements come from, the operators, where the output goes."""
    return "stages\n" + "\n".join(_stage(s) for s in graph.stages)


def _stage(stage: Stage) -> str:
    lines = [f"  stage {stage.number} ({_partitioning(stage)}) → {_target(stage.target)}"]
    return "\n".join(lines + _tree(stage.root, stage, 2))


def _partitioning(stage: Stage) -> str:
    match stage.partition:
        case None:
            return "wherever the rows are"
        case ():
            return "one bucket"
        case keys:
            return "buckets by " + ", ".join(k or "a dropped column" for k in keys)


def _target(target: ToStage | ToQuery) -> str:
    match target:
        case ToQuery(query=query):
            return f"results of {query}"
        case ToStage(stage=stage, keys=keys):
            return f"stage {stage}" + (f", hashed by {', '.join(keys)}" if keys else ", all to one bucket")


def _tree(node: Node | Port, stage: Stage, depth: int) -> list[str]:
    indent = "  " * depth
    if isinstance(node, Port):
        return [indent + _feed(stage.feeds[node.index], node)]
    below = [line for each in node.inputs for line in _tree(each, stage, depth + 1)]
    return [indent + node.operator.words, *below]


def _feed(feed: FromStream | FromStage, port: Port) -> str:
    columns = ", ".join(port.schema.names) or "no columns"
    match feed:
        case FromStage(stage=number):
            return f"from stage {number}: {columns}"
        case FromStream(stream=stream, wanted=wanted):
            checked = conjunction(tuple(t for t in conjuncts(wanted) if spark_sql(t) is not None))
            pushed = "" if checked == TRUE else f", at the source only where {to_sql(checked)}"
            return f"from stream {stream}: {columns}{pushed}"
