"""Join of two streams: pairs that match, valid while both elements are.

A pair is reported as soon as both elements have arrived. An element is kept while an overlapping element of the other
side may still arrive: as long as it ends after the other side's watermark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tidegate.expressions.nodes import TRUE, Expression
from tidegate.expressions.sql_text import to_sql
from tidegate.physical.common.batch import Batch, concat, concat_columns
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.operator import Chunks, PartitionKeys, Step, TooManyPairs
from tidegate.physical.join.kernels.runs import Run
from tidegate.physical.join.kernels.search import Probe, search
from tidegate.physical.join.kernels.terms import Combine, Term
from tidegate.physical.join.kernels.tiers import TIERS, Side, Tiers, load_runs, save_runs, update_side
from tidegate.physical.join.pairs import Member, Pairs, apply_residual, filter_equal_keys, has_exact_hash
from tidegate.physical.join.residual import FLIPPED, PairTerm, Residual, split_residual
from tidegate.physical.join.sides import JoinSide
from tidegate.schema import Schema
from tidegate.time import BEGINNING

if TYPE_CHECKING:
    from tidegate.physical.common.condition_columns import Condition

MOST_ROWS_BOUNDED = 16
"""Number of rows of a run, for each row that searches in it, up to which the bounds of its values are computed."""


@dataclass(frozen=True, slots=True)
class JoinOperator:
    """Join elements with equal keys for which the residual is true; without keys, compare all elements.

    Keys of equal position have equal types. NULL equals nothing, NaN equals NaN.

    Examples
    --------
    >>> from tidegate.expressions.nodes import TRUE
    >>> from tidegate.physical.common.operator import NO_STATE
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
    """Number of candidates that are processed together; it bounds their memory."""
    most_output: int | None = None
    """Number of pairs above which a step raises `TooManyPairs`."""
    schema: Schema = field(init=False, repr=False, compare=False)
    plan: JoinPlan = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", self.left + self.right)
        object.__setattr__(self, "plan", _plan_join(self))

    @property
    def partition_keys(self) -> PartitionKeys:
        return (self.left_keys, self.right_keys)

    def emits_at_once(self) -> bool:
        return True

    def describe(self) -> str:
        pairs = [f"{a} = {b}" for a, b in zip(self.left_keys, self.right_keys, strict=True)]
        rest = [] if self.residual == TRUE else [to_sql(self.residual)]
        return "join on " + (" AND ".join(pairs + rest) or "everything")

    def with_pair_limit(self, most: int) -> JoinOperator:
        return replace(self, most_output=most)

    def forget(self, state: Chunks, which: int) -> Chunks:
        left, right = load_runs(state)
        return save_runs((), right) if which == 0 else save_runs(left, ())

    def held_elements(self, state: Chunks, which: int) -> Batch:
        side = (self.plan.left, self.plan.right)[which]
        return concat([Batch.empty(side.schema), *(side.elements(each.run) for each in load_runs(state)[which])])

    def held_columns(self, state: Chunks, which: int, names: Sequence[str]) -> list[pa.RecordBatch]:
        """Return some columns of the elements of one input that the state has, without copying them."""
        side = (self.plan.left, self.plan.right)[which]
        return [side.payload(each.run, names) for each in load_runs(state)[which]]

    def hold_elements(self, inputs: Sequence[Batch]) -> Chunks:
        runs = self.plan.left.make_run(inputs[0]), self.plan.right.make_run(inputs[1])
        left, right = (update_side((), run, BEGINNING, self.tiers) for run in runs)
        return save_runs(left, right)

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        old_left, old_right = load_runs(state)
        new_left, new_right = self.plan.left.make_run(inputs[0]), self.plan.right.make_run(inputs[1])
        parts = self._find_pairs((old_left, new_left), (old_right, new_right))
        left = update_side(old_left, new_left, watermarks[1], self.tiers)
        right = update_side(old_right, new_right, watermarks[0], self.tiers)
        unchanged = old_left == left and old_right == right
        dead = [letters for _, letters in parts if letters is not None]
        output = concat([Batch.empty(self.schema), *(batch for batch, _ in parts)])
        return Step(
            state if unchanged else save_runs(left, right),
            output,
            min(watermarks),
            concat_columns(dead) if dead else NO_DEAD_LETTERS,
            pairs=len(output),
        )

    def _find_pairs(
        self, left: tuple[Side, Run | None], right: tuple[Side, Run | None]
    ) -> list[tuple[Batch, pa.RecordBatch | None]]:
        """Return the pairs with new elements, and dead letters of those for which the residual fails."""
        parts, made = [], 0
        searches = _searches(self.plan, left, right)
        for at, each in enumerate(searches):
            for found, done in each.find_pairs(self.most_pairs):
                pairs = found if self.plan.hash_decides else filter_equal_keys(found)
                decided = list(apply_residual(pairs, self.plan.residual))
                parts += decided
                made += sum(len(batch) for batch, _ in decided)
                if self.most_output is not None and made > self.most_output:
                    part = (at + done) / len(searches)
                    raise TooManyPairs(made / part, _cut_time([left[1], right[1]], part))
        return parts


@dataclass(frozen=True)  # no slots: the condition is compiled once and cached
class JoinPlan:
    """Values that follow from the parameters of a join."""

    left: JoinSide
    right: JoinSide
    residual: Residual
    left_terms: tuple[Term, ...]  # for searches from the left in runs of the right
    right_terms: tuple[Term, ...]
    hash_decides: bool  # keys with equal hashes are equal

    @cached_property
    def condition(self) -> Condition | None:
        """The whole residual, compiled; None if terms are all of it, or if it cannot be compiled."""
        if self.residual.rest == TRUE:
            return None
        # Imported when needed: it imports Numba, which `check` and `explain` do without.
        from tidegate.physical.common.conditions import compile_condition

        names = frozenset(self.left.schema.names), frozenset(self.right.schema.names)
        return compile_condition(self.residual.whole, names, computes_loads=False)


def _plan_join(join: JoinOperator) -> JoinPlan:
    residual = split_residual(join.residual, join.left, join.right)
    return JoinPlan(
        JoinSide.of(join.left, join.left_keys, [t.left for t in residual.terms], may_fail=residual.may_fail),
        JoinSide.of(join.right, join.right_keys, [t.right for t in residual.terms], may_fail=residual.may_fail),
        residual,
        tuple(_term_from_left(t) for t in residual.terms),
        tuple(_term_from_right(t) for t in residual.terms),
        has_exact_hash([join.left.type_of(key) for key in join.left_keys]),
    )


def _term_from_left(term: PairTerm) -> Term:
    """Return the term as the left tests it; in a comparison of values, the value of the run comes first."""
    compare = FLIPPED[term.compare] if term.combine is Combine.NOTHING else term.compare
    return Term(int(term.combine), int(compare), term.left.sign, term.right.sign, term.constant)


def _term_from_right(term: PairTerm) -> Term:
    return Term(int(term.combine), int(term.compare), term.right.sign, term.left.sign, term.constant)


@dataclass(frozen=True, slots=True, eq=False)
class _Search:
    """Search of the new elements of one side for partners in a run of the other."""

    plan: JoinPlan
    new: Run
    probe: Probe
    run: Run
    is_left: bool

    def find_pairs(self, most: int) -> Iterator[tuple[Pairs, float]]:
        """Yield pairs, with the share of the new elements that have been searched by then."""
        mine, other = (self.plan.left, self.plan.right) if self.is_left else (self.plan.right, self.plan.left)
        if self.plan.condition is not None:
            yield from self._decide_pairs(self.plan.condition, mine, other, most)
            return
        for found in search(self.probe, other.search_target(self.run), most=most):
            members = Member(mine, self.new, found.probe), Member(other, self.run, found.row)
            left, right = members if self.is_left else members[::-1]
            yield Pairs(left, right, found.start, found.end), float(found.probe[-1] + 1) / len(self.new)

    def _decide_pairs(
        self, condition: Condition, mine: JoinSide, other: JoinSide, most: int
    ) -> Iterator[tuple[Pairs, float]]:
        """Yield the pairs for which the residual is true or fails, as `find_pairs` does."""
        from tidegate.physical.common.condition_columns import NO_COLUMNS
        from tidegate.physical.common.kernels.condition_search import ConditionInputs
        from tidegate.physical.join.kernels.condition_search import search_condition

        payloads = [side.payload(run, side.schema.names) for side, run in ((mine, self.new), (other, self.run))]
        columns = condition.columns(payloads if self.is_left else payloads[::-1])
        # The bounds of a run that is much larger than what searches in it would cost more than they save.
        bounds = condition.bounds(columns) if len(self.run) <= MOST_ROWS_BOUNDED * len(self.new) else NO_COLUMNS
        inputs = ConditionInputs(condition.program, columns.addresses, bounds.addresses)
        for found in search_condition(
            self.new.index, self.run.index, self.run.longest, inputs, probe_member=int(not self.is_left), most=most
        ):
            members = Member(mine, self.new, found.probe), Member(other, self.run, found.row)
            left, right = members if self.is_left else members[::-1]
            yield Pairs(left, right, found.start, found.end, found.failures), found.done / len(self.new)


def _searches(plan: JoinPlan, left: tuple[Side, Run | None], right: tuple[Side, Run | None]) -> list[_Search]:
    """Return the searches: new left with all right, then new right with old left."""
    (old_left, new_left), (old_right, new_right) = left, right
    searches: list[_Search] = []
    if new_left is not None:
        probe = plan.left.probe(new_left, plan.left_terms)
        runs = [*(each.run for each in old_right), *([] if new_right is None else [new_right])]
        searches += [_Search(plan, new_left, probe, run, is_left=True) for run in runs]
    if new_right is not None:
        probe = plan.right.probe(new_right, plan.right_terms)
        searches += [_Search(plan, new_right, probe, each.run, is_left=False) for each in old_left]
    return searches


def _cut_time(new: Sequence[Run | None], done: float) -> int | None:
    """Return a time such that the new elements that start before it are expected to make few enough pairs.

    The bound was passed when the share `done` of the search was complete. If pairs are spread evenly, a step over that
    share of the elements would reach the bound too, so a margin is subtracted. The smallest share that is tried is
    1/200.
    """
    starts = np.sort(np.concatenate([run.index.start for run in new if run is not None]))
    after = starts[starts > starts[0]]
    if not len(after):
        return None
    return int(max(after[0], starts[int(len(starts) * min(0.5, max(0.7 * done, 0.005)))]))
