"""Pairs of elements that a join has found, and the final decision about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.collection_entries import identity_bytes, is_collection
from tidegate.expressions.evaluate import Evaluation, evaluate
from tidegate.expressions.nodes import TRUE, Expression, columns_of
from tidegate.physical.common.arrays import Bytes, Mask, Positions
from tidegate.physical.common.batch import Batch, Times, take
from tidegate.physical.common.failures import dead_letters_of_failures
from tidegate.physical.join.kernels.runs import Run
from tidegate.physical.join.residual import Residual
from tidegate.physical.join.sides import JoinSide
from tidegate.schema import Type


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """Elements of one side: rows of a run, one for each pair."""

    side: JoinSide
    run: Run
    rows: Positions

    def take(self, names: Sequence[str]) -> pa.RecordBatch:
        return take(self.side.payload(self.run, names), self.rows)

    def filter(self, mask: Mask) -> Member:
        return Member(self.side, self.run, self.rows[mask])

    def untested_masks(self) -> Iterator[Mask]:
        """Yield, for each term that some elements passed without being tested, a mask of these elements."""
        for column in self.side.operand_columns(self.run):
            if column.null_count:
                yield column.take(pa.array(self.rows)).is_null().to_numpy(zero_copy_only=False)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Pairs of elements, and when both are valid.

    If the residual has been decided, only pairs are left for which it is true or fails, with their failures.
    """

    left: Member
    right: Member
    start: Times
    end: Times
    failures: Bytes | None = None

    def __len__(self) -> int:
        return len(self.start)

    def filter(self, mask: Mask) -> Pairs:
        if mask.all():
            return self
        failures = None if self.failures is None else self.failures[mask]
        return Pairs(self.left.filter(mask), self.right.filter(mask), self.start[mask], self.end[mask], failures)

    def elements(self, wanted: Callable[[str], bool] = lambda _: True) -> Batch:
        """Return the pairs as elements with the wanted columns."""
        left, right = (m.take([n for n in m.side.schema.names if wanted(n)]) for m in (self.left, self.right))
        names = [*left.schema.names, *right.schema.names]
        return Batch(self.start, self.end, pa.RecordBatch.from_arrays([*left.columns, *right.columns], names))


def filter_equal_keys(pairs: Pairs) -> Pairs:
    """Return the pairs whose keys are equal, not only their hashes."""
    left, right = pairs.left.take(pairs.left.side.keys), pairs.right.take(pairs.right.side.keys)
    same = [
        _equal_values(a, b).to_numpy(zero_copy_only=False) for a, b in zip(left.columns, right.columns, strict=True)
    ]
    return pairs.filter(np.logical_and.reduce(same))


def has_exact_hash(keys: Sequence[Type]) -> bool:
    """Return whether keys of these types are equal if their hashes are: the hash of a single number is a bijection."""
    return not keys or (len(keys) == 1 and keys[0] is not Type.STRING and not keys[0].parts)


def apply_residual(pairs: Pairs, residual: Residual) -> Iterator[tuple[Batch, pa.RecordBatch | None]]:
    """Yield the pairs for which the residual is true, and dead letters of those for which it fails."""
    if pairs.failures is not None:
        yield _split_failures(pairs, pairs.failures, residual.whole)
        return
    untested = [*pairs.left.untested_masks(), *pairs.right.untested_masks()]
    if not untested:
        yield _filter_by_predicate(pairs, residual.rest, residual.whole)
        return
    doubtful = np.logical_or.reduce(untested)
    yield _filter_by_predicate(pairs.filter(~doubtful), residual.rest, residual.whole)
    yield _filter_by_predicate(pairs.filter(doubtful), residual.whole, residual.whole)


def _split_failures(pairs: Pairs, failures: Bytes, shown: Expression) -> tuple[Batch, pa.RecordBatch | None]:
    """Return the pairs that did not fail, and dead letters of the others."""
    fails = failures != 0
    if not fails.any():
        return pairs.elements(), None
    verdict = Evaluation(pa.nulls(int(fails.sum())), failures[fails].astype(np.int8))
    dead = dead_letters_of_failures(pairs.filter(fails).elements(), verdict, shown, origin="join")
    return pairs.filter(~fails).elements(), dead


def _filter_by_predicate(pairs: Pairs, predicate: Expression, shown: Expression) -> tuple[Batch, pa.RecordBatch | None]:
    if predicate == TRUE or not len(pairs):
        return pairs.elements(), None
    verdict = evaluate(predicate, pairs.elements(columns_of(predicate).__contains__).columns, len(pairs))
    keep = verdict.values.fill_null(False).to_numpy(zero_copy_only=False)  # noqa: FBT003 - Arrow's API
    if verdict.errors is None:
        return pairs.filter(keep).elements(), None
    fails = verdict.errors != 0
    dead = dead_letters_of_failures(pairs.filter(fails).elements(), verdict.only_failed(), shown, origin="join")
    return pairs.filter(keep & ~fails).elements(), dead


def _equal_values(a: pa.Array, b: pa.Array) -> pa.Array:
    """Return which values are equal; neither column has NULL."""
    if pa.types.is_floating(a.type):
        return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))
    if is_collection(a.type):
        return pc.equal(identity_bytes(a), identity_bytes(b))
    return pc.equal(a, b)
