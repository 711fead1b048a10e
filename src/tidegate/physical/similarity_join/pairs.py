"""Check similar pairs with the predicate, and build their results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.expressions.evaluate import Evaluation, evaluate
from tidegate.expressions.nodes import TRUE, Expression, columns_of
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.failures import dead_letters_of_failures
from tidegate.physical.common.row_segments import Segment, gather
from tidegate.physical.similarity_join.state import OWN
from tidegate.schema import Schema

_TIMES = ("start", "end")


class _SideElements(NamedTuple):
    """Elements of one side by their rows."""

    schema: Schema
    segments: Sequence[Segment]

    def select_columns(self, names: Sequence[str]) -> _SideColumns:
        """Return some of their columns."""
        own = [f"{OWN}{name}" for name in names]
        kinds = pa.schema([pa.field(f"{OWN}{name}", self.schema.type_of(name).arrow) for name in names])
        return _SideColumns([Segment(ids, columns.select(own)) for ids, columns in self.segments], kinds)

    def times(self, rows: Ints) -> tuple[Ints, Ints]:
        kinds = pa.schema([pa.field(name, pa.int64()) for name in _TIMES])
        segments = [Segment(ids, columns.select(list(_TIMES))) for ids, columns in self.segments]
        start, end = (column.to_numpy() for column in gather(rows, segments, kinds).columns)
        return start, end


class _SideColumns(NamedTuple):
    """Columns of elements by their rows."""

    segments: Sequence[Segment]
    schema: pa.Schema

    def take(self, rows: Ints) -> list[pa.Array]:
        columns: list[pa.Array] = gather(rows, self.segments, self.schema).columns
        return columns


class PairCollector:
    """Collector of results: checks predicates, one after the other, on pairs of rows that are valid together."""

    def __init__(
        self,
        schemas: tuple[Schema, Schema],
        predicates: tuple[Expression, Expression],
        segments: tuple[list[Segment], list[Segment]],
    ) -> None:
        self.predicates, self.schema = [each for each in predicates if each != TRUE], schemas[0] + schemas[1]
        self.arrow = self.schema.arrow
        self.sides = _SideElements(schemas[0], segments[0]), _SideElements(schemas[1], segments[1])
        wanted = frozenset[str]().union(*map(columns_of, self.predicates))
        self.read = [[name for name in schema.names if name in wanted] for schema in schemas]
        self.asked = [side.select_columns(names) for side, names in zip(self.sides, self.read, strict=True)]
        self.whole = [side.select_columns(side.schema.names) for side in self.sides]
        self.found: list[pa.RecordBatch] = []
        self.dead: list[pa.RecordBatch] = []

    def __call__(self, left: Ints, right: Ints) -> Mask:
        """Return which pairs are results."""
        mask = np.ones(len(left), np.bool_)
        for predicate in self.predicates if len(left) else ():
            mask[mask] = self._check_predicate(predicate, left[mask], right[mask])
        if mask.any():
            self.found.append(self._pair_columns(left[mask], right[mask]))
        return mask

    def output(self, start: Ints, end: Ints) -> Batch:
        """Return all results, and when they are valid."""
        return Batch(start, end, concat_columns(self.found)) if self.found else Batch.empty(self.schema)

    def dead_letters(self) -> pa.RecordBatch:
        """Return dead letters of the pairs for which the predicate failed."""
        return concat_columns(self.dead) if self.dead else NO_DEAD_LETTERS

    def _check_predicate(self, predicate: Expression, left: Ints, right: Ints) -> Mask:
        columns = [*self.asked[0].take(left), *self.asked[1].take(right)]
        verdict = evaluate(predicate, pa.RecordBatch.from_arrays(columns, self.read[0] + self.read[1]), len(left))
        keep: Mask = verdict.values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
        if verdict.errors is None:
            return keep
        fails: Mask = verdict.errors != 0
        self._add_dead_letters(predicate, left[fails], right[fails], verdict.only_failed())
        return keep & ~fails

    def _add_dead_letters(self, predicate: Expression, left: Ints, right: Ints, verdict: Evaluation) -> None:
        times = [side.times(rows) for side, rows in zip(self.sides, (left, right), strict=True)]
        start, end = np.maximum(times[0][0], times[1][0]), np.minimum(times[0][1], times[1][1])
        pairs = Batch(start, end, self._pair_columns(left, right))
        self.dead.append(dead_letters_of_failures(pairs, verdict, predicate, origin="join"))

    def _pair_columns(self, left: Ints, right: Ints) -> pa.RecordBatch:
        columns = [*self.whole[0].take(left), *self.whole[1].take(right)]
        return pa.RecordBatch.from_arrays(columns, schema=self.arrow)
