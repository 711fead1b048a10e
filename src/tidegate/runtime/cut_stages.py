"""Cut a physical plan into stages at the points where elements must be partitioned again.

A *fragment* is an unfinished stage. A fragment without a partitioning reads a source stream row by
row and can run anywhere. In a fragment with a partitioning, all elements with equal keys are in the
same bucket. A union becomes several fragments: its branches stay separate as long as possible.

A part that several plans share and that keeps state becomes a stage of its own. Each reader adds its
own stateless operators on top of it and gets the elements through an exchange. In a live graph every operator
with state ends its stage (`live_stages.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from tidegate.algebra.plan import Output
from tidegate.expressions.nodes import Column
from tidegate.physical.common.operator import Operator, PartitionKeys
from tidegate.physical.common.plan import Apply, PhysicalPlan, Read
from tidegate.physical.stateless.operators import MapOperator, UnionOperator
from tidegate.runtime.stage import FromStage, FromStream, Node, Outlet, Port, Stage, ToQuery, ToStage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.schema import Schema

Partitioning = tuple[frozenset[str], ...]
"""For each hashed value of a fragment, the columns that hold it; () means a single bucket."""

StageKey = tuple[PhysicalPlan | str, int]
"""What a stage is for: the operator with state that ends it, and -1; or the reader of its only outlet, and the position
among the reader's branches. A reader is an operator with state or, by name, a query."""

_SPREAD: Partitioning = (frozenset(),)
"""Partitioning by a value that no column holds. A reader that needs a partitioning must exchange the elements."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """An unfinished stage."""

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
    cutter = StageCutter(shared_parts([plan for _, plan in queries]))
    for name, plan in queries:
        cutter.add_query(name, name, plan)
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
    fragment: Fragment
    outlets: list[tuple[str, str, Node | Port, _Exchange | ToQuery]] = field(default_factory=list)
    """The query and the reader of each outlet, its operators, and where it leads to."""


class StageCutter:
    """Builder of stages. A stage is closed after all stages that feed it."""

    def __init__(self, shared: frozenset[PhysicalPlan]) -> None:
        self.shared = shared
        self.made: dict[PhysicalPlan, list[Fragment]] = {}
        self.closed: dict[int, _ClosedFragment] = {}
        self.query = self.reader = ""

    def add_query(self, reader: str, query: str, plan: PhysicalPlan) -> None:
        """Cut the plan of a query. `reader` identifies it among the readers of stages."""
        self.query, self.reader = query, reader
        for position, fragment in enumerate(self.fragments(plan)):
            self.add_outlet(fragment, ToQuery(query), (reader, position))

    def is_shared(self, plan: PhysicalPlan) -> bool:
        """Return whether a part becomes a stage of its own."""
        return plan in self.shared

    def number_stage(self, key: StageKey) -> int:
        """Return the number of a new stage."""
        del key
        return len(self.closed)

    def fragments(self, plan: PhysicalPlan) -> list[Fragment]:
        """Return the fragments of a plan; those of a shared plan are built once."""
        if not self.is_shared(plan):
            return self.cut(plan)
        if plan not in self.made:
            self.made[plan] = [self.share_fragment(each, plan) for each in self.cut(plan)]
        return self.made[plan]

    def share_fragment(self, fragment: Fragment, plan: PhysicalPlan) -> Fragment:
        """Turn the fragment into a stage for several readers, unless it has no partitioning or is shared already."""
        if fragment.partitioning is None or fragment.shared is not None:
            return fragment
        number = self.number_stage((plan, -1))
        self.closed[number] = _ClosedFragment(self.query, fragment)
        return replace(fragment, shared=number)

    def cut(self, plan: PhysicalPlan) -> list[Fragment]:
        match plan:
            case Read(stream=stream, schema=schema, wanted=wanted):
                return [Fragment(Port(0, schema), (FromStream(stream, wanted),), None)]
            case Apply(operator=UnionOperator(schema=schema), inputs=inputs):
                return [_rename_columns(f, schema) for each in inputs for f in self.fragments(each)]
            case Apply(operator=operator, inputs=(source,)) if operator.partition_keys is None:
                return [_add_operator(f, operator) for f in self.fragments(source)]
            case Apply(operator=operator, inputs=inputs) if operator.partition_keys is not None:
                return [self.gather(plan, [self.fragments(each) for each in inputs], operator.partition_keys)]
        raise AssertionError(plan)

    def gather(self, plan: Apply, sides: list[list[Fragment]], keys: PartitionKeys) -> Fragment:
        """Return a fragment with the operator on top, in which elements with equal keys are in the same bucket."""
        operator = plan.operator
        chosen = self.key_positions(sides, keys)
        positions = count()
        inputs: list[Node | Port] = []
        feeds: tuple[FromStream | FromStage, ...] = ()
        for branches, names in zip(sides, keys, strict=True):
            parts = []
            for branch in branches:
                wanted = None if names is None else tuple(names[i] for i in chosen)
                inside = self.partition_by(branch, wanted, (plan, next(positions)))
                parts.append(_shift_ports(inside.root, len(feeds)))
                feeds += inside.feeds
            inputs.append(parts[0] if len(parts) == 1 else Node(UnionOperator(parts[0].schema), tuple(parts)))
        if all(names is None for names in keys):
            return Fragment(Node(operator, tuple(inputs)), feeds, _SPREAD)
        known = frozenset(operator.schema.names)
        partitioning = tuple(frozenset(names[i] for names in keys if names is not None) & known for i in chosen)
        return Fragment(Node(operator, tuple(inputs)), feeds, partitioning)

    def key_positions(self, sides: list[list[Fragment]], keys: PartitionKeys) -> tuple[int, ...]:
        """Return the positions of the keys to hash by; readers of shared stages get an exchange anyway."""
        return choose_key_positions([[b for b in branches if b.shared is None] for branches in sides], keys)

    def partition_by(self, branch: Fragment, keys: tuple[str, ...] | None, reader: StageKey) -> Fragment:
        """Return the branch hashed by the keys; add an exchange if it is hashed differently."""
        if keys is not None and _is_partitioned(branch, keys):
            return branch
        feed = self.add_outlet(branch, _Exchange(keys), reader)
        return Fragment(Port(0, branch.schema), (feed,), tuple(frozenset([k]) for k in keys or ()))

    def add_outlet(self, fragment: Fragment, end: _Exchange | ToQuery, reader: StageKey) -> FromStage:
        """Add an outlet to the stage of the fragment and return the feed that reads it."""
        number = fragment.shared
        if number is None:
            number = self.number_stage(reader)
            self.closed[number] = _ClosedFragment(self.query, fragment)
        outlets = self.closed[number].outlets
        outlets.append((self.query, self.reader, fragment.root, end))
        return FromStage(number, len(outlets) - 1)

    def link_stages(self) -> Iterator[Stage]:
        """Yield the closed fragments as stages, with outlets that refer to their readers."""
        readers = {
            feed: (number, port)
            for number, closed in self.closed.items()
            for port, feed in enumerate(closed.fragment.feeds)
            if isinstance(feed, FromStage)
        }
        levels: dict[int, int] = {}
        for number, closed in self.closed.items():
            fragment = closed.fragment
            levels[number] = max((1 + levels[f.stage] for f in fragment.feeds if isinstance(f, FromStage)), default=0)
            outlets = tuple(
                Outlet(root, ToStage(*readers[FromStage(number, i)], end.keys), query)
                if isinstance(end, _Exchange)
                else Outlet(root, end, query, by)
                for i, (query, by, root, end) in enumerate(closed.outlets)
            )
            yield Stage(number, closed.query, levels[number], fragment.feeds, outlets, _partition_names(fragment))


def _partition_names(fragment: Fragment) -> tuple[str, ...] | None:
    """Return the partitioning for display; columns that hold the same value are joined by an equals sign."""
    if fragment.partitioning is None:
        return None
    return tuple("=".join(sorted(held)) for held in fragment.partitioning)


def choose_key_positions(sides: list[list[Fragment]], keys: PartitionKeys) -> tuple[int, ...]:
    """Return the positions of the keys to hash by: those that some branch is hashed by already, else all."""
    hashed = [(branches, names) for branches, names in zip(sides, keys, strict=True) if names is not None]
    for branches, names in hashed:
        for branch in branches:
            if branch.partitioning:
                found = tuple(next((i for i, n in enumerate(names) if n in held), -1) for held in branch.partitioning)
                if -1 not in found:
                    return found
    return tuple(range(len(hashed[0][1]))) if hashed else ()


def _is_partitioned(branch: Fragment, keys: tuple[str, ...]) -> bool:
    held = branch.partitioning
    if held is None or branch.shared is not None:
        return False
    return len(held) == len(keys) and all(k in h for k, h in zip(keys, held, strict=True))


def _add_operator(fragment: Fragment, operator: Operator) -> Fragment:
    """Return the fragment with a stateless operator on top."""
    partitioning = fragment.partitioning
    if isinstance(operator, MapOperator) and partitioning:
        kept = tuple(_names_after(operator, held) for held in partitioning)
        # The map drops a column that the fragment is hashed by, so readers cannot rely on the partitioning.
        partitioning = kept if all(kept) else (frozenset(),) * len(kept)
    return Fragment(Node(operator, (fragment.root,)), fragment.feeds, partitioning, fragment.shared)


def _names_after(operator: MapOperator, held: frozenset[str]) -> frozenset[str]:
    return frozenset(o.name for o in operator.outputs if isinstance(o.expression, Column) and o.expression.name in held)


def _rename_columns(fragment: Fragment, schema: Schema) -> Fragment:
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
