"""Width of slots: halved where productive lags are narrower than slots, and doubled again where they are not.

All widths are the original one, halved some times, so slots of one width are whole parts of slots of another.
"""

from __future__ import annotations

import numpy as np

from tidegate.physical.common.arrays import Floats
from tidegate.physical.shedding.kernels.evidence import Tally

MOST_HALVINGS = 2
"""A window then has 80 slots. With more, looking for the comparisons of a step takes longer than making them."""

ENOUGH_MATCHES = 50.0
"""Decayed matches from which on a peak is believed."""

SETTLED_STEPS = 8
"""Steps after a change of the width before the next one."""

_HIGH = 3.0
"""A peak is at least so many times as productive as the median lag."""

_NARROW, _WIDE = 0.7, 0.35
"""Shares of what the peak has more than the median lag in the three adjacent lags that have most of it: from the first
one on, the width is halved, below the second one, it is doubled. After a change, the other one is not reached at once.
"""


def choose_halvings(tally: Tally, halvings: int, width: int) -> int:
    """Return how often the original width is to be halved, given how often it is now, and the width now."""
    if float(tally.matches.sum()) < ENOUGH_MATCHES:
        return halvings
    share = share_in_peak(tally)
    if share >= _NARROW and halvings < MOST_HALVINGS and width % 2 == 0:
        return halvings + 1
    return halvings - 1 if share < _WIDE and halvings > 0 else halvings


def share_in_peak(tally: Tally) -> float:
    """Return how much of the productivity above the median the three best adjacent lags have; 0 without a peak.

    Examples
    --------
    >>> tally = Tally.empty(3, 1)
    >>> tally.made[:, 0, 0] = 100.0
    >>> tally.matches[:] = [1, 1, 1, 1, 9, 5, 1]
    >>> share_in_peak(tally)
    1.0
    >>> tally.matches[:] = [1, 2, 3, 2, 2, 3, 1]
    >>> share_in_peak(tally)
    0.0
    """
    made = tally.comparisons_by_lag
    density: Floats = np.divide(tally.matches, made, out=np.zeros(len(made)), where=made > 0)
    usual = float(np.median(density[made > 0])) if (made > 0).any() else 0.0
    if not float(density.max(initial=0.0)) > _HIGH * usual:
        return 0.0
    above = np.maximum(density - usual, 0.0)
    return float(np.convolve(above, np.ones(3), "same").max() / np.cumsum(above)[-1])


def change_lags(tally: Tally, halvings: int) -> Tally:
    """Return a tally by the lags of slots that are halved so many times more, or doubled."""
    for _ in range(abs(halvings)):
        tally = tally.with_finer_lags() if halvings > 0 else tally.with_coarser_lags()
    return tally
