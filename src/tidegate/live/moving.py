"""Move the states of joins to another plan of the same meaning, so that it can replace the old one at once.

The joins of a query hold elements of its inputs. A new order of the same joins needs the same elements, which are
taken from the old joins. Where the new plan has joins of joins, their results are computed once from these elements.

The old plan has reported all results of the elements so far, when they arrived. The new plan reports the results of
later ones. An old join drops an element when the watermark of the other side has passed its end, and another order of
joins may need it a little longer, if the watermarks of the inputs differ. So the new plan counts from the largest of
these watermarks on, which is the *begin* of the move; the old one runs until all watermarks have passed it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.live.exactness import operators_with_state, parts_of
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.operator import (
    NO_STATE,
    Adjustable,
    Chunks,
    HoldsElements,
    MovesTime,
    Operator,
    PairLimited,
    TooManyPairs,
)
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.time import BEGINNING, FOREVER
from tidegate.values import value

MOST_PAIRS = 1 << 22
"""A move in which a join would make more pairs than this is refused: nothing else runs meanwhile."""

StatesOfOperator = Callable[[Apply], Iterable[Chunks]]
"""Function that returns the state of an operator that runs, in all buckets."""


class CannotMove(Exception):  # noqa: N818 - not an error: the plans run side by side instead
    """Signal that states cannot be moved; the text says why."""


@dataclass(frozen=True, slots=True, eq=False)
class Move:
    """The elements that new operators hold from their beginning, by input, and the instant from which they suffice."""

    begin: int
    held: Mapping[Apply, Sequence[Batch]]


def check_movable(*plans: PhysicalPlan) -> None:
    """Raise `CannotMove` if an operator of a plan keeps something else than elements."""
    for plan in plans:
        for part in operators_with_state(plan):
            if not isinstance(part.operator, HoldsElements):
                raise CannotMove(f"'{part.operator.describe()}' keeps more than the rows of its inputs")
        # How far such a granularity moves watermarks depends on its history.
        if any(isinstance(part, Apply) and _may_coarsen(part.operator) for part in parts_of(plan)):
            raise CannotMove("a granularity of the query may change")


def _may_coarsen(operator: Operator) -> bool:
    return isinstance(operator, MovesTime) and isinstance(operator, Adjustable) and operator.adjusted_by is not None


def begin_of_move(old: PhysicalPlan, new: PhysicalPlan, watermarks: Mapping[str, int]) -> int:
    """Return the largest watermark of an input of either plan."""
    return max(_latest_mark(plan, watermarks) for plan in (old, new))


def _latest_mark(plan: PhysicalPlan, watermarks: Mapping[str, int]) -> int:
    if isinstance(plan, Read):
        mark = watermarks.get(plan.stream, BEGINNING)
        return BEGINNING if mark >= FOREVER else mark  # a table never moves on
    mark = max(_latest_mark(each, watermarks) for each in plan.inputs)
    return plan.operator.watermark_after(mark) if isinstance(plan.operator, MovesTime) else mark


@value
class _HeldInput:
    """An input of an operator that runs."""

    part: Apply
    which: int


class StateMover:
    """Collector of the elements that the operators of a plan hold, for another plan of the same meaning."""

    def __init__(self, old: PhysicalPlan, watermarks: Mapping[str, int], states: StatesOfOperator) -> None:
        self._watermarks, self._states = watermarks, states
        self._inputs: dict[PhysicalPlan, list[_HeldInput]] = {}
        for part in operators_with_state(old):
            for which, below in enumerate(part.inputs):
                self._inputs.setdefault(below, []).append(_HeldInput(part, which))
        self._known: dict[PhysicalPlan, Batch] = {}

    def move(self, begin: int, parts: Iterable[Apply]) -> Move:
        """Return the elements that new operators need at and after the instant `begin`."""
        return Move(begin, {part: tuple(self._elements(each, begin) for each in part.inputs) for part in parts})

    def _elements(self, plan: PhysicalPlan, begin: int) -> Batch:
        """Return the elements of a plan that are valid at or after `begin`; there may be more."""
        if plan not in self._known:
            self._known[plan] = self._collect(plan, begin)
        return self._known[plan]

    def _collect(self, plan: PhysicalPlan, begin: int) -> Batch:
        held = self._inputs.get(plan, [])
        if len(held) > 1:
            # Each join drops rows that match nothing there, and may match elsewhere.
            raise CannotMove("two joins of the old plan have the same input")
        if held and self._drops_until(held[0]) <= begin:
            return self._read_held(held[0])
        if isinstance(plan, Read):
            raise CannotMove("the new plan needs rows that no join of the old plan holds")
        operator = plan.operator
        if isinstance(operator, PairLimited):
            operator = operator.with_pair_limit(MOST_PAIRS)
        inputs = [self._elements(each, begin) for each in plan.inputs]
        try:
            return operator.step(NO_STATE, inputs, [BEGINNING] * len(inputs)).output
        except TooManyPairs as stop:
            raise CannotMove(f"the rows of the joins would make {int(stop.pairs):,} pairs at once") from stop

    def _drops_until(self, held: _HeldInput) -> int:
        """Return the instant up to which an operator has dropped elements of one input."""
        others = [each for which, each in enumerate(held.part.inputs) if which != held.which]
        return max(self._mark(each) for each in others)

    def _mark(self, plan: PhysicalPlan) -> int:
        if isinstance(plan, Read):
            return self._watermarks.get(plan.stream, BEGINNING)
        mark = min(self._mark(each) for each in plan.inputs)
        return plan.operator.watermark_after(mark) if isinstance(plan.operator, MovesTime) else mark

    def _read_held(self, held: _HeldInput) -> Batch:
        operator = held.part.operator
        assert isinstance(operator, HoldsElements), operator
        found = [operator.held_elements(chunks, held.which) for chunks in self._states(held.part)]
        return concat([Batch.empty(held.part.inputs[held.which].schema), *found])
