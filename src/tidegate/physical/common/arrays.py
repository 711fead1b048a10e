"""Types of the arrays that hold columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from tidegate.arrays import Flags, Floats, Ints, Mask, Positions, Words

__all__ = ["Columns", "Flags", "Floats", "Ints", "Mask", "Numeric", "Positions", "Words"]

Numeric = npt.NDArray[Any]

Columns = Mapping[str, Numeric]
"""Columns of any type by name."""
