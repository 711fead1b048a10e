"""States as a runtime keeps them between steps."""

from __future__ import annotations

import pyarrow as pa

from tidegate.physical.common.operator import Chunks


def through_files(state: Chunks) -> Chunks:
    """A state that was written and read again."""
    return {name: _read(_written(chunk)) for name, chunk in state.items()}


def _written(chunk: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, chunk.schema) as writer:
        writer.write_batch(chunk)
    return sink.getvalue()


def _read(buffer: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(buffer) as reader:
        schema, batches = reader.schema, list(reader)
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)
