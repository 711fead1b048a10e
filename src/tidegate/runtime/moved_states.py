"""States that stages have from their beginning: elements that the stages of an older plan hold.

They are written before the change that needs them. The program version names the files. They count as long as no step
was recorded after the change: later records have the state of all stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import Chunks, HoldsElements
from tidegate.runtime.bucket_step import split_by_bucket
from tidegate.runtime.checkpoint import Record
from tidegate.runtime.live_tables import reading_of
from tidegate.runtime.stage import FromStage, FromStream, Node, Port, Stage, ToStage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import StateStore, Version
from tidegate.values import value


@value
class MovedStates:
    """State files of new stages, written after a step, and the new stages that need not read their tables."""

    step: int = 0
    files: Mapping[str, str] = field(default_factory=dict)
    """The state file of each ``stage/bucket``."""
    readers: tuple[int, ...] = ()

    def since(self, step: int) -> MovedStates:
        """Return what still counts when `step` is the newest one that is recorded."""
        return self if self.step == step else NO_MOVES

    def plus(self, more: MovedStates) -> MovedStates:
        """Return these states and more of the same step."""
        return MovedStates(more.step, {**self.files, **more.files}, (*self.readers, *more.readers))

    def in_graph(self, graph: StageGraph) -> MovedStates:
        """Return the states of stages that exist."""
        files = {place: file for place, file in self.files.items() if int(place.partition("/")[0]) in graph.numbers}
        return replace(self, files=files, readers=tuple(n for n in self.readers if n in graph.numbers))

    def add_to(self, record: Record, graph: StageGraph) -> Record:
        """Return the record of a step with the states that were moved after it."""
        moved = self.since(record.step).in_graph(graph)
        tables = moved.add_readings(record.tables, graph)
        return replace(record, state={**moved.files, **record.state}, tables=tables)

    def add_readings(self, known: Mapping[str, str], graph: StageGraph) -> dict[str, str]:
        """Return the known readings of tables with those that the new stages need not do."""
        feeds = ((feed, number) for number in self.readers for feed in graph.by_number[number].feeds)
        tables = ((feed.stream, number) for feed, number in feeds if isinstance(feed, FromStream))
        return {**{reading_of(table, n): known[table] for table, n in tables if table in known}, **known}


NO_MOVES = MovedStates()

HeldElements = Mapping[int, Sequence[Batch]]
"""Elements that stages hold, by stage and input."""

NOTHING_HELD: HeldElements = {}


def write_states(store: StateStore, step: int, graph: StageGraph, held: HeldElements, buckets: int) -> MovedStates:
    """Write the states of stages that hold elements from their beginning."""
    files: dict[str, str] = {}
    readers: list[int] = []
    for number, inputs in held.items():
        stage = graph.by_number[number]
        readers += table_readers(graph, stage)
        for bucket, chunks in _states_of_buckets(graph, stage, inputs, buckets).items():
            saved = store.save(number, bucket, step, chunks, Version())
            assert saved.file is not None
            files[f"{number}/{bucket}"] = saved.file
    return MovedStates(step, files, tuple(readers))


def table_readers(graph: StageGraph, stage: Stage) -> list[int]:
    """Return the stages that read sources for a stage alone."""
    feeding = [graph.by_number[feed.stage] for feed in stage.feeds if isinstance(feed, FromStage)]
    return [each.number for each in feeding if any(isinstance(feed, FromStream) for feed in each.feeds)]


def _states_of_buckets(graph: StageGraph, stage: Stage, inputs: Sequence[Batch], buckets: int) -> dict[int, Chunks]:
    number, node = next((n, each) for n, each in enumerate(stage.nodes) if each.operator.partition_keys is not None)
    operator = node.operator
    assert isinstance(operator, HoldsElements), operator
    parts: dict[int, list[Batch]] = {}
    for which, (below, batch) in enumerate(zip(node.inputs, inputs, strict=True)):
        for bucket, part in split_by_bucket(batch, _exchange_keys(graph, stage, _first_port(below)), buckets):
            parts.setdefault(bucket, [Batch.empty(each.schema) for each in node.inputs])[which] = part
    return {
        bucket: {f"{number}/{name}": chunk for name, chunk in operator.hold_elements(own).items()}
        for bucket, own in parts.items()
    }


def _first_port(node: Node | Port) -> Port:
    """Return the port of an input; the elements of a union may come in at any of its ports."""
    while isinstance(node, Node):
        node = node.inputs[0]
    return node


def _exchange_keys(graph: StageGraph, stage: Stage, port: Port) -> tuple[str, ...] | None:
    feed = stage.feeds[port.index]
    assert isinstance(feed, FromStage), feed
    target = graph.by_number[feed.stage].outlets[feed.outlet].target
    assert isinstance(target, ToStage), target
    return target.keys
