"""Semi-joins, anti-joins and joins that replace queries inside expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tidegate.algebra.plan import Filter, Join, Map, Output, Plan, SemiJoin, Union
from tidegate.errors import QueryError, Span
from tidegate.expressions.coercion import coerce
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import TRUE, Column, Expression, Literal, columns_of, conjunction
from tidegate.schema import Type
from tidegate.values import value

Over = Callable[[Expression, Iterable[str]], Expression]
"""A function that rewrites an expression for use above a grouping, where it may read further columns."""


@value
class SemiJoinTest:
    """A condition that becomes a semi-join or an anti-join.

    NOT IN and ALL are also unknown, hence not true, if one of the `unknowable` sides of their comparison is NULL for
    a row for which `correlation` is true.
    """

    right: Plan
    predicate: Expression
    anti: bool
    span: Span
    correlation: Expression = TRUE
    unknowable: tuple[Expression, ...] = ()

    @property
    def expressions(self) -> tuple[Expression, ...]:
        return (self.predicate, self.correlation, *self.unknowable)


@value
class Lookup:
    """A column with the value of a query, or with the value over no elements while it has no row."""

    right: Plan
    predicate: Expression
    value: Expression
    empty_value: Expression
    column: Column


@value
class MarkColumn:
    """A column that states whether a query has a row for which the predicate is true.

    With `possible`, it is unknown if there is no such row, but one for which `possible` is true.
    """

    right: Plan
    predicate: Expression
    possible: Expression | None
    column: Column


def with_tests(plan: Plan, tests: Iterable[SemiJoinTest], over: Over) -> Plan:
    """Return the elements for which all tests are true."""
    for test in tests:
        plan = _with_test(plan, test, over)
    return plan


def _with_test(plan: Plan, test: SemiJoinTest, over: Over) -> Plan:
    own, span = frozenset(test.right.schema.names), test.span
    outside = [side for side in test.unknowable if not columns_of(side) & own]
    if not outside:
        return _apply_test(plan, test, over)
    # If the outer side is NULL, any row makes the test unknown; otherwise its equality can serve as a key.
    null, *more = (over(is_null(side), ()) for side in outside)
    for other in more:
        null = resolve("or", (null, other), span)
    refuse_unknown(null, plan.schema.names)
    known = _apply_test(Filter(plan, resolve("not", (null,), span), span), test, over)
    held = _rewrite_predicate(plan, test.right, test.correlation, over)
    unknown = SemiJoin(Filter(plan, null, span), test.right, held, anti=True, span=span)
    return Union((known, unknown), span)


def _apply_test(plan: Plan, test: SemiJoinTest, over: Over) -> Plan:
    """Return the elements for which a test is true, ignoring NULL on the outer side of its comparison."""
    right, span = test.right, test.span
    own = frozenset(right.schema.names)
    plan = SemiJoin(plan, right, _rewrite_predicate(plan, right, test.predicate, over), test.anti, span)
    for side in test.unknowable:
        if columns_of(side) <= own and columns_of(side):
            held = _rewrite_predicate(plan, right, test.correlation, over)
            plan = SemiJoin(plan, Filter(right, is_null(side), span), held, anti=True, span=span)
        elif columns_of(side) & own:
            either = _rewrite_predicate(plan, right, conjunction((test.correlation, is_null(side))), over)
            plan = SemiJoin(plan, right, either, anti=True, span=span)
    return plan


def with_steps(plan: Plan, steps: Iterable[Lookup | MarkColumn], over: Over) -> Plan:
    """Add the columns that queries in expressions need; the number of copies of each element stays."""
    for step in steps:
        predicate = _rewrite_predicate(plan, step.right, step.predicate, over)
        match step:
            case Lookup():
                plan = _add_lookup(plan, replace(step, predicate=predicate))
            case MarkColumn(possible=None):
                plan = _add_mark(plan, replace(step, predicate=predicate))
            case MarkColumn(possible=possible):
                unknown = None if possible is None else _rewrite_predicate(plan, step.right, possible, over)
                plan = _add_mark(plan, replace(step, predicate=predicate, possible=unknown))
    return plan


def _rewrite_predicate(plan: Plan, right: Plan, predicate: Expression, over: Over) -> Expression:
    moved = over(predicate, right.schema.names)
    refuse_unknown(moved, (*plan.schema.names, *right.schema.names))
    return moved


def refuse_unknown(expression: Expression, known: Iterable[str]) -> None:
    """Refuse columns of an outer query where they are not available."""
    names = frozenset(known)
    if not columns_of(expression) <= names:
        message = "a column of the outer query cannot be read here"
        hint = "compare it in the WHERE of the inner query, as a condition of its own: … AND inner.x = outer.x"
        raise QueryError("Q117", message, expression.span, hint=hint)


def _add_lookup(plan: Plan, step: Lookup) -> Plan:
    span, name = step.column.span, step.column.name
    value = coerce(step.value, step.column.type, span)
    found = _add_output(Join(plan, step.right, step.predicate, span), plan, Output(name, value), span)
    missing = SemiJoin(plan, step.right, step.predicate, anti=True, span=span)
    nothing = coerce(step.empty_value, step.column.type, span)
    return Union((found, _add_output(missing, plan, Output(name, nothing), span)), span)


def _add_mark(plan: Plan, mark: MarkColumn) -> Plan:
    span = mark.column.span

    def with_truth(source: Plan, *, truth: bool | None) -> Plan:
        return _add_output(source, plan, Output(mark.column.name, Literal(truth, Type.BOOLEAN, span)), span)

    true = SemiJoin(plan, mark.right, mark.predicate, anti=False, span=span)
    others = SemiJoin(plan, mark.right, mark.predicate, anti=True, span=span)
    if mark.possible is None:
        return Union((with_truth(true, truth=True), with_truth(others, truth=False)), span)
    false = SemiJoin(plan, mark.right, mark.possible, anti=True, span=span)
    unknown = SemiJoin(others, mark.right, mark.possible, anti=False, span=span)
    return Union((with_truth(true, truth=True), with_truth(false, truth=False), with_truth(unknown, truth=None)), span)


def _add_output(source: Plan, plan: Plan, output: Output, span: Span) -> Plan:
    """Return the columns of a plan from a source that has them, and one more."""
    return Map(source, (*(Output(f.name, Column(f.name, f.type)) for f in plan.schema), output), span)


def is_null(side: Expression) -> Expression:
    return resolve("is_null", (side,), side.span)
