"""The ways in which an expression can fail for a row."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
import numpy.typing as npt

from tidegate.arrays import Mask


class Failure(IntEnum):
    """The reason why a row has no value; the names are those of the reasons of dead letters."""

    NONE = 0
    DIVISION_BY_ZERO = 1
    OVERFLOW = 2
    INVALID_CAST = 3
    DOMAIN = 4
    USER_FUNCTION = 5


ERRORS: tuple[str, ...] = tuple(f.name.lower() for f in Failure)
"""Codes by number: ``ERRORS[Failure.OVERFLOW]`` is ``"overflow"``."""

Errors = npt.NDArray[np.int8]
"""A Failure for each row."""


def errors_where(mask: Mask, failure: Failure) -> Errors | None:
    """Return errors for the rows of the mask; None if there are no such rows."""
    return np.where(mask, np.int8(failure), np.int8(0)) if mask.any() else None


def merge(left: Errors | None, right: Errors | None) -> Errors | None:
    """Merge the errors of both sides; if a row fails on both, the smaller number counts, so order is irrelevant."""
    if left is None or right is None:
        return right if left is None else left
    return np.where((left != 0) & (right != 0), np.minimum(left, right), np.maximum(left, right))


def keep_errors_where(errors: Errors | None, mask: Mask) -> Errors | None:
    """Return the errors of the rows of the mask; None if there are none."""
    if errors is None:
        return None
    kept = np.where(mask, errors, np.int8(0))
    return kept if kept.any() else None
