"""CHECK: the numbers that a column can have."""

from __future__ import annotations

import math
from collections.abc import Iterator

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.bind.names import is_same_name
from tidegate.language.bind.query.expressions import literal
from tidegate.language.syntax import ColumnDefinition, Expression, Operation
from tidegate.schema import Domain, Type

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def domain_of(column: ColumnDefinition, type_: Type) -> Domain | None:
    """Return the numbers that a declared column can have; None if it has no CHECK."""
    if column.check is None:
        return None
    if not type_.is_numeric:
        message = f"a CHECK is for numbers, but column '{column.name.text}' is {type_.name}"
        hint = "remove it, and select the rows in a derived stream: CREATE STREAM … AS SELECT … WHERE …"
        raise QueryError("Q123", message, column.check.span, hint=hint)
    domain = Domain()
    for term in _terms(column.check):
        for operator, bound in _comparisons(term, column):
            domain = _narrow_domain(domain, operator, bound, type_)
    if domain.low > domain.high:
        hint = "swap the bounds, or remove one of them"
        raise QueryError("Q123", "no number can pass this CHECK", column.check.span, hint=hint)
    return domain


def _terms(condition: Expression) -> Iterator[Expression]:
    match condition:
        case Operation("and", arguments):
            for argument in arguments:
                yield from _terms(argument)
        case _:
            yield condition


def _comparisons(term: Expression, column: ColumnDefinition) -> Iterator[tuple[str, float]]:
    """Yield the comparisons of a term: an operator, and the number that the column is compared with."""
    match term:
        case syntax.Between(argument=argument, low=low, high=high) if _is_own_column(argument, column):
            yield ">=", _constant_number(low, column)
            yield "<=", _constant_number(high, column)
        case Operation(operator, (left, right)) if operator in _MIRRORED and _is_own_column(left, column):
            yield operator, _constant_number(right, column)
        case Operation(operator, (left, right)) if operator in _MIRRORED and _is_own_column(right, column):
            yield _MIRRORED[operator], _constant_number(left, column)
        case _:
            raise _unsupported_check(column, term.span)


def _is_own_column(node: Expression, column: ColumnDefinition) -> bool:
    match node:
        case syntax.ColumnReference(qualifier=None, name=name):
            return is_same_name(name.text, column.name.text)
    return False


def _constant_number(node: Expression, column: ColumnDefinition) -> float:
    match node:
        case syntax.Constant(value=bool()):
            pass
        case syntax.Constant(value=int() as number):
            literal(node)  # refuses integers that do not fit any type
            return number
        case syntax.Constant(value=float() as number) if math.isfinite(number):
            return number
    raise _unsupported_check(column, node.span)


def _unsupported_check(column: ColumnDefinition, span: Span) -> QueryError:
    name = column.name.text
    hint = f"write for example CHECK ({name} BETWEEN -40 AND 60), or CHECK ({name} > 0 AND {name} <= 100)"
    return QueryError("Q123", f"a CHECK compares its own column, '{name}', with numbers", span, hint=hint)


def _narrow_domain(domain: Domain, operator: str, bound: float, type_: Type) -> Domain:
    low, high = _integer_bounds(operator, bound) if type_.is_integer else _float_bounds(operator, float(bound))
    return Domain(max(domain.low, low), min(domain.high, high))


def _integer_bounds(operator: str, bound: float) -> tuple[float, float]:
    """Return the least and the greatest whole number that satisfy the comparison."""
    low = math.floor(bound) + 1 if operator == ">" else math.ceil(bound)
    high = math.ceil(bound) - 1 if operator == "<" else math.floor(bound)
    return low if operator in (">", ">=", "=") else -math.inf, high if operator in ("<", "<=", "=") else math.inf


def _float_bounds(operator: str, bound: float) -> tuple[float, float]:
    low = math.nextafter(bound, math.inf) if operator == ">" else bound
    high = math.nextafter(bound, -math.inf) if operator == "<" else bound
    return low if operator in (">", ">=", "=") else -math.inf, high if operator in ("<", "<=", "=") else math.inf
