"""Similarity of sets: arrays as sets of their elements, maps as sets with weights.

A set has each element once; NULL is not an element.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.arrays import Floats, Ints
from tidegate.collection_entries import Entries, codes_of, entries_of
from tidegate.expressions.columns import Kernel, Numbers, Outcome, Value, make_column, null_mask, numbers
from tidegate.expressions.functions.collections import as_arrays
from tidegate.schema import Type


class Sizes(NamedTuple):
    """For each row, the sizes of the left set, the right set and their intersection."""

    left: Ints
    right: Ints
    common: Ints


def _kernel_of_sizes(function: Callable[[Sizes], Numbers]) -> Kernel:
    """Make a kernel for a function of two sets that depends on their sizes alone."""

    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        left, right = (entries_of(argument) for argument in as_arrays(arguments))
        return make_column(function(_set_sizes(left, right)), left.missing | right.missing, type_), None

    return kernel


def _set_sizes(left: Entries, right: Entries) -> Sizes:
    codes, size = codes_of(pa.concat_arrays([left.values, right.values]))
    ours, theirs = _set_members(left, codes[: len(left)], size), _set_members(right, codes[len(left) :], size)
    both = np.intersect1d(ours, theirs, assume_unique=True)
    return Sizes(*(np.bincount(part // max(size, 1), minlength=left.rows) for part in (ours, theirs, both)))


def _set_members(found: Entries, codes: Ints, size: int) -> Ints:
    """Return one number for each member of each row's set, in ascending order."""
    known = codes >= 0
    every = np.sort(found.owners[known] * size + codes[known])  # np.unique would hash, which is much slower
    return every[np.append([True], every[1:] != every[:-1])] if len(every) else every


def _jaccard(sizes: Sizes) -> Floats:
    """Return the share of common elements among all; two empty sets are equal, so their share is 1."""
    every = sizes.left + sizes.right - sizes.common
    return np.where(every == 0, 1.0, sizes.common / np.maximum(every, 1))


def _inner_product(arguments: Sequence[Value], type_: Type) -> Outcome:
    """Return the sum, over the common keys of both maps, of the products of their values.

    Each product is rounded; their sum is exact and rounded once.
    """
    left, right = (entries_of(argument) for argument in as_arrays(arguments))
    assert left.keys is not None
    assert right.keys is not None
    codes, size = codes_of(pa.concat_arrays([left.keys, right.keys]))
    ours, theirs = left.owners * size + codes[: len(left)], right.owners * size + codes[len(left) :]
    both, mine, yours = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    known = ~(null_mask(left.values)[mine] | null_mask(right.values)[yours])
    with np.errstate(over="ignore", invalid="ignore"):
        products = (numbers(left.values)[mine] * numbers(right.values)[yours])[known]
    sums = _row_sums(both[known] // max(size, 1), products, left.rows)
    return make_column(sums, left.missing | right.missing, type_), None


def _row_sums(rows: Ints, values: Floats, count: int) -> Floats:
    """Return the exact sum of each row's values, rounded once; rows are in ascending order."""
    amounts = np.bincount(rows, minlength=count)
    starts = np.cumsum(amounts) - amounts
    sums = np.zeros(count)
    with np.errstate(over="ignore", invalid="ignore"):
        for place in range(2):  # a single addition of two numbers is exact except for its rounding
            has = amounts > place
            sums[has] += values[starts[has] + place]
    listed = values.tolist()
    for row in np.flatnonzero(amounts > 2).tolist():
        sums[row] = exact_sum(listed[starts[row] : starts[row] + amounts[row]])
    return sums + 0.0


def exact_sum(values: Sequence[float]) -> float:
    """Return the sum, rounded once; NaN if it contains infinities of both signs."""
    infinite = [value for value in values if not math.isfinite(value)]
    if infinite:
        return sum(infinite)
    try:
        return math.fsum(values)
    except OverflowError:  # an intermediate sum overflowed, perhaps not the result
        return _to_float(sum(map(Fraction, values), Fraction(0)))


def _to_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


SIMILARITY: dict[str, Kernel] = {
    "overlap": _kernel_of_sizes(lambda sizes: sizes.common),
    "jaccard": _kernel_of_sizes(_jaccard),
    "subset of": _kernel_of_sizes(lambda sizes: sizes.common == sizes.left),
    "superset of": _kernel_of_sizes(lambda sizes: sizes.common == sizes.right),
    "inner_product": _inner_product,
}
