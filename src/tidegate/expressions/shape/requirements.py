"""Checks that an expression has a value for all inputs, and advice on declarations otherwise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from tidegate.arrays import Mask
from tidegate.expressions.nodes import Call, Cast, Column, Expression, columns_of, walk
from tidegate.expressions.shape.cover import BoxVerdicts, Budget, holds_everywhere
from tidegate.expressions.shape.enclose import INTEGERS, Box, constant_number, enclose
from tidegate.expressions.shape.explanations import interval_text
from tidegate.expressions.shape.intervals import Interval
from tidegate.expressions.shape.samples import sample_points
from tidegate.expressions.shape.smooth import has_no_pole
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Type
from tidegate.values import value

_BOXES, _POINTS = 3_000, 32


@value
class Requirement:
    """A condition on an argument that an expression needs to have a value."""

    expression: Expression
    argument: Expression
    holds: Callable[[Interval], Mask]
    text: str


def unmet_requirement(expression: Expression, variable: str, box: Box) -> Requirement | None:
    """Return the first need that is not met in all of the box.

    A part that does not read the variable has a value for all values of the variable or for none, and does not count.
    """
    for need in requirements_of(expression, variable):
        own = box.only(columns_of(need.argument))
        somewhere = _judge_requirement(need, sample_points(own, _POINTS)).known.all()
        if not somewhere or not holds_everywhere(own, partial(_judge_requirement, need), Budget(_BOXES)):
            return need
    return None


def _judge_requirement(need: Requirement, boxes: Box) -> BoxVerdicts:
    values = enclose(need.argument, boxes)
    return BoxVerdicts(need.holds(values), values.high - values.low)


def explain_unmet(need: Requirement, box: Box) -> str:
    """Describe the unmet need, and what would help."""
    values = enclose(need.argument, box)
    low, high = float(values.low[0]), float(values.high[0])
    written, argument = to_sql(need.expression), to_sql(need.argument)
    if need.argument is need.expression:
        return f"{written} may have no value: it may be too large for {need.expression.type.name}; {_advice(need)}"
    but = f"must be {need.text}, but can be {_values_text(low, high)}"
    return f"{written} may have no value: {argument} {but}; {_advice(need)}"


def _values_text(low: float, high: float) -> str:
    able = interval_text(low, high)
    return f"anything in {able}" if able.startswith("[") else able


def _advice(need: Requirement) -> str:
    if isinstance(need.argument, Column) and need.text[:1] in "<>":
        return f"declare CHECK ({to_sql(need.argument)} {need.text})"
    names = ", ".join(sorted(columns_of(need.argument)))
    return f"a declared domain of {names} that ensures this would help: CHECK (… BETWEEN … AND …)"


def requirements_of(expression: Expression, variable: str) -> Iterator[Requirement]:
    """Yield the needs of the parts of an expression that read a variable."""
    for part in walk(expression):
        if variable in columns_of(part):
            yield from _own_requirements(part, variable)


def _own_requirements(part: Expression, variable: str) -> Iterator[Requirement]:
    match part:
        case Call("/", (_, divisor)) if variable in columns_of(divisor):
            yield Requirement(part, divisor, lambda i: ~i.has_zero, "other than 0")
        case Call("ln" | "log10" | "log2", (argument,)):
            yield _must_be_positive(part, argument)
        case Call("sqrt", (argument,)):
            yield _must_not_be_negative(part, argument)
        case Call("tan", (argument,)):
            yield Requirement(part, argument, has_no_pole, "between two poles of the tangent")
        case Call("log", (base, argument)):
            if variable in columns_of(base):
                yield _must_be_positive(part, base)
                yield Requirement(part, base, lambda i: (i.low > 1) | (i.high < 1), "other than 1")
            if variable in columns_of(argument):
                yield _must_be_positive(part, argument)
        case Call("power", (base, exponent)):
            yield from _power_requirements(part, base, constant_number(exponent))
        case Cast(argument=argument, type=type_) if type_ in INTEGERS and not _is_widening(argument.type, type_):
            yield _must_fit(part, argument, type_)
    if isinstance(part, Call) and part.user is None and part.type in INTEGERS and part.function in _OVERFLOWING:
        yield _must_fit(part, part, part.type)


_OVERFLOWING = frozenset({"+", "-", "*", "negate", "abs", "round"})


def _must_be_positive(part: Expression, argument: Expression) -> Requirement:
    return Requirement(part, argument, lambda i: i.low > 0, "> 0")


def _must_not_be_negative(part: Expression, argument: Expression) -> Requirement:
    return Requirement(part, argument, lambda i: i.low >= 0, ">= 0")


def _power_requirements(part: Expression, base: Expression, exponent: float | None) -> Iterator[Requirement]:
    match exponent:
        case None:
            yield _must_be_positive(part, base)
        case float() if not exponent.is_integer():
            yield (_must_be_positive if exponent < 0 else _must_not_be_negative)(part, base)
        case float() if exponent < 0:
            yield Requirement(part, base, lambda i: ~i.has_zero, "other than 0")


def _is_widening(source: Type, target: Type) -> bool:
    return source is target or (source, target) == (Type.INT, Type.BIGINT)


def _must_fit(part: Expression, argument: Expression, type_: Type) -> Requirement:
    limit = INTEGERS[type_]
    # For whole numbers: below the limit they fit, and so does the negated limit, however it was rounded.
    return Requirement(
        part, argument, lambda i: (i.low > -limit - 1) & (i.high < limit), f"small enough for {type_.name}"
    )
