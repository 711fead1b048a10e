"""Evaluation of expressions over whole columns.

A row for which an expression fails has a Failure instead of a value. Failures are lazy and do not depend on the order
of operands: one side of AND fails a row only where the other is not false, one side of OR only where the other is not
true, a branch only where it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Mask
from tidegate.expressions.columns import Kernel, Outcome, Value, as_array, is_constant, null_mask, null_where, true_mask
from tidegate.expressions.failures import ERRORS, Errors, Failure, errors_where, keep_errors_where, merge
from tidegate.expressions.functions import casts
from tidegate.expressions.functions.arithmetic import ARITHMETIC
from tidegate.expressions.functions.collections import ARRAY_FUNCTIONS
from tidegate.expressions.functions.comparison import COMPARISONS, is_in
from tidegate.expressions.functions.mathematics import MATHEMATICS
from tidegate.expressions.functions.similarity import SIMILARITY
from tidegate.expressions.functions.strings import STRINGS
from tidegate.expressions.functions.time_functions import TIME_FUNCTIONS
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, InList, Literal
from tidegate.expressions.user_calls import UserFunction
from tidegate.schema import Type

__all__ = ["ERRORS", "Evaluation", "Failure", "evaluate"]

KERNELS: dict[str, Kernel] = {
    **ARITHMETIC,
    **COMPARISONS,
    **MATHEMATICS,
    **STRINGS,
    **TIME_FUNCTIONS,
    **ARRAY_FUNCTIONS,
    **SIMILARITY,
}


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Values of an expression; `errors` is None if no row failed, else a Failure per row (0: no failure).

    `texts` has the messages of user-defined functions for rows that they failed.
    """

    values: pa.Array
    errors: Errors | None
    texts: Mapping[int, str] = field(default_factory=dict)

    def only_failed(self) -> Evaluation:
        """Return the result for the failed rows only, in their order."""
        assert self.errors is not None
        rows = np.flatnonzero(self.errors)
        texts = {at: self.texts[row] for at, row in enumerate(rows.tolist()) if row in self.texts}
        return Evaluation(self.values.take(pa.array(rows)), self.errors[rows], texts)


@dataclass(frozen=True, slots=True, eq=False)
class _InputRows:
    columns: pa.RecordBatch
    count: int
    texts: dict[int, str] = field(default_factory=dict)


def evaluate(expression: Expression, columns: pa.RecordBatch, rows: int) -> Evaluation:
    """Evaluate the expression for each row; the array has exactly the type `expression.type.arrow`.

    Examples
    --------
    >>> a, zero = Column("a", Type.DOUBLE), Literal(0.0, Type.DOUBLE)
    >>> result = evaluate(Call("/", (a, zero), Type.DOUBLE), pa.RecordBatch.from_pydict({"a": [1.0, None]}), 2)
    >>> result.values.to_pylist(), [ERRORS[e] for e in result.errors]
    ([None, None], ['division_by_zero', 'none'])
    """
    given = _InputRows(columns, rows)
    value, errors = _evaluate(expression, given)
    values = as_array(value, rows)
    if values.type != expression.type.arrow:
        values = values.cast(expression.type.arrow)
    return Evaluation(values, errors if errors is not None and errors.any() else None, given.texts)


def _evaluate(expression: Expression, rows: _InputRows) -> Outcome:
    match expression:
        case Literal(value=value, type=type_):
            return pa.scalar(value, type_.arrow), None
        case Column(name=name):
            return rows.columns.column(name), None
        case Call(arguments=arguments, user=UserFunction() as user):
            return _apply_user_function(user, [_evaluate(a, rows) for a in arguments], rows)
        case Call("and" | "or" as name, (left, right)):
            return _evaluate_logical(name, _evaluate(left, rows), _evaluate(right, rows), rows.count)
        case Call("coalesce", arguments):
            return _evaluate_coalesce([_evaluate(a, rows) for a in arguments], rows.count)
        case Call(function, arguments, type_):
            return _apply(KERNELS[function], arguments, type_, rows)
        case Cast(argument, type_):
            return _apply(casts.cast, (argument,), type_, rows)
        case InList(argument, options):
            chosen = [o.value for o in options]
            kernel: Kernel = lambda values, _: (is_in(values[0], chosen, argument.type), None)  # noqa: E731
            return _apply(kernel, (argument,), Type.BOOLEAN, rows)
        case Case():
            return _evaluate_case(expression, rows)
    assert_never(expression)


def _apply(kernel: Kernel, arguments: Sequence[Expression], type_: Type, rows: _InputRows) -> Outcome:
    outcomes = [_evaluate(argument, rows) for argument in arguments]
    values, errors = [v for v, _ in outcomes], reduce(merge, (e for _, e in outcomes), None)
    if all(is_constant(v) for v in values):
        result, new = _apply_to_constants(kernel, values, type_, rows.count)
    else:
        result, new = kernel(values, type_)
    if errors is None:
        return result, new
    return null_where(result, errors != 0), merge(errors, new)


def _apply_to_constants(kernel: Kernel, values: Sequence[Value], type_: Type, rows: int) -> Outcome:
    """Compute a value that is the same in all rows once, for a single row."""
    result, errors = kernel([as_array(v, 1) for v in values], type_)
    return result[0], None if errors is None else np.full(rows, errors[0])


def _apply_user_function(user: UserFunction, outcomes: Sequence[Outcome], rows: _InputRows) -> Outcome:
    """Apply a user-defined function to the rows whose arguments did not fail; once if all arguments are constant."""
    errors = reduce(merge, (e for _, e in outcomes), None)
    constant = all(is_constant(v) for v, _ in outcomes)
    count = 1 if constant else rows.count
    asked = np.arange(count) if errors is None or constant else np.flatnonzero(errors == 0)
    columns = [as_array(v, count).take(pa.array(asked)) for v, _ in outcomes]
    values, said = user.apply(columns, len(asked))
    texts = {int(asked[at]): text for at, text in said.items()}
    if constant:
        texts = dict.fromkeys(range(rows.count), said[0]) if said else {}
        values, asked = values.take(pa.array(np.zeros(rows.count, np.int64))), np.arange(rows.count)
    rows.texts.update({row: text for row, text in texts.items() if row not in rows.texts})
    failed = np.zeros(rows.count, np.bool_)
    failed[list(texts)] = True
    places = np.full(rows.count, -1)
    places[asked] = np.arange(len(asked))
    return values.take(pa.array(places, mask=places < 0)), merge(errors, errors_where(failed, Failure.USER_FUNCTION))


def _evaluate_logical(name: str, left: Outcome, right: Outcome, rows: int) -> Outcome:
    # A side that failed is NULL, so the value is FALSE (or TRUE) only where the other side decides.
    combine = pc.and_kleene if name == "and" else pc.or_kleene
    value, errors = combine(left[0], right[0]), merge(left[1], right[1])
    if errors is None:
        return value, None
    decided = true_mask(pc.invert(value) if name == "and" else value, rows)
    return value, keep_errors_where(errors, ~decided)


def _evaluate_coalesce(outcomes: Sequence[Outcome], rows: int) -> Outcome:
    value = pc.coalesce(*(v for v, _ in outcomes))
    if all(e is None for _, e in outcomes):
        return value, None
    open_, errors = np.ones(rows, np.bool_), None
    for each, own in outcomes:
        reached = keep_errors_where(own, open_)
        errors = merge(errors, reached)
        open_ &= np.broadcast_to(null_mask(each), rows) & _no_error_mask(own, rows)
    return (value, None) if errors is None else (null_where(value, errors != 0), errors)


def _no_error_mask(errors: Errors | None, rows: int) -> Mask:
    return np.ones(rows, np.bool_) if errors is None else errors == 0


def _evaluate_case(case: Case, rows: _InputRows) -> Outcome:
    open_, errors = np.ones(rows.count, np.bool_), None
    chosen: list[tuple[Mask, Value]] = []
    for condition, result in case.branches:
        verdict, own = _evaluate(condition, rows)
        errors = merge(errors, keep_errors_where(own, open_))
        taken = true_mask(verdict, rows.count) & open_
        open_ = open_ & ~taken & _no_error_mask(own, rows.count)
        if taken.any():
            errors = merge(errors, _add_branch(chosen, taken, _evaluate(result, rows)))
    errors = merge(errors, _add_branch(chosen, open_, _evaluate(case.otherwise, rows)))
    values = pa.nulls(rows.count, case.type.arrow)
    for taken, value in chosen:
        values = pc.if_else(pa.array(taken), value, values)
    return values, errors


def _add_branch(chosen: list[tuple[Mask, Value]], taken: Mask, result: Outcome) -> Errors | None:
    chosen.append((taken, result[0]))
    return keep_errors_where(result[1], taken)
