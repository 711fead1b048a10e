"""Join order by the number of rows that sources have had: few rows first, so that results in between are few."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

from tidegate.algebra.equalities import equalities
from tidegate.algebra.plan import Join, Plan, Scan, inputs, walk, with_inputs
from tidegate.algebra.properties.validities import validity_bound
from tidegate.expressions.nodes import TRUE, Expression
from tidegate.optimizer.joins import JoinLink, join_in_order, parts_of_join, rate_links
from tidegate.optimizer.names import is_safe, select_columns

_MOST_INPUTS = 6
"""Largest number of inputs of which all orders are tried."""

_SHARE_OF_PAIRS = 1 / 3
"""Share of pairs that is assumed to satisfy a condition that is not an equality."""


def order_joins_by_rows(plan: Plan, rows: Mapping[str, int]) -> Plan:
    """Join in the order in which the fewest rows are expected in between; keep the written order if it is as good."""
    if isinstance(plan, Join):
        leaves, terms = parts_of_join(plan)
        better = _best_order(leaves, terms, rows)
        below = [order_joins_by_rows(leaf, rows) for leaf in leaves]
        if better is not None:
            joined = join_in_order([below[at] for at in better], terms, plan.span)
            return select_columns(joined, plan.schema.names)
    return with_inputs(plan, tuple(order_joins_by_rows(each, rows) for each in inputs(plan)))


def count_rows_between_joins(plan: Plan, rows: Mapping[str, int]) -> float:
    """Return a figure that is proportional to the rows that joins of a plan give to other joins."""
    joins = [each for each in walk(plan) if isinstance(each, Join)]
    below = (_find_join(side) for join in joins for side in inputs(join))
    return sum(_rows_of_join(join, rows) for join in below if join is not None)


def _find_join(plan: Plan) -> Join | None:
    """Return the join at the top of a plan, below operators with one input."""
    while not isinstance(plan, Join):
        if len(inputs(plan)) != 1:
            return None
        (plan,) = inputs(plan)
    return plan


def _rows_of_join(join: Join, rows: Mapping[str, int]) -> float:
    sides = [_find_join(side) or side for side in inputs(join)]
    left, right = (
        _rows_of_join(each, rows) if isinstance(each, Join) else _valid_rows(each, rows) or 0.0 for each in sides
    )
    if equalities(join)[0]:
        return _rows_of_link(left, right, JoinLink.EQUALITY)
    return _rows_of_link(left, right, JoinLink.NOTHING if join.predicate == TRUE else JoinLink.CONDITION)


def _best_order(leaves: Sequence[Plan], terms: Sequence[Expression], rows: Mapping[str, int]) -> tuple[int, ...] | None:
    """Return the best order of the inputs of a join; None if it is the written one, or nothing is known."""
    if not 3 <= len(leaves) <= _MOST_INPUTS or not is_safe(*terms):
        return None
    sizes = [_valid_rows(leaf, rows) for leaf in leaves]
    if any(size is None for size in sizes):
        return None
    known = [float(size or 0) for size in sizes]

    def cost_of(order: tuple[int, ...]) -> float:
        return _rows_in_between([known[at] for at in order], rate_links([leaves[at] for at in order], terms))

    written = tuple(range(len(leaves)))
    best = min(permutations(written), key=cost_of)
    return best if cost_of(best) < cost_of(written) else None


def _valid_rows(leaf: Plan, rows: Mapping[str, int]) -> float | None:
    """Return a figure that is proportional to the rows of an input that are valid at an instant."""
    length = validity_bound(leaf)
    scanned = [rows.get(each.stream) for each in walk(leaf) if isinstance(each, Scan)]
    if length is None or any(count is None for count in scanned):
        return None
    return float(length) * sum(count or 0 for count in scanned)


def _rows_in_between(sizes: Sequence[float], links: Sequence[JoinLink]) -> float:
    """Return the rows expected of all joins but the last, which gives the same in every order."""
    valid, total = sizes[0], 0.0
    for size, link in zip(sizes[1:-1], links[:-1], strict=True):
        valid = _rows_of_link(valid, size, link)
        total += valid
    return total


def _rows_of_link(left: float, right: float, link: JoinLink) -> float:
    """Return the rows expected of a join of two inputs with some valid rows."""
    match link:
        case JoinLink.EQUALITY:
            return max(left, right)
        case JoinLink.CONDITION:
            return left * right * _SHARE_OF_PAIRS
        case JoinLink.NOTHING:
            return left * right
