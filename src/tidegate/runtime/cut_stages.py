"""Cut a physical plan into stages at the points where elements must be partitioned again.

A *fragment* is an unfinished stage. A fragment without a partitioning reads a source stream row by
row and can run anywhere. In a fragment with a partitioning, all elements with equal keys are in the
same bucket. A union becomes several fragments: its branches stay separate as long as possible.

A part that several plans share and that keeps state becomes a stage of its own. Each reader adds its
own stateless operators on top of it and gets the elements through an exchange.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tidegate.algebra.plan import Output
from tidegate.expressions.nodes import Column
from tidegate.physical.common.operator import Operator, PartitionKeys
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.stateless.operators import MapOperator, UnionOperator
from tidegate.runtime.stage import (
    FromStage,
    FromStream,
    Node,
    Outlet,
    Port,
    Stage,
    StageGraph,
    ToQuery,
    ToStage,
)
from tidegate.schema import Schema

Partitioning = tuple[frozenset[str], ...]
"""For each hashed value of a fragment, the columns that hold it; () means a single bucket."""

_SPREAD: Partitioning = (frozenset(),)
"""Partitioning by a value that no column holds. A reader that needs a partitioning must exchange the elements."""


@dataclass(frozen=True, slots=True)
class _Fragment:
    root: Node | Port
    feeds: tuple[FromStream | FromStage, ...]
    partitioning: Partitioning | None
    shared: int | None = None
    """Number of the shared stage that this fragment is on top of, if any."""

    @property
    def schema(self) -> Schema:
        return self.root.schema


def cut_into_stages(queries: Sequence[tuple[str, PhysicalPlan]]) -> StageGraph:
    """Cut the plans of named queries into stages; shared parts run once."""
    cutter = _Cutter(shared_parts([plan for _, plan in queries]))
    for name, plan in queries:
        cutter.query = name
        for fragment in cutter.fragments(plan):
            cutter.add_outlet(fragment, ToQuery(name))
    return StageGraph(tuple(cutter.link_stages()))


def shared_parts(plans: Sequence[PhysicalPlan]) -> frozenset[PhysicalPlan]:
    """Return the parts of the plans that keep state and have several readers."""
    readers: Counter[PhysicalPlan] = Counter(plans)
    waiting = list(dict.fromkeys(plans))
    while waiting:
        plan = waiting.pop()
        for each in plan.inputs if isinstance(plan, Apply) else ():
            if not readers[each]:
                waiting.append(each)
            readers[each] += 1
    return frozenset(plan for plan, count in readers.items() if count > 1 and _keeps_state(plan))


def _keeps_state(plan: PhysicalPlan) -> bool:
    if isinstance(plan, Read):
        return False
    return plan.operator.partition_keys is not None or any(_keeps_state(each) for each in plan.inputs)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """Exchange between a stage and a reader, hashed by the keys. If `keys` is None, every bucket gets all elements."""

    keys: tuple[str, ...] | None


@dataclass(slots=True)
class _ClosedFragment:
    """Fragment that has become a stage. Readers of a shared one are added later."""

    query: str
    fragment: _Fragment
    outlets: list[tuple[str, Node | Port, _Exchange | ToQuery]] = field(default_factory=list)


class _Cutter:
    """Builder of stages. The position of a fragment in `closed` is the number of its stage."""

    def __init__(self, shared: frozenset[PhysicalPlan]) -> None:
        self.shared = shared
        self.made: dict[PhysicalPlan, list[_Fragment]] = {}
        self.closed: list[_ClosedFragment] = []
        self.query = ""

    def fragments(self, plan: PhysicalPlan) -> list[_Fragment]:
        """Return the fragments of a plan; those of a shared plan are built once."""
        if plan not in self.shared:
            return self.cut(plan)
        if plan not in self.made:
            self.made[plan] = [self.share_fragment(each) for each in self.cut(plan)]
        return self.made[plan]

    def share_fragment(self, fragment: _Fragment) -> _Fragment:
        """Turn the fragment into a stage for several readers, unless it has no partitioning or is shared already."""
        if fragment.partitioning is None or fragment.shared is not None:
            return fragment
        self.closed.append(_ClosedFragment(self.query, fragment))
        return replace(fragment, shared=len(self.closed) - 1)

    def cut(self, plan: PhysicalPlan) -> list[_Fragment]:
        match plan:
            case Read(stream=stream, schema=schema, wanted=wanted):
                return [_Fragment(Port(0, schema), (FromStream(stream, wanted),), None)]
            case Apply(operator=UnionOperator(schema=schema), inputs=inputs):
                return [_rename_columns(f, schema) for each in inputs for f in self.fragments(each)]
            case Apply(operator=operator, inputs=(source,)) if operator.partition_keys is None:
                return [_add_operator(f, operator) for f in self.fragments(source)]
            case Apply(operator=operator, inputs=inputs) if operator.partition_keys is not None:
                return [self.gather(operator, [self.fragments(each) for each in inputs], operator.partition_keys)]
        raise AssertionError(plan)

    def gather(self, operator: Operator, sides: list[list[_Fragment]], keys: PartitionKeys) -> _Fragment:
        """Return a fragment with the operator on top, in which elements with equal keys are in the same bucket."""
        chosen = _key_positions(sides, keys)
        inputs: list[Node | Port] = []
        feeds: tuple[FromStream | FromStage, ...] = ()
        for branches, names in zip(sides, keys, strict=True):
            parts = []
            for branch in branches:
                inside = self.partition_by(branch, None if names is None else tuple(names[i] for i in chosen))
                parts.append(_shift_ports(inside.root, len(feeds)))
                feeds += inside.feeds
            inputs.append(parts[0] if len(parts) == 1 else Node(UnionOperator(parts[0].schema), tuple(parts)))
        if all(names is None for names in keys):
            return _Fragment(Node(operator, tuple(inputs)), feeds, _SPREAD)
        known = frozenset(operator.schema.names)
        partitioning = tuple(frozenset(names[i] for names in keys if names is not None) & known for i in chosen)
        return _Fragment(Node(operator, tuple(inputs)), feeds, partitioning)

    def partition_by(self, branch: _Fragment, keys: tuple[str, ...] | None) -> _Fragment:
        """Return the branch hashed by the keys; add an exchange if it is hashed differently."""
        if keys is not None and _is_partitioned(branch, keys):
            return branch
        feed = self.add_outlet(branch, _Exchange(keys))
        return _Fragment(Port(0, branch.schema), (feed,), tuple(frozenset([k]) for k in keys or ()))

    def add_outlet(self, fragment: _Fragment, end: _Exchange | ToQuery) -> FromStage:
        """Add an outlet to the stage of the fragment and return the feed that reads it."""
        number = fragment.shared
        if number is None:
            number = len(self.closed)
            self.closed.append(_ClosedFragment(self.query, fragment))
        outlets = self.closed[number].outlets
        outlets.append((self.query, fragment.root, end))
        return FromStage(number, len(outlets) - 1)

    def link_stages(self) -> Iterator[Stage]:
        """Yield the closed fragments as stages, with outlets that refer to their readers."""
        readers = {
            feed: (number, port)
            for number, closed in enumerate(self.closed)
            for port, feed in enumerate(closed.fragment.feeds)
            if isinstance(feed, FromStage)
        }
        levels: list[int] = []
        for number, closed in enumerate(self.closed):
            fragment = closed.fragment
            levels.append(max((1 + levels[f.stage] for f in fragment.feeds if isinstance(f, FromStage)), default=0))
            outlets = tuple(
                Outlet(root, ToStage(*readers[FromStage(number, i)], end.keys), query)
                if isinstance(end, _Exchange)
                else Outlet(root, end, query)
                for i, (query, root, end) in enumerate(closed.outlets)
            )
            yield Stage(number, closed.query, levels[-1], fragment.feeds, outlets, _partition_names(fragment))


def _partition_names(fragment: _Fragment) -> tuple[str, ...] | None:
    """Return the partitioning for display; columns that hold the same value are joined by an equals sign."""
    if fragment.partitioning is None:
        return None
    return tuple("=".join(sorted(held)) for held in fragment.partitioning)


def _key_positions(sides: list[list[_Fragment]], keys: PartitionKeys) -> tuple[int, ...]:
    """Return the positions of the keys to hash by: those that some branch is hashed by already, else all."""
    hashed = [(branches, names) for branches, names in zip(sides, keys, strict=True) if names is not None]
    for branches, names in hashed:
        for branch in branches:
            if branch.partitioning and branch.shared is None:
                found = tuple(next((i for i, n in enumerate(names) if n in held), -1) for held in branch.partitioning)
                if -1 not in found:
                    return found
    return tuple(range(len(hashed[0][1]))) if hashed else ()


def _is_partitioned(branch: _Fragment, keys: tuple[str, ...]) -> bool:
    held = branch.partitioning
    if held is None or branch.shared is not None:
        return False
    return len(held) == len(keys) and all(k in h for k, h in zip(keys, held, strict=True))


def _add_operator(fragment: _Fragment, operator: Operator) -> _Fragment:
    """Return the fragment with a stateless operator on top."""
    partitioning = fragment.partitioning
    if isinstance(operator, MapOperator) and partitioning:
        kept = tuple(_names_after(operator, held) for held in partitioning)
        # The map drops a column that the fragment is hashed by, so readers cannot rely on the partitioning.
        partitioning = kept if all(kept) else (frozenset(),) * len(kept)
    return replace(fragment, root=Node(operator, (fragment.root,)), partitioning=partitioning)


def _names_after(operator: MapOperator, held: frozenset[str]) -> frozenset[str]:
    return frozenset(o.name for o in operator.outputs if isinstance(o.expression, Column) and o.expression.name in held)


def _rename_columns(fragment: _Fragment, schema: Schema) -> _Fragment:
    """Rename the columns of a union's branch to those of the union."""
    if fragment.schema.names == schema.names:
        return fragment
    pairs = zip(schema, fragment.schema, strict=True)
    return _add_operator(
        fragment, MapOperator(tuple(Output(new.name, Column(old.name, old.type)) for new, old in pairs))
    )


def _shift_ports(node: Node | Port, by: int) -> Node | Port:
    match node:
        case Port(index=index, schema=schema):
            return Port(index + by, schema)
        case Node(operator=operator, inputs=inputs):
            return Node(operator, tuple(_shift_ports(each, by) for each in inputs))
