"""Types of the arrays that hold columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate.arrays import Bytes, Flags, Floats, Ints, Mask, Positions, Words

__all__ = ["Array", "Bytes", "Columns", "Flags", "Floats", "Int", "Ints", "Mask", "Positions", "Words"]

Array = npt.NDArray[Any]
"""Array of any type."""

Int = int | np.int64
"""Integer in a compiled loop, where both types are one."""

Columns = Mapping[str, Array]
"""Columns of any type by name."""
