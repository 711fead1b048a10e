"""String functions; positions count characters from 1, lengths count characters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.expressions.columns import (
    Kernel,
    Outcome,
    Value,
    as_array,
    constant_value,
    is_constant,
    null_mask,
    null_where,
    numbers,
)
from tidegate.expressions.failures import Failure, errors_where
from tidegate.expressions.functions.like_patterns import match_like
from tidegate.schema import Type

_MOST = 2**31 - 1


def _plain_kernel(function: Callable[..., Any]) -> Kernel:
    return lambda arguments, _: (function(*arguments), None)


def _constants_kernel(function: Callable[..., Any], each: Callable[..., Any]) -> Kernel:
    """Make a kernel for a function whose later arguments Arrow requires to be constant; `each` handles other cases."""

    def kernel(arguments: Sequence[Value], type_: Type) -> Outcome:
        first, *rest = arguments
        if not all(is_constant(a) for a in rest):
            return _row_by_row(each, arguments, type_), None
        if not all(a.is_valid for a in rest):
            return pa.nulls(len(first), type_.arrow), None
        return function(first, *(a.as_py() for a in rest)), None

    return kernel


def _row_by_row(each: Callable[..., Any], arguments: Sequence[Value], type_: Type) -> pa.Array:
    # Arrow has no kernels for a pattern or position that differs from row to row.
    rows = max(len(a) for a in arguments if not is_constant(a))
    columns = [as_array(a, rows).to_pylist() for a in arguments]
    made = [None if None in row else each(*row) for row in zip(*columns, strict=True)]
    return pa.array(made, type_.arrow)


def _replace(texts: pa.Array, old: str, new: str) -> pa.Array:
    return pc.replace_substring(texts, old, new) if old else texts  # Arrow would search for "" for ever


def _replace_each(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _position(texts: pa.Array, part: str) -> pa.Array:
    if not pc.all(pc.string_is_ascii(texts)).as_py():  # Arrow counts bytes
        return pa.array([None if t is None else t.find(part) + 1 for t in texts.to_pylist()], pa.int32())
    return pc.add(pc.find_substring(texts, part), pa.scalar(1, pa.int32()))


def _left(texts: pa.Array, count: int) -> pa.Array:
    return pc.utf8_slice_codeunits(texts, 0, max(count, 0))


def _right(texts: pa.Array, count: int) -> pa.Array:
    if count <= 0:
        return _left(texts, 0)
    return pc.utf8_slice_codeunits(texts, -count)


def _right_each(text: str, count: int) -> str:
    return text[-count:] if count > 0 else ""


def _substring(arguments: Sequence[Value], type_: Type) -> Outcome:
    """Return the characters from position `start` up to `start + length`; a negative length fails."""
    if len(arguments) == 2:
        return _slice(arguments, type_)
    text, start, length = arguments
    missing, negative = null_mask(*arguments), numbers(length) < 0
    errors = errors_where(negative & ~missing, Failure.DOMAIN)
    if errors is not None:
        length = null_where(length, np.broadcast_to(negative, missing.shape))
    return _slice((text, start, length), type_)[0], errors


_slice = _constants_kernel(
    lambda texts, start, length=_MOST: _slice_texts(texts, max(start - 1, 0), max(start - 1 + length, 0)),
    lambda text, start, length=_MOST: text[max(start - 1, 0) : max(start - 1 + length, 0)],
)


def _slice_texts(texts: pa.Array, start: int, stop: int) -> pa.Array:
    return pc.utf8_slice_codeunits(texts, start, max(start, stop))


def _concat(*texts: Value) -> Value:
    return pc.binary_join_element_wise(*texts, "", null_handling="emit_null")


def _like(arguments: Sequence[Value], type_: Type) -> Outcome:
    texts, *rest = arguments
    constants = [constant_value(c) for c in rest]
    if None in constants:
        return pa.nulls(len(texts), type_.arrow), None
    return match_like(texts, *constants), None


STRINGS: dict[str, Kernel] = {
    "||": _plain_kernel(_concat),
    "concat": _plain_kernel(_concat),
    "like": _like,
    "length": _plain_kernel(pc.utf8_length),
    "upper": _plain_kernel(pc.utf8_upper),
    "lower": _plain_kernel(pc.utf8_lower),
    "trim": _plain_kernel(lambda texts: pc.utf8_trim(texts, " ")),
    "ltrim": _plain_kernel(lambda texts: pc.utf8_ltrim(texts, " ")),
    "rtrim": _plain_kernel(lambda texts: pc.utf8_rtrim(texts, " ")),
    "reverse": _plain_kernel(pc.utf8_reverse),
    "substring": _substring,
    "replace": _constants_kernel(_replace, _replace_each),
    "starts_with": _constants_kernel(pc.starts_with, str.startswith),
    "ends_with": _constants_kernel(pc.ends_with, str.endswith),
    "contains": _constants_kernel(pc.match_substring, lambda text, part: part in text),
    "strpos": _constants_kernel(_position, lambda text, part: text.find(part) + 1),
    "left": _constants_kernel(_left, lambda text, count: text[: max(count, 0)]),
    "right": _constants_kernel(_right, _right_each),
}
