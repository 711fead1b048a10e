"""Estimates from a sample: COUNT, SUM and AVG of all rows, each with an interval of 95 % confidence.

Each row of a sample of the rate p counts for w = 1 / p rows. The estimated sum of x over all rows is the sum of w·x,
and its variance is the sum of (w² - w)·x² over the rows kept (Horvitz and Thompson). An average is a ratio of two such
sums; its variance is that of the residuals x - average. So all of it consists of sums.
"""

from __future__ import annotations

from collections.abc import Callable

from tidegate.algebra.plan import AggregateCall
from tidegate.expressions.nodes import Call, Case, Cast, Column, Expression, Literal
from tidegate.schema import Type
from tidegate.values import value

QUANTILE = 1.959963984540054
"""Quantile of the normal distribution: 95 % of it are within as many standard deviations."""

SumOf = Callable[[Expression], Expression]
"""Return the sum of an expression over the rows of a group."""


@value
class EstimatedCall:
    """An estimated value with the ends of its interval, over columns of sums."""

    value: Expression
    low: Expression
    high: Expression


def estimate_call(call: AggregateCall, argument: Column | None, weight: Column, sum_of: SumOf) -> EstimatedCall | None:
    """Return the estimate of a COUNT, SUM or AVG; None for any other aggregate."""
    is_number = argument is None or call.function == "count" or argument.type.is_numeric
    if call.distinct or call.user is not None or not is_number:
        return None
    match call.function:
        case "count":
            return _estimate_count(argument, weight, sum_of)
        case "sum" if argument is not None:
            return _estimate_sum(_to_double(argument), weight, sum_of)
        case "avg" if argument is not None:
            return _estimate_average(_to_double(argument), weight, sum_of)
    return None


def _estimate_count(argument: Column | None, weight: Column, sum_of: SumOf) -> EstimatedCall:
    def count(each: Expression) -> Expression:
        return _call("coalesce", sum_of(_where_known(argument, each)), _number(0.0))

    total = count(weight)
    known = _with_interval(total, count(_spread(weight)))
    # The rows kept are a part of all rows, so there are at least as many.
    return EstimatedCall(total, _call("greatest", known.low, count(_number(1.0))), known.high)


def _estimate_sum(x: Expression, weight: Column, sum_of: SumOf) -> EstimatedCall:
    return _with_interval(sum_of(_call("*", weight, x)), sum_of(_product(_spread(weight), x, x)))


def _estimate_average(x: Expression, weight: Column, sum_of: SumOf) -> EstimatedCall:
    rows = sum_of(_where_known(x, weight))
    average = _call("/", sum_of(_call("*", weight, x)), rows)
    squares, products = sum_of(_product(_spread(weight), x, x)), sum_of(_product(_spread(weight), x))
    spread = sum_of(_where_known(x, _spread(weight)))
    twice = _product(_number(2.0), average, products)
    residuals = _call("+", _call("-", squares, twice), _product(average, average, spread))
    return _with_interval(average, _call("/", residuals, _product(rows, rows)))


def _with_interval(estimate: Expression, variance: Expression) -> EstimatedCall:
    # Rounding may make a variance of almost 0 negative.
    deviation = _call("sqrt", _call("greatest", variance, _number(0.0)))
    half = _call("*", _number(QUANTILE), deviation)
    return EstimatedCall(estimate, _call("-", estimate, half), _call("+", estimate, half))


def _spread(weight: Column) -> Expression:
    return _call("-", _product(weight, weight), weight)


def _where_known(argument: Expression | None, each: Expression) -> Expression:
    """Return an expression where the argument is not NULL."""
    if argument is None:
        return each
    unknown = Call("is_null", (argument,), Type.BOOLEAN)
    return Case(((unknown, Literal(None, Type.DOUBLE)),), each, Type.DOUBLE)


def _product(first: Expression, *others: Expression) -> Expression:
    for each in others:
        first = _call("*", first, each)
    return first


def _to_double(argument: Column) -> Expression:
    return argument if argument.type is Type.DOUBLE else Cast(argument, Type.DOUBLE)


def _call(function: str, *arguments: Expression) -> Expression:
    return Call(function, arguments, Type.DOUBLE)


def _number(number: float) -> Expression:
    return Literal(number, Type.DOUBLE)
