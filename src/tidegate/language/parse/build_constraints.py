"""From Lark's tree to the syntax tree: keys, constraints and settings."""

from __future__ import annotations

from dataclasses import replace

from lark import Token, v_args
from lark.tree import Meta

from tidegate.algebra.constraints import Reach
from tidegate.errors import QueryError, Span, suggest_name
from tidegate.language import syntax
from tidegate.language.parse.build_alerts import AlertBuilder
from tidegate.language.parse.build_clauses import CreateClause
from tidegate.language.parse.build_expressions import microseconds, span_of, unquote
from tidegate.language.syntax import ClusteredClause, Name, OrderedClause, ReferenceClause, Statement
from tidegate.time import LATEST, MICROSECONDS

Names = tuple[Name, ...]


@v_args(meta=True, inline=True)
class ConstraintBuilder(AlertBuilder):
    """One method for each grammar rule about keys, constraints and settings."""

    def names(self, meta: Meta, *names: Name) -> Names:
        return names

    def some_names(self, meta: Meta, names: Name | Names) -> Names:
        return (names,) if isinstance(names, Name) else names

    def key_clause(self, meta: Meta, columns: Names) -> CreateClause:
        return CreateClause("KEY", columns, span_of(meta))

    def reference(self, meta: Meta, columns: Names, other: Name, theirs: Names, within: Reach) -> ReferenceClause:
        return ReferenceClause(columns, other, theirs, within, span_of(meta))

    def constraint_clause(self, meta: Meta, name: Name | None, reference: ReferenceClause) -> CreateClause:
        return CreateClause("CONSTRAINT", replace(reference, name=name, span=span_of(meta)), span_of(meta))

    def foreign_key_clause(self, meta: Meta, reference: ReferenceClause) -> CreateClause:
        return CreateClause("FOREIGN KEY", replace(reference, span=span_of(meta)), span_of(meta))

    def clustered_clause(self, meta: Meta, columns: Names, within: Reach) -> CreateClause:
        return CreateClause("CLUSTERED BY", ClusteredClause(columns, within, span_of(meta)), span_of(meta))

    def ordered_clause(self, meta: Meta, columns: Names, within: Reach | None) -> CreateClause:
        if len(columns) > 1:
            hint = "write one of them, or a separate ORDERED BY for each"
            raise QueryError("Q124", "ORDERED BY takes a single column", columns[1].span, hint=hint)
        if within is None:  # another spelling of TIMESTAMP BY
            return CreateClause("ORDERED BY", columns[0], span_of(meta))
        return CreateClause("ORDERED BY … WITHIN", OrderedClause(columns[0], within, span_of(meta)), span_of(meta))

    def reach(self, meta: Meta, minus: Token | None, number: Token, unit: Token | None) -> Reach:
        span = span_of(minus or number).to(span_of(unit or number))
        written = f"WITHIN {number}" + (f" {unit}" if unit else "")
        if minus is not None:
            raise QueryError("Q124", "a constraint cannot hold within less than 0", span, hint=f"write {written}")
        if unit is None:
            hint = f"write WITHIN {number} ROWS, or a unit of time: WITHIN {number} SECONDS"
            raise QueryError("Q124", f"WITHIN {number} has no unit", span, hint=hint)
        if unit.lower() in ("row", "rows"):
            return Reach(rows=_parse_rows(number, span))
        return Reach(time=_parse_time(number, unit))

    # ---- settings

    def set(self, meta: Meta, name: Name, value: Name, mode: Name | None) -> Statement:
        return syntax.SetStatement(name, value, mode, span_of(meta))

    def setting(self, meta: Meta, *parts: Token) -> Name:
        words = (f" {part}" if part.type == "NAME" else unquote(part) for part in parts)
        return Name("".join(words), span_of(meta))


def _parse_rows(number: Token, span: Span) -> int:
    if not number.isdigit():
        raise QueryError("Q124", "rows are counted in whole numbers", span, hint="write for example WITHIN 10 ROWS")
    if int(number) > LATEST:
        hint = "remove the constraint: it would have no effect"
        raise QueryError("Q124", "no stream has that many rows", span, hint=hint)
    return int(number)


def _parse_time(number: Token, unit: Token) -> int:
    try:
        return microseconds(number, unit)
    except QueryError as error:
        if error.code != "Q110":
            raise
        message = f"'{unit}' is neither ROWS nor a unit of time"
        raise QueryError("Q110", message, error.span, hint=suggest_name(unit, ("rows", *MICROSECONDS))) from None
