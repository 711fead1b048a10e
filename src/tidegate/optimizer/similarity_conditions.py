"""Join conditions that require an expression of one side to be similar to one of the other.

Kernels find the pairs for such a condition. They must find every pair for which the condition is true. Where they may
find more pairs, or round differently, the condition stays in the predicate.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.algebra.equalities import are_sides
from tidegate.algebra.plan import Join, Plan
from tidegate.algebra.properties.domains import domain_of, range_of
from tidegate.algebra.similarity_join import Measure, SimilarityJoin
from tidegate.expressions.coercion import common_type
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.nodes import Call, Cast, Expression, columns_of, conjuncts
from tidegate.expressions.sql_text import to_sql
from tidegate.optimizer.names import is_safe
from tidegate.schema import Domain, Type
from tidegate.values import value


@value
class SimilarityTerm:
    """A term of a join's predicate, and the similarity that it requires of a left and a right expression.

    If `exact`, the term is true of exactly the similar pairs; otherwise some similar pairs may fail it.
    """

    term: Expression
    measure: Measure
    left: Expression
    right: Expression
    bound: int | float
    exact: bool


class _Bound(NamedTuple):
    """The bound for the kernels, and whether it expresses the whole term."""

    value: int | float
    exact: bool


_AT_LEAST = {">=": False, ">": True}
_AT_MOST = {"<=": False, "<": True}
"""Comparisons, and whether they are strict."""

_FLIPPED = {">=": "<=", ">": "<", "<=": ">=", "<": ">"}
_REVERSED = {Measure.SUBSET: Measure.SUPERSET, Measure.SUPERSET: Measure.SUBSET}
_DIRECT_TYPES = frozenset({Type.INT, Type.BIGINT, Type.BOOLEAN, Type.TIMESTAMP})
"""Types of array elements that kernels compare directly; for other types they compare hashes."""

_MOST_ELEMENTS = 2**31
_LARGEST = {Type.INT: 2.0**31, Type.BIGINT: 2.0**62}
"""Differences below this limit cannot overflow, even if computed with doubles."""

_SINGLE = np.finfo(np.float32).max


def find_similarity(join: Join | SimilarityJoin) -> SimilarityTerm | str | None:
    """Return the similarity that the predicate of a join requires, or the reason why it is unusable; None if none."""
    read = [_read_term(term, join) for term in conjuncts(join.predicate)]
    found = [each for each in read if isinstance(each, SimilarityTerm)]
    if not found:
        return next((each for each in read if isinstance(each, str)), None)
    known = [each.term for each in found]
    for term in conjuncts(join.predicate):
        # A failure is a dead letter even if another term is NULL; but rows with NULL are similar to no others, and
        # the kernels never compare them.
        if term not in known and not is_safe(term):
            return f"{to_sql(term)} can fail, even on rows that are not similar"
    return min(found, key=lambda each: each.measure is Measure.DISTANCE)


def _read_term(term: Expression, join: Join | SimilarityJoin) -> SimilarityTerm | str | None:
    match term:
        case Call(("subset of" | "superset of") as function, (a, b)):
            return _orient_sides(SimilarityTerm(term, Measure(function), a, b, 0, exact=True), join)
        case Call(function, (a, b)) if function in _FLIPPED and not columns_of(b):
            return _read_comparison(term, a, function, b, join)
        case Call(function, (a, b)) if function in _FLIPPED and not columns_of(a):
            return _read_comparison(term, b, _FLIPPED[function], a, join)
    return None


def _read_comparison(
    term: Expression, measured: Expression, comparison: str, bound: Expression, join: Join | SimilarityJoin
) -> SimilarityTerm | str | None:
    """Read a term that compares an expression with a constant."""
    match _without_casts(measured):
        case Call(("overlap" | "jaccard" | "inner_product") as function, (a, b)) if comparison in _AT_LEAST:
            measure, strict = Measure(function), _AT_LEAST[comparison]
        case Call("abs", (Call("-", (a, b), type_),)) if comparison in _AT_MOST:
            measure, strict = Measure.DISTANCE, _AT_MOST[comparison]
            if not _is_difference_safe(a, b, type_, join):
                return f"{to_sql(Call('-', (a, b), type_))} can overflow within the declared domains"
        case _:
            return None
    number = _constant_number(bound)
    asked = None if number is None else _BOUNDS[measure](number, a.type, strict=strict)
    if asked is None:
        return f"{to_sql(term)} is true of all pairs, or of none"
    return _orient_sides(SimilarityTerm(term, measure, a, b, *asked), join)


def _orient_sides(written: SimilarityTerm, join: Join | SimilarityJoin) -> SimilarityTerm | str | None:
    """Orient a condition from left to right; return None if it does not relate one side to the other."""
    left, right = frozenset(join.left.schema.names), frozenset(join.right.schema.names)
    a, b, measure = written.left, written.right, written.measure
    if are_sides(b, a, left, right):
        measure, a, b = _REVERSED.get(measure, measure), b, a
    elif not are_sides(a, b, left, right):
        return None
    for each in (a, b):
        if not is_safe(each):
            return f"{to_sql(each)} can fail"
    exact = written.exact and a.type.is_array and a.type.parts[0] in _DIRECT_TYPES
    return replace(written, measure=measure, left=a, right=b, exact=exact)


def _without_casts(expression: Expression) -> Expression:
    """Remove casts that only adapt the expression to the type of the bound."""
    match expression:
        case Cast(argument=argument, type=type_) if common_type(argument.type, type_) is type_:
            return argument
    return expression


def _constant_number(bound: Expression) -> int | float | None:
    """Return the value of an expression without columns, if it is a finite number."""
    if not bound.type.is_numeric:
        return None
    found = evaluate(bound, pa.RecordBatch.from_pydict({}), 1)
    value = None if found.errors is not None else found.values[0].as_py()
    return value if value is not None and math.isfinite(value) else None


# ---- bounds for the kernels: never stricter than the term; None if the kernels could not decide by them


def _overlap_bound(least: float, _: Type, *, strict: bool) -> _Bound | None:
    whole = math.floor(least) + 1 if strict else math.ceil(least)
    return _Bound(whole, exact=True) if 1 <= whole < _MOST_ELEMENTS else None


def _jaccard_bound(least: float, _: Type, *, strict: bool) -> _Bound | None:
    return _Bound(float(least), exact=not strict) if 0 < least <= 1 else None


def _product_bound(least: float, _: Type, *, strict: bool) -> _Bound | None:
    del strict  # kernels round sums differently from the language, and take care to find all pairs
    return _Bound(float(least), exact=False) if least > 0 else None


def _distance_bound(most: float, type_: Type, *, strict: bool) -> _Bound | None:
    if most < 0 or (strict and most == 0):
        return None
    if type_.is_integer:
        return _Bound(math.ceil(most) - 1 if strict else math.floor(most), exact=False)
    if type_ is not Type.REAL:
        return _Bound(most + 0.0, exact=False)
    # Differences of single precision may have been rounded down to the bound.
    return _Bound(float(np.nextafter(np.float32(most), _SINGLE)), exact=False) if most < _SINGLE else None


_BOUNDS: dict[Measure, Callable[..., _Bound | None]] = {
    Measure.OVERLAP: _overlap_bound,
    Measure.JACCARD: _jaccard_bound,
    Measure.PRODUCT: _product_bound,
    Measure.DISTANCE: _distance_bound,
}


def _is_difference_safe(a: Expression, b: Expression, type_: Type, join: Join | SimilarityJoin) -> bool:
    """Return whether a difference and its absolute value cannot fail, as for floats and small integers."""
    if type_ not in _LARGEST:
        return type_.is_floating
    one, other, limit = _range_of_values(a, join), _range_of_values(b, join), _LARGEST[type_]
    return one.high - other.low < limit and one.low - other.high > -limit


def _range_of_values(expression: Expression, join: Join | SimilarityJoin) -> Domain:
    plans: tuple[Plan, Plan] = (join.left, join.right)
    domains = {name: domain_of(plan, name) for plan in plans for name in columns_of(expression) if name in plan.schema}
    return range_of(expression, domains)
