"""Diagram of a program: the plans of its queries, and their stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tidegate.algebra.explain import describe
from tidegate.algebra.plan import Plan, inputs
from tidegate.runtime.compile import CompiledQuery
from tidegate.runtime.diagram import Diagram, Form
from tidegate.runtime.explain_descriptions import describe_exchange, describe_rules, describe_stage, shorten
from tidegate.runtime.explain_names import Names, make_readable, names_in, names_in_stage
from tidegate.runtime.stage import FromStage, FromStream, Node, Outlet, Port, Stage, ToQuery, ToStage
from tidegate.runtime.stage_graph import StageGraph


def draw_program(compiled: Sequence[CompiledQuery], graph: StageGraph) -> Diagram:
    """Draw each query's plan before and after the optimiser with the rules, then the stages with their operators."""
    drawn = Diagram()
    for each in compiled:
        before = drawn.add_group(f"{each.query.name}: logical plan")
        _draw_plan(drawn, each.query.plan, before, names_in(each.query.plan))
        after = drawn.add_group(f"{each.query.name}: optimised plan")
        _draw_plan(drawn, each.optimized, after, names_in(each.optimized))
        drawn.add_box("\n".join(describe_rules(each)), after, Form.NOTE)
    stages = _StageDrawer(drawn, graph)
    for stage in graph.stages:
        stages.draw(stage)
    return drawn


def _draw_plan(drawn: Diagram, plan: Plan, group: int, names: Names) -> int:
    below = [_draw_plan(drawn, each, group, names) for each in inputs(plan)]
    own = drawn.add_box(shorten(make_readable(describe(plan), names)), group, Form.OPERATOR if below else Form.SOURCE)
    for each in below:
        drawn.add_arrow(each, own)
    return own


@dataclass(slots=True)
class _StageDrawer:
    """Drawer of stages, which come before the stages they feed. It keeps the boxes of streams, results and outlets."""

    drawn: Diagram
    graph: StageGraph
    named: dict[tuple[Form, str], int] = field(default_factory=dict)
    tops: dict[FromStage, int] = field(default_factory=dict)
    names: Names = field(default_factory=dict)
    """Internal columns of the stage that is being drawn."""

    def draw(self, stage: Stage) -> None:
        self.names = names_in_stage(self.graph, stage)
        group = self.drawn.add_group(make_readable(describe_stage(stage), self.names))
        known: dict[int, int] = {}
        for position, outlet in enumerate(stage.outlets):
            top = self.draw_node(outlet.root, stage, group, known)
            self.tops[FromStage(stage.number, position)] = top
            if isinstance(outlet.target, ToQuery):
                self.drawn.add_arrow(top, self.outside_box(Form.RESULT, f"results of {outlet.target.query}"))

    def draw_node(self, node: Node | Port, stage: Stage, group: int, known: dict[int, int]) -> int:
        """Draw an operator and everything below it, unless it is drawn already; return its box."""
        if id(node) in known:
            return known[id(node)]
        if isinstance(node, Port):
            own = self.drawn.add_box(make_readable(", ".join(node.schema.names), self.names) or "no columns", group)
            self.draw_feed(stage.feeds[node.index], own)
        else:
            below = [self.draw_node(each, stage, group, known) for each in node.inputs]
            own = self.drawn.add_box(make_readable(node.operator.describe(), self.names), group)
            for each in below:
                self.drawn.add_arrow(each, own)
        known[id(node)] = own
        return own

    def draw_feed(self, feed: FromStream | FromStage, port: int) -> None:
        match feed:
            case FromStream(stream=stream):
                self.drawn.add_arrow(self.outside_box(Form.SOURCE, stream), port)
            case FromStage():
                way = _arrow_label(self.graph.by_number[feed.stage].outlets[feed.outlet])
                self.drawn.add_arrow(self.tops[feed], port, make_readable(way, self.names))

    def outside_box(self, form: Form, name: str) -> int:
        """Return the box of a stream or of results, outside all stages; draw one per name."""
        if (form, name) not in self.named:
            self.named[form, name] = self.drawn.add_box(name, None, form)
        return self.named[form, name]


def _arrow_label(outlet: Outlet) -> str:
    return describe_exchange(outlet.target) if isinstance(outlet.target, ToStage) else ""
