"""Rows that the joins of a query hold of its inputs, and the share of their pairs that satisfies a condition.

A join of inputs holds the rows of each that are valid now. So the selectivity of each condition follows from the rows
of the inputs that it reads, whichever joins run and however many conditions each of them has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.arrays import Ints, Words
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.functions.resolve import can_fail
from tidegate.expressions.nodes import Call, Expression, columns_of
from tidegate.physical.common.batch import concat_columns, take
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.common.operator import NO_STATE, Chunks
from tidegate.physical.join.operator import JoinOperator
from tidegate.runtime.stage import FromStage, Node, Port, Stage, split_by_operator
from tidegate.runtime.stage_graph import StageGraph
from tidegate.values import value

MOST_ROWS = 1 << 16
"""Number of rows of an input from which shares are computed, at most: larger states are sampled."""

MOST_COMBINATIONS = 1 << 16
"""Number of combinations of rows for which a condition that is not an equality is decided, at most."""

FEWEST_MATCHES = 10.0
"""Number of matches below which a share is mostly chance."""


@value
class MatchCount:
    """How many of some combinations of rows satisfy a condition."""

    matches: float
    combinations: float

    @property
    def is_certain(self) -> bool:
        return self.matches >= FEWEST_MATCHES

    @property
    def share(self) -> float:
        """The share of the matches; if there are none, half of the least one."""
        return max(self.matches, 0.5) / self.combinations

    def limit(self, share: float) -> float:
        """Return the share within the bounds that are not passed, except by chance."""
        return min(
            max(share, self.matches / 4 / self.combinations), max(self.matches, FEWEST_MATCHES) / self.combinations
        )


def count_matches(term: Expression, inputs: Sequence[pa.RecordBatch]) -> MatchCount | None:
    """Return how many combinations of rows satisfy a condition; None if columns or rows are missing.

    Examples
    --------
    >>> from tidegate.expressions.nodes import Column
    >>> from tidegate.schema import Type
    >>> term = Call("=", (Column("a", Type.INT), Column("b", Type.INT)), Type.BOOLEAN)
    >>> columns = {"a": [1, 1, 2, None], "b": [1, 2, 2]}
    >>> count_matches(term, [pa.record_batch({name: pa.array(each, pa.int32())}) for name, each in columns.items()])
    MatchCount(matches=4.0, combinations=12.0)
    """
    names = columns_of(term)
    read = [each.select([n for n in each.schema.names if n in names]) for each in inputs]
    read = [each for each in read if each.num_columns]
    found = [name for each in read for name in each.schema.names]
    if can_fail(term) or sorted(found) != sorted(names) or not all(each.num_rows for each in read):
        return None
    match term:
        case Call("=", (left, right)) if sides := _sides_of_equality(left, right, read):
            return MatchCount(count_equal(*sides), float(prod(map(len, sides))))
    combined = combine_rows(read)
    matches = pc.sum(evaluate(term, combined, combined.num_rows).values).as_py() or 0
    return MatchCount(float(matches), float(combined.num_rows))


def _sides_of_equality(left: Expression, right: Expression, inputs: Sequence[pa.RecordBatch]) -> list[pa.Array]:
    """Return the values of both sides, if each of them reads one of two inputs; otherwise nothing."""
    found = []
    for side in (left, right):
        found += [(at, side) for at, each in enumerate(inputs) if columns_of(side) == frozenset(each.schema.names)]
    if len(inputs) != 2 or {at for at, _ in found} != {0, 1} or len(found) != 2:
        return []
    return [evaluate(side, inputs[at], inputs[at].num_rows).values for at, side in found]


def count_equal(left: pa.Array, right: pa.Array) -> float:
    """Return the number of pairs of equal values; NULL equals nothing."""
    (one, of_one), (two, of_two) = (_count_values(each) for each in (left, right))
    _, at_one, at_two = np.intersect1d(one, two, assume_unique=True, return_indices=True)
    return float(np.dot(of_one[at_one].astype(np.float64), of_two[at_two].astype(np.float64)))


def _count_values(column: pa.Array) -> tuple[Words, Ints]:
    """Return the hashes of the values of a column, and how often each occurs."""
    hashes, counts = np.unique(hash_columns([column.drop_null()]), return_counts=True)
    return hashes, counts


def combine_rows(inputs: Sequence[pa.RecordBatch], most: int = MOST_COMBINATIONS) -> pa.RecordBatch:
    """Return all combinations of rows of some inputs, or, if they are more than `most`, as many random ones."""
    sizes = [each.num_rows for each in inputs]
    if prod(sizes) <= most:
        rows = [each.ravel() for each in np.indices(sizes)]
    else:
        random = np.random.default_rng(len(sizes))
        rows = [random.integers(0, size, most) for size in sizes]
    parts = [take(each, chosen) for each, chosen in zip(inputs, rows, strict=True)]
    names = [name for each in parts for name in each.schema.names]
    return pa.RecordBatch.from_arrays([column for each in parts for column in each.columns], names)


def sample_rows(parts: Sequence[pa.RecordBatch], seed: int, most: int = MOST_ROWS) -> pa.RecordBatch:
    """Return the rows of one or more batches, or, if they are more than `most`, as many random ones.

    Rows of two inputs must have different seeds. Runs of joins are sorted by hash, so rows at the same places of two
    inputs match more often than others.
    """
    ends = np.cumsum([each.num_rows for each in parts])
    if ends[-1] <= most:
        return concat_columns(parts)
    chosen = np.sort(np.random.default_rng(seed).integers(0, ends[-1], most))
    bounds = np.searchsorted(chosen, ends)
    taken, first = [], 0
    for part, end, bound in zip(parts, ends, bounds, strict=True):
        taken.append(take(part, chosen[first:bound] - (end - part.num_rows)))
        first = bound
    return concat_columns(taken)


# ---- what joins hold


def sample_base_inputs(
    graph: StageGraph, states: Mapping[int, Sequence[Chunks]], names: Collection[str], most: int = MOST_ROWS
) -> list[pa.RecordBatch]:
    """Return rows of each base input of joins, with those of its columns that have these names.

    `states` has the states of stages in all buckets, by the number of the stage. A base input is an input of a join
    that is not made of joins itself.
    """
    found: list[pa.RecordBatch] = []
    for stage in (graph.by_number[number] for number in sorted(states)):
        for parts in _find_parts(graph, stage, names, [split_by_operator(chunks) for chunks in states[stage.number]]):
            found.append(sample_rows(parts, len(found), most))
    return found


def _find_parts(
    graph: StageGraph, stage: Stage, names: Collection[str], states: Sequence[Mapping[int, Chunks]]
) -> Iterator[list[pa.RecordBatch]]:
    """Yield the rows of each base input of the joins of a stage."""
    for number, node in enumerate(stage.nodes):
        join = node.operator
        if not isinstance(join, JoinOperator):
            continue
        for which, (below, schema) in enumerate(zip(node.inputs, (join.left, join.right), strict=True)):
            read = [name for name in schema.names if name in names]
            chunks = [each.get(number, NO_STATE) for each in states]
            parts = [part for each in chunks for part in join.held_columns(each, which, read)]
            if read and parts and not _is_joined(graph, stage, below):
                yield parts


def _is_joined(graph: StageGraph, stage: Stage, node: Node | Port) -> bool:
    """Return whether elements are those of a join, as it gives them or changed by operators without state."""
    if isinstance(node, Port):
        feed = stage.feeds[node.index]
        if not isinstance(feed, FromStage):
            return False
        source = graph.by_number[feed.stage]
        return _is_joined(graph, source, source.outlets[feed.outlet].root)
    if node.operator.partition_keys is not None:
        return isinstance(node.operator, JoinOperator)
    return any(_is_joined(graph, stage, each) for each in node.inputs)
