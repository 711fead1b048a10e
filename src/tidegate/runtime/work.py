"""What happens in one bucket in one step, the same in every runtime.

Stages send each other *parcels* (elements for one bucket of a stage's port) and *marks* (the
watermark of one sender). A runtime moves them; this module makes and uses them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from tidegate.physical.common.batch import Batch, concat
from tidegate.physical.common.kernels.hashing import bucket_of, hash_columns
from tidegate.physical.common.operator import NO_STATE, Chunks, Facts
from tidegate.runtime.control import NO_ORDERS, OrdersByOperator, orders_of, reports_of
from tidegate.runtime.stage import FromStream, Node, Port, Stage, StageGraph, StageStep, Steering, ToQuery, ToStage
from tidegate.schema import Schema

Address = tuple[int, int]
"""A port: the number of the stage, and of the port in it."""


@dataclass(frozen=True, slots=True, eq=False)
class Parcel:
    """Elements for one bucket of a port."""

    to: Address
    bucket: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Mark:
    """The watermark of one sender of a port; goes to all its buckets."""

    to: Address
    watermark: int


@dataclass(slots=True)
class Inbox:
    """What has arrived for the stages of one bucket."""

    bucket: int = 0
    batches: dict[Address, list[Batch]] = field(default_factory=dict)
    watermarks: dict[Address, int] = field(default_factory=dict)
    orders: OrdersByOperator = field(default_factory=lambda: NO_ORDERS)
    arrived: Mapping[str, int] = field(default_factory=Counter)
    """Raw rows of each source stream, those of this step included."""

    def copy(self) -> Inbox:
        """Return an inbox that can be filled without changing this one."""
        batches = {address: list(some) for address, some in self.batches.items()}
        return replace(self, batches=batches, watermarks=dict(self.watermarks))

    def put(self, parcel: Parcel) -> None:
        self.batches.setdefault(parcel.to, []).append(parcel.batch)

    def mark(self, mark: Mark) -> None:
        """Several senders of one port: the slowest counts."""
        self.watermarks[mark.to] = min(mark.watermark, self.watermarks.get(mark.to, mark.watermark))


@dataclass(slots=True)
class Outbox:
    """What one bucket made in one step."""

    parcels: list[Parcel] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    results: list[tuple[str, Batch]] = field(default_factory=list)
    dead: list[pa.RecordBatch] = field(default_factory=list)
    reports: list[dict[str, Facts]] = field(default_factory=list)
    """What steered operators saw, by ``stage/operator``: of each stage and bucket, in the order they ran."""
    pairs: int = 0
    """The most pairs that one operator made."""

    def send(self, stage: Stage, step: StageStep, buckets: int) -> None:
        """The outputs of a stage to wherever its outlets lead, and its dead letters."""
        for target, output in zip(stage.targets, step.outputs, strict=True):
            match target:
                case ToQuery(query=query):
                    if len(output):
                        self.results.append((query, output))
                case ToStage(stage=number, port=port, keys=keys):
                    parts = split(output, keys, buckets)
                    self.parcels.extend(Parcel((number, port), bucket, part) for bucket, part in parts)
        if step.dead.num_rows:
            self.dead.append(step.dead)


def read(graph: StageGraph, stream: str, batch: Batch, buckets: int) -> Outbox:
    """Run the stages that read a source stream over its new elements."""
    outbox = Outbox()
    for stage in graph.readers(stream):
        schema = port_schemas(stage.root)[0]
        columns = batch.columns.select(list(schema.names))
        step = stage.step(NO_STATE, [batch.with_columns(columns)], [0])
        outbox.send(stage, step, buckets)
    return outbox


def run(
    stage: Stage, state: Chunks, inbox: Inbox, outbox: Outbox, buckets: int, *, most_pairs: int | None = None
) -> Chunks:
    """Run a stage in one bucket over what has arrived; answers its new state."""
    inputs, watermarks = [], []
    for port, schema in port_schemas(stage.root).items():
        address = (stage.number, port)
        inputs.append(concat([Batch.empty(schema), *inbox.batches.get(address, [])]))
        watermarks.append(inbox.watermarks[address])
    steering = Steering(orders_of(stage, inbox.orders), inbox.arrived, inbox.bucket, buckets, most_pairs)
    step = stage.step(state, inputs, watermarks, steering)
    outbox.send(stage, step, buckets)
    outbox.reports += [reports_of(stage, step)] if step.reports else []
    outbox.marks += _marks(stage.targets, step.watermarks)
    outbox.pairs = max(outbox.pairs, step.pairs)
    return step.state


def runs_in(stage: Stage, bucket: int) -> bool:
    """Whether the stage has anything to do in a bucket."""
    return bucket == 0 or not stage.is_single


def source_marks(graph: StageGraph, watermarks: Mapping[str, int]) -> list[Mark]:
    """Marks of the stages that read source streams, from the streams' watermarks."""
    marks: list[Mark] = []
    for stage in graph.at(0):
        (feed,) = stage.feeds
        if isinstance(feed, FromStream) and any(isinstance(target, ToStage) for target in stage.targets):
            mark = stage.watermark(watermarks[feed.stream])
            marks += _marks(stage.targets, [mark] * len(stage.targets))
    return marks


def _marks(targets: Sequence[ToStage | ToQuery], watermarks: Sequence[int]) -> list[Mark]:
    """What the readers of a stage's outlets are told of time."""
    pairs = zip(targets, watermarks, strict=True)
    return [Mark((target.stage, target.port), mark) for target, mark in pairs if isinstance(target, ToStage)]


def split(batch: Batch, keys: tuple[str, ...] | None, buckets: int) -> Iterator[tuple[int, Batch]]:
    """The batch by bucket; all of it to bucket 0 when there are no keys, to every bucket when they are None."""
    if not len(batch):
        return
    if keys is None:
        yield from ((bucket, batch) for bucket in range(buckets))
        return
    if not keys or buckets == 1:
        yield 0, batch
        return
    bucket = bucket_of(hash_columns([batch.column(k) for k in keys]), buckets)
    sorted_rows = batch.take(np.argsort(bucket, kind="stable"))
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    for number, (begin, end) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
        if end > begin:
            part = slice(begin, end)
            columns = sorted_rows.columns.slice(begin, end - begin)
            yield number, Batch(sorted_rows.start[part], sorted_rows.end[part], columns)


def port_schemas(node: Node | Port) -> dict[int, Schema]:
    """The schemas of the ports below a node, by number."""
    found: dict[int, Schema] = {}
    waiting = [node]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Port):
            found[each.index] = each.schema
        else:
            waiting += reversed(each.inputs)
    return found
