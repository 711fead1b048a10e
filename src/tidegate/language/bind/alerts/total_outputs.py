"""Columns of alerts on totals: those computed below the counting, and those of alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidegate.algebra.plan import Map, Output, Plan
from tidegate.algebra.subscriptions import TOTAL
from tidegate.errors import Span
from tidegate.expressions.nodes import Column, Expression
from tidegate.language.bind.alerts.keys import Key
from tidegate.language.bind.names import Scope, unique_names


class ExtendedPlan:
    """A plan with additional columns for expressions that are not among its columns."""

    def __init__(self, source: Plan) -> None:
        self._source = source
        self._added: dict[Expression, str] = {}

    def column_for(self, name: str, expression: Expression) -> str:
        """Return the column with the value of an expression; a new column gets the given name."""
        if isinstance(expression, Column):
            return expression.name
        return self._added.setdefault(expression, name)

    @property
    def plan(self) -> Plan:
        if not self._added:
            return self._source
        own = (Output(f.name, Column(f.name, f.type, self._source.span)) for f in self._source.schema)
        added = (Output(name, expression) for expression, name in self._added.items())
        return Map(self._source, (*own, *added), self._source.span)


def alarm_outputs(keys: Sequence[Key], scope: Scope, span: Span) -> tuple[Output, ...]:
    """Return the columns of an alarm, under unique names."""
    wanted = list(_output_columns(keys, scope, span))
    names = unique_names(name for name, _ in wanted)
    return tuple(Output(name, expression) for name, (_, expression) in zip(names, wanted, strict=True))


def _output_columns(keys: Sequence[Key], scope: Scope, span: Span) -> Iterator[tuple[str, Expression]]:
    """Yield the keys once, then the other columns of the element and the subscription, then the total."""
    common = {column.name for key in keys for column in key}
    first = {key[0].name for key in keys}
    yield from ((own, column) for own, column in scope[0] if column.name in first)
    for visible in scope:
        yield from ((f"{visible.alias}_{own}", column) for own, column in visible if column.name not in common)
    yield "total", Column(TOTAL.name, TOTAL.type, span)
