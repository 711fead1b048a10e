"""How many random examples a property test tries: fewer in every run, many in a campaign.

Each run draws other examples, so what a run leaves out, others try. `TIDEGATE_HYPOTHESIS=thorough` is the campaign.
"""

from __future__ import annotations

import os

PROFILE = os.environ.get("TIDEGATE_HYPOTHESIS", "tidegate")
_SHARES = {"tidegate": 0.4, "thorough": 24.0}


def examples(count: int) -> int:
    """Return the number of examples in the profile of this run, for a test that needs about `count`."""
    return max(1, round(count * _SHARES[PROFILE]))
