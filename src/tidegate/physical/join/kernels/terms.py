"""Terms of a join's predicate as ranges, so that one loop without branches tests them all.

A term compares something computed from one value of each side with a constant, or the two values with each other. Every
SQL comparison becomes `low <= x <= high`, or its negation, with x = shift + factor · (value of the run). NaN lies
outside every range and is greater than every number: a value that is not at most c is greater than c, or NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.physical.common.arrays import Floats
from tidegate.physical.common.kernels.compiled import compiled, inlined
from tidegate.physical.common.kernels.hashing import fixed_width_values

MOST_TERMS = 3
"""Number of terms that are tested during the search."""

Ranges = Floats
"""By row and term: shift, factor, low, high, and 1 if x must lie outside."""


class Combine(IntEnum):
    """Combination of the two values in a term."""

    NOTHING = 0  # it compares one with the other
    SUM = 1
    PRODUCT = 2
    MAGNITUDE = 3  # of the sum; only for ordering comparisons, as two numbers have the same magnitude


class Compare(IntEnum):
    """Comparison in a term; NaN is greater than all numbers."""

    EQUAL = 0
    UNEQUAL = 1
    LESS = 2
    AT_MOST = 3
    GREATER = 4
    AT_LEAST = 5


class Term(NamedTuple):
    """Compare a `Combine` of signed values with a constant, or the run's value with the probing one."""

    combine: int
    compare: int
    probe_sign: float
    run_sign: float
    constant: float


def ranges_of(columns: Sequence[pa.Array], terms: Sequence[Term], rows: int) -> Floats:
    """Return the ranges of probing rows, given a column of doubles for each term, NULL where it cannot be tested."""
    ranges = np.empty((rows, len(terms), 5))
    for number, (column, term) in enumerate(zip(columns, terms, strict=True)):
        _fill_ranges(ranges[:, number], fixed_width_values(column, np.float64), *term)
    for column in columns:
        if column.null_count:
            everything = (0.0, 0.0, np.inf, -np.inf, 1.0)
            ranges[column.is_null().to_numpy(zero_copy_only=False)] = everything
    return ranges


@compiled
def _fill_ranges(
    ranges: Ranges, values: Floats, combine: int, compare: int, probe_sign: float, run_sign: float, constant: float
) -> None:
    """Write the ranges of one term for the values of probing rows."""
    low, high, outside = _comparison_range(compare, constant)
    if combine == Combine.MAGNITUDE:
        low = -high
    for row in range(len(values)):
        shift, factor = probe_sign * values[row], run_sign
        if combine == Combine.NOTHING:
            shift, factor = 0.0, 1.0
            low, high, outside = _comparison_range(compare, values[row])
        elif combine == Combine.PRODUCT:
            shift, factor = 0.0, values[row]
        ranges[row, 0], ranges[row, 1], ranges[row, 2], ranges[row, 3] = shift, factor, low, high
        ranges[row, 4] = outside


@inlined
def _comparison_range(compare: int, constant: float) -> tuple[float, float, bool]:
    """Return the range in which the comparison of x with the constant is true, and whether to negate it."""
    negated = compare in (Compare.UNEQUAL, Compare.GREATER, Compare.AT_LEAST)
    if compare in (Compare.EQUAL, Compare.UNEQUAL):
        if np.isnan(constant):  # the negation of all numbers
            return -np.inf, np.inf, not negated
        return constant, constant, negated
    if compare in (Compare.AT_MOST, Compare.GREATER):
        if np.isnan(constant):  # everything is at most NaN: the negation of nothing
            return np.inf, -np.inf, not negated
        return -np.inf, constant, negated
    if np.isnan(constant):  # all numbers are less than NaN
        return -np.inf, np.inf, negated
    if constant == -np.inf:  # nothing is less
        return np.inf, -np.inf, negated
    return -np.inf, np.nextafter(constant, -np.inf), negated
