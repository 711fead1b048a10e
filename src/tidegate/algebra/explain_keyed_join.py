"""Descriptions of keyed joins: their graphs, and the constraints that reduce their state."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.alarms import RangeThreshold, TotalThreshold
from tidegate.algebra.constraints import Reach, Use
from tidegate.algebra.count_windows import counted
from tidegate.algebra.explain import edge_words, in_words, shown
from tidegate.algebra.join_graph import common_key, covers, shape
from tidegate.algebra.keyed_join import EdgeConstraint, KeyedJoin, Kind
from tidegate.algebra.plan import (
    Aggregate,
    Changes,
    CountWindow,
    Limit,
    Plan,
    SemiJoin,
    SetOperation,
    SetRule,
    inputs,
    walk,
)

_SAID = {
    Kind.ARRIVING: "{child} arrives {reach} after {parent}",
    Kind.CLUSTERED: "{parent} of one {child} arrive {reach} of each other",
    Kind.ORDERED_PARENTS: "{parent} arrives in order {reach}",
    Kind.ORDERED_CHILDREN: "{child} arrives in order {reach}",
}

_ASKED = {
    Kind.ARRIVING: "how late {child} arrives after {parent}",
    Kind.CLUSTERED: "how far apart {parent} of one {child} arrive",
    Kind.ORDERED_PARENTS: "how far {parent} is out of order",
    Kind.ORDERED_CHILDREN: "how far {child} is out of order",
}

_DIFFERENCES = (SetRule.EXCEPT, SetRule.EXCEPT_ALL, SetRule.STRICT_EXCEPT_ALL)


def join_graphs(plan: Plan) -> list[str]:
    """Describe each keyed join: its graph, used and unused constraints, mode and partitioning."""
    joins = dict.fromkeys(node for node in walk(plan) if isinstance(node, KeyedJoin))
    return [line for join in joins for line in _graph(join)]


def what_differs(plan: Plan) -> list[str]:
    """Name the operators above lean joins whose results become wrong, not only fewer, if join results are missing."""
    told = dict.fromkeys(word for node in walk(plan) for word, below in _not_only_fewer(node) if _may_miss(below))
    if not told:
        return []
    *words, last = told
    listed = f"{', '.join(words)} and {last}" if words else last
    return [f"mode lean: where results of a join are missing, those of {listed} above it are wrong, not only fewer"]


def labels(join: KeyedJoin) -> tuple[str, ...]:
    """Return the names of the inputs."""
    return tuple(
        label(each, stream or f"input {at + 1}")
        for at, (each, stream) in enumerate(zip(join.inputs, join.streams, strict=True))
    )


def unused_words(join: KeyedJoin) -> list[str]:
    """Describe the unused constraints, with reasons."""
    names = labels(join)
    ends = ((each, join.edges[each.edge]) for each in join.constraints if each.unused is not None)
    return [_constraint(each, names[edge.parent], names[edge.child]) for each, edge in ends]


def label(plan: Plan, otherwise: str) -> str:
    """Return the name of an input: the prefix of its column names."""
    names = plan.schema.names
    return (names[0].rpartition(".")[0] if names else "") or otherwise


def reach_in_words(reach: Reach) -> str:
    """Return a reach as people write it.

    Examples
    --------
    >>> reach_in_words(Reach(rows=1)), reach_in_words(Reach(time=5_000_000))
    ('1 row', '5 seconds')
    """
    if reach.rows is not None:
        return f"{reach.rows} row{'' if reach.rows == 1 else 's'}"
    return in_words(reach.time) if reach.time else "0 seconds"


def _not_only_fewer(plan: Plan) -> Iterator[tuple[str, Plan]]:
    """Yield the inputs for which a missing row may cause an additional result, with a name for the operator."""
    match plan:
        case Aggregate(source=source, calls=calls) if calls:
            yield "an aggregate", source
        case SetOperation(right=right, rule=rule) if rule in _DIFFERENCES:
            yield "EXCEPT", right
        case SemiJoin(right=right, anti=True):
            yield "an anti- or outer join", right
        case Limit(source=source):
            yield "LIMIT", source
        case CountWindow(source=source):
            yield "a window of rows", source
        case Changes(source=source):
            yield "a stream of changes", source
        case TotalThreshold() | RangeThreshold():
            yield from (("a total", each) for each in inputs(plan))


def _may_miss(plan: Plan) -> bool:
    joins = (node for node in walk(plan) if isinstance(node, KeyedJoin))
    return any(not join.settings.exact and (join.used or join.watched) for join in joins)


def _graph(join: KeyedJoin) -> Iterator[str]:
    names, count = labels(join), len(join.inputs)
    every = [f"{{{', '.join(names[each] for each in cover)}}}" for cover in covers(count, join.edges)]
    yield f"{', '.join(names)}: {shape(count, join.edges)}, covered by {' or '.join(every)}"
    for place in range(len(join.edges)):
        yield from _edge(join, place, names)
    yield f"  {_mode(join)}"
    yield f"  {_meeting(join)}"


def _edge(join: KeyedJoin, place: int, names: tuple[str, ...]) -> Iterator[str]:
    edge = join.edges[place]
    parent, child = names[edge.parent], names[edge.child]
    yield f"  {parent} → {child} on {edge_words(join, edge, ' = ')}"
    for each in join.constraints:
        if each.edge == place:
            yield f"    {_constraint(each, parent, child)}"
    for which, kind in join.watched:
        if which == place:
            yield f"    watched: {_ASKED[kind].format(parent=parent, child=child)}"


def _constraint(each: EdgeConstraint, parent: str, child: str) -> str:
    said = _SAID[each.kind].format(parent=parent, child=child, reach=f"within {reach_in_words(each.within)}")
    if each.unused is not None:
        return f"not used: {said}, because {each.unused}"
    return f"used: {said}"


def _mode(join: KeyedJoin) -> str:
    mode = "exact" if join.settings.exact else "lean"
    if not join.used and not join.watched:
        return f"mode {mode}: nothing leaves because of a constraint"
    use = "declared or found" if join.settings.use is Use.MONITORED else "declared"
    fate = "stays in cold storage until its window ends" if join.settings.exact else "is forgotten"
    return f"mode {mode}: what leaves because of a constraint that is {use} {fate}"


def _meeting(join: KeyedJoin) -> str:
    if any(counted(each) for each in join.inputs):
        return "in one bucket: rows of windows are counted, and all of them must be there"
    keys = common_key(len(join.inputs), join.edges)
    columns = [tuple(shown(plan, name) for name in own) for plan, own in zip(join.inputs, keys, strict=True)]
    if columns[0]:
        return f"hashed by {', '.join(' = '.join(each) for each in zip(*columns, strict=True))}"
    return "in one bucket: no column of every input is equal in all of them"
