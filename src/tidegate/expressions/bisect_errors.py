"""Locate the few rows that make a whole column fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

_FEW = 512
_SAMPLES, _SAMPLE = 8, 8


def apply_by_halves(texts: pa.Array, fast: Callable[[Any], Any], careful: Callable[[Any], Any]) -> pa.Array:
    """Apply `fast` to the column, and `careful` to the parts that `fast` refuses.

    Both must return the same values for rows that both accept. Arrow is slow to refuse many rows, so `fast` is
    skipped for a column if it refuses most samples.
    """
    if len(texts) > _FEW and _is_mostly_refused(texts, fast):
        return careful(texts)
    if (done := _attempt(fast, texts)) is not None:
        return done
    if len(texts) <= _FEW:
        return careful(texts)
    middle = len(texts) // 2
    return pa.concat_arrays([apply_by_halves(half, fast, careful) for half in (texts[:middle], texts[middle:])])


def _attempt(fast: Callable[[Any], Any], texts: pa.Array) -> pa.Array | None:
    try:
        return fast(texts)
    except pa.ArrowInvalid:
        return None


def _is_mostly_refused(texts: pa.Array, fast: Callable[[Any], Any]) -> bool:
    starts = range(0, len(texts) - _SAMPLE, len(texts) // _SAMPLES)
    refused = [_attempt(fast, texts[start : start + _SAMPLE]) is None for start in starts]
    return sum(refused) > len(refused) // 2
