"""Dead letters of elements whose key another remembered element has. They are not joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from tidegate.errors import InternalError
from tidegate.expressions.column_texts import column_texts
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, concat_columns
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS, Reason
from tidegate.physical.common.failures import dead_letters, unqualified_name
from tidegate.physical.common.row_segments import Segment, gather
from tidegate.physical.keyed_join.kernels.model import NO, StreamArrivals
from tidegate.physical.keyed_join.layout import KeyedJoinLayout, equal_values
from tidegate.physical.keyed_join.state import KeyedJoinState


def dead_letters_of_repeated(
    layout: KeyedJoinLayout,
    streams: Sequence[str | None],
    memory: KeyedJoinState,
    elements: Sequence[Batch],
    arrivals: Mapping[int, StreamArrivals],
    new: Sequence[Sequence[Segment]],
    repeated: Sequence[Ints],
) -> pa.RecordBatch:
    """Return dead letters of this step's elements with the given rows."""
    letters = [NO_DEAD_LETTERS]
    for stream, rows in enumerate(repeated):
        if len(rows):
            at = np.searchsorted(arrivals[stream].row, rows)
            _check_hashes(layout, memory, stream, elements[stream], arrivals[stream], new[stream], at)
            letters.append(_dead_letters_of_stream(layout, streams[stream], stream, elements[stream].take(at)))
    return concat_columns(letters)


def _dead_letters_of_stream(layout: KeyedJoinLayout, name: str | None, stream: int, batch: Batch) -> pa.RecordBatch:
    columns = list(dict.fromkeys(n for e in layout.graph.above[stream] for n in layout.keys[stream][e].columns))
    origin = name or f"input {stream + 1} of a join"
    keys = [column_texts(batch.column(column)).to_pylist() for column in columns]
    details = [
        f"{origin} has a row with this key already, and it is still remembered: "
        + ", ".join(f"{unqualified_name(column)} = {value}" for column, value in zip(columns, row, strict=True))
        for row in zip(*keys, strict=True)
    ]
    own = batch.columns.rename_columns([unqualified_name(column) for column in batch.columns.schema.names])
    return dead_letters(batch.with_columns(own), [Reason.REPEATED_KEY.value] * len(batch), details, origin=origin)


def _check_hashes(
    layout: KeyedJoinLayout,
    memory: KeyedJoinState,
    stream: int,
    batch: Batch,
    arrivals: StreamArrivals,
    new: Sequence[Segment],
    at: Ints,
) -> None:
    """Check that elements with equal hashes have equal keys."""
    table = memory.join.tables[stream]
    for edge in layout.graph.above[stream]:
        if not layout.is_hashed(edge):
            continue
        codes, columns = arrivals.keys[edge][at], layout.keys[stream][edge].columns
        # Of elements that never join, only the keys are known.
        other = np.flatnonzero((table["component"] < NO) & np.isin(table[f"key{edge}"], codes))
        cold_keys, cold_rows = memory.join.cold[stream].find(layout.key_column_name(stream, edge), codes)
        rows = np.append(table["row"][other], cold_rows)
        keys = np.append(table[f"key{edge}"][other], cold_keys)
        order = np.argsort(keys)
        place = np.minimum(np.searchsorted(keys[order], codes), max(len(keys) - 1, 0))
        known = np.flatnonzero(keys[order][place] == codes) if len(keys) else place[:0]
        segments = [*memory.segments(stream, new), *memory.cold_segments(stream)]
        theirs = gather(rows[order][place[known]], segments, memory.parameters.schemas[stream].arrow)
        ours = batch.take(at[known]).columns
        if not all(equal_values(ours.column(n), theirs.column(n)).all() for n in columns):
            raise InternalError("I342", f"two different keys ({', '.join(columns)}) have the same hash")
