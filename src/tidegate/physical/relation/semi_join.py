"""Semi-join and anti-join: elements of the left while the right has, or does not have, a matching row.

Whether a left row matches depends on its values alone. So it is enough to know how often a row is in the left, and
whether it is in a pair. Pairs come from a join, both counts from one grouping.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from tidegate.expressions.nodes import Expression
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step
from tidegate.physical.join.operator import JoinOperator
from tidegate.physical.relation.sets import ANY_RIGHT, counting_operator, repeat_elements, side_counts, tag_elements
from tidegate.schema import Schema

_JOIN, _COUNT = "join", "count"


@dataclass(frozen=True, slots=True)
class SemiJoinOperator:
    """Forward left elements while some right row has equal keys and a true residual; with `anti`, while none has."""

    left: Schema
    right: Schema
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    residual: Expression
    anti: bool
    emit: Emit
    most_pairs: int | None = None
    """Number of pairs above which a step raises `TooManyPairs`."""

    @property
    def schema(self) -> Schema:
        return self.left

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.left_keys, self.right_keys)

    def describe(self) -> str:
        join, _ = parts_of_semi_join(self)
        return f"{'anti-' if self.anti else 'semi-'}{join.describe()}, reporting {self.emit.name.lower()}"

    def with_pair_limit(self, most: int) -> SemiJoinOperator:
        return replace(self, most_pairs=most)

    def forget(self, state: Chunks, which: int) -> Chunks:
        parts = _split_state(state)
        return _combine_states(join=parts_of_semi_join(self)[0].forget(parts[_JOIN], which), count=parts[_COUNT])

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        join, count = parts_of_semi_join(self)
        before = _split_state(state)
        paired = join.step(before[_JOIN], inputs, watermarks)
        matched = paired.output.with_columns(paired.output.columns.select(list(self.left.names)))
        both = concat([tag_elements(inputs[0], left=True), tag_elements(matched, left=False)])
        counted = count.step(before[_COUNT], [both], [paired.watermark])
        rows, pairs = side_counts(counted.output)
        output = repeat_elements(counted.output, np.where((pairs > 0) != self.anti, rows, 0), self.left)
        kept = _combine_states(join=paired.state, count=counted.state)
        return Step(kept, output, counted.watermark, paired.dead, pairs=paired.pairs)


@lru_cache(maxsize=8192)
def parts_of_semi_join(semi: SemiJoinOperator) -> tuple[JoinOperator, AggregateOperator]:
    join = JoinOperator(
        semi.left, semi.right, semi.left_keys, semi.right_keys, semi.residual, most_output=semi.most_pairs
    )
    return join, counting_operator(semi.left, ANY_RIGHT, semi.emit)


def _split_state(state: Chunks) -> Mapping[str, Chunks]:
    parts: dict[str, dict[str, object]] = {_JOIN: {}, _COUNT: {}}
    for name, chunk in state.items():
        part, _, rest = name.partition("/")
        parts[part][rest] = chunk
    return parts


def _combine_states(**parts: Chunks) -> Chunks:
    return {f"{part}/{name}": chunk for part, state in parts.items() for name, chunk in state.items()}
