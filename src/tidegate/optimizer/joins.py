"""Join reordering: inputs that have an equality with each other are joined before others."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate.algebra.plan import Join, Map, Plan
from tidegate.errors import Span
from tidegate.expressions.nodes import Call, Column, Expression, columns_of, conjunction, conjuncts
from tidegate.optimizer.names import exactly, is_safe
from tidegate.optimizer.rule import rule

_EQUALITY, _CONDITION, _NOTHING = range(3)


@rule("(S1 ⋈ S2) ⋈ S3 = S1 ⋈ (S2 ⋈ S3) = (S1 ⋈ S3) ⋈ S2 (10.4)")
def reorder_joins(plan: Plan) -> Plan | None:
    """Join in an order in which fewer joins have no equality; the order as written, where that is as good."""
    if not isinstance(plan, Join):
        return None
    written = _badness(plan)
    if written == (0, 0):
        return None
    leaves, terms = parts_of_join(plan)
    if len(leaves) < 3 or not is_safe(*terms):
        return None
    better = join_all(leaves, terms, plan.span)
    if _badness(better) >= written:
        return None
    return exactly(better, plan.schema.names)


def parts_of_join(plan: Plan) -> tuple[list[Plan], list[Expression]]:
    """What a tree of joins joins, from left to right, and all its conditions."""
    plan = _bare(plan)
    if not isinstance(plan, Join):
        return [plan], []
    left, right = parts_of_join(plan.left), parts_of_join(plan.right)
    return left[0] + right[0], left[1] + right[1] + list(conjuncts(plan.predicate))


def join_all(leaves: Sequence[Plan], terms: Sequence[Expression], span: Span) -> Plan:
    """Plans joined where all terms hold, in an order in which few joins have no equality."""
    return _joined(_ordered(leaves, terms), terms, span)


def _ordered(leaves: Sequence[Plan], terms: Sequence[Expression]) -> list[Plan]:
    """Greedily, from the first input on: next comes the one with the best link to those before it."""
    read = [(term, columns_of(term)) for term in terms]
    rest = list(leaves)
    order = [rest.pop(0)]
    while rest:
        names = frozenset(n for each in order for n in each.schema.names)
        links = [_link(names, each, read) for each in rest]
        order.append(rest.pop(links.index(min(links))))
    return order


def _link(names: frozenset[str], leaf: Plan, terms: Sequence[tuple[Expression, frozenset[str]]]) -> int:
    """How well a leaf is linked with columns that are there already, by terms and the columns they read."""
    own = frozenset(leaf.schema.names)
    linking = [term for term, read in terms if read & own and read & names and read <= names | own]
    if any(_is_equality(t, names, own) for t in linking):
        return _EQUALITY
    return _CONDITION if linking else _NOTHING


def _is_equality(term: Expression, left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether the term says that something of the left equals something of the right."""
    match term:
        case Call("=", (a, b)):
            one, other = columns_of(a), columns_of(b)
            return bool(one and other) and ((one <= left and other <= right) or (one <= right and other <= left))
    return False


def _joined(order: Sequence[Plan], terms: Sequence[Expression], span: Span) -> Plan:
    """A left-deep tree in which each condition stands where all that it reads is there for the first time."""
    waiting, tree = list(terms), order[0]
    for leaf in order[1:]:
        names = frozenset(tree.schema.names) | frozenset(leaf.schema.names)
        last = leaf is order[-1]
        ready = [t for t in waiting if last or (columns_of(t) and columns_of(t) <= names)]
        waiting = [t for t in waiting if t not in ready]
        tree = Join(tree, leaf, conjunction(tuple(ready)), span)
    return tree


def _badness(plan: Plan) -> tuple[int, int]:
    """How many joins have no condition at all, and how many no equality."""
    plan = _bare(plan)
    if not isinstance(plan, Join):
        return (0, 0)
    terms = conjuncts(plan.predicate)
    below = [_badness(plan.left), _badness(plan.right)]
    # What is not of the right is of the left, whose schema is that of all joins below.
    right = frozenset(plan.right.schema.names)
    bare, loose = not terms, not any(_is_equality(t, columns_of(t) - right, right) for t in terms)
    return (bare + sum(b for b, _ in below), loose + sum(n for _, n in below))


def _bare(plan: Plan) -> Plan:
    """The join below a map that only puts its columns in another order; else the plan itself."""
    match plan:
        case Map(source=Join() as join, outputs=outputs) if all(
            isinstance(o.expression, Column) and o.expression.name == o.name for o in outputs
        ):
            return join if len(outputs) == len(join.schema) else plan
    return plan
