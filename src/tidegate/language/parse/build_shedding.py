"""From Lark's tree to the syntax tree: shedding."""

from __future__ import annotations

from typing import Any

from lark import Token, v_args
from lark.tree import Meta

from tidegate.errors import QueryError
from tidegate.language import syntax
from tidegate.language.parse.build_clauses import CreateClause, contents_by_keywords
from tidegate.language.parse.build_expressions import span_of
from tidegate.language.parse.build_windows import WindowBuilder
from tidegate.language.syntax import Constant, Name, Query, Worth


@v_args(meta=True, inline=True)
class SheddingBuilder(WindowBuilder):
    """One method for each grammar rule about shedding."""

    def query_with_options(self, meta: Meta, query: Query, *clauses: CreateClause) -> Query:
        said = contents_by_keywords(clauses)
        early, changes = said.get("EMIT EARLY"), said.get("EMIT CHANGES")
        if early is not None and changes is not None:
            hint = "remove EMIT EARLY: changes are reported as soon as they are known"
            raise QueryError("Q126", "a query has either EMIT EARLY or EMIT CHANGES", early, hint=hint)
        return syntax.QueryWithOptions(query, said.get("WITH"), span_of(meta), early, changes, said.get("ADMIT ANYWAY"))

    def with_clause(self, meta: Meta, options: syntax.QueryOptions) -> CreateClause:
        return CreateClause("WITH", options, span_of(meta))

    def emit_early(self, meta: Meta, words: Token) -> CreateClause:
        return CreateClause("EMIT EARLY", span_of(meta), span_of(meta))

    def admit_anyway(self, meta: Meta, words: Token) -> CreateClause:
        return CreateClause("ADMIT ANYWAY", span_of(meta), span_of(meta))

    def emit_changes(self, meta: Meta, words: Token) -> CreateClause:
        return CreateClause("EMIT CHANGES", span_of(meta), span_of(meta))

    def query_options(self, meta: Meta, *given: syntax.QueryOption) -> syntax.QueryOptions:
        return syntax.QueryOptions(given, span_of(meta))

    def query_option(self, meta: Meta, name: Name, value: Name) -> syntax.QueryOption:
        return syntax.QueryOption(name, value, span_of(meta))

    def utility(self, meta: Meta, *parts: Any) -> syntax.UtilityClause:
        *rest, using = parts
        worth = tuple(part for part in rest if isinstance(part, Worth))
        types = tuple(part for part in rest if part is not None and not isinstance(part, Worth))
        average = using is not None and using.type == "USING_AVERAGE"
        return syntax.UtilityClause(types, worth, average, span_of(meta))

    def worth(self, meta: Meta, key: Constant | Token, utility: Constant) -> Worth:
        return Worth(key if isinstance(key, Constant) else None, utility, span_of(meta))

    def signed_constant(self, meta: Meta, *parts: Token) -> Constant:
        number = "".join(parts)
        whole = parts[-1].isdigit()
        return Constant(int(number) if whole else float(number), span_of(meta))
