"""Bytewax, one worker: the join is written by hand, and Arrow reads the files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bytewax.operators as op
import pyarrow as pa
import pyarrow.csv as arrow_csv
from bytewax.dataflow import Dataflow
from bytewax.inputs import DynamicSource, StatelessSourcePartition
from bytewax.operators import StatefulBatchLogic
from bytewax.testing import TestingSink, run_main

from benchmarks.contestants.deque_join import DequeJoin, Reading
from benchmarks.contestants.protocol import Alarms, Data, Task, compete

BATCH = 2_000
"""Rows that a source hands over at a time; larger batches were no faster."""


class Readings(DynamicSource[Any]):  # type: ignore[misc]  # not in our environment
    """Rows of both streams in the order of their times, as the join needs them."""

    def __init__(self, data: Data) -> None:
        self.data = data

    def build(self, _step_id: str, _worker_index: int, _worker_count: int) -> Partition:
        return Partition(self.data)


class Partition(StatelessSourcePartition[Any]):  # type: ignore[misc]
    def __init__(self, data: Data) -> None:
        self.batches = read_batches(data)

    def next_batch(self) -> list[tuple[str, Reading]]:
        return next(self.batches)


def read_batches(data: Data) -> Iterator[list[tuple[str, Reading]]]:
    """Files of the same name hold the same stretch of time."""
    for file in sorted(Path(data.folder, "a").iterdir()):
        both = [arrow_csv.read_csv(Path(data.folder, stream, file.name)) for stream in "ab"]
        table = pa.concat_tables(
            each.append_column("side", pa.array([side] * each.num_rows, pa.int64())) for side, each in enumerate(both)
        ).sort_by("at")
        keys = table["key"].cast(pa.string())
        for begin in range(0, table.num_rows, BATCH):
            part = table.slice(begin, BATCH)
            columns = (part[name].to_pylist() for name in ("at", "side", "value", "id"))
            yield list(zip(keys.slice(begin, BATCH).to_pylist(), zip(*columns, strict=True), strict=True))


class Join(StatefulBatchLogic[Any, Any, Any]):  # type: ignore[misc]
    def __init__(self, task: Task) -> None:
        self.join = DequeJoin(task.threshold, task.distance)

    def on_batch(self, values: list[Reading]) -> tuple[list[tuple[int, int]], bool]:
        return self.join.alarms(values), StatefulBatchLogic.RETAIN

    def snapshot(self) -> None:
        """Without recovery, no snapshot is taken."""


def run(task: Task, data: Data) -> Alarms:
    found: list[tuple[str, tuple[int, int]]] = []
    flow = Dataflow("rivals")
    readings = op.input("readings", flow, Readings(data))
    alarms = op.stateful_batch("join", readings, lambda _state: Join(task))
    op.output("alarms", alarms, TestingSink(found))
    run_main(flow)
    return [pair for _, pair in found]


if __name__ == "__main__":
    compete(run)
