"""Origins of plans whose elements are rows of a source, one to one, with the source columns of their columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import CountWindow, Filter, Map, Plan, Sample, Scan, Stamp, Validity, Window
from tidegate.algebra.properties import is_chronon
from tidegate.expressions.nodes import Cast, Column, Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.names import substitute
from tidegate.schema import Type
from tidegate.values import value

_KEEPS_ALL = {(Type.INT, Type.BIGINT), (Type.INT, Type.DOUBLE), (Type.REAL, Type.DOUBLE)}
"""Casts that keep different values different, and preserve their order."""


@value
class Origin:
    """The source whose rows are the elements of a plan, and its columns by those of the plan."""

    scan: Scan
    columns: Mapping[str, str]

    def column(self, expression: Expression) -> str | None:
        """Return the source column with the same equality and order as an expression; None if there is none."""
        column = without_cast(expression)
        return self.columns.get(column.name) if isinstance(column, Column) else None


def without_cast(expression: Expression) -> Expression:
    """Return what a cast converts, if it keeps different values different; otherwise the expression itself."""
    match expression:
        case Cast(argument=argument, type=type_) if (argument.type, type_) in _KEEPS_ALL:
            return without_cast(argument)
    return expression


def find_origin(plan: Plan) -> Origin | str:
    """Return the origin of a plan whose elements are whole rows of a stream; otherwise the reason why they are not."""
    match plan:
        case Scan(validity=Validity.RELATION):
            return "it is a table"
        case Scan(schema=schema):
            return Origin(plan, {name: name for name in schema.names})
        case Filter(source=source) | Stamp(source=source):
            return find_origin(source)
        case Map(source=source, outputs=outputs):
            below = find_origin(source)
            if isinstance(below, str):
                return below
            made = {o.name: below.column(o.expression) for o in outputs}
            return replace(below, columns={name: column for name, column in made.items() if column is not None})
        case Window(source=source) if is_chronon(source) or isinstance(find_origin(source), str):
            return find_origin(source)
        case Window():
            return "its window extends every instant of a row separately"
        case CountWindow(source=source) if isinstance(find_origin(source), str):
            return find_origin(source)
        case CountWindow():
            return _origin_of_count_window(plan)
        case KeyedJoin():
            return "it is itself a keyed join"
    return "it is computed"


def source_text(plan: Plan, expression: Expression) -> str:
    """Describe an expression over a plan in terms of its source: the name of a source column, or a formula."""
    match plan:
        case Map(source=source, outputs=outputs):
            return source_text(source, substitute(expression, {o.name: o.expression for o in outputs}))
        case (
            Filter(source=source)
            | Stamp(source=source)
            | Sample(source=source)
            | Window(source=source)
            | CountWindow(source=source)
        ):
            return source_text(source, expression)
    known = find_origin(plan)
    column = known.column(expression) if isinstance(known, Origin) else None
    return to_sql(expression) if column is None else column


def _origin_of_count_window(window: CountWindow) -> Origin | str:
    """Return the origin of a window of the last rows of a stream; other count windows have none."""
    if window.keys:
        return "its window counts the rows of each group separately"
    if window.slide != 1:
        return "its window of rows moves in steps"
    if window.rows is None:
        return "its window has all rows"
    if is_adaptable(window):
        return "the number of rows of its window may change"
    return (
        find_origin(window.source)
        if is_chronon(window.source)
        else "its window extends every instant of a row separately"
    )
