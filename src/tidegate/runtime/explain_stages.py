"""Stages as text, for EXPLAIN; with the figures of a run, for EXPLAIN ANALYZE."""

from __future__ import annotations

from tidegate.runtime.explain_descriptions import describe_feed, describe_stage, describe_target
from tidegate.runtime.explain_names import make_readable, names_in_stage
from tidegate.runtime.figures import FiguresByOperator, OperatorFigures, describe_figures
from tidegate.runtime.stage import Node, Port, Stage, StageGraph


def explain_stages(graph: StageGraph, figures: FiguresByOperator | None = None) -> str:
    """Show all stages: their inputs, operators and targets; with `figures`, also what operators did in a run."""
    texts = (make_readable(_StageText(stage, figures).text(), names_in_stage(graph, stage)) for stage in graph.stages)
    return "stages\n" + "\n".join(texts)


class _StageText:
    """Writer of one stage, which knows the numbers of its operators."""

    def __init__(self, stage: Stage, figures: FiguresByOperator | None) -> None:
        self.stage, self.figures = stage, figures
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
        if self.figures is None:
            return ""
        number = self.numbers[id(node)].pop(0)
        figures = self.figures.get(f"{self.stage.number}/{number}", OperatorFigures())
        return f"  [{describe_figures(figures)}]"


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
