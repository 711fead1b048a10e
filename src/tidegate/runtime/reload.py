"""Remove the rows of a table from the state of stages when the table is read again.

An element of a stream joins the version of a table that is current when the element is processed.
When a table is read again, joins drop its old rows and receive the new ones; earlier results stay as
they are. An operator drops an input if only tables feed it and one of them is read again.

Operators that compare tables (ISTREAM and DSTREAM) keep the old rows, and report what changes at the time of the step.
What comes out of them are events in time, as those of a stream.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from tidegate.physical.common.operator import NO_STATE, Chunks, ComparesTables, Forgetful
from tidegate.physical.stateless.operators import UnionOperator
from tidegate.runtime.stage import FromStage, FromStream, Node, Port, Stage, ToQuery
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.stream_origins import merge_overlapping


def forget_tables(
    graph: StageGraph, stage: Stage, state: Chunks, again: Collection[str], tables: Collection[str], *, now: int
) -> Chunks:
    """Return the state of a stage without the rows of tables that are read `again`, in a step at `now`."""
    kept = dict(state)
    for number, node, inputs in _operators_to_clear(graph, stage, again, tables):
        prefix = f"{number}/"
        own = {name.removeprefix(prefix): chunk for name, chunk in state.items() if name.startswith(prefix)}
        kept = {name: chunk for name, chunk in kept.items() if not name.startswith(prefix)}
        kept |= {prefix + name: chunk for name, chunk in _without_inputs(node, own, inputs, now).items()}
    return kept


def tables_read_together(graph: StageGraph, table: str, tables: Collection[str]) -> frozenset[str]:
    """Return the tables that are read again with a table: those that it meets in operators over tables alone.

    Such an operator keeps no rows, because none are to come: without the others, it would find nothing.
    """
    met = [
        frozenset().union(*parts)
        for stage in graph.stages
        for node in stage.nodes
        if len(parts := [s for each in node.inputs if (s := _streams_reaching(graph, stage, each)) <= set(tables)]) > 1
    ]
    return next((group for group in merge_overlapping(met) if table in group), frozenset([table]))


def is_reloadable(graph: StageGraph, table: str, tables: Collection[str]) -> bool:
    """Return whether all operators that read a table, and those read with it, can forget their rows."""
    again = tables_read_together(graph, table, tables)
    for stage in graph.stages:
        if _is_of_tables(graph, stage, stage.root, tables) and any(isinstance(t, ToQuery) for t in stage.targets):
            return False  # results made from tables alone cannot be retracted
        if _keeps_changes(graph, stage):
            return False  # time goes on for them only when a table changes
        for _, node, inputs in _operators_to_clear(graph, stage, again, tables):
            mixes = len(inputs) < len(node.inputs)
            if isinstance(node.operator, UnionOperator) and mixes:
                return False
            operator = node.operator
            if len(node.inputs) > 1 and operator.partition_keys is not None and not isinstance(operator, Forgetful):
                return False
    return True


def tables_to_read_again(graph: StageGraph, changed: Iterable[str], tables: Collection[str]) -> frozenset[str]:
    """Return the tables to read again, given those that have changed."""
    known = (table for table in changed if is_reloadable(graph, table, tables))
    return frozenset().union(*(tables_read_together(graph, table, tables) for table in known))


def _without_inputs(node: Node, state: Chunks, inputs: list[int], now: int) -> Chunks:
    if isinstance(node.operator, ComparesTables):
        return node.operator.read_again(state, now)
    if len(inputs) == len(node.inputs):
        return NO_STATE
    if not isinstance(node.operator, Forgetful):
        return state
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


def compares_tables(stage: Stage) -> bool:
    """Return whether a stage has an operator that compares tables before and after they are read again."""
    return any(isinstance(node.operator, ComparesTables) for node in stage.nodes)


def _keeps_changes(graph: StageGraph, stage: Stage) -> bool:
    """Return whether an operator of a stage keeps changes of tables in its state."""
    return any(
        node.operator.partition_keys is not None and _CHANGES in _streams_reaching(graph, stage, each)
        for node in stage.nodes
        for each in node.inputs
    )


_CHANGES = ""
"""Where the changes of tables come from: neither a table nor a stream has this name."""


def _streams_reaching(graph: StageGraph, stage: Stage, node: Node | Port) -> frozenset[str]:
    if isinstance(node, Port):
        match stage.feeds[node.index]:
            case FromStream(stream=stream):
                return frozenset([stream])
            case FromStage(stage=number, outlet=outlet):
                below = graph.by_number[number]
                return _streams_reaching(graph, below, below.outlets[outlet].root)
    if isinstance(node.operator, ComparesTables):
        return frozenset([_CHANGES])
    return frozenset().union(*(_streams_reaching(graph, stage, each) for each in node.inputs))
