"""The choice of a sample: each row has a number of its own, and is kept if that is below the rate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.hashing import hash_columns

_SEED = 0x5A3B1C9D
"""Sets the choice apart from other uses of hashes."""

_BITS = 53


def choose_sample(columns: Sequence[pa.Array], starts: Ints, rates: Ints | int) -> npt.NDArray[np.bool_]:
    """Return which rows are in the sample, by their columns and starts; rates are millionths.

    A row that is in the sample of a rate is in that of every higher rate.

    Examples
    --------
    >>> starts = np.arange(10_000)
    >>> [int(choose_sample([], starts, rate).sum()) for rate in (0, 100_000, 1_000_000)]
    [0, 979, 10000]
    """
    hashes = hash_columns([*columns, pa.array(starts ^ _SEED)])
    numbers = (hashes >> np.uint64(64 - _BITS)).astype(np.float64) * 2.0**-_BITS
    return numbers * 1e6 < rates
