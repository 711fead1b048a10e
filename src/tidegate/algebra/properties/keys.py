"""Unique columns: no two rows of one instant agree in them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, ThresholdJoin, TotalThreshold
from tidegate.algebra.join_graph import covers
from tidegate.algebra.keyed_join import KeyedJoin
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Filter,
    Granularity,
    Join,
    Limit,
    Map,
    Plan,
    Sample,
    Scan,
    SemiJoin,
    SetOperation,
    SetRule,
    Split,
    Stamp,
    Union,
    Window,
)
from tidegate.algebra.similarity_join import SimilarityJoin
from tidegate.expressions.nodes import Call, Column, Expression, conjuncts

Keys = frozenset[frozenset[str]]
"""Sets of columns, each unique by itself; the empty set means that there is at most one row."""

_MOST = 8
_NONE: Keys = frozenset()


def is_unique(plan: Plan) -> bool:
    """Return whether no instant has two equal rows."""
    return bool(unique_keys(plan))


def unique_keys(plan: Plan) -> Keys:
    """Return the known smallest sets of columns in which rows of one instant never agree.

    Examples
    --------
    >>> from tidegate.schema import Schema, Type
    >>> from tidegate.expressions.nodes import TRUE
    >>> bids = Scan("bid", Schema.of(item=Type.INT, price=Type.DOUBLE))
    >>> [sorted(key) for key in unique_keys(Filter(Aggregate(bids, ("item",), ()), TRUE))]
    [['item']]
    """
    match plan:
        case Scan() | Union() | ThresholdJoin() | TotalThreshold() | GroupedTotals() | RangeThreshold():
            return _NONE
        case Window(source=source, size=size, slide=slide, whole=whole):
            return unique_keys(source) if size == slide == 1 and not whole else _NONE
        case CountWindow(rows=rows, keys=keys):
            return frozenset({frozenset(keys)}) if rows == 1 else _NONE
        case Limit(source=source, count=count, keys=keys, ties=ties):
            alone = [frozenset(keys)] if count <= 1 and not ties else []
            return _smallest([*unique_keys(source), *alone])
        case Map(source=source):
            return _smallest(k for key in unique_keys(source) if (k := _key_after_map(plan, key)) is not None)
        case Aggregate(keys=keys):
            return frozenset({frozenset(keys)})
        case Distinct(source=source):
            return _smallest([*unique_keys(source), frozenset(source.schema.names)])
        case Join(left=left, right=right) | SimilarityJoin(left=left, right=right):
            return _keys_of_pairs(plan, unique_keys(left), unique_keys(right))
        case KeyedJoin():
            return _keys_of_edges(plan)
        case SetOperation(left=left, right=right, rule=rule):
            return _keys_of_set_operation(left, right, rule)
        case SemiJoin(left=left):
            return unique_keys(left)
        case (
            Filter(source=source)
            | Split(source=source)
            | Stamp(source=source)
            | Sample(source=source)
            | Coalesce(source=source)
            | Granularity(source=source)
            | Changes(source=source)
        ):
            return unique_keys(source)


def equal_columns(predicate: Expression, left: Plan, right: Plan) -> tuple[tuple[str, str], ...]:
    """Return the pairs of a left and a right column that the predicate equates."""
    lefts, rights = frozenset(left.schema.names), frozenset(right.schema.names)
    pairs = []
    for term in conjuncts(predicate):
        match term:
            case Call("=", (Column(name=a), Column(name=b))) if a in lefts and b in rights:
                pairs.append((a, b))
            case Call("=", (Column(name=b), Column(name=a))) if a in lefts and b in rights:
                pairs.append((a, b))
    return tuple(pairs)


def _keys_of_pairs(join: Join | SimilarityJoin, left: Keys, right: Keys) -> Keys:
    pairs = equal_columns(join.predicate, join.left, join.right)
    lefts, rights = frozenset(a for a, _ in pairs), frozenset(b for _, b in pairs)
    found = [a | b for a in left for b in right]
    # A row with at most one partner is in at most one pair.
    if any(key <= rights for key in right):
        found.extend(left)
    if any(key <= lefts for key in left):
        found.extend(right)
    return _smallest(found)


def _keys_of_edges(join: KeyedJoin) -> Keys:
    """Return the keys of a keyed join: the rows of a cover determine the combination."""
    below = [unique_keys(each) for each in join.inputs]
    return _smallest(
        frozenset().union(*chosen)
        for cover in covers(len(join.inputs), join.edges)
        for chosen in product(*(below[each] for each in cover))
    )


def _keys_of_set_operation(left: Plan, right: Plan, rule: SetRule) -> Keys:
    names = dict(zip(right.schema.names, left.schema.names, strict=True))
    rights = [frozenset(names[n] for n in key) for key in unique_keys(right)]
    everything = frozenset(left.schema.names)
    match rule:
        case SetRule.EXCEPT_ALL | SetRule.STRICT_EXCEPT_ALL:
            return unique_keys(left)
        case SetRule.EXCEPT:
            return _smallest([*unique_keys(left), everything])
        case SetRule.INTERSECT_ALL:
            return _smallest([*unique_keys(left), *rights])
        case SetRule.INTERSECT:
            return _smallest([*unique_keys(left), *rights, everything])
        case SetRule.MAX_UNION:
            # Different rows may have the same key; a row occurs once if it occurs at most once on each side.
            return frozenset({everything}) if unique_keys(left) and rights else _NONE


def _key_after_map(plan: Map, key: frozenset[str]) -> frozenset[str] | None:
    """Return the key under the names that the map gives its columns; None if the map drops one."""
    names: dict[str, str] = {}
    for output in plan.outputs:
        if isinstance(output.expression, Column):
            names.setdefault(output.expression.name, output.name)
    return frozenset(names[n] for n in key) if key <= names.keys() else None


def _smallest(keys: Iterable[frozenset[str]]) -> Keys:
    """Drop keys that contain another, and keep only the smallest few, so that plans with many joins stay cheap."""
    kept: list[frozenset[str]] = []
    for key in sorted(set(keys), key=lambda k: (len(k), sorted(k))):
        if not any(each <= key for each in kept):
            kept.append(key)
    return frozenset(kept[:_MOST])
