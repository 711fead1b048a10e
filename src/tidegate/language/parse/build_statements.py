"""From Lark's tree to the syntax tree: statements."""

from __future__ import annotations

from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.build_clauses import CreateClause, contents_by_keywords
from tidegate.language.parse.build_constraints import ConstraintBuilder
from tidegate.language.parse.build_expressions import span_of, unquote
from tidegate.language.parse.build_windows import AmountWithUnit
from tidegate.language.syntax import Expression, Name, Query, Statement

_KINDS = {
    "streams": syntax.ObjectKind.STREAM,
    "tables": syntax.ObjectKind.TABLE,
    "views": syntax.ObjectKind.VIEW,
    "alerts": syntax.ObjectKind.ALERT,
    "constraints": syntax.ObjectKind.CONSTRAINT,
    "shedding": syntax.ObjectKind.SHEDDING,
}
_TIMES = {"VALID FROM", "TIMESTAMP BY", "ORDERED BY"}


@v_args(meta=True, inline=True)
class StatementBuilder(ConstraintBuilder):
    """One method for each grammar rule about statements."""

    def start(self, meta: Meta, *statements: Statement) -> tuple[Statement, ...]:
        return statements

    def query_statement(self, meta: Meta, query: Query) -> Statement:
        return syntax.QueryStatement(query, span_of(meta))

    def create_query(self, meta: Meta, _word: Token, name: Name, query: Query) -> Statement:
        return syntax.CreateQuery(name, query, span_of(meta))

    def create_view(self, meta: Meta, *parts: Any) -> Statement:
        *_words, name, options, query = parts
        return syntax.CreateView(name, options, query, span_of(meta))

    def alter_query(self, meta: Meta, _word: Token, name: Name, query: Query) -> Statement:
        return syntax.AlterStatement(name, query, span_of(meta))

    def pause_query(self, meta: Meta, _word: Token, name: Name) -> Statement:
        return syntax.PauseStatement(name, span_of(meta))

    def resume_query(self, meta: Meta, _word: Token, name: Name) -> Statement:
        return syntax.ResumeStatement(name, span_of(meta))

    def optimize_query(self, meta: Meta, _word: Token, name: Name) -> Statement:
        return syntax.OptimizeStatement(name, span_of(meta))

    def insert(self, meta: Meta, path: Token, query: Query) -> Statement:
        return syntax.Insert(unquote(path), query, span_of(meta))

    def explain(self, meta: Meta, query: Query | syntax.AnyAlert) -> Statement:
        return syntax.ExplainStatement(query, span_of(meta))

    def explain_analyze(self, meta: Meta, query: Query | syntax.AnyAlert) -> Statement:
        return syntax.ExplainStatement(query, span_of(meta), analyze=True)

    def explain_cost(self, meta: Meta, query: Query | syntax.AnyAlert) -> Statement:
        return syntax.ExplainStatement(query, span_of(meta), cost=True)

    def describe(self, meta: Meta, name: Name) -> Statement:
        return syntax.DescribeStatement(name, span_of(meta))

    def show(self, meta: Meta, kind: syntax.ObjectKind) -> Statement:
        return syntax.ShowStatement(kind, span_of(meta))

    def show_metadata(self, meta: Meta, name: Name | None) -> Statement:
        return syntax.ShowMetadataStatement(name, span_of(meta))

    def explain_running(self, meta: Meta, _word: Token, name: Name) -> Statement:
        return syntax.ExplainRunningStatement(name, span_of(meta))

    def explain_cost_running(self, meta: Meta, _word: Token, name: Name) -> Statement:
        return syntax.ExplainRunningStatement(name, span_of(meta), cost=True)

    def drop(self, meta: Meta, kind: syntax.ObjectKind, name: Name) -> Statement:
        return syntax.DropStatement(kind, name, span_of(meta))

    def drop_view(self, meta: Meta, *parts: Any) -> Statement:
        return syntax.DropStatement(syntax.ObjectKind.VIEW, parts[-1], span_of(meta))

    def kind(self, meta: Meta, word: Token) -> syntax.ObjectKind:
        return syntax.ObjectKind(word.lower())

    def kinds(self, meta: Meta, word: Token) -> syntax.ObjectKind:
        return _KINDS.get(word.lower(), syntax.ObjectKind.QUERY)

    # ---- streams and tables

    def create_source(self, meta: Meta, _word: Token, name: Name, *parts: Any) -> Statement:
        return _create_source(name, parts, span_of(meta), is_table=False)

    def create_table(self, meta: Meta, _word: Token, name: Name, *parts: Any) -> Statement:
        return _create_source(name, parts, span_of(meta), is_table=True)

    def create_derived(self, meta: Meta, _word: Token, name: Name, query: Query) -> Statement:
        return syntax.CreateDerived(name, query, span_of(meta))

    def columns(self, meta: Meta, *columns: syntax.ColumnDefinition) -> tuple[syntax.ColumnDefinition, ...]:
        return columns

    def column(self, meta: Meta, name: Name, type_: Name, check: Expression | None) -> syntax.ColumnDefinition:
        return syntax.ColumnDefinition(name, type_, span_of(meta), check)

    def check(self, meta: Meta, condition: Expression) -> Expression:
        return condition

    def location(self, meta: Meta, path: Token) -> str:
        return unquote(path)

    def source_call(self, meta: Meta, name: Name, *arguments: Token | None) -> syntax.SourceCall:
        return syntax.SourceCall(name, tuple(unquote(a) for a in arguments if a is not None), span_of(meta))

    def time_clause(self, meta: Meta, name: Name) -> CreateClause:
        return CreateClause("TIMESTAMP BY", name, span_of(meta))

    def valid_clause(self, meta: Meta, start: Name, end: Name) -> CreateClause:
        return CreateClause("VALID FROM", (start, end), span_of(meta))

    def delay_clause(self, meta: Meta, amount: AmountWithUnit) -> CreateClause:
        return CreateClause("DELAY", amount.microseconds, span_of(meta))

    def idle_clause(self, meta: Meta, amount: AmountWithUnit) -> CreateClause:
        if amount.microseconds <= 0:
            hint = "write for example IDLE AFTER 30 SECONDS"
            raise QueryError("Q114", "IDLE AFTER must be longer than zero", amount.span, hint=hint)
        return CreateClause("IDLE AFTER", amount.microseconds, span_of(meta))

    def unit_clause(self, meta: Meta, unit: Name) -> CreateClause:
        return CreateClause("UNIT", unit, span_of(meta))

    def bad_file_clause(self, meta: Meta, word: Name) -> CreateClause:
        if word.text.lower() not in ("stop", "continue"):
            hint = "write ON BAD FILE STOP, or ON BAD FILE CONTINUE, which is the default"
            raise QueryError("Q109", f"unknown action '{word.text}' for a bad file", word.span, hint=hint)
        return CreateClause("ON BAD FILE", word.text.lower() == "stop", span_of(meta))

    def options_clause(self, meta: Meta, *options: tuple[str, str]) -> CreateClause:
        return CreateClause("WITH", options, span_of(meta))

    def option(self, meta: Meta, key: str, value: str) -> tuple[str, str]:
        return key, value

    def option_key(self, meta: Meta, key: Token) -> str:
        return unquote(key)

    def option_value(self, meta: Meta, *parts: Token) -> str:
        value = "".join(unquote(part) for part in parts)
        return value.lower() if value.lower() in ("true", "false") else value


def _create_source(name: Name, parts: tuple[Any, ...], span: Span, *, is_table: bool) -> Statement:
    columns, location, *clauses = parts
    constraints = tuple(clause.content for clause in clauses if isinstance(clause.content, syntax.AnyConstraint))
    said = contents_by_keywords(clause for clause in clauses if not isinstance(clause.content, syntax.AnyConstraint))
    _refuse_contradictions(clauses, is_table=is_table)
    start, end = said.get("VALID FROM", (said.get("TIMESTAMP BY", said.get("ORDERED BY")), None))
    delay, options, idle = said.get("DELAY", 0), said.get("WITH", ()), said.get("IDLE AFTER")
    key = said.get("KEY", ())
    return syntax.CreateSource(
        name,
        columns,
        location,
        start,
        delay,
        options,
        span,
        end,
        idle,
        is_table,
        key,
        constraints,
        said.get("UNIT"),
        said.get("ON BAD FILE", False),
    )


def _refuse_contradictions(clauses: list[CreateClause], *, is_table: bool) -> None:
    about = {clause.keywords: clause for clause in clauses}
    for word, clause in about.items():
        if is_table and word != "WITH":
            raise QueryError("Q109", f"a table has no {word}", clause.span, hint=_table_clause_hint(word))
    if {"TIMESTAMP BY", "ORDERED BY"} <= about.keys():
        hint = (
            "ORDERED BY alone means the same as TIMESTAMP BY; for a constraint add WITHIN: ORDERED BY … WITHIN 10 ROWS"
        )
        raise QueryError("Q105", "TIMESTAMP BY is given twice", about["ORDERED BY"].span, hint=hint)
    if "VALID FROM" in about and len(_TIMES & about.keys()) > 1:
        hint = "VALID FROM gives both the beginning and the end of a row; remove TIMESTAMP BY"
        raise QueryError("Q109", "a stream has either TIMESTAMP BY or VALID FROM", about["VALID FROM"].span, hint=hint)
    if "DELAY" in about and not _TIMES & about.keys():
        hint = "without TIMESTAMP BY, elements have the time of their arrival, and are never late"
        raise QueryError("Q109", "DELAY needs a TIMESTAMP BY", about["DELAY"].span, hint=hint)
    if "UNIT" in about and not _TIMES & about.keys():
        hint = "write TIMESTAMP BY and the column that has the time, then UNIT"
        raise QueryError("Q109", "UNIT needs a TIMESTAMP BY or VALID FROM", about["UNIT"].span, hint=hint)


def _table_clause_hint(word: str) -> str:
    if word == "ON BAD FILE":
        return "a table is read as a whole: a file that cannot be read always stops the run; remove the clause"
    if word in _TIMES or word in ("DELAY", "IDLE AFTER", "UNIT"):
        return "rows of a table are valid while they are in it; write CREATE STREAM for rows that have a time"
    return "keys and constraints describe how the rows of a stream arrive, but a table is read as a whole; remove it"
