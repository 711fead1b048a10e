"""Similarity join: pairs of similar elements, valid while both elements are.

A pair is reported as soon as both elements have arrived. If there is no time for all comparisons, the join can make the
most productive ones, judged by earlier comparisons. Every bucket gets all new elements. It keeps its own ones and
compares them with the new ones. A pair of two new elements is compared in the bucket that keeps the right one. A join
of elements with equal keys is simpler: every bucket gets the elements of its keys, and keeps them all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tidegate.algebra.similarity_join import Policy, Shedding, SimilarityCondition
from tidegate.expressions.nodes import TRUE, Expression, columns_of, conjunction, conjuncts
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import Chunks, ControlTypes, PartitionKeys, Step
from tidegate.physical.common.warm_up import exercise_steps
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.similarity_join import control
from tidegate.physical.similarity_join.arrivals import BucketPosition, NewElements, new_elements
from tidegate.physical.similarity_join.coding import coding_of
from tidegate.physical.similarity_join.condition_text import describe_join, join_condition_text
from tidegate.physical.similarity_join.control import (
    SheddingParameters,
    SimilarityJoinDirective,
    SimilarityJoinRecord,
    SimilarityJoinReport,
)
from tidegate.physical.similarity_join.kernels.join import NeededComparisons, Own
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals
from tidegate.physical.similarity_join.key_coding import NO_KEYS, EqualKeyCoding, Keys, key_equality, keys_expression
from tidegate.physical.similarity_join.pair_filter import PairFilter
from tidegate.physical.similarity_join.pairs import PairCollector
from tidegate.physical.similarity_join.state import SimilarityJoinLayout, SimilarityJoinState
from tidegate.physical.similarity_join.utility_classes import utility_classes_of
from tidegate.physical.similarity_join.warm_up import ROWS, warm_up_elements
from tidegate.schema import Schema

REACH = 21
"""Greatest distance of two elements, in slots, that the tally distinguishes: a window is 20 slots wide and starts
within one.
"""

BothSides = tuple[NewElements, NewElements]


@dataclass(frozen=True, slots=True)
class SimilarityJoinOperator:
    """Pairs that are similar, or have equal keys, and for which the predicate is true.

    Without a similarity condition, the predicate alone decides. The condition may accept too many pairs, never too few,
    because the predicate is checked as well. Elements whose compared values are NULL match nothing. Elements that start
    in the same slot of `width` microseconds are processed together.
    """

    left: Schema
    right: Schema
    similarity: SimilarityCondition | None
    predicate: Expression
    shedding: Shedding
    width: int
    keys: Keys = NO_KEYS
    """Columns of equal types; only elements with equal keys are compared, instead of similar ones."""
    bucket: int = 0
    buckets: int = 1
    directive: SimilarityJoinDirective | None = field(default=None, compare=False)
    arrived: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def partition_keys(self) -> PartitionKeys:
        return self.keys if self.is_keyed else (None, None)

    @property
    def is_keyed(self) -> bool:
        """Return whether only elements with equal keys are compared."""
        return self.keys != NO_KEYS

    @property
    def schema(self) -> Schema:
        return self.left + self.right

    def describe(self) -> str:
        condition = join_condition_text(self.left, self.right, self.similarity, self._pair_condition)
        return describe_join(condition, self.similarity, self.shedding, is_keyed=self.is_keyed)

    def warm_up(self) -> None:
        for policy in (Policy.OFF, Policy.ON, Policy.DROP):
            shedding = Shedding(policy, budget=ROWS)
            alone = replace(self, predicate=TRUE, shedding=shedding, directive=None, bucket=0, buckets=2)
            exercise_steps(alone._warm_up_step)  # noqa: SLF001 - of the same class

    def _warm_up_step(self, number: int, state: Chunks) -> Chunks:
        time = number * self.width
        inputs = [warm_up_elements(schema, time, self.width) for schema in (self.left, self.right)]
        return self.step(state, inputs, [time] * 2).state

    def for_bucket(self, bucket: int, buckets: int) -> SimilarityJoinOperator:
        return replace(self, bucket=bucket, buckets=buckets)

    @staticmethod
    def control_types() -> ControlTypes:
        return ControlTypes(SimilarityJoinDirective, SimilarityJoinReport, SimilarityJoinRecord)

    def with_directive(
        self, directive: SimilarityJoinDirective | None, arrived: Mapping[str, int]
    ) -> SimilarityJoinOperator:
        return replace(self, directive=directive, arrived=arrived)

    def decide(
        self, record: SimilarityJoinRecord | None, reports: Sequence[SimilarityJoinReport], seconds: float
    ) -> SimilarityJoinRecord | None:
        return record if self._is_exact else control.decide(self._shedding_parameters, record, reports, seconds)

    def forget(self, state: Chunks, which: int) -> Chunks:
        return SimilarityJoinState.load(self._layout, state).without_side(which).save(state)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        memory, rows = SimilarityJoinState.load(self._layout, state), len(inputs[0]) + len(inputs[1])
        came = self._prepare_new(memory, 0, inputs[0]), self._prepare_new(memory, 1, inputs[1])
        tally = control.tally_of(self.directive, memory.layout.settings)
        budget = None
        if not self._is_exact:
            budget = control.budget_of(self._shedding_parameters, self.directive, rows, (self.bucket, self.buckets))
        taken = self._select_elements(memory, came, tally, budget)
        left, right = ([new.segment, *memory.segments(stream)] for stream, new in enumerate(taken.new))
        pairing = PairCollector(memory.layout.schemas, self._checked_predicates, (left, right))
        limits = (watermarks[0], watermarks[1])
        join, answer = memory.join.step(
            _arrivals(taken.new),
            limits,
            taken.budget,
            own=_own_masks(taken.new),
            predicate=pairing,
            finder=self._pair_filter(memory, taken.new),
            tally=tally,
        )
        if not any(map(len, came)):
            join = memory.join.forget(limits)  # a step without new elements must leave the state unchanged
        after = memory.after_step(join, [new.segment for new in came], taken.dropped)
        report = None
        if budget is not None:
            report = control.report_of(answer, budget, rows, taken.volume, sum(map(len, taken.dropped)))
            report = replace(report, bucket=self.bucket)
        output = pairing.output(answer.start, answer.end)
        return Step(after.save(state), output, min(watermarks), pairing.dead_letters(), report)

    @property
    def _layout(self) -> SimilarityJoinLayout:
        return _layout_of(self, control.halvings_of(self.directive))

    @property
    def _is_exact(self) -> bool:
        return self.shedding.policy is Policy.OFF

    @property
    def _shedding_parameters(self) -> SheddingParameters:
        condition = join_condition_text(self.left, self.right, self.similarity, self._pair_condition)
        return SheddingParameters(condition or "all pairs", self.shedding, _layout_of(self, 0).settings)

    @property
    def _pair_condition(self) -> Expression:
        """The predicate, after the condition that keys are equal."""
        same = conjuncts(keys_expression(self.keys, self.left, self.right))
        return conjunction((*same, *conjuncts(self.predicate)))

    @property
    def _checked_predicates(self) -> tuple[Expression, Expression]:
        """What is checked of pairs, in this order: that keys are equal, not only their codes, and the predicate."""
        return key_equality(self.keys, self.left, self.right), self.predicate

    def _pair_filter(self, memory: SimilarityJoinState, new: BothSides) -> PairFilter | None:
        """Return a filter of pairs by the predicate, if pairs are those with equal keys."""
        read = columns_of(self.predicate)
        if not self.is_keyed or not all(read & set(side.names) for side in (self.left, self.right)):
            return None
        return PairFilter(self.predicate, memory.layout.schemas, memory.sides, [each.segment for each in new])

    def _prepare_new(self, memory: SimilarityJoinState, stream: int, batch: Batch) -> NewElements:
        # With keys, every bucket gets only its own elements.
        place = BucketPosition(0, 1) if self.is_keyed else BucketPosition(self.bucket, self.buckets)
        first = memory.next_row[stream]
        return new_elements(memory.layout, stream, batch, first, place, ordered=not self._is_exact)

    def _select_elements(
        self, memory: SimilarityJoinState, came: BothSides, tally: Tally, budget: float | None
    ) -> _SelectedElements:
        """Select the elements to process: all, or a share that can be compared completely.

        The share depends on what this bucket keeps, and may differ slightly between buckets. A dropped element is
        counted in the bucket that would keep it.
        """
        nothing = np.empty(0, np.int64)
        if budget is None or self.shedding.policy is not Policy.DROP:
            return _SelectedElements(came, budget, 0, (nothing, nothing))
        work = memory.join.needed_comparisons(_arrivals(came), own=_own_masks(came), tally=tally)
        share = budget / work.units if work.units > budget else 1.0
        chosen = [new.choose_share(share, memory.join.batch) for new in came]
        left, right = (new.filter(mask) for new, mask in zip(came, chosen, strict=True))
        one, other = (new.filter(~mask & new.kept_mask).arrivals.start for new, mask in zip(came, chosen, strict=True))
        return _SelectedElements((left, right), None, _estimate_full_volume(memory, work), (one, other))


class _SelectedElements(NamedTuple):
    """New elements to process, the remaining budget, and the comparisons that processing all would need."""

    new: BothSides
    budget: float | None
    volume: int
    dropped: tuple[Ints, Ints]
    """Starts of the dropped elements, for each side."""


def _arrivals(new: BothSides) -> tuple[SlotArrivals, SlotArrivals]:
    return new[0].arrivals, new[1].arrivals


def _own_masks(new: BothSides) -> Own | None:
    return None if new[0].own is None or new[1].own is None else (new[0].own, new[1].own)


def _estimate_full_volume(memory: SimilarityJoinState, work: NeededComparisons) -> int:
    """Estimate the comparisons if no element had ever been dropped."""
    shares = memory.share_kept(0), memory.share_kept(1)
    return round(sum(task.volume / (1.0 if task.is_fresh else shares[1 - task.cell.stream]) for task in work.tasks))


@lru_cache(maxsize=256)
def _layout_of(join: SimilarityJoinOperator, halvings: int) -> SimilarityJoinLayout:
    coding = EqualKeyCoding(join.keys) if join.is_keyed else coding_of(join.similarity, join.left, join.right)
    is_exact = join.shedding.policy is Policy.OFF
    kinds = None if is_exact else utility_classes_of(join.shedding.utility, join.left, join.right)
    utilities = None if kinds is None else kinds.utilities()
    settings = SimilarityJoinSettings(
        coding.condition, join.width, REACH, coding.method, utilities=utilities, seed=join.bucket
    )
    return SimilarityJoinLayout((join.left, join.right), coding, kinds, settings.with_halvings(halvings))
