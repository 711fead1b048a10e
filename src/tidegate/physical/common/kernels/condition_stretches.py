"""Bounds of columns by stretches: consecutive elements that a condition program can decide together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Array, Bytes, Floats, Ints
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.physical.common.kernels.condition_codes import DOUBT, FAILURE, NULL

STRETCH = 32
"""Number of elements whose bounds are one lane."""


class StretchBounds(NamedTuple):
    """Least and greatest number of each stretch of a column, and what else can be: NULL, a failure or a doubt."""

    low: Array
    high: Array
    outcomes: Bytes


def bound_column(column: Array, bits: Bytes, errors: Bytes) -> StretchBounds:
    """Return the bounds of a column, given its bitmap of validity and its failures, which may be empty."""
    many = -(-len(column) // STRETCH)
    kind = np.float64 if column.dtype == np.float64 else np.int64
    found = StretchBounds(np.empty(many, kind), np.empty(many, kind), np.zeros(many, np.uint8))
    if kind is np.float64:
        _bound_floats(column, bits, errors, *found)
    else:
        _bound_ints(column, bits, errors, *found)
    return found


@compiled
def _bound_floats(column: Floats, bits: Bytes, errors: Bytes, low: Floats, high: Floats, outcomes: Bytes) -> None:
    for stretch in range(len(low)):
        part = column[stretch * STRETCH : (stretch + 1) * STRETCH]
        least, greatest, finite = part[0], part[0], 0
        for i in range(len(part)):
            least, greatest = min(least, part[i]), max(greatest, part[i])
            finite += part[i] - part[i] == 0.0
        low[stretch], high[stretch] = least, greatest
        outcomes[stretch] = DOUBT if finite < len(part) else 0
    _note_missing(bits, errors, len(column), outcomes)


@compiled
def _bound_ints(column: Ints, bits: Bytes, errors: Bytes, low: Ints, high: Ints, outcomes: Bytes) -> None:
    for stretch in range(len(low)):
        part = column[stretch * STRETCH : (stretch + 1) * STRETCH]
        least, greatest = np.int64(part[0]), np.int64(part[0])
        for i in range(len(part)):
            least, greatest = min(least, np.int64(part[i])), max(greatest, np.int64(part[i]))
        low[stretch], high[stretch] = least, greatest
    _note_missing(bits, errors, len(column), outcomes)


@compiled
def _note_missing(bits: Bytes, errors: Bytes, rows: int, outcomes: Bytes) -> None:
    """Note which stretches have NULL and failures. The number in the place of a NULL widens the bounds, no more."""
    if len(bits):
        for row in range(rows):
            if (bits[row >> 3] >> np.uint8(row & 7)) & np.uint8(1) == 0:
                outcomes[row // STRETCH] |= NULL
    if len(errors):
        for row in range(rows):
            if errors[row]:
                outcomes[row // STRETCH] |= FAILURE
