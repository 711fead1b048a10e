"""Readable names for Tidegate's internal columns in EXPLAIN.

Plans compute parts of formulas into columns such as `alert:condensation:0`. EXPLAIN shows the
expression instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidegate.algebra import subscriptions, threshold_alert
from tidegate.algebra.plan import Map, Output, Plan, walk
from tidegate.expressions.nodes import Column, Expression, transform
from tidegate.expressions.sql_text import to_operand, to_sql
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.stateless.operators import MapOperator
from tidegate.runtime.stage import FromStage, Stage
from tidegate.runtime.stage_graph import StageGraph

Names = Mapping[str, Expression]
"""Expressions of internal columns, by column."""

_OWN = ("alert:", "range:", "key:", "like:")
_GIVEN = {
    threshold_alert.VALUE.name: "value",
    threshold_alert.INCIDENT.name: "incident",
    threshold_alert.ALARM.name: "alarm",
    threshold_alert.NUMBER.name: "alert_number",
    subscriptions.TOTAL.name: "total",
}
"""Columns that an alert adds to its results, with their names in EXPLAIN."""
_DEPTH = 4
"""Number of passes that replace internal columns, because their expressions may refer to others."""


def names_in(plan: Plan | PhysicalPlan) -> Names:
    """Return the internal columns that a plan computes; omit those with several expressions."""
    return _unambiguous_names(_maps(plan))


def names_in_stage(graph: StageGraph, stage: Stage) -> Names:
    """Return the internal columns that a stage computes or gets from earlier stages."""
    return _unambiguous_names(_stage_maps(graph, stage))


def make_readable(text: str, names: Names) -> str:
    """Replace the names of internal columns in a text by their expressions.

    Examples
    --------
    >>> from tidegate.expressions.nodes import Call
    >>> from tidegate.schema import Type
    >>> names = {"alert:a:0": Call("+", (Column("l.v", Type.INT), Column("l.w", Type.INT)), Type.INT)}
    >>> make_readable('Map l.v, l.v + l.w AS alert:a:0, 2 * "alert:a:0" AS x, "alert:value" AS value', names)
    'Map l.v, l.v + l.w, 2 * (l.v + l.w) AS x, value'
    """
    for name, word in _GIVEN.items():
        text = re.sub(rf'"{name}"( AS ({word}|{name})\b)?|{name}\b', word, text)
    for _ in range(_DEPTH):
        for name, expression in names.items():
            text = _replace_column(text, name, expression)
    return text


def _replace_column(text: str, name: str, expression: Expression) -> str:
    own = re.escape(name) + r"(?![\w:])"
    text = re.sub(f'"{re.escape(name)}" AS {own}', name, text)
    text = re.sub(f" AS {own}", "", text)
    text = text.replace(f'"{name}"', to_operand(expression))
    return re.sub(rf"(?<!\w){own}", lambda _: to_sql(expression), text)


def _unambiguous_names(maps: Iterable[Sequence[Output]]) -> Names:
    found: dict[str, set[Expression]] = {}
    for outputs in maps:
        # A map may rename a column and compute with it: the expression must show the new name.
        renamed = {o.expression.name: o.name for o in outputs if isinstance(o.expression, Column)}
        for output in outputs:
            if output.name.startswith(_OWN) and not isinstance(output.expression, Column):
                found.setdefault(output.name, set()).add(_with_names(output.expression, renamed))
    return {name: next(iter(meanings)) for name, meanings in found.items() if len(meanings) == 1}


def _with_names(expression: Expression, renamed: Mapping[str, str]) -> Expression:
    return transform(expression, lambda e: replace(e, name=renamed.get(e.name, e.name)) if isinstance(e, Column) else e)


def _maps(plan: Plan | PhysicalPlan) -> Iterator[Sequence[Output]]:
    match plan:
        case Read():
            return
        case Apply(operator=operator, inputs=inputs):
            if isinstance(operator, MapOperator):
                yield operator.outputs
            for each in inputs:
                yield from _maps(each)
        case _:
            yield from (node.outputs for node in walk(plan) if isinstance(node, Map))


def _stage_maps(graph: StageGraph, stage: Stage) -> Iterator[Sequence[Output]]:
    yield from (node.operator.outputs for node in stage.nodes if isinstance(node.operator, MapOperator))
    for feed in stage.feeds:
        if isinstance(feed, FromStage):
            yield from _stage_maps(graph, graph.by_number[feed.stage])
