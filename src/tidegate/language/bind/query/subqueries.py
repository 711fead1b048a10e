"""Unnest queries in expressions into joins, semi-joins and anti-joins (Dayal 1987; PIPES, section 9.2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tidegate.algebra.plan import Plan
from tidegate.errors import QueryError, Span
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Column, Expression, Literal, conjunction
from tidegate.language import syntax
from tidegate.language.bind.names import unique
from tidegate.language.bind.query.conditions import INVERSE, has_query, only_value, terms
from tidegate.language.bind.query.empty_value import is_null_constant, may_be_true, without_having
from tidegate.language.bind.query.expressions import Context, bind_condition, bind_expression
from tidegate.language.bind.query.never_null import is_never_null
from tidegate.language.bind.query.unnesting import Lookup, Mark, Test, is_null
from tidegate.schema import Type

_NULL = Literal(None, Type.NULL)


@dataclass(frozen=True, slots=True)
class Inner:
    """A query in an expression: its plan, its selected values, and its correlation with the enclosing query."""

    plan: Plan
    values: tuple[Expression, ...]
    correlation: tuple[Expression, ...] = ()
    is_single: bool = False
    """True if it has at most one row at every instant, for one row of the enclosing query."""
    nothing: Expression | None = _NULL
    """Its value while it has no row; None if unknown."""


@dataclass(frozen=True, slots=True)
class _Membership:
    """A comparison with the rows of a query for which the correlation holds."""

    right: Plan
    correlation: tuple[Expression, ...]
    compared: Expression
    unknowable: tuple[Expression, ...]
    """The sides of the comparison that may be NULL."""

    @property
    def held(self) -> Expression:
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

    inner: Callable[[syntax.Query], Inner]
    plan: Plan
    """The plan below the expressions, for what is known about its columns."""
    counts: Callable[[Expression], bool] = lambda _: False
    """A test whether an expression is a count, and so never NULL."""
    steps: list[Lookup | Mark] = field(default_factory=list)

    # ---- conditions

    def conditions(self, condition: syntax.Expression, context: Context) -> tuple[list[Expression], list[Test]]:
        """Split a condition into terms to evaluate, and terms that become semi-joins."""
        plain: list[Expression] = []
        tests: list[Test] = []
        for term in terms(condition):
            test = self._test(term, context) if has_query(term) else None
            if test is None:
                plain.append(bind_condition(term, context))
            else:
                tests.append(test)
        return plain, tests

    def _test(self, term: syntax.Expression, context: Context) -> Test | None:
        match term:
            case syntax.Exists(query=query, negated=anti, span=span):
                inner = self.inner(query)
                return Test(inner.plan, conjunction(inner.correlation), anti, span)
            case syntax.InQuery() | syntax.Quantified():
                found = self._membership(term, context)
                anti = _is_anti(term)
                unknowable = found.unknowable if anti else ()
                return Test(found.right, found.certain, anti, term.span, found.held, unknowable)
        return None if only_value(term) is None else self._comparison(term, context)

    def _comparison(self, term: syntax.Expression, context: Context) -> Test | None:
        """Return a semi-join, unless the comparison may be true while the query has no row, as with a COUNT."""
        found: list[Inner] = []

        def value(node: syntax.QueryExpression) -> Expression:
            found.append(self._single(node))
            return found[0].values[0]

        predicate = bind_condition(term, replace(context, query=value))
        (inner,) = found
        nothing = _of_nothing(inner, term.span)
        compared = replace(context, query=lambda _: nothing)
        if not is_null_constant(nothing) and may_be_true(bind_condition(term, compared)):
            return None
        return Test(inner.plan, conjunction((*inner.correlation, predicate)), anti=False, span=term.span)

    def _membership(self, node: syntax.InQuery | syntax.Quantified, context: Context) -> _Membership:
        """Return the comparison of IN, ANY and ALL with a row.

        IN and ANY are true if it is true for a row. NOT IN and ALL are false if it is; for ALL it is the opposite
        comparison.
        """
        argument = bind_expression(node.argument, context)
        inner = self.inner(node.query)
        (value,) = _one_column(inner, node)
        operator = "=" if isinstance(node, syntax.InQuery) else node.operator
        operator = INVERSE[operator] if isinstance(node, syntax.Quantified) and node.every else operator
        compared = resolve(operator, (argument, value), node.span)
        sides = ((argument, self.plan), (value, inner.plan))
        unknowable = (side for side, plan in sides if not (self.counts(side) or is_never_null(side, plan)))
        return _Membership(inner.plan, inner.correlation, compared, tuple(unknowable))

    # ---- values

    def value(self, node: syntax.QueryExpression, context: Context) -> Expression:
        """Return the column for a query inside a larger expression; a step will compute it."""
        match node:
            case syntax.QueryValue():
                inner = self._single(node)
                column = self._column("value", inner.values[0].type, node.span)
                nothing = _of_nothing(inner, node.span)
                self.steps.append(Lookup(inner.plan, conjunction(inner.correlation), inner.values[0], nothing, column))
                return column
            case syntax.Exists(query=query, negated=anti, span=span):
                inner = self.inner(query)
                return self._mark(
                    Mark(inner.plan, conjunction(inner.correlation), None, self._boolean(span)), anti=anti
                )
            case syntax.InQuery() | syntax.Quantified():
                found = self._membership(node, context)
                mark = Mark(found.right, found.certain, found.possible, self._boolean(node.span))
                return self._mark(mark, anti=_is_anti(node))

    def _mark(self, mark: Mark, *, anti: bool) -> Expression:
        self.steps.append(mark)
        return resolve("not", (mark.column,), mark.column.span) if anti else mark.column

    def _boolean(self, span: Span) -> Column:
        return self._column("mark", Type.BOOLEAN, span)

    def _column(self, wanted: str, type_: Type, span: Span) -> Column:
        taken = (*self.plan.schema.names, *(step.column.name for step in self.steps))
        return Column(unique(wanted, taken), Type.STRING if type_ is Type.NULL else type_, span)

    def _single(self, node: syntax.QueryExpression) -> Inner:
        inner = self.inner(without_having(node.query))
        _one_column(inner, node)
        if not inner.is_single:
            message = "a query that stands for a value must have at most one row"
            hint = "aggregate it without GROUP BY, end it with LIMIT 1, or compare with ANY or ALL"
            raise QueryError("Q116", message, node.query.span, hint=hint)
        return inner


def _of_nothing(inner: Inner, span: Span) -> Expression:
    if inner.nothing is None:
        message = "the value of this query, where it has no elements, depends on another query inside of it"
        hint = "write the two queries next to each other: (SELECT COUNT(*) …) + (SELECT …)"
        raise QueryError("Q116", message, span, hint=hint)
    return inner.nothing


def _is_anti(node: syntax.InQuery | syntax.Quantified) -> bool:
    return node.negated if isinstance(node, syntax.InQuery) else node.every


def _one_column(inner: Inner, node: syntax.QueryExpression) -> tuple[Expression, ...]:
    if len(inner.values) != 1:
        message = f"a query must have one column here, and this one has {len(inner.values)}"
        raise QueryError("Q116", message, node.query.span, hint="select only what is compared")
    return inner.values
