"""Cut a physical plan into stages, wherever elements must be brought together anew.

A *fragment* is a stage in the making. Without partitioning it still reads a source stream, row
by row, and can run anywhere; with one, all elements that agree in it are in the same bucket. A
plan is lowered to several fragments when it is a union: its branches stay apart as long as they
can.

What several plans have in common, and that keeps state, is cut off as a stage of its own. Its readers
put operators without state on top of it, each its own ones, and get its elements through exchanges.
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
"""What a fragment is hashed by: for each hashed value, the columns that hold it; () is one bucket."""

_SPREAD: Partitioning = (frozenset(),)
"""Over the buckets by something that no column holds: whoever needs elements together brings them together anew."""


@dataclass(frozen=True, slots=True)
class _Fragment:
    root: Node | Port
    feeds: tuple[FromStream | FromStage, ...]
    partitioning: Partitioning | None
    shared: int | None = None
    """The number of the stage that this is on top of, if others may be, too."""

    @property
    def schema(self) -> Schema:
        return self.root.schema


def cut(queries: Sequence[tuple[str, PhysicalPlan]]) -> StageGraph:
    """The stages of several queries, by name; what they have in common runs once."""
    cutter = _Cutter(shared_parts([plan for _, plan in queries]))
    for name, plan in queries:
        cutter.query = name
        for fragment in cutter.fragments(plan):
            cutter.close(fragment, ToQuery(name))
    return StageGraph(tuple(cutter.linked()))


def shared_parts(plans: Sequence[PhysicalPlan]) -> frozenset[PhysicalPlan]:
    """Parts of the plans that keep state and are read from several places."""
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
    """The output of a stage, on its way to whoever reads it, hashed by columns; None: to all buckets."""

    keys: tuple[str, ...] | None


@dataclass(slots=True)
class _Closed:
    """A fragment that is a stage now; readers of a shared one are added as they come."""

    query: str
    fragment: _Fragment
    outlets: list[tuple[str, Node | Port, _Exchange | ToQuery]] = field(default_factory=list)


class _Cutter:
    """Fragments that have been closed, in order: their positions are the numbers of the stages."""

    def __init__(self, shared: frozenset[PhysicalPlan]) -> None:
        self.shared = shared
        self.made: dict[PhysicalPlan, list[_Fragment]] = {}
        self.closed: list[_Closed] = []
        self.query = ""

    def fragments(self, plan: PhysicalPlan) -> list[_Fragment]:
        """The fragments of a plan; those of a shared one are made once, and can only be read."""
        if plan not in self.shared:
            return self.cut(plan)
        if plan not in self.made:
            self.made[plan] = [self.cut_off(each) for each in self.cut(plan)]
        return self.made[plan]

    def cut_off(self, fragment: _Fragment) -> _Fragment:
        """The fragment as a stage for several readers, if it keeps state and is not such a one already."""
        if fragment.partitioning is None or fragment.shared is not None:
            return fragment
        self.closed.append(_Closed(self.query, fragment))
        return replace(fragment, shared=len(self.closed) - 1)

    def cut(self, plan: PhysicalPlan) -> list[_Fragment]:
        match plan:
            case Read(stream=stream, schema=schema, wanted=wanted):
                return [_Fragment(Port(0, schema), (FromStream(stream, wanted),), None)]
            case Apply(operator=UnionOperator(schema=schema), inputs=inputs):
                return [_renamed(f, schema) for each in inputs for f in self.fragments(each)]
            case Apply(operator=operator, inputs=(source,)) if operator.partition_keys is None:
                return [_extended(f, operator) for f in self.fragments(source)]
            case Apply(operator=operator, inputs=inputs) if operator.partition_keys is not None:
                return [self.gather(operator, [self.fragments(each) for each in inputs], operator.partition_keys)]
        raise AssertionError(plan)

    def gather(self, operator: Operator, sides: list[list[_Fragment]], keys: PartitionKeys) -> _Fragment:
        """One fragment in which elements that agree in the keys meet, with the operator on top."""
        chosen = _positions(sides, keys)
        inputs: list[Node | Port] = []
        feeds: tuple[FromStream | FromStage, ...] = ()
        for branches, names in zip(sides, keys, strict=True):
            parts = []
            for branch in branches:
                inside = self.partitioned(branch, None if names is None else tuple(names[i] for i in chosen))
                parts.append(_shifted(inside.root, len(feeds)))
                feeds += inside.feeds
            inputs.append(parts[0] if len(parts) == 1 else Node(UnionOperator(parts[0].schema), tuple(parts)))
        if all(names is None for names in keys):
            return _Fragment(Node(operator, tuple(inputs)), feeds, _SPREAD)
        known = frozenset(operator.schema.names)
        partitioning = tuple(frozenset(names[i] for names in keys if names is not None) & known for i in chosen)
        return _Fragment(Node(operator, tuple(inputs)), feeds, partitioning)

    def partitioned(self, branch: _Fragment, keys: tuple[str, ...] | None) -> _Fragment:
        """The branch hashed by the keys: as it is if it already is so, else through an exchange."""
        if keys is not None and _is_partitioned(branch, keys):
            return branch
        feed = self.close(branch, _Exchange(keys))
        return _Fragment(Port(0, branch.schema), (feed,), tuple(frozenset([k]) for k in keys or ()))

    def close(self, fragment: _Fragment, end: _Exchange | ToQuery) -> FromStage:
        """Give the fragment an end; answers how its output can be read."""
        number = fragment.shared
        if number is None:
            number = len(self.closed)
            self.closed.append(_Closed(self.query, fragment))
        outlets = self.closed[number].outlets
        outlets.append((self.query, fragment.root, end))
        return FromStage(number, len(outlets) - 1)

    def linked(self) -> Iterator[Stage]:
        """The closed fragments as stages that know whom they feed."""
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
            yield Stage(number, closed.query, levels[-1], fragment.feeds, outlets, _shown(fragment))


def _shown(fragment: _Fragment) -> tuple[str, ...] | None:
    """What a fragment is hashed by, for people; equal columns are joined by an equals sign."""
    if fragment.partitioning is None:
        return None
    return tuple("=".join(sorted(held)) for held in fragment.partitioning)


def _positions(sides: list[list[_Fragment]], keys: PartitionKeys) -> tuple[int, ...]:
    """Which of the keys to hash by: those that some branch is hashed by already, else all."""
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


def _extended(fragment: _Fragment, operator: Operator) -> _Fragment:
    """The fragment with an operator without state on top."""
    partitioning = fragment.partitioning
    if isinstance(operator, MapOperator) and partitioning:
        kept = tuple(_names_after(operator, held) for held in partitioning)
        # Hashed by something that is no longer a column: nobody can rely on it.
        partitioning = kept if all(kept) else (frozenset(),) * len(kept)
    return replace(fragment, root=Node(operator, (fragment.root,)), partitioning=partitioning)


def _names_after(operator: MapOperator, held: frozenset[str]) -> frozenset[str]:
    return frozenset(o.name for o in operator.outputs if isinstance(o.expression, Column) and o.expression.name in held)


def _renamed(fragment: _Fragment, schema: Schema) -> _Fragment:
    """A branch of a union under the names of the union."""
    if fragment.schema.names == schema.names:
        return fragment
    pairs = zip(schema, fragment.schema, strict=True)
    return _extended(fragment, MapOperator(tuple(Output(new.name, Column(old.name, old.type)) for new, old in pairs)))


def _shifted(node: Node | Port, by: int) -> Node | Port:
    match node:
        case Port(index=index, schema=schema):
            return Port(index + by, schema)
        case Node(operator=operator, inputs=inputs):
            return Node(operator, tuple(_shifted(each, by) for each in inputs))
