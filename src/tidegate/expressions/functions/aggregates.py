"""The aggregate functions: their arguments, their results, and their computation from the live values.

This table is the only place that knows an aggregate by name. To add one, add an entry in terms of what `Live` can
measure; `sweep` is for the few that also have an incremental computation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tidegate.errors import QueryError, Span
from tidegate.schema import Type
from tidegate.values import value

Option = bool | int | float | str
FINEST_SHARE = 10**9
"""The greatest denominator of a share in the computation of quantiles."""


@dataclass(frozen=True, slots=True, eq=False)
class SlotValues:
    """A value for each time slot; `details` state why slots have none, and are NULL for all other slots."""

    values: pa.Array
    reason: str = ""
    details: pa.Array | None = None

    def map(self, function: Callable[[pa.Array], pa.Array]) -> SlotValues:
        return SlotValues(function(self.values), self.reason, self.details)


@value
class Rank:
    """A column to order by."""

    column: str
    descending: bool = False


@value
class Fold:
    """An aggregate of Python functions: for the first value, for each further value, and for the result."""

    initial: Callable[..., Any] = field(hash=False)
    merge: Callable[..., Any] = field(hash=False)
    result: Callable[[Any], Any] = field(hash=False)
    type: Type

    def __call__(self, live: Live, *columns: str) -> SlotValues:
        return live.fold_values(columns, self)


class Live(Protocol):
    """The elements that are live in each time slot, for aggregates to measure; NULLs do not count."""

    def count(self, column: str | None = None) -> SlotValues:
        """Count the elements, or the values of a column."""
        ...

    def total(self, column: str) -> SlotValues:
        """Return the exact sum, rounded once."""
        ...

    def average(self, column: str) -> SlotValues: ...

    def variance(self, column: str, *, sample: bool) -> SlotValues:
        """Return the exact variance, rounded once; a sample needs at least two values."""
        ...

    def quantile(self, column: str, share: Fraction) -> SlotValues:
        """Return the value at a share of the way through the ordered values, interpolated."""
        ...

    def first_in_order(self, column: str, *order: Rank, known: str) -> SlotValues:
        """Return the column of the first element in an order, among elements in which `known` has a value."""
        ...

    def fold_values(self, columns: Sequence[str], fold: Fold) -> SlotValues:
        """Fold the values with Python functions."""
        ...


Result = Callable[..., Type | None]
"""The type of the result for types of arguments; None: these are not accepted."""


@value
class AggregateFunction:
    """An aggregate: `compute` gets the live elements, the names of `arguments` columns and `options` constants.

    `parameters` are the types that arguments are converted to; None: any type stays as it is. `check` returns what is
    wrong with the constants. With `by_time`, `compute` gets one more column, with the own times of elements.
    """

    name: str
    result: Result
    compute: Callable[..., SlotValues]
    takes: str
    arguments: int = 1
    options: int = 0
    check: Callable[[Sequence[Option]], str | None] | None = None
    sweep: str | None = None
    parameters: tuple[Type, ...] | None = None
    by_time: bool = False

    @property
    def signature(self) -> str:
        """The name with the types of arguments and result, for an aggregate with fixed types."""
        types = self.parameters or ()
        result = self.result(*types)
        return f"{self.name}({', '.join(t.name for t in types)}) {'' if result is None else result.name}"


# ---- types


def _whole_or_double(argument: Type) -> Type | None:
    return Type.BIGINT if argument.is_integer else Type.DOUBLE if argument.is_floating else None


def _double_if_numeric(argument: Type) -> Type | None:
    return Type.DOUBLE if argument.is_numeric else None


def _same_type(argument: Type, *_: Type) -> Type | None:
    return None if argument is Type.NULL else argument


def _type_if_ordered(argument: Type) -> Type | None:
    return _same_type(argument) if argument.is_ordered else None


def _type_if_by_ordered(argument: Type, by: Type) -> Type | None:
    return _same_type(argument) if by.is_ordered else None


def _boolean_only(argument: Type) -> Type | None:
    return Type.BOOLEAN if argument is Type.BOOLEAN else None


# ---- formulas


def _extreme_value(live: Live, column: str, *, greatest: bool) -> SlotValues:
    return live.first_in_order(column, Rank(column, greatest), known=column)


def _value_by_time(live: Live, column: str, time: str, *, last: bool) -> SlotValues:
    return live.first_in_order(column, Rank(time, last), Rank(column, last), known=column)


def _argument_of_extreme(live: Live, column: str, by: str, *, greatest: bool) -> SlotValues:
    return live.first_in_order(column, Rank(by, greatest), Rank(column), known=by)


def _square_root(measured: SlotValues) -> SlotValues:
    return measured.map(pc.sqrt)


def share_of(option: Option) -> Fraction:
    """Return a share exactly as written: 0.9 is nine tenths."""
    return Fraction(str(option))


def _check_share(options: Sequence[Option]) -> str | None:
    (share,) = options
    if isinstance(share, (bool, str)) or not 0 <= share <= 1:
        return "the share must be a number from 0 to 1"
    return None if share_of(share).denominator <= FINEST_SHARE else "the share has more than nine decimals"


_NUMBER, _VALUE, _ORDERED = "a number", "a value of a known type", "a number, text, time or truth value"

_TABLE = (
    AggregateFunction(
        "count", lambda *_: Type.BIGINT, lambda live, *column: live.count(*column), _VALUE + " or *", sweep="count"
    ),
    AggregateFunction("sum", _whole_or_double, lambda live, x: live.total(x), _NUMBER, sweep="sum"),
    AggregateFunction("avg", _double_if_numeric, lambda live, x: live.average(x), _NUMBER, sweep="avg"),
    AggregateFunction(
        "min", _type_if_ordered, lambda live, x: _extreme_value(live, x, greatest=False), _ORDERED, sweep="min"
    ),
    AggregateFunction(
        "max", _type_if_ordered, lambda live, x: _extreme_value(live, x, greatest=True), _ORDERED, sweep="max"
    ),
    AggregateFunction(
        "bool_and", _boolean_only, lambda live, x: _extreme_value(live, x, greatest=False), "a truth value", sweep="min"
    ),
    AggregateFunction(
        "bool_or", _boolean_only, lambda live, x: _extreme_value(live, x, greatest=True), "a truth value", sweep="max"
    ),
    AggregateFunction(
        "first", _same_type, lambda live, x, t: _value_by_time(live, x, t, last=False), _VALUE, by_time=True
    ),
    AggregateFunction(
        "last", _same_type, lambda live, x, t: _value_by_time(live, x, t, last=True), _VALUE, by_time=True
    ),
    AggregateFunction("variance", _double_if_numeric, lambda live, x: live.variance(x, sample=True), _NUMBER),
    AggregateFunction("var_pop", _double_if_numeric, lambda live, x: live.variance(x, sample=False), _NUMBER),
    AggregateFunction(
        "stddev", _double_if_numeric, lambda live, x: _square_root(live.variance(x, sample=True)), _NUMBER
    ),
    AggregateFunction(
        "stddev_pop", _double_if_numeric, lambda live, x: _square_root(live.variance(x, sample=False)), _NUMBER
    ),
    AggregateFunction("median", _double_if_numeric, lambda live, x: live.quantile(x, Fraction(1, 2)), _NUMBER),
    AggregateFunction(
        "quantile",
        _double_if_numeric,
        lambda live, x, share: live.quantile(x, share_of(share)),
        "a number and a constant share from 0 to 1",
        options=1,
        check=_check_share,
    ),
    AggregateFunction(
        "arg_max",
        _type_if_by_ordered,
        lambda live, x, by: _argument_of_extreme(live, x, by, greatest=True),
        "the value to return, and the value to maximise",
        arguments=2,
    ),
    AggregateFunction(
        "arg_min",
        _type_if_by_ordered,
        lambda live, x, by: _argument_of_extreme(live, x, by, greatest=False),
        "the value to return, and the value to minimise",
        arguments=2,
    ),
)

AGGREGATES: Mapping[str, AggregateFunction] = {function.name: function for function in _TABLE}

AGGREGATE_ALIASES = {
    "var_samp": "variance",
    "stddev_samp": "stddev",
    "mean": "avg",
    "percentile": "quantile",
    "quantile_cont": "quantile",
    "every": "bool_and",
    "max_by": "arg_max",
    "argmax": "arg_max",
    "min_by": "arg_min",
    "argmin": "arg_min",
}
"""Other names of aggregates."""


def aggregate_named(name: str) -> AggregateFunction | None:
    """Return the built-in aggregate with this name, ignoring case."""
    return AGGREGATES.get(AGGREGATE_ALIASES.get(name.lower(), name.lower()))


def result_type(function: AggregateFunction, arguments: Sequence[Type], span: Span) -> Type:
    """Return the type of an aggregate for these argument types; raise a QueryError if it does not accept them.

    Examples
    --------
    >>> result_type(AGGREGATES["sum"], [Type.INT], Span(0, 6)).name
    'BIGINT'
    """
    if arguments or function.name == "count":
        result = function.result(*arguments)
        if result is not None:
            return result
    given = ", ".join(a.name for a in arguments) or "*"
    message = f"{function.name.upper()} of {given} is not defined"
    raise QueryError("Q121", message, span, hint=f"it takes {function.takes}")
