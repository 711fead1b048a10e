"""Types of the arrays that hold columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Words = npt.NDArray[np.uint64]
Positions = npt.NDArray[np.int32]
Bytes = npt.NDArray[np.uint8]

Array = npt.NDArray[Any]
"""Array of any type."""

Int = int | np.int64
"""Integer in a compiled loop, where both types are one."""

Columns = Mapping[str, Array]
"""Columns of any type by name."""
