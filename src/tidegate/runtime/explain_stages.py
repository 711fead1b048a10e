"""Stages as text, for EXPLAIN; with the figures of a run, for EXPLAIN ANALYZE."""

from __future__ import annotations

from collections.abc import Mapping

from tidegate.runtime.explain_descriptions import describe_feed, describe_stage, describe_target
from tidegate.runtime.explain_names import make_readable, names_in_stage
from tidegate.runtime.figures import OperatorFigures, OperatorPlace, describe_figures, figures_of_operators
from tidegate.runtime.stage import Node, Port, Stage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import NO_SIZE, StateSize, sizes_of_operators


def explain_stages(
    graph: StageGraph,
    figures: Mapping[OperatorPlace, OperatorFigures] | None = None,
    sizes: Mapping[OperatorPlace, StateSize] | None = None,
) -> str:
    """Show all stages: their inputs, operators and targets.

    With `figures`, show also what operators did in a run, and with `sizes`, how large their state is.
    """
    notes = None if figures is None else _describe_operators(figures, sizes or {})
    return _write_stages(graph, notes)


def annotate_stages(graph: StageGraph, notes: Mapping[tuple[int, int], str]) -> str:
    """Show all stages with a note on each operator, by stage and operator."""
    return _write_stages(graph, notes)


def _write_stages(graph: StageGraph, notes: Mapping[tuple[int, int], str] | None) -> str:
    texts = (make_readable(_StageText(stage, notes).text(), names_in_stage(graph, stage)) for stage in graph.stages)
    return "stages\n" + "\n".join(texts)


def _describe_operators(
    figures: Mapping[OperatorPlace, OperatorFigures], sizes: Mapping[OperatorPlace, StateSize]
) -> dict[tuple[int, int], str]:
    """Describe the figures and the state of operators, by stage and operator."""
    states, notes = sizes_of_operators(sizes), {}
    for place, each in figures_of_operators(figures).items():
        size = states.get(place, NO_SIZE)
        state = f", state of {size.rows:,} rows, {size.bytes:,} bytes" if size.rows else ""
        notes[place] = describe_figures(each) + state
    return notes


class _StageText:
    """Writer of one stage, which knows the numbers of its operators."""

    def __init__(self, stage: Stage, notes: Mapping[tuple[int, int], str] | None) -> None:
        self.stage, self.notes = stage, notes
        # By identity: an operator that occurs twice in a tree runs twice, in the order in which it is written.
        self.numbers: dict[int, list[int]] = {}
        for number, node in enumerate(stage.nodes):
            self.numbers.setdefault(id(node), []).append(number)

    def text(self) -> str:
        stage = self.stage
        if len(stage.outlets) == 1:
            (outlet,) = stage.outlets
            head = f"  {describe_stage(stage)} → {describe_target(outlet.target)}"
            return "\n".join([head, *self.tree_lines(outlet.root, 2)])
        lines, common = [f"  {describe_stage(stage)}"], _common_node(stage)
        for outlet in stage.outlets:
            lines += [f"    → {describe_target(outlet.target)}", *self.tree_lines(outlet.root, 3, end=common)]
        return "\n".join([*lines, "    shared", *self.tree_lines(common, 3)])

    def tree_lines(self, node: Node | Port, depth: int, *, end: Node | Port | None = None) -> list[str]:
        """Return the lines of an operator and of those below it, down to `end`."""
        indent = "  " * depth
        if node is end:
            return [indent + "the shared output"]
        if isinstance(node, Port):
            return [indent + describe_feed(self.stage.feeds[node.index], node)]
        below = [line for each in node.inputs for line in self.tree_lines(each, depth + 1, end=end)]
        return [f"{indent}{node.operator.describe()}{self.figures_text(node)}", *below]

    def figures_text(self, node: Node) -> str:
        """Return the figures of an operator in brackets; empty if nothing was measured."""
        if self.notes is None:
            return ""
        number = self.numbers[id(node)].pop(0)
        note = self.notes.get((self.stage.number, number))
        return f"  [{note or describe_figures(OperatorFigures())}]"


def _common_node(stage: Stage) -> Node | Port:
    """Return the highest operator that all outlets share."""
    chains = [_chain(outlet.root) for outlet in stage.outlets]
    others = [{id(node) for node in chain} for chain in chains[1:]]
    return next(node for node in chains[0] if all(id(node) in ids for ids in others))


def _chain(node: Node | Port) -> list[Node | Port]:
    """Return the node and the nodes below it, along first inputs."""
    chain = [node]
    while isinstance(node, Node) and node.inputs:
        node = node.inputs[0]
        chain.append(node)
    return chain
