"""The join of two streams: pairs that match, valid while both are.

Pairs are reported as soon as both elements have come. An element is kept as long as one of the
other side may still come that overlaps it: while it ends after the other side's watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import lru_cache

from tidegate.expressions.nodes import TRUE, Expression
from tidegate.expressions.text import to_sql
from tidegate.physical.batch import Batch, concat, concat_columns
from tidegate.physical.deadletters import NO_DEAD_LETTERS
from tidegate.physical.kernels.join import search
from tidegate.physical.kernels.runs import Run
from tidegate.physical.kernels.terms import Combine, Term
from tidegate.physical.kernels.tiers import TIERS, Side, Tiers, load_runs, renew, save_runs
from tidegate.physical.operator import Chunks, Meeting, Step
from tidegate.physical.pairs import Member, Pairs, decide, same_keys
from tidegate.physical.residual import FLIPPED, PairTerm, Residual, split_residual
from tidegate.physical.sides import JoinSide
from tidegate.schema import Schema


@dataclass(frozen=True, slots=True)
class JoinOperator:
    """Pairs with equal keys for which the residual is true; without keys, of all elements.

    Keys of equal position have equal types. NULL equals nothing, NaN equals NaN.

    Examples
    --------
    >>> from tidegate.expressions.nodes import TRUE
    >>> from tidegate.physical.operator import NO_STATE
    >>> from tidegate.schema import Type
    >>> import numpy as np, pyarrow as pa
    >>> left, right = Schema.of(a=Type.INT), Schema.of(b=Type.INT)
    >>> seven = pa.array([7], pa.int32())
    >>> a = Batch(np.array([0]), np.array([5]), pa.record_batch({"a": seven}))
    >>> b = Batch(np.array([3]), np.array([9]), pa.record_batch({"b": seven}))
    >>> step = JoinOperator(left, right, ("a",), ("b",), TRUE).step(NO_STATE, [a, b], [3, 3])
    >>> step.output.to_arrow().to_pylist()
    [{'valid_from': 3, 'valid_to': 5, 'a': 7, 'b': 7}]
    """

    left: Schema
    right: Schema
    left_keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    residual: Expression
    _: KW_ONLY
    tiers: Tiers = TIERS
    most_pairs: int = 1 << 20
    """So many candidates are looked at together: it bounds the memory they take."""

    @property
    def schema(self) -> Schema:
        return self.left + self.right

    @property
    def meeting(self) -> Meeting:
        return (self.left_keys, self.right_keys)

    @property
    def words(self) -> str:
        pairs = [f"{a} = {b}" for a, b in zip(self.left_keys, self.right_keys, strict=True)]
        rest = [] if self.residual == TRUE else [to_sql(self.residual)]
        return "join on " + (" AND ".join(pairs + rest) or "everything")

    def forget(self, state: Chunks, which: int) -> Chunks:
        left, right = load_runs(state)
        return save_runs((), right) if which == 0 else save_runs(left, ())

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        plan = _plan(self)
        old_left, old_right = load_runs(state)
        new_left, new_right = plan.left.make_run(inputs[0]), plan.right.make_run(inputs[1])
        parts = [
            part
            for pairs in _candidates(plan, (old_left, new_left), (old_right, new_right))
            for part in decide(same_keys(pairs), plan.residual)
        ]
        left = renew(old_left, new_left, watermarks[1], self.tiers)
        right = renew(old_right, new_right, watermarks[0], self.tiers)
        unchanged = _same_runs(old_left, left) and _same_runs(old_right, right)
        dead = [letters for _, letters in parts if letters is not None]
        return Step(
            state if unchanged else save_runs(left, right),
            concat([Batch.empty(self.schema), *(batch for batch, _ in parts)]),
            min(watermarks),
            concat_columns(dead) if dead else NO_DEAD_LETTERS,
        )


@dataclass(frozen=True, slots=True)
class JoinPlan:
    """What follows from the parameters of a join."""

    left: JoinSide
    right: JoinSide
    residual: Residual
    left_terms: tuple[Term, ...]  # as the left searches the right
    right_terms: tuple[Term, ...]
    most_pairs: int


@lru_cache(maxsize=256)
def _plan(join: JoinOperator) -> JoinPlan:
    residual = split_residual(join.residual, join.left, join.right)
    return JoinPlan(
        JoinSide.of(join.left, join.left_keys, [t.left for t in residual.terms], may_fail=residual.may_fail),
        JoinSide.of(join.right, join.right_keys, [t.right for t in residual.terms], may_fail=residual.may_fail),
        residual,
        tuple(_from_left(t) for t in residual.terms),
        tuple(_from_right(t) for t in residual.terms),
        join.most_pairs,
    )


def _from_left(term: PairTerm) -> Term:
    """The term as the left tests it: where values are compared, the run's stands first."""
    compare = FLIPPED[term.compare] if term.combine is Combine.NOTHING else term.compare
    return Term(int(term.combine), int(compare), term.left.sign, term.right.sign, term.constant)


def _from_right(term: PairTerm) -> Term:
    return Term(int(term.combine), int(term.compare), term.right.sign, term.left.sign, term.constant)


def _candidates(plan: JoinPlan, left: tuple[Side, Run | None], right: tuple[Side, Run | None]) -> Iterator[Pairs]:
    """New left with all right, then old left with new right: the new elements search in the runs."""
    (old_left, new_left), (old_right, new_right) = left, right
    if new_left is not None:
        probe = plan.left.probe(new_left, plan.left_terms)
        for run in (*(each.run for each in old_right), *([] if new_right is None else [new_right])):
            for found in search(probe, plan.right.searched(run), most=plan.most_pairs):
                members = Member(plan.left, new_left, found.probe), Member(plan.right, run, found.row)
                yield Pairs(*members, found.start, found.end)
    if new_right is not None:
        probe = plan.right.probe(new_right, plan.right_terms)
        for run in (each.run for each in old_left):
            for found in search(probe, plan.left.searched(run), most=plan.most_pairs):
                members = Member(plan.left, run, found.row), Member(plan.right, new_right, found.probe)
                yield Pairs(*members, found.start, found.end)


def _same_runs(before: Side, after: Side) -> bool:
    return len(before) == len(after) and all(a is b for a, b in zip(before, after, strict=True))
