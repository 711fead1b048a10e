"""Descriptions of keyed joins: their graphs, and the constraints that reduce their state."""

from __future__ import annotations

from collections.abc import Iterator

from tidegate.algebra.alert_operators import GroupedTotals, RangeThreshold, TotalThreshold
from tidegate.algebra.constraints import ConstraintUse, Reach
from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.explain import column_text, duration_text, edge_text
from tidegate.algebra.join_graph import common_key, covers, graph_shape
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, KeyedJoin
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
from tidegate.algebra.unbounded_inputs import unbounded_inputs

_CLAIMS = {
    ConstraintKind.ARRIVING: "{child} arrives {reach} after {parent}",
    ConstraintKind.CLUSTERED: "{parent} of one {child} arrive {reach} of each other",
    ConstraintKind.ORDERED_PARENTS: "{parent} arrives in order {reach}",
    ConstraintKind.ORDERED_CHILDREN: "{child} arrives in order {reach}",
}

_QUESTIONS = {
    ConstraintKind.ARRIVING: "how late {child} arrives after {parent}",
    ConstraintKind.CLUSTERED: "how far apart {parent} of one {child} arrive",
    ConstraintKind.ORDERED_PARENTS: "how far {parent} is out of order",
    ConstraintKind.ORDERED_CHILDREN: "how far {child} is out of order",
}

_DIFFERENCES = (SetRule.EXCEPT, SetRule.EXCEPT_ALL, SetRule.STRICT_EXCEPT_ALL)


def describe_join_graphs(plan: Plan) -> list[str]:
    """Describe each keyed join: its graph, used and unused constraints, mode and partitioning."""
    joins = dict.fromkeys(node for node in walk(plan) if isinstance(node, KeyedJoin))
    return [line for join in joins for line in _describe_graph(join)]


def describe_wrong_results(plan: Plan) -> list[str]:
    """Name the operators above lean joins whose results become wrong, not only fewer, if join results are missing."""
    told = dict.fromkeys(
        word for node in walk(plan) for word, below in _inputs_adding_results(node) if _can_miss_results(below)
    )
    if not told:
        return []
    *words, last = told
    listed = f"{', '.join(words)} and {last}" if words else last
    return [f"mode lean: if the join misses results, the results of {listed} above it are wrong, not only fewer"]


def input_names(join: KeyedJoin) -> tuple[str, ...]:
    """Return the names of the inputs."""
    return tuple(
        input_name(each, stream or f"input {at + 1}")
        for at, (each, stream) in enumerate(zip(join.inputs, join.streams, strict=True))
    )


def describe_unused(join: KeyedJoin) -> list[str]:
    """Describe the unused constraints, with reasons."""
    names = input_names(join)
    ends = ((each, join.edges[each.edge]) for each in join.constraints if each.unused is not None)
    return [_constraint_text(each, names[edge.parent], names[edge.child]) for each, edge in ends]


def input_name(plan: Plan, otherwise: str) -> str:
    """Return the name of an input: the prefix of its column names."""
    names = plan.schema.names
    return (names[0].rpartition(".")[0] if names else "") or otherwise


def reach_text(reach: Reach) -> str:
    """Return a reach as people write it.

    Examples
    --------
    >>> reach_text(Reach(rows=1)), reach_text(Reach(time=5_000_000))
    ('1 row', '5 seconds')
    """
    if reach.rows is not None:
        return f"{reach.rows} row{'' if reach.rows == 1 else 's'}"
    return duration_text(reach.time) if reach.time else "0 seconds"


def _inputs_adding_results(plan: Plan) -> Iterator[tuple[str, Plan]]:
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
        case TotalThreshold() | GroupedTotals() | RangeThreshold():
            yield from (("a total", each) for each in inputs(plan))


def _can_miss_results(plan: Plan) -> bool:
    joins = (node for node in walk(plan) if isinstance(node, KeyedJoin))
    return any(not join.settings.exact and (join.used_constraints or join.watched) for join in joins)


def _describe_graph(join: KeyedJoin) -> Iterator[str]:
    names, count = input_names(join), len(join.inputs)
    every = [f"{{{', '.join(names[each] for each in cover)}}}" for cover in covers(count, join.edges)]
    yield f"{', '.join(names)}: {graph_shape(count, join.edges)}, covered by {' or '.join(every)}"
    for place in range(len(join.edges)):
        yield from _describe_edge(join, place, names)
    for place, mark in enumerate(join.marks):
        if mark is not None:
            waiting = ", ".join(names[edge.parent] for edge in join.edges if edge.child == place)
            yield f"  rows of {names[place]} that fail a condition: waiting rows of {waiting} leave by their keys"
    yield f"  {_mode_text(join)}"
    yield f"  {_partitioning_text(join)}"


def _describe_edge(join: KeyedJoin, place: int, names: tuple[str, ...]) -> Iterator[str]:
    edge = join.edges[place]
    parent, child = names[edge.parent], names[edge.child]
    yield f"  {parent} → {child} on {edge_text(join, edge, ' = ')}"
    for each in join.constraints:
        if each.edge == place:
            yield f"    {_constraint_text(each, parent, child)}"
    for which, kind in join.watched:
        if which == place:
            yield f"    watched: {_QUESTIONS[kind].format(parent=parent, child=child)}"


def _constraint_text(each: EdgeConstraint, parent: str, child: str) -> str:
    said = _CLAIMS[each.kind].format(parent=parent, child=child, reach=f"within {reach_text(each.within)}")
    if each.unused is not None:
        return f"not used: {said}, because {each.unused}"
    return f"used: {said}"


def _mode_text(join: KeyedJoin) -> str:
    mode = "exact" if join.settings.exact else "lean"
    if not join.used_constraints and not join.watched:
        return f"mode {mode}: no constraint removes rows early"
    use = "declared or found" if join.settings.use is ConstraintUse.MONITORED else "declared"
    fate = "stay in cold storage until their window ends" if join.settings.exact else "are forgotten"
    if join.settings.exact and (endless := unbounded_inputs(join)):
        names = ", ".join(input_names(join)[each] for each in endless)
        fate += f"; those of {names} for ever, so it grows"
    return f"mode {mode}: rows that a constraint ({use}) removes early {fate}"


def _partitioning_text(join: KeyedJoin) -> str:
    if any(count_window_below(each) for each in join.inputs):
        return "in one bucket: windows count rows, which needs all of them in one place"
    keys = common_key(len(join.inputs), join.edges)
    columns = [tuple(column_text(plan, name) for name in own) for plan, own in zip(join.inputs, keys, strict=True)]
    if columns[0]:
        return f"hashed by {', '.join(' = '.join(each) for each in zip(*columns, strict=True))}"
    return "in one bucket: no column is equal in all inputs"
