"""Compile or load the kernels of a job before its first rows arrive.

Kernels are compiled once per machine and then loaded from a cache on disk. The driver compiles them
while Spark starts, so that the workers do not all compile them at the same time.
"""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE, NeedsWarmUp
from tidegate.runtime.stage import Stage
from tidegate.runtime.stage_graph import StageGraph
from tidegate.schema import Schema, Type
from tidegate.time import FOREVER

ANY_VALUE: dict[Type, object] = {
    Type.BOOLEAN: True,
    Type.INT: 1,
    Type.BIGINT: 1,
    Type.REAL: 1.0,
    Type.DOUBLE: 1.0,
    Type.STRING: "1",
    Type.TIMESTAMP: datetime(2026, 1, 1, tzinfo=UTC),
    Type.INTERVAL: timedelta(seconds=1),
    Type.NULL: None,
}
ANY_VALUE |= {t: [ANY_VALUE[t.parts[0]]] for t in Type if t.is_array}
ANY_VALUE |= {t: [tuple(ANY_VALUE[part] for part in t.parts)] for t in Type if t.is_map}


def warm_up(graph: StageGraph) -> None:
    """Run every stage over a few made-up elements and discard the output."""
    for stage in graph.stages:
        _warm_stage(stage)


def warm_up_in_background(graph: StageGraph) -> threading.Thread:
    """Start `warm_up` in a thread and return the thread; join it before using the kernels."""
    thread = threading.Thread(target=warm_up, args=[graph], name="tidegate-warm-up", daemon=True)
    thread.start()
    return thread


def _warm_stage(stage: Stage) -> None:
    state = NO_STATE
    schemas = stage.port_schemas
    # Decoded times are read-only arrays, computed times are writable: kernels are compiled for both.
    for start, watermark, is_decoded in ((0, 1, False), (1, 2, True), (2, FOREVER, False)):
        inputs = [_sample_elements(schemas[port], start, is_decoded=is_decoded) for port in sorted(schemas)]
        state = stage.step(state, inputs, [watermark] * len(inputs)).state
    for node in stage.nodes:
        if isinstance(node.operator, NeedsWarmUp):
            node.operator.warm_up()


def _sample_elements(schema: Schema, start: int, count: int = 2, *, is_decoded: bool) -> Batch:
    arrays = [pa.array([ANY_VALUE[f.type]] * count, f.type.arrow) for f in schema]
    starts = np.full(count, start, np.int64)
    starts.setflags(write=not is_decoded)
    return Batch(starts, starts + 2, pa.RecordBatch.from_arrays(arrays, schema=schema.arrow))
