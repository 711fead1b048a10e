"""Remove the rows of a table from the state of stages when the table is read again.

An element of a stream joins the version of a table that is current when the element is processed.
When a table is read again, joins drop its old rows and receive the new ones; earlier results stay as
they are. An operator drops an input if only tables feed it and one of them is read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidegate.physical.common.operator import NO_STATE, Chunks, Forgetful
from tidegate.physical.stateless.operators import UnionOperator
from tidegate.runtime.stage import Node, Port, Stage, ToQuery
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.stream_origins import origins_by_port


def forget_tables(
    graph: StageGraph, stage: Stage, state: Chunks, again: Collection[str], tables: Collection[str]
) -> Chunks:
    """Return the state of a stage without the rows of tables that are read `again`."""
    kept = dict(state)
    for number, node, inputs in _operators_to_clear(graph, stage, again, tables):
        prefix = f"{number}/"
        own = {name.removeprefix(prefix): chunk for name, chunk in state.items() if name.startswith(prefix)}
        kept = {name: chunk for name, chunk in kept.items() if not name.startswith(prefix)}
        kept |= {prefix + name: chunk for name, chunk in _without_inputs(node, own, inputs).items()}
    return kept


def is_reloadable(graph: StageGraph, table: str, tables: Collection[str]) -> bool:
    """Return whether all operators that read a table can forget its rows."""
    for stage in graph.stages:
        if _is_of_tables(graph, stage, stage.root, tables) and any(isinstance(t, ToQuery) for t in stage.targets):
            return False  # results made from tables alone cannot be retracted
        for _, node, inputs in _operators_to_clear(graph, stage, [table], tables):
            mixes = len(inputs) < len(node.inputs)
            if isinstance(node.operator, UnionOperator) and mixes:
                return False
            operator = node.operator
            if len(node.inputs) > 1 and operator.partition_keys is not None and not isinstance(operator, Forgetful):
                return False
    return True


def _without_inputs(node: Node, state: Chunks, inputs: list[int]) -> Chunks:
    if len(node.inputs) == 1 or not isinstance(node.operator, Forgetful):
        return NO_STATE if len(inputs) == len(node.inputs) else state
    for which in inputs:
        state = node.operator.forget(state, which)
    return state


def _operators_to_clear(
    graph: StageGraph, stage: Stage, again: Collection[str], tables: Collection[str]
) -> Iterator[tuple[int, Node, list[int]]]:
    """Yield the operators with inputs that only tables feed, at least one of them in `again`.

    Each comes with its number and the positions of those inputs.
    """
    for number, node in enumerate(stage.nodes):
        streams = [_streams_reaching(graph, stage, each) for each in node.inputs]
        inputs = [i for i, s in enumerate(streams) if s <= frozenset(tables) and s & frozenset(again)]
        if inputs:
            yield number, node, inputs


def _is_of_tables(graph: StageGraph, stage: Stage, node: Node | Port, tables: Collection[str]) -> bool:
    return _streams_reaching(graph, stage, node) <= frozenset(tables)


def _streams_reaching(graph: StageGraph, stage: Stage, node: Node | Port) -> frozenset[str]:
    if isinstance(node, Port):
        return origins_by_port(graph)[stage.number, node.index]
    return frozenset().union(*(_streams_reaching(graph, stage, each) for each in node.inputs))
