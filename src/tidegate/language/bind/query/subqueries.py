"""Unnest queries in expressions into joins, semi-joins and anti-joins (Dayal 1987; PIPES, section 9.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tidegate.algebra.plan import Plan
from tidegate.errors import QueryError, Span
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Column, Expression, Literal, conjunction
from tidegate.language import syntax
from tidegate.language.bind.names import unique_name
from tidegate.language.bind.query.conditions import INVERSE, has_query, single_query_value, split_terms
from tidegate.language.bind.query.empty_value import is_null_constant, may_be_true, without_having
from tidegate.language.bind.query.expressions import ExpressionContext, bind_condition, bind_expression
from tidegate.language.bind.query.never_null import is_never_null
from tidegate.language.bind.query.unnesting import Lookup, MarkColumn, SemiJoinTest, is_null
from tidegate.schema import Type
from tidegate.values import value

_NULL = Literal(None, Type.NULL)


@value
class InnerQuery:
    """A query in an expression: its plan, its selected values, and its correlation with the enclosing query."""

    plan: Plan
    values: tuple[Expression, ...]
    correlation: tuple[Expression, ...] = ()
    is_single: bool = False
    """True if it has at most one row at every instant, for one row of the enclosing query."""
    empty_value: Expression | None = _NULL
    """Its value while it has no row; None if unknown."""


@value
class _Membership:
    """A comparison with the rows of a query for which the correlation holds."""

    right: Plan
    correlation: tuple[Expression, ...]
    compared: Expression
    unknowable: tuple[Expression, ...]
    """The sides of the comparison that may be NULL."""

    @property
    def correlation_term(self) -> Expression:
        return conjunction(self.correlation)

    @property
    def certain(self) -> Expression:
        """The condition under which a row decides."""
        return conjunction((*self.correlation, self.compared))

    @property
    def possible(self) -> Expression | None:
        """The condition under which a row decides or might decide; None: the same as `certain`."""
        if not self.unknowable:
            return None
        either = self.compared
        for side in self.unknowable:
            either = resolve("or", (either, is_null(side)), either.span)
        return conjunction((*self.correlation, either))


@dataclass(slots=True)
class Subqueries:
    """Binder of the queries in the expressions of one SELECT; it collects the columns that they need."""

    bind_inner: Callable[[syntax.Query], InnerQuery]
    plan: Plan
    """The plan below the expressions, for what is known about its columns."""
    is_count: Callable[[Expression], bool] = lambda _: False
    """A test whether an expression is a count, and so never NULL."""
    steps: list[Lookup | MarkColumn] = field(default_factory=list)

    # ---- conditions

    def split_condition(
        self, condition: syntax.Expression, context: ExpressionContext
    ) -> tuple[list[Expression], list[SemiJoinTest]]:
        """Split a condition into terms to evaluate, and terms that become semi-joins."""
        plain: list[Expression] = []
        tests: list[SemiJoinTest] = []
        for term in split_terms(condition):
            test = self._bind_test(term, context) if has_query(term) else None
            if test is None:
                plain.append(bind_condition(term, context))
            else:
                tests.append(test)
        return plain, tests

    def _bind_test(self, term: syntax.Expression, context: ExpressionContext) -> SemiJoinTest | None:
        match term:
            case syntax.Exists(query=query, negated=anti, span=span):
                inner = self.bind_inner(query)
                return SemiJoinTest(inner.plan, conjunction(inner.correlation), anti, span)
            case syntax.InQuery() | syntax.QuantifiedComparison():
                found = self._bind_membership(term, context)
                anti = _is_anti(term)
                unknowable = found.unknowable if anti else ()
                return SemiJoinTest(found.right, found.certain, anti, term.span, found.correlation_term, unknowable)
        return None if single_query_value(term) is None else self._bind_comparison(term, context)

    def _bind_comparison(self, term: syntax.Expression, context: ExpressionContext) -> SemiJoinTest | None:
        """Return a semi-join, unless the comparison may be true while the query has no row, as with a COUNT."""
        found: list[InnerQuery] = []

        def value_of_query(node: syntax.QueryExpression) -> Expression:
            found.append(self._bind_single(node))
            return found[0].values[0]

        predicate = bind_condition(term, replace(context, query=value_of_query))
        (inner,) = found
        nothing = _require_empty_value(inner, term.span)
        compared = replace(context, query=lambda _: nothing)
        if not is_null_constant(nothing) and may_be_true(bind_condition(term, compared)):
            return None
        return SemiJoinTest(inner.plan, conjunction((*inner.correlation, predicate)), anti=False, span=term.span)

    def _bind_membership(
        self, node: syntax.InQuery | syntax.QuantifiedComparison, context: ExpressionContext
    ) -> _Membership:
        """Return the comparison of IN, ANY and ALL with a row.

        IN and ANY are true if it is true for a row. NOT IN and ALL are false if it is; for ALL it is the opposite
        comparison.
        """
        argument = bind_expression(node.argument, context)
        inner = self.bind_inner(node.query)
        (value,) = _require_one_column(inner, node)
        operator = "=" if isinstance(node, syntax.InQuery) else node.operator
        operator = INVERSE[operator] if isinstance(node, syntax.QuantifiedComparison) and node.every else operator
        compared = resolve(operator, (argument, value), node.span)
        sides = ((argument, self.plan), (value, inner.plan))
        unknowable = (side for side, plan in sides if not (self.is_count(side) or is_never_null(side, plan)))
        return _Membership(inner.plan, inner.correlation, compared, tuple(unknowable))

    # ---- values

    def bind_value(self, node: syntax.QueryExpression, context: ExpressionContext) -> Expression:
        """Return the column for a query inside a larger expression; a step will compute it."""
        match node:
            case syntax.QueryValue():
                inner = self._bind_single(node)
                column = self._new_column("value", inner.values[0].type, node.span)
                nothing = _require_empty_value(inner, node.span)
                self.steps.append(Lookup(inner.plan, conjunction(inner.correlation), inner.values[0], nothing, column))
                return column
            case syntax.Exists(query=query, negated=anti, span=span):
                inner = self.bind_inner(query)
                return self._add_mark(
                    MarkColumn(inner.plan, conjunction(inner.correlation), None, self._mark_column(span)), anti=anti
                )
            case syntax.InQuery() | syntax.QuantifiedComparison():
                found = self._bind_membership(node, context)
                mark = MarkColumn(found.right, found.certain, found.possible, self._mark_column(node.span))
                return self._add_mark(mark, anti=_is_anti(node))

    def _add_mark(self, mark: MarkColumn, *, anti: bool) -> Expression:
        self.steps.append(mark)
        return resolve("not", (mark.column,), mark.column.span) if anti else mark.column

    def _mark_column(self, span: Span) -> Column:
        return self._new_column("mark", Type.BOOLEAN, span)

    def _new_column(self, wanted: str, type_: Type, span: Span) -> Column:
        taken = (*self.plan.schema.names, *(step.column.name for step in self.steps))
        return Column(unique_name(wanted, taken), Type.STRING if type_ is Type.NULL else type_, span)

    def _bind_single(self, node: syntax.QueryExpression) -> InnerQuery:
        inner = self.bind_inner(without_having(node.query))
        _require_one_column(inner, node)
        if not inner.is_single:
            message = "a query used as a value must have at most one row"
            hint = "aggregate it without GROUP BY, end it with LIMIT 1, or compare with ANY or ALL"
            raise QueryError("Q116", message, node.query.span, hint=hint)
        return inner


def _require_empty_value(inner: InnerQuery, span: Span) -> Expression:
    if inner.empty_value is None:
        message = "the value of this query over no elements depends on another query inside it"
        hint = "write the two queries next to each other: (SELECT COUNT(*) …) + (SELECT …)"
        raise QueryError("Q116", message, span, hint=hint)
    return inner.empty_value


def _is_anti(node: syntax.InQuery | syntax.QuantifiedComparison) -> bool:
    return node.negated if isinstance(node, syntax.InQuery) else node.every


def _require_one_column(inner: InnerQuery, node: syntax.QueryExpression) -> tuple[Expression, ...]:
    if len(inner.values) != 1:
        message = f"a query must have one column here, but this one has {len(inner.values)}"
        raise QueryError("Q116", message, node.query.span, hint="select only the column to compare with")
    return inner.values
