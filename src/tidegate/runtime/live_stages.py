"""Cut the plans of a live graph into stages whose numbers stay for life.

The cut is canonical: what a stage holds follows from the plan below it alone. Every operator with state ends its
stage, whether or not it has several readers, and its partitioning does not depend on its readers. So a stage holds one
operator with state, whose number within the stage does not change. When readers come and go, only outlets change;
state and control records, which are kept by stage, stay where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tidegate.errors import deep_recursion
from tidegate.physical.common.operator import PartitionKeys
from tidegate.physical.common.plan import Apply, PhysicalPlan
from tidegate.physical.stateless.validities import ClipOperator
from tidegate.runtime.cut_stages import Fragment, StageCutter, StageKey, choose_key_positions
from tidegate.runtime.stage_graph import StageGraph
from tidegate.values import value


@value
class LivePlan:
    """The plan of one phase of a query. `phase` identifies it among the readers of stages."""

    phase: str
    query: str
    physical: PhysicalPlan


@deep_recursion()
def cut_live_stages(
    plans: Sequence[LivePlan], numbers: Mapping[StageKey, int], declared: Mapping[str, frozenset[str]]
) -> StageGraph:
    """Cut the plans of a live graph into stages with known numbers; see `stage_keys`."""
    cutter = _LiveCutter(numbers.__getitem__)
    for plan in plans:
        cutter.add_query(plan.phase, plan.query, plan.physical)
    return StageGraph(tuple(cutter.link_stages()), declared)


@deep_recursion()
def stage_keys(plan: LivePlan) -> tuple[StageKey, ...]:
    """Return the keys of the stages that a phase reads, in the order in which they are closed."""
    keys: list[StageKey] = []

    def note_key(key: StageKey) -> int:
        keys.append(key)
        return len(keys) - 1

    _LiveCutter(note_key).add_query(plan.phase, plan.query, plan.physical)
    return tuple(keys)


def _is_clip(plan: PhysicalPlan) -> bool:
    return isinstance(plan, Apply) and isinstance(plan.operator, ClipOperator)


class _LiveCutter(StageCutter):
    """Cutter for which every operator with state ends its stage."""

    def __init__(self, number_of: Callable[[StageKey], int]) -> None:
        super().__init__(frozenset())
        self.number_of = number_of
        self.reader = ""
        self.root: PhysicalPlan | None = None

    def add_query(self, reader: str, query: str, plan: PhysicalPlan) -> None:
        self.reader, self.root = reader, plan
        super().add_query(reader, query, plan)

    def is_shared(self, plan: PhysicalPlan) -> bool:
        return isinstance(plan, Apply) and plan.operator.partition_keys is not None

    def number_stage(self, key: StageKey) -> int:
        plan, position = key
        return self.number_of((f"{self.reader} top", position) if self._is_top(plan) else key)

    def fragments(self, plan: PhysicalPlan) -> list[Fragment]:
        return (
            [self.share_fragment(each, plan) for each in self.cut(plan)]
            if self._is_top(plan)
            else super().fragments(plan)
        )

    def _is_top(self, plan: PhysicalPlan | str) -> bool:
        """Return whether a part is on top of the clip of a phase.

        It is the phase's own, even if another phase has an equal one: intervals change. So the phase identifies it.
        """
        return plan is self.root and isinstance(plan, Apply) and any(map(_is_clip, plan.inputs))

    def key_positions(self, sides: list[list[Fragment]], keys: PartitionKeys) -> tuple[int, ...]:
        return choose_key_positions(sides, keys)
