"""Window rules: the six of PIPES (10.7 to 10.12), in the direction that helps."""

from __future__ import annotations

from dataclasses import replace

from tidegate.algebra.plan import CountWindow, Map, Plan, Union, Window
from tidegate.algebra.properties import granule, is_chronon
from tidegate.algebra.whole_elements import extend_as_sets
from tidegate.expressions.nodes import Column
from tidegate.optimizer.names import is_safe
from tidegate.optimizer.rule import Scope, rule


@rule("ω1(S) = S (10.7), for elements of one chronon", scope=Scope.TIME)
def remove_now_window(plan: Plan) -> Plan | None:
    match plan:
        case Window(source=source, size=1, slide=1) if is_chronon(source):
            return source
    return None


@rule("ω1(ς1(S)) = S (10.7, remark 12.1); ωg(S) = S for time in granules of g", scope=Scope.TIME)
def remove_now_window_of_validities(plan: Plan) -> Plan | None:
    match plan:
        case Window(source=source, size=size, slide=slide) if size == granule(source) and not is_chronon(source):
            return source if slide in (1, size) else None
    return None


@rule("μf(ωrange(S)) = ωrange(μf(S)) (10.9)", scope=Scope.TIME)
def push_map_below_window(plan: Plan) -> Plan | None:
    # Below, a column is computed once per element, however many pieces the window makes of it.
    match plan:
        case Map(source=Window(source=source) as window, outputs=outputs):
            if is_safe(*(o.expression for o in outputs)) or (window.slide == 1 and is_chronon(source)):
                return replace(window, source=Map(source, outputs, plan.span))
    return None


@rule("μf(ωrows(S)) = ωrows(μf(S)) (10.11, 10.12) if f keeps all columns in their order", scope=Scope.TIME)
def push_map_below_count_window(plan: Plan) -> Plan | None:
    # Elements of one instant are counted in the order of their values, so that order must stay.
    match plan:
        case Map(source=CountWindow(source=source) as window, outputs=outputs):
            columns = source.schema.names
            kept = [o.expression.name if isinstance(o.expression, Column) else None for o in outputs[: len(columns)]]
            if kept != list(columns) or not is_safe(*(o.expression for o in outputs)):
                return None
            names = {old: o.name for old, o in zip(columns, outputs, strict=False)}
            keys = tuple(names[k] for k in window.keys)
            return replace(window, source=Map(source, outputs, plan.span), keys=keys)
    return None


@rule("ωrange(S1 ∪ S2) = ωrange(S1) ∪ ωrange(S2) (10.10), if both have the same granule", scope=Scope.TIME)
def push_window_below_union(plan: Plan) -> Plan | None:
    # Below, each branch can be shared with other users of the same window over the same stream.
    match plan:
        case Window(source=Union(inputs=inputs) as union) as window if len({granule(each) for each in inputs}) == 1:
            return replace(union, inputs=tuple(replace(window, source=each) for each in inputs))
    return None


@rule("δ(ω(S)) = δ(ω(S) of whole elements), and so for all that see only which rows there are", scope=Scope.TIME)
def extend_whole_elements(plan: Plan) -> Plan | None:
    # This comes last: other rules may move windows to where the number of copies matters.
    better = extend_as_sets(plan)
    return None if better is plan else better


WINDOW_RULES = (
    remove_now_window,
    remove_now_window_of_validities,
    push_map_below_window,
    push_map_below_count_window,
    push_window_below_union,
)
