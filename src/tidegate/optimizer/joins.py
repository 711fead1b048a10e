"""Join reordering: join inputs that share an equality before others."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from tidegate.algebra.plan import Join, Map, Plan
from tidegate.errors import Span
from tidegate.expressions.nodes import Call, Column, Expression, columns_of, conjunction, conjuncts
from tidegate.optimizer.names import is_safe, select_columns
from tidegate.optimizer.rule import rule


class JoinLink(IntEnum):
    """How an input of a join is linked to those before it, the best first."""

    EQUALITY = 0
    CONDITION = 1
    NOTHING = 2


@rule("(S1 ⋈ S2) ⋈ S3 = S1 ⋈ (S2 ⋈ S3) = (S1 ⋈ S3) ⋈ S2 (10.4)")
def reorder_joins(plan: Plan) -> Plan | None:
    """Join in an order in which fewer joins lack an equality; keep the written order if it is as good."""
    if not isinstance(plan, Join):
        return None
    written = _count_unlinked_joins(plan)
    if written == (0, 0):
        return None
    leaves, terms = parts_of_join(plan)
    if len(leaves) < 3 or not is_safe(*terms):
        return None
    better = join_all(leaves, terms, plan.span)
    if _count_unlinked_joins(better) >= written:
        return None
    return select_columns(better, plan.schema.names)


def parts_of_join(plan: Plan) -> tuple[list[Plan], list[Expression]]:
    """Return the inputs of a tree of joins, from left to right, and all its conditions."""
    plan = skip_column_map(plan)
    if not isinstance(plan, Join):
        return [plan], []
    left, right = parts_of_join(plan.left), parts_of_join(plan.right)
    return left[0] + right[0], left[1] + right[1] + list(conjuncts(plan.predicate))


def join_all(leaves: Sequence[Plan], terms: Sequence[Expression], span: Span) -> Plan:
    """Join plans on all terms, in an order in which few joins lack an equality."""
    return join_in_order(_order_leaves(leaves, terms), terms, span)


def _order_leaves(leaves: Sequence[Plan], terms: Sequence[Expression]) -> list[Plan]:
    """Order the leaves greedily from the first: next comes the leaf with the best link to those before it."""
    read = [(term, columns_of(term)) for term in terms]
    rest = list(leaves)
    order = [rest.pop(0)]
    while rest:
        names = frozenset(n for each in order for n in each.schema.names)
        links = [_rate_link(names, each, read) for each in rest]
        order.append(rest.pop(links.index(min(links))))
    return order


def _rate_link(names: frozenset[str], leaf: Plan, terms: Sequence[tuple[Expression, frozenset[str]]]) -> JoinLink:
    """Rate the link between a leaf and the columns joined so far, given terms with the columns that they read."""
    own = frozenset(leaf.schema.names)
    linking = [term for term, read in terms if read & own and read & names and read <= names | own]
    if any(_is_equality(t, names, own) for t in linking):
        return JoinLink.EQUALITY
    return JoinLink.CONDITION if linking else JoinLink.NOTHING


def _is_equality(term: Expression, left: frozenset[str], right: frozenset[str]) -> bool:
    """Return whether the term equates an expression of the left with one of the right."""
    match term:
        case Call("=", (a, b)):
            one, other = columns_of(a), columns_of(b)
            return bool(one and other) and ((one <= left and other <= right) or (one <= right and other <= left))
    return False


def join_in_order(order: Sequence[Plan], terms: Sequence[Expression], span: Span) -> Plan:
    """Build a left-deep tree with each condition at the lowest join that has all its columns."""
    waiting, tree = list(terms), order[0]
    for leaf in order[1:]:
        names = frozenset(tree.schema.names) | frozenset(leaf.schema.names)
        last = leaf is order[-1]
        ready = [t for t in waiting if last or (columns_of(t) and columns_of(t) <= names)]
        waiting = [t for t in waiting if t not in ready]
        tree = Join(tree, leaf, conjunction(tuple(ready)), span)
    return tree


def _count_unlinked_joins(plan: Plan) -> tuple[int, int]:
    """Count the joins without any condition, and those without an equality."""
    plan = skip_column_map(plan)
    if not isinstance(plan, Join):
        return (0, 0)
    terms = conjuncts(plan.predicate)
    below = [_count_unlinked_joins(plan.left), _count_unlinked_joins(plan.right)]
    # Columns that are not of the right are of the left; this avoids the schema of all joins below.
    right = frozenset(plan.right.schema.names)
    bare, loose = not terms, not any(_is_equality(t, columns_of(t) - right, right) for t in terms)
    return (bare + sum(b for b, _ in below), loose + sum(n for _, n in below))


def skip_column_map(plan: Plan) -> Plan:
    """Return the join below a map that only selects columns, under their names; otherwise the plan itself."""
    match plan:
        case Map(source=Join() as join, outputs=outputs) if all(
            isinstance(o.expression, Column) and o.expression.name == o.name for o in outputs
        ):
            return join
    return plan
