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
Flags = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]

Columns = Mapping[str, npt.NDArray[Any]]
"""Columns of any type by name."""
