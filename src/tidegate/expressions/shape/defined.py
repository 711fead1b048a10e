"""Checks that an expression has a value for all inputs, and advice on declarations otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from tidegate.expressions.nodes import Call, Cast, Column, Expression, columns_of, walk
from tidegate.expressions.shape.cover import Budget, Judged, holds_everywhere
from tidegate.expressions.shape.enclose import INTEGERS, Box, enclose, exponent_of
from tidegate.expressions.shape.intervals import Interval, Mask
from tidegate.expressions.shape.samples import points
from tidegate.expressions.shape.smooth import domain_of_tangent
from tidegate.expressions.shape.words import shown
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Type

_BOXES, _POINTS = 3_000, 32


@dataclass(frozen=True, slots=True)
class Need:
    """A condition on an argument that an expression needs to have a value."""

    expression: Expression
    argument: Expression
    holds: Callable[[Interval], Mask]
    words: str


def missing_need(expression: Expression, variable: str, box: Box) -> Need | None:
    """Return the first need that is not met in all of the box.

    A part that does not read the variable has a value for all values of the variable or for none, and does not count.
    """
    for need in needs(expression, variable):
        own = box.only(columns_of(need.argument))
        somewhere = _judged(need, points(own, _POINTS)).known.all()
        if not somewhere or not holds_everywhere(own, partial(_judged, need), Budget(_BOXES)):
            return need
    return None


def _judged(need: Need, boxes: Box) -> Judged:
    values = enclose(need.argument, boxes)
    return Judged(need.holds(values), values.high - values.low)


def explain(need: Need, box: Box) -> str:
    """Describe the unmet need, and what would help."""
    values = enclose(need.argument, box)
    low, high = float(values.low[0]), float(values.high[0])
    written, argument = to_sql(need.expression), to_sql(need.argument)
    if need.argument is need.expression:
        return f"{written} may have no value: it may be too large for {need.expression.type.name}; {_advice(need)}"
    return (
        f"{written} may have no value: {argument} must be {need.words}, but can be {_able(low, high)}; {_advice(need)}"
    )


def _able(low: float, high: float) -> str:
    able = shown(low, high)
    return f"anything in {able}" if able.startswith("[") else able


def _advice(need: Need) -> str:
    if isinstance(need.argument, Column) and need.words[:1] in "<>":
        return f"declare CHECK ({to_sql(need.argument)} {need.words})"
    names = ", ".join(sorted(columns_of(need.argument)))
    return f"a declared domain of {names} that makes it so would help: CHECK (… BETWEEN … AND …)"


def needs(expression: Expression, variable: str) -> Iterator[Need]:
    """Yield the needs of the parts of an expression that read a variable."""
    for part in walk(expression):
        if variable in columns_of(part):
            yield from _needs(part, variable)


def _needs(part: Expression, variable: str) -> Iterator[Need]:
    match part:
        case Call("/", (_, divisor)) if variable in columns_of(divisor):
            yield Need(part, divisor, lambda i: ~i.has_zero, "other than 0")
        case Call("ln" | "log10" | "log2", (argument,)):
            yield _positive(part, argument)
        case Call("sqrt", (argument,)):
            yield _not_negative(part, argument)
        case Call("tan", (argument,)):
            yield Need(part, argument, domain_of_tangent, "between two poles of the tangent")
        case Call("log", (base, argument)):
            if variable in columns_of(base):
                yield _positive(part, base)
                yield Need(part, base, lambda i: (i.low > 1) | (i.high < 1), "other than 1")
            if variable in columns_of(argument):
                yield _positive(part, argument)
        case Call("power", (base, exponent)):
            yield from _power(part, base, exponent_of(exponent))
        case Cast(argument=argument, type=type_) if type_ in INTEGERS and not _fits(argument.type, type_):
            yield _within(part, argument, type_)
    if isinstance(part, Call) and part.user is None and part.type in INTEGERS and part.function in _OVERFLOWING:
        yield _within(part, part, part.type)


_OVERFLOWING = frozenset({"+", "-", "*", "negate", "abs", "round"})


def _positive(part: Expression, argument: Expression) -> Need:
    return Need(part, argument, lambda i: i.low > 0, "> 0")


def _not_negative(part: Expression, argument: Expression) -> Need:
    return Need(part, argument, lambda i: i.low >= 0, ">= 0")


def _power(part: Expression, base: Expression, exponent: float | None) -> Iterator[Need]:
    match exponent:
        case None:
            yield _positive(part, base)
        case float() if not exponent.is_integer():
            yield (_positive if exponent < 0 else _not_negative)(part, base)
        case float() if exponent < 0:
            yield Need(part, base, lambda i: ~i.has_zero, "other than 0")


def _fits(source: Type, target: Type) -> bool:
    return source is target or (source, target) == (Type.INT, Type.BIGINT)


def _within(part: Expression, argument: Expression, type_: Type) -> Need:
    limit = INTEGERS[type_]
    # For whole numbers: below the limit they fit, and so does the negated limit, however it was rounded.
    return Need(part, argument, lambda i: (i.low > -limit - 1) & (i.high < limit), f"small enough for {type_.name}")
