"""From which instant on the output of a plan is exact."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from tidegate.algebra.plan import Validity
from tidegate.catalog.catalog import SourceStream
from tidegate.physical.common.operator import LooksBack
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.time import BEGINNING, CHRONON, EARLIEST, FOREVER


def stream_exact_from(stream: SourceStream, watermark: int, *, is_read: bool) -> int:
    """Return the instant from which a new reader gets all elements of a stream; FOREVER if it is not known.

    A stream that was not read yet is read from its beginning. Of another one, the rows that were read are missing.
    They are not later than the watermark and the delay. How long they are valid is known for instants only.
    """
    if stream.is_table or not is_read or watermark <= EARLIEST:
        return BEGINNING
    return watermark + stream.delay + CHRONON if stream.validity is Validity.INSTANT else FOREVER


class Exactness:
    """Instants from which plans are exact, given those of streams, and of operators with state that run.

    Of an operator that runs, a new reader misses what was given before. So it is exact from the largest end of that.
    """

    def __init__(self, streams: Mapping[str, int], running: Mapping[PhysicalPlan, int]) -> None:
        self.streams, self.running = streams, running
        self._known: dict[PhysicalPlan, int] = {}

    def exact_from(self, plan: PhysicalPlan) -> int:
        """Return the instant from which a new reader of the plan gets exact results; FOREVER if there is none."""
        if plan not in self._known:
            self._known[plan] = self._compute(plan)
        return self._known[plan]

    def _compute(self, plan: PhysicalPlan) -> int:
        if isinstance(plan, Read):
            return self.streams[plan.stream]
        below = _extend(max(map(self.exact_from, plan.inputs)), plan)
        return min(below, self.running.get(plan, FOREVER))


def _extend(instant: int, plan: Apply) -> int:
    if instant <= EARLIEST or not isinstance(plan.operator, LooksBack):
        return instant
    by = plan.operator.looks_back
    return FOREVER if by is None else min(instant + by, FOREVER)


def settling_margin(plan: PhysicalPlan) -> int:
    """Return how far watermarks must be past an instant before all results up to it are known."""
    margin = CHRONON
    for each in operators_with_state(plan):
        if isinstance(each.operator, LooksBack):
            margin += each.operator.looks_back or 0
    return margin


def operators_with_state(plan: PhysicalPlan) -> Iterable[Apply]:
    """Return the parts of a plan that end with an operator with state."""
    return [p for p in parts_of(plan) if isinstance(p, Apply) and p.operator.partition_keys is not None]


def streams_read(plan: PhysicalPlan) -> frozenset[str]:
    """Return the source streams and tables that a plan reads."""
    return frozenset(part.stream for part in parts_of(plan) if isinstance(part, Read))


def parts_of(plan: PhysicalPlan) -> Collection[PhysicalPlan]:
    """Return the operators and reads of a plan, each with all below it, once."""
    found: dict[PhysicalPlan, None] = {}
    waiting = [plan]
    while waiting:
        part = waiting.pop()
        if part not in found:
            found[part] = None
            waiting += part.inputs if isinstance(part, Apply) else ()
    return found
