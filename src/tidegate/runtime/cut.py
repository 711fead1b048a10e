"""Cut a physical plan into stages, wherever elements must be brought together anew.

A *fragment* is a stage in the making. Without partitioning it still reads a source stream, row
by row, and can run anywhere; with one, all elements that agree in it are in the same bucket. A
plan is lowered to several fragments when it is a union: its branches stay apart as long as they
can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidegate.algebra.plan import Output
from tidegate.expressions.nodes import Column
from tidegate.physical.operator import Meeting, Operator
from tidegate.physical.plan import Apply, PhysicalPlan, Read
from tidegate.physical.stateless import MapOperator, UnionOperator
from tidegate.runtime.stage import (
    FromStage,
    FromStream,
    Node,
    Port,
    Stage,
    StageGraph,
    ToQuery,
    ToStage,
)
from tidegate.schema import Schema

Partitioning = tuple[frozenset[str], ...]
"""What a fragment is hashed by: for each hashed value, the columns that hold it; () is one bucket."""


@dataclass(frozen=True, slots=True)
class _Fragment:
    root: Node | Port
    feeds: tuple[FromStream | FromStage, ...]
    partitioning: Partitioning | None

    @property
    def schema(self) -> Schema:
        return self.root.schema


def cut(queries: Sequence[tuple[str, PhysicalPlan]]) -> StageGraph:
    """The stages of several queries, by name."""
    cutter = _Cutter()
    for name, plan in queries:
        cutter.query = name
        for fragment in cutter.fragments(plan):
            cutter.close(fragment, ToQuery(name))
    return StageGraph(tuple(cutter.linked()))


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The output of a stage, on its way to whoever reads it, hashed by columns."""

    keys: tuple[str, ...]


class _Cutter:
    """Fragments that have been closed, in order: their positions are the numbers of the stages."""

    def __init__(self) -> None:
        self.closed: list[tuple[str, _Fragment, _Exchange | ToQuery]] = []
        self.query = ""

    def fragments(self, plan: PhysicalPlan) -> list[_Fragment]:
        match plan:
            case Read(stream=stream, schema=schema, wanted=wanted):
                return [_Fragment(Port(0, schema), (FromStream(stream, wanted),), None)]
            case Apply(operator=UnionOperator(schema=schema), inputs=inputs):
                return [_renamed(f, schema) for each in inputs for f in self.fragments(each)]
            case Apply(operator=operator, inputs=(source,)) if operator.meeting is None:
                return [_extended(f, operator) for f in self.fragments(source)]
            case Apply(operator=operator, inputs=inputs) if operator.meeting is not None:
                return [self.gather(operator, [self.fragments(each) for each in inputs], operator.meeting)]
        raise AssertionError(plan)

    def gather(self, operator: Operator, sides: list[list[_Fragment]], keys: Meeting) -> _Fragment:
        """One fragment in which elements that agree in the keys meet, with the operator on top."""
        chosen = _positions(sides, keys)
        inputs: list[Node | Port] = []
        feeds: tuple[FromStream | FromStage, ...] = ()
        for branches, names in zip(sides, keys, strict=True):
            parts = []
            for branch in branches:
                inside = self.partitioned(branch, tuple(names[i] for i in chosen))
                parts.append(_shifted(inside.root, len(feeds)))
                feeds += inside.feeds
            inputs.append(parts[0] if len(parts) == 1 else Node(UnionOperator(parts[0].schema), tuple(parts)))
        known = frozenset(operator.schema.names)
        partitioning = tuple(frozenset(names[i] for names in keys) & known for i in chosen)
        return _Fragment(Node(operator, tuple(inputs)), feeds, partitioning)

    def partitioned(self, branch: _Fragment, keys: tuple[str, ...]) -> _Fragment:
        """The branch hashed by the keys: as it is if it already is so, else through an exchange."""
        if _is_partitioned(branch, keys):
            return branch
        number = self.close(branch, _Exchange(keys))
        return _Fragment(Port(0, branch.schema), (FromStage(number),), tuple(frozenset([k]) for k in keys))

    def close(self, fragment: _Fragment, end: _Exchange | ToQuery) -> int:
        self.closed.append((self.query, fragment, end))
        return len(self.closed) - 1

    def linked(self) -> list[Stage]:
        """The closed fragments as stages that know whom they feed."""
        readers = {
            feed.stage: (number, port)
            for number, (_, fragment, _) in enumerate(self.closed)
            for port, feed in enumerate(fragment.feeds)
            if isinstance(feed, FromStage)
        }
        stages: list[Stage] = []
        for number, (query, fragment, end) in enumerate(self.closed):
            target = ToStage(*readers[number], end.keys) if isinstance(end, _Exchange) else end
            level = max((1 + stages[f.stage].level for f in fragment.feeds if isinstance(f, FromStage)), default=0)
            stages.append(Stage(number, query, level, fragment.feeds, fragment.root, target, _shown(fragment)))
        return stages


def _shown(fragment: _Fragment) -> tuple[str, ...] | None:
    """What a fragment is hashed by, for people; equal columns are joined by an equals sign."""
    if fragment.partitioning is None:
        return None
    return tuple("=".join(sorted(held)) for held in fragment.partitioning)


def _positions(sides: list[list[_Fragment]], keys: Meeting) -> tuple[int, ...]:
    """Which of the keys to hash by: those that some branch is hashed by already, else all."""
    for branches, names in zip(sides, keys, strict=True):
        for branch in branches:
            if branch.partitioning:
                found = tuple(next((i for i, n in enumerate(names) if n in held), -1) for held in branch.partitioning)
                if -1 not in found:
                    return found
    return tuple(range(len(keys[0])))


def _is_partitioned(branch: _Fragment, keys: tuple[str, ...]) -> bool:
    held = branch.partitioning
    return held is not None and len(held) == len(keys) and all(k in h for k, h in zip(keys, held, strict=True))


def _extended(fragment: _Fragment, operator: Operator) -> _Fragment:
    """The fragment with an operator without state on top."""
    partitioning = fragment.partitioning
    if isinstance(operator, MapOperator) and partitioning:
        kept = tuple(_names_after(operator, held) for held in partitioning)
        # Hashed by something that is no longer a column: nobody can rely on it.
        partitioning = kept if all(kept) else (frozenset(),) * len(kept)
    return _Fragment(Node(operator, (fragment.root,)), fragment.feeds, partitioning)


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
