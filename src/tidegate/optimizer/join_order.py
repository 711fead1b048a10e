"""Join order by estimated cost: dynamic programming over the sets of inputs, with bushy trees."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.plan import Join, Plan, inputs, with_inputs
from tidegate.errors import Span
from tidegate.expressions.nodes import Call, Expression, columns_of, conjunction
from tidegate.optimizer.advice import PlanAdvice
from tidegate.optimizer.join_estimates import JoinEstimates, estimate_joins, splits, subsets_by_size
from tidegate.optimizer.joins import parts_of_join, skip_column_map
from tidegate.optimizer.names import is_safe, select_columns
from tidegate.schema import Type
from tidegate.values import value

MOST_INPUTS = 10
"""Largest number of inputs of which all trees are compared: there are 3^n ways to split their sets."""

_SAME = 1 - 1e-9
"""Ratio of costs from which on a tree is not better than another one."""


@value
class JoinTree:
    """A tree of joins over numbered inputs. `inputs` are its inputs as bits; a single input has no branches."""

    inputs: int
    cost: float
    branches: tuple[JoinTree, JoinTree] | None = None


def order_joins_by_cost(plan: Plan, advice: PlanAdvice) -> Plan:
    """Join in the tree with the lowest estimated cost; keep the written tree if it is as good."""
    if not isinstance(plan, Join):
        return with_inputs(plan, tuple(order_joins_by_cost(each, advice) for each in inputs(plan)))
    leaves, terms = parts_of_join(plan)
    found = _estimates_of_choice(leaves, terms, advice)
    below = [order_joins_by_cost(leaf, advice) for leaf in leaves]
    if found is not None:
        best = best_tree(found)
        if best.cost < _tree_as_written(plan, leaves, found).cost * _SAME:
            joined = _TreeBuilder(below, terms, found, plan.span).build(best)
            return select_columns(joined, plan.schema.names)
    return _replace_leaves(plan, dict(zip(map(id, leaves), below, strict=True)))


def cost_of_joins(plan: Plan, advice: PlanAdvice) -> float:
    """Return the estimated cost of the joins of a plan whose order can be chosen."""
    if not isinstance(plan, Join):
        return sum(cost_of_joins(each, advice) for each in inputs(plan))
    leaves, terms = parts_of_join(plan)
    found = _estimates_of_choice(leaves, terms, advice)
    own = 0.0 if found is None else _tree_as_written(plan, leaves, found).cost
    return own + sum(cost_of_joins(leaf, advice) for leaf in leaves)


def best_tree(estimates: JoinEstimates) -> JoinTree:
    """Return the tree with the lowest cost; parts that no condition links are joined only if a set has no others."""
    count = len(estimates.inputs)
    best = {1 << number: JoinTree(1 << number, 0.0) for number in range(count)}
    for some in subsets_by_size(count):
        pairs = list(splits(some))
        linked = [pair for pair in pairs if estimates.is_linked(*pair)]
        trees = (_join(best[one], best[two], estimates) for one, two in linked or pairs)
        best[some] = min(trees, key=lambda tree: tree.cost)
    return best[(1 << count) - 1]


def _join(one: JoinTree, two: JoinTree, estimates: JoinEstimates) -> JoinTree:
    cost = one.cost + two.cost + estimates.cost_of_join(one.inputs, two.inputs)
    return JoinTree(one.inputs | two.inputs, cost, (one, two))


def _estimates_of_choice(
    leaves: Sequence[Plan], terms: Sequence[Expression], advice: PlanAdvice
) -> JoinEstimates | None:
    """Return the estimates for a tree of joins; None if there is nothing to choose, or too little is known."""
    if not 3 <= len(leaves) <= MOST_INPUTS or not is_safe(*terms):
        return None
    return estimate_joins(leaves, terms, advice)


def _tree_as_written(plan: Plan, leaves: Sequence[Plan], estimates: JoinEstimates) -> JoinTree:
    numbers = iter(range(len(leaves)))

    def tree_of(part: Plan) -> JoinTree:
        part = skip_column_map(part)
        if isinstance(part, Join):
            return _join(tree_of(part.left), tree_of(part.right), estimates)
        return JoinTree(1 << next(numbers), 0.0)

    return tree_of(plan)


def _replace_leaves(plan: Plan, below: dict[int, Plan]) -> Plan:
    """Return a tree of joins with other inputs, which are given by the identity of the old ones."""
    if id(plan) in below:
        return below[id(plan)]
    return with_inputs(plan, tuple(_replace_leaves(each, below) for each in inputs(plan)))


class _TreeBuilder:
    """Builder of the joins of a tree, with each condition at the lowest join that has all its columns."""

    def __init__(
        self, leaves: Sequence[Plan], terms: Sequence[Expression], estimates: JoinEstimates, span: Span
    ) -> None:
        self._leaves, self._estimates, self._span = leaves, estimates, span
        self._waiting = [each.term for each in estimates.others]
        self._written = list(terms)

    def build(self, tree: JoinTree, *, is_top: bool = True) -> Plan:
        if tree.branches is None:
            return self._leaves[tree.inputs.bit_length() - 1]
        left, right = (self.build(each, is_top=False) for each in tree.branches)
        names = frozenset(left.schema.names) | frozenset(right.schema.names)
        ready = [t for t in self._waiting if is_top or (columns_of(t) and columns_of(t) <= names)]
        self._waiting = [t for t in self._waiting if t not in ready]
        one, two = tree.branches
        return Join(left, right, conjunction((*self._equalities(one.inputs, two.inputs), *ready)), self._span)

    def _equalities(self, left: int, right: int) -> list[Expression]:
        """Return one equality for each class of equal columns that has members on both sides.

        On each side, all members of the class are equal already.
        """
        found: list[Expression] = []
        for each in self._estimates.equal:
            sides = [[column for number, column in each.columns if side >> number & 1] for side in (left, right)]
            if all(sides):
                found.append(self._written_between(*sides))
        return found

    def _written_between(self, left: Sequence[Expression], right: Sequence[Expression]) -> Expression:
        """Return an equality between two lists of columns: a written one, or one that follows from those."""
        for term in self._written:
            match term:
                case Call("=", (a, b)) if (a in left and b in right) or (a in right and b in left):
                    return term
        return Call("=", (left[0], right[0]), Type.BOOLEAN)
