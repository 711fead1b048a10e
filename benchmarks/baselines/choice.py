"""Which method follows totals best.

The costs are those of a step, with the state saved after it, measured with 100 to a million live queries
of one dimension and batches of 1 to 50,000. A step has costs of its own that hardly depend on anything;
beside them an element costs the batch method a search among the ends, the trees all levels of a path,
and what must be read is the less often in the processor's cache the more queries there are. The trees
are a little ahead as long as a batch is a handful of elements, but never by as much as it takes to move.
A run begins with the batch method, and so never leaves it; the trees are for comparison, and are left
where a caller began with them.
"""

from __future__ import annotations

from enum import Enum
from math import sqrt

from tidegate.physical.subscriptions.kernels.model import RangeTracker

_MUCH = 2.0
"""How much better the other method must be: queries that move are filed anew."""


class Method(Enum):
    """The batch method, or the trees of the paper."""

    BATCH = 0
    TRACKING = 1


_STEP = {Method.BATCH: 230.0, Method.TRACKING: 180.0}
"""Microseconds of a step without elements."""

_ELEMENT = {Method.BATCH: 0.02, Method.TRACKING: 0.6}
"""Microseconds of an element when there are few queries."""

_ROOT = {Method.BATCH: 0.0004, Method.TRACKING: 0.01}
"""What is added for each element, by the root of the number of queries."""


def cost(method: Method, live: int, batch: int) -> float:
    """Microseconds of a step in which a batch is absorbed and the state is saved."""
    return _STEP[method] + batch * (_ELEMENT[method] + _ROOT[method] * sqrt(live))


def better_method(live: int, batch: int, now: Method) -> Method:
    """The method for so many live queries and elements in a batch; the one in use unless the other is much better.

    Examples
    --------
    >>> better_method(100_000, 10_000, Method.TRACKING)
    <Method.BATCH: 0>
    """
    other = Method.TRACKING if now is Method.BATCH else Method.BATCH
    return other if _MUCH * cost(other, live, batch) <= cost(now, live, batch) else now


def moved(tracker: RangeTracker, to: RangeTracker) -> RangeTracker:
    """The queries of a tracker in an empty one of another kind."""
    return to.resume(*tracker.live_subscriptions())
