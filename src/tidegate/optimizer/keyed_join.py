"""Replace joins of streams on keys by keyed joins, which keep synopses of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.count_windows import count_window_below
from tidegate.algebra.explain_keyed_join import input_name
from tidegate.algebra.join_graph import source_groups
from tidegate.algebra.keyed_join import ConstraintKind, JoinEdge, KeyedJoin
from tidegate.algebra.plan import Filter, Join, Map, Output, Plan, Window, inputs, walk, with_inputs
from tidegate.algebra.properties import validity_bound
from tidegate.algebra.unbounded_inputs import unbounded_inputs
from tidegate.errors import Span
from tidegate.expressions.nodes import Column, Expression, columns_of
from tidegate.optimizer.advice import KeyedJoins
from tidegate.optimizer.edge_constraints import GraphInputs, constraints_on
from tidegate.optimizer.failing_rows import report_failing_rows
from tidegate.optimizer.join_clusters import Cluster, EdgeTerms, edges_of, groups_of, implied_edges, is_inner
from tidegate.optimizer.joins import join_all
from tidegate.optimizer.keyed_join_cost import why_plain_is_cheaper
from tidegate.optimizer.names import filter_by
from tidegate.optimizer.origins import Origin, find_origin, source_text
from tidegate.values import value


def find_keyed_joins(plan: Plan, settings: ConstraintSettings, where: KeyedJoins = KeyedJoins.USUAL) -> Plan:
    """Replace plain joins by keyed joins, wherever there are edges and a keyed join is cheaper, or chosen."""
    if settings.use is ConstraintUse.OFF:
        return plan
    return _Replacement(settings, where).replace_joins(plan)


@value
class _Replacement:
    """Replacement of joins by keyed joins: those that are expected to be cheaper, all, or none that need not be."""

    settings: ConstraintSettings
    where: KeyedJoins

    def replace_joins(self, plan: Plan) -> Plan:
        if not isinstance(plan, Join) or not is_inner(plan):
            return with_inputs(plan, tuple(self.replace_joins(each) for each in inputs(plan)))
        found = analyse_joins(plan, self.settings)
        joins = [group for group in found.groups if self.is_replaced(group)]
        return self.rebuild_joins(plan, found, joins) if joins else self.replace_in_inputs(plan)

    def is_replaced(self, group: Group) -> bool:
        """Return whether a keyed join is made. Over unbounded windows, plain joins would keep all rows."""
        cheaper = group.refused is None and self.where is not KeyedJoins.NEVER
        return cheaper or self.where is KeyedJoins.ALWAYS or bool(unbounded_inputs(group.join))

    def replace_in_inputs(self, plan: Plan) -> Plan:
        """Keep a tree of joins as it is, and visit its inputs."""
        below = (self.replace_in_inputs(e) if is_inner(e) else self.replace_joins(e) for e in inputs(plan))
        return with_inputs(plan, tuple(below))

    def rebuild_joins(self, plan: Join, found: Analysis, groups: Sequence[Group]) -> Plan:
        taken = frozenset(term for group in groups for term in group.terms)
        rest = [term for term in found.terms if term not in taken]
        parts: list[Plan] = []
        for group in groups:
            names = frozenset(group.join.schema.names)
            within = tuple(term for term in rest if columns_of(term) <= names)
            rest = [term for term in rest if term not in within]
            made = replace(group.join, inputs=tuple(self.replace_joins(each) for each in group.join.inputs))
            parts.append(filter_by(report_failing_rows(made), within))
        grouped = {which for group in groups for which in group.members}
        parts += [self.replace_joins(leaf.plan) for at, leaf in enumerate(found.leaves) if at not in grouped]
        joined = parts[0] if len(parts) == 1 else join_all(parts, rest, plan.span)
        same = tuple(Output(f.name, Column(f.name, f.type)) for f in joined.schema)
        return joined if found.outputs == same else Map(joined, found.outputs, plan.span)


# ---- analysis of a tree of joins


@value
class Leaf:
    """An input of a tree of joins, with its origin or the reason why it takes no part in keyed joins."""

    plan: Plan
    origin: Origin | str


@value
class Group:
    """A possible keyed join: the positions of its inputs, and the terms that it replaces.

    `refused` is the reason why plain joins stay, if they do.
    """

    members: tuple[int, ...]
    join: KeyedJoin
    terms: frozenset[Expression]
    refused: str | None


@value
class Analysis:
    """The parts of a tree of joins, and the possible keyed joins in it."""

    leaves: tuple[Leaf, ...]
    terms: tuple[Expression, ...]
    outputs: tuple[Output, ...]
    groups: tuple[Group, ...]


def analyse_joins(plan: Join, settings: ConstraintSettings) -> Analysis:
    """Return the parts of a tree of joins, and the keyed joins that could replace it."""
    cluster = Cluster()
    made = cluster.add(plan)
    leaves = tuple(Leaf(each, find_origin(each)) for each in cluster.inputs)
    known = (cluster.inputs, [leaf.origin for leaf in leaves], cluster.terms)
    edges = edges_of(*known)
    groups = []
    for members in groups_of(len(leaves), edges):
        own = [e for e in edges if e.parent in members] + implied_edges(*known, members)
        groups.append(_build_group(members, own, leaves, settings, plan.span))
    outputs = tuple(Output(f.name, made[f.name]) for f in plan.schema)
    return Analysis(leaves, tuple(cluster.terms), outputs, tuple(groups))


def _build_group(
    members: tuple[int, ...],
    edges: Sequence[EdgeTerms],
    leaves: Sequence[Leaf],
    settings: ConstraintSettings,
    span: Span,
) -> Group:
    sides = {which: _Side(leaves[which].plan, which) for which in members}
    joined = tuple(
        JoinEdge(
            members.index(e.parent),
            members.index(e.child),
            tuple(sides[e.parent].key_name(a) for a, _ in e.pairs),
            tuple(sides[e.child].key_name(b) for _, b in e.pairs),
            tuple(source_text(leaves[e.parent].plan, a) for a, _ in e.pairs),
            tuple(source_text(leaves[e.child].plan, b) for _, b in e.pairs),
        )
        for e in edges
    )
    known = _graph_inputs(members, edges, joined, leaves)
    found = constraints_on(known, monitored=settings.use is ConstraintUse.MONITORED)
    streams = tuple(scan.stream for scan in known.scans)
    join = KeyedJoin(tuple(s.plan for s in sides.values()), joined, streams, *found, settings, span)
    needed = _needed_edges(join, [at for at, each in enumerate(edges) if not each.terms])
    if len(needed) < len(edges):
        return _build_group(members, [edges[at] for at in needed], leaves, settings, span)
    return Group(members, join, frozenset(t for e in edges for t in e.terms), why_plain_is_cheaper(known, *found))


def _needed_edges(join: KeyedJoin, implied: Sequence[int]) -> list[int]:
    """Return the positions of the edges to keep.

    Implied edges stay only if a declared arrival uses them. A reverse edge goes if nothing is known about it and its
    rows are reachable without it.
    """
    # Without cycles, a join is faster, and it keeps the same rows if the same inputs cover it.
    declared = {each.edge for each in join.used_constraints if each.kind is ConstraintKind.ARRIVING}
    kept, count = [at for at in range(len(join.edges)) if at not in implied or at in declared], len(join.inputs)
    known = {each.edge for each in join.used_constraints} | {edge for edge, _ in join.watched}
    for at in sorted(set(kept) - known, reverse=True):
        rest = [join.edges[other] for other in kept if other != at]
        edge, now = join.edges[at], [join.edges[other] for other in kept]
        has_twin = any((other.parent, other.child) == (edge.child, edge.parent) for other in rest)
        if has_twin and source_groups(count, rest) == source_groups(count, now):
            kept.remove(at)
    return kept


class _Side:
    """An input with an additional column for each computed key."""

    def __init__(self, plan: Plan, which: int) -> None:
        self.source, self.which = plan, which
        self.computed: dict[Expression, str] = {}

    def key_name(self, key: Expression) -> str:
        if isinstance(key, Column):
            return key.name
        return self.computed.setdefault(key, f"key:{self.which}:{len(self.computed)}")

    @property
    def plan(self) -> Plan:
        if not self.computed:
            return self.source
        own = (Output(f.name, Column(f.name, f.type)) for f in self.source.schema)
        return Map(self.source, (*own, *(Output(name, key) for key, name in self.computed.items())))


def _graph_inputs(
    members: tuple[int, ...], edges: Sequence[EdgeTerms], joined: tuple[JoinEdge, ...], leaves: Sequence[Leaf]
) -> GraphInputs:
    own = {which: known for which in members if isinstance(known := leaves[which].origin, Origin)}
    return GraphInputs(
        tuple(input_name(leaves[which].plan, own[which].scan.stream) for which in members),
        tuple(own[which].scan for which in members),
        tuple(validity_bound(leaves[which].plan) for which in members),
        tuple(_rows_in_window(leaves[which].plan) for which in members),
        tuple(_window_step(leaves[which].plan) for which in members),
        joined,
        tuple(tuple((own[e.parent].column(a), own[e.child].column(b)) for a, b in e.pairs) for e in edges),
        tuple(tuple(a.type for a, _ in e.pairs) for e in edges),
    )


def _rows_in_window(plan: Plan) -> int | None:
    """Return the number of stream rows in a count window; None if there is none, or a filter below it drops rows."""
    window = count_window_below(plan)
    filtered_out = window is not None and any(isinstance(node, Filter) for node in walk(window.source))
    return None if window is None or filtered_out else window.rows


def _window_step(plan: Plan) -> int:
    return max((node.slide for node in walk(plan) if isinstance(node, Window)), default=1)
