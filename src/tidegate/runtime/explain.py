"""Text of EXPLAIN: plans, rules and stages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tidegate.algebra.explain import explain
from tidegate.algebra.explain_keyed_join import describe_join_graphs, describe_wrong_results
from tidegate.algebra.explain_similarity_join import describe_similarity_joins
from tidegate.algebra.explain_threshold_alert import certificates, omission_below_aggregates
from tidegate.algebra.plan import Plan
from tidegate.errors import deep_recursion
from tidegate.physical.common.plan import PhysicalPlan, Read
from tidegate.runtime.compile import CompiledQuery
from tidegate.runtime.cut_stages import shared_parts
from tidegate.runtime.diagram import to_dot, to_mermaid
from tidegate.runtime.explain_descriptions import describe_rules, shorten
from tidegate.runtime.explain_diagram import draw_program
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.runtime.explain_names import make_readable, names_in
from tidegate.runtime.explain_stages import explain_stages
from tidegate.runtime.figures import FiguresByPlace
from tidegate.runtime.stage_graph import StageGraph


@deep_recursion()
def explain_compiled(
    compiled: Sequence[CompiledQuery],
    graph: StageGraph,
    shown: ExplainFormat = ExplainFormat.TEXT,
    figures: FiguresByPlace | None = None,
) -> str:
    """Show each query's plan before and after the optimiser, the rules with their laws, and the stages.

    With `figures`, the operators of stages have the figures of a run.
    """
    match shown:
        case ExplainFormat.TEXT:
            return "\n".join(map(shorten, _explain_text(compiled, graph, figures).split("\n")))
        case ExplainFormat.MERMAID:
            return to_mermaid(draw_program(compiled, graph))
        case ExplainFormat.DOT:
            return to_dot(draw_program(compiled, graph))


def explain_physical(plans: Sequence[PhysicalPlan]) -> list[str]:
    """Show physical plans as indented trees; a shared part is written out once."""
    known: dict[PhysicalPlan, str] = {}
    shared = shared_parts(plans)
    return ["\n".join(_operator_lines(plan, shared, known, "")) for plan in plans]


def _explain_text(compiled: Sequence[CompiledQuery], graph: StageGraph, figures: FiguresByPlace | None) -> str:
    parts = []
    for each, physical in zip(compiled, explain_physical([c.physical for c in compiled]), strict=True):
        parts.append(f"query {each.query.name}\n\nlogical plan\n{_plan_text(each.query.plan)}")
        parts += [make_readable(part, names_in(each.optimized)) for part in _optimizer_sections(each)]
        parts.append(f"physical plan\n{make_readable(physical, names_in(each.physical))}")
    return "\n\n".join([*parts, explain_stages(graph, figures)])


def _plan_text(plan: Plan) -> str:
    return make_readable(explain(plan), names_in(plan))


def _optimizer_sections(each: CompiledQuery) -> Iterator[str]:
    yield f"optimised plan\n{explain(each.optimized)}"
    yield _section_text("rules that applied", describe_rules(each))
    if kept := certificates(each.optimized):
        yield _section_text("what alerts keep", [*kept, *omission_below_aggregates(each.optimized)])
    if graphs := describe_join_graphs(each.optimized):
        # The differences are listed separately: join graphs are part of a checkpoint's identity, differences are not.
        yield _section_text("join graphs", [*graphs, *describe_wrong_results(each.optimized)])
    if alike := describe_similarity_joins(each.optimized):
        yield _section_text("similarity joins", alike)
    if each.plain_reasons:
        yield _section_text("plain joins", each.plain_reasons)


def _section_text(title: str, lines: Iterable[str]) -> str:
    return "\n".join([title, *(f"  {line}" for line in lines)])


def _operator_lines(
    plan: PhysicalPlan, shared: frozenset[PhysicalPlan], known: dict[PhysicalPlan, str], indent: str
) -> list[str]:
    if isinstance(plan, Read):
        return [f"{indent}read {plan.stream}: {', '.join(plan.schema.names) or 'no columns'}"]
    if plan in known:
        return [f"{indent}{known[plan]}, as above"]
    mark = ""
    if plan in shared:
        known[plan] = f"shared part {len(known) + 1}"
        mark = f"{known[plan]}: "
    below = [line for each in plan.inputs for line in _operator_lines(each, shared, known, indent + "  ")]
    return [indent + mark + plan.operator.describe(), *below]
