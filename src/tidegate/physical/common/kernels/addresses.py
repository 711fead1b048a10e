"""Arrays by their addresses, for kernels that read a number of columns that is not known when they are compiled.

Arrays as arguments would make a type, and so machine code, for each number and type of columns. The caller of a
kernel with addresses must keep the arrays until it returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from tidegate.physical.common.arrays import Array


def address_of(array: Array) -> int:
    """Return where the first element of an array lies; 0 for an empty array."""
    return int(array.ctypes.data) if len(array) else 0


def _pointer_to(element: Any) -> Any:
    """Make a function from an address to a pointer, for the use in compiled code; `carray` makes it an array."""

    @intrinsic
    def pointer(_context: Any, address: Any) -> Any:  # noqa: ARG001 - Numba passes its type
        kind = types.CPointer(element)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(kind))

        return kind(types.int64), generate

    return pointer


floats_at = _pointer_to(types.float64)
ints_at = _pointer_to(types.int64)
shorts_at = _pointer_to(types.int32)
bytes_at = _pointer_to(types.uint8)

assert np.dtype(np.intp).itemsize == np.dtype(np.int64).itemsize
