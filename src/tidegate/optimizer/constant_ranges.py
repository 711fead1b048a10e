"""Terms of conditions that keep a value in a range with constant ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import pyarrow as pa

from tidegate.algebra.subscriptions import ConstantRange
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Call, Expression, Literal, columns_of
from tidegate.schema import Type
from tidegate.values import value

_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_LARGEST = 2**62
"""Constants beyond it are not ends of ranges: those need a place after each of them."""


@value
class ValueRange:
    """A value, and the range that a term or several of them keep it in."""

    value: Expression
    range: ConstantRange

    @property
    def terms(self) -> Iterator[Expression]:
        """Yield comparisons that keep the value in its range."""
        low, high = self.range.low, self.range.high
        if low is not None:
            yield Call(">" if self.range.low_open else ">=", (self.value, low), Type.BOOLEAN)
        if high is not None:
            yield Call("<" if self.range.high_open else "<=", (self.value, high), Type.BOOLEAN)


def range_of_term(term: Expression) -> ValueRange | None:
    """Return the range of a comparison between a value and a constant, numbers or times; None for other terms."""
    match term:
        case Call(operator, (left, right)) if operator in _MIRRORED and not columns_of(left):
            return _compare(_MIRRORED[operator], right, left)
        case Call(operator, (left, right)) if operator in _MIRRORED:
            return _compare(operator, left, right)
    return None


def intersect_ranges(some: ConstantRange | None, other: ConstantRange) -> ConstantRange | None:
    """Return the range that is in both; None if both have an end on the same side."""
    if some is None:
        return other
    if (some.low is not None and other.low is not None) or (some.high is not None and other.high is not None):
        return None
    lower = some if some.low is not None else other
    upper = some if some.high is not None else other
    return ConstantRange(lower.low, upper.high, lower.low_open, upper.high_open)


def _compare(operator: str, compared: Expression, constant: Expression) -> ValueRange | None:
    type_ = compared.type
    if not columns_of(compared) or columns_of(constant) or constant.type is not type_:
        return None
    if not type_.is_numeric and type_ is not Type.TIMESTAMP:
        return None
    end = _end_of(constant)
    if end is None:
        return None
    match operator:
        case "=":
            return ValueRange(compared, ConstantRange(end, end))
        case ">" | ">=":
            return ValueRange(compared, ConstantRange(low=end, low_open=operator == ">"))
    return ValueRange(compared, ConstantRange(high=end, high_open=operator == "<"))


def _end_of(constant: Expression) -> Literal | None:
    """Return the value of a constant; None if it has none or fails, or if it is too large an integer."""
    found = evaluate(constant, pa.RecordBatch.from_pydict({}), 1)
    end = None if found.errors is not None else found.values[0].as_py()
    if isinstance(end, int) and abs(end) >= _LARGEST:
        return None
    return Literal(end, constant.type) if isinstance(end, int | float | datetime) else None
