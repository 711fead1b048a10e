"""State of a keyed join: the join with its synopses, and the columns of the elements it keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.common.arrays import Columns, Ints
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.chunks import chunk_of_columns, columns_of_chunk
from tidegate.physical.common.hold_back import FIGURES, figures_chunk, figures_of
from tidegate.physical.common.operator import Chunks
from tidegate.physical.common.row_segments import RowStore, Segment, gather
from tidegate.physical.common.state_cache import StateCache
from tidegate.physical.keyed_join.count_windows import COUNTED_PREFIX, CountWindowProgress
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import NO, horizons_of
from tidegate.physical.keyed_join.kernels.state_parts import FILTERS, filters_name, slice_name
from tidegate.physical.keyed_join.layout import KeyedJoinLayout
from tidegate.physical.keyed_join.results import OpenResults
from tidegate.physical.keyed_join.sample_joins import JoinSample
from tidegate.schema import Schema

_ROWS, _SEEN, _SAMPLE = "payload", "seen.", "sample."
"""Name prefixes of the chunks with element columns, with the state of watches, and with the sample of keys."""
_OPEN_RESULTS = "going on"
"""Name of the chunk with results whose end is not known yet."""
_OWN = "of "
"""Name prefix of the elements' own columns in slices."""
_START = pa.schema({"start": pa.int64()})

Parts = Mapping[str, Columns]


class KeyedJoinParameters(NamedTuple):
    """Parameters of a keyed join that determine the form of its state."""

    schemas: tuple[Schema, ...]
    layout: KeyedJoinLayout
    exact: bool
    clusters: frozenset[int]
    counted_inputs: tuple[int, ...] = ()
    """Inputs that are windows of rows."""

    @property
    def schema(self) -> Schema:
        return Schema(tuple(f for schema in self.schemas for f in schema))

    def load_join(self, parts: Parts) -> SynopsisJoin:
        its: dict[str, Any] = {"exact": self.exact, "watched": self.clusters, "same": self.layout.same}
        graph = self.layout.graph
        return SynopsisJoin.from_columns(parts, graph, **its) if parts else SynopsisJoin.empty(graph, **its)

    @property
    def identity(self) -> tuple[object, ...]:
        return self.schemas, self.layout.graph, self.layout.keys, self.exact, self.clusters, self.counted_inputs


class LazyColumns(Mapping[str, npt.NDArray[Any]]):
    """Columns of a chunk as arrays, each converted only when it is requested."""

    __slots__ = ("chunk", "names")

    def __init__(self, chunk: pa.RecordBatch) -> None:
        self.chunk, self.names = chunk, tuple(n for n in chunk.schema.names if not n.startswith(_OWN))

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self.names:
            raise KeyError(name)
        column: npt.NDArray[Any] = self.chunk.column(name).to_numpy(zero_copy_only=False)
        return column

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class SliceChunk(NamedTuple):
    """Chunk of a slice, and its first and last row."""

    chunk: pa.RecordBatch
    first: int
    last: int

    def can_contain(self, rows: Ints) -> bool:
        return bool(rows[-1] >= self.first and rows[0] <= self.last)

    def segment(self) -> Segment:
        own = [name for name in self.chunk.schema.names if name.startswith(_OWN)]
        columns = self.chunk.select(own).rename_columns([name.removeprefix(_OWN) for name in own])
        return Segment(self.chunk.column("row").to_numpy(), columns)


@dataclass(slots=True, eq=False)
class KeyedJoinState:
    """State of a keyed join between two steps. A step changes it in place."""

    parameters: KeyedJoinParameters
    join: SynopsisJoin
    stores: list[RowStore]
    next_row: list[int]
    joined_counts: list[int]
    """Number of elements of each input that have been joined."""
    seen: Parts = field(default_factory=dict)
    """State of the watches."""
    sample: JoinSample = field(default_factory=JoinSample)
    """All elements of a sample of keys, to estimate missing results."""
    slices: list[dict[str, SliceChunk]] = field(default_factory=list)
    saved: dict[str, tuple[Columns, pa.RecordBatch]] = field(default_factory=dict)
    counting: dict[int, CountWindowProgress] = field(default_factory=dict)
    """Progress of windows of rows, by input."""
    open_results: OpenResults | None = None
    """Results whose end is not known yet; `open_results_chunk` holds the same."""
    open_results_chunk: pa.RecordBatch | None = None

    @staticmethod
    def load(shape: KeyedJoinParameters, chunks: Chunks) -> KeyedJoinState:
        """Load a state from the state cache, or decode its chunks."""
        kept = _CACHED_STATES.take(chunks.get(FIGURES))
        if kept is not None and kept.parameters.identity == shape.identity:
            kept.adopt_chunks(chunks)
            return kept
        return _decode_state(shape, chunks)

    def adopt_chunks(self, chunks: Chunks) -> None:
        """Take over the slices and filters of `chunks`. They may be in a file by now, and need not stay in memory."""
        filters = [name for name in self.saved if name.startswith(FILTERS) and chunks[name] is not self.saved[name][1]]
        self.saved |= {name: (LazyColumns(chunks[name]), chunks[name]) for name in filters}
        for stream, known in enumerate(self.slices):
            moved = [name for name, each in known.items() if chunks[name] is not each.chunk]
            if moved or filters:
                known |= {name: known[name]._replace(chunk=chunks[name]) for name in moved}
                self._attach_slices(stream)

    def _attach_slices(self, stream: int) -> None:
        """Make the join read slice columns from their chunks, and filters as saved."""
        cold, known = self.join.cold[stream], self.slices[stream]
        for place, each in enumerate(cold.slices):
            chunk, columns = known[slice_name(stream, each)].chunk, each.columns
            if not isinstance(columns, LazyColumns) or columns.chunk is not chunk:
                columns = LazyColumns(chunk)
            filters, _ = self.saved.get(filters_name(stream, each), (each.filters, None))
            if columns is not each.columns or filters is not each.filters:
                cold.slices[place] = replace(each, columns=columns, filters=filters)

    def report_results(self, found: OpenResults) -> Batch:
        """Return what to report of new and continuing results. Keep those that continue."""
        before = self.open_results or OpenResults.empty(self.parameters.schema, self.parameters.counted_inputs)
        output, self.open_results = before.with_more(found).split_reportable(self.counting)
        if self.open_results is not before:
            self.open_results_chunk = self.open_results.chunk() if len(self.open_results) else None
        return output

    def segments(self, stream: int, new: Sequence[Segment]) -> list[Segment]:
        """Return the columns of all elements that the join knows, except cold ones."""
        return [*new, *self.stores[stream].segments]

    def cold_segments(self, stream: int) -> list[Segment]:
        """Return the columns of elements that were cold before this step."""
        return [each.segment() for each in self.slices[stream].values()]

    def returned_segment(self, stream: int, rows: Ints) -> Segment:
        """Return the columns of the given rows, which were cold before this step."""
        ids = np.sort(rows)
        slices = (each.segment() for each in reversed(self.slices[stream].values()) if each.can_contain(ids))
        return Segment(ids, gather(ids, slices, self.parameters.schemas[stream].arrow))

    def starts_of_cold(self, stream: int, rows: Ints) -> Ints:
        """Return the starts of the given rows, which were cold before this step."""
        chunks = [each.chunk for each in self.slices[stream].values()]
        segments = [Segment(chunk.column("row").to_numpy(), chunk.select(["start"])) for chunk in chunks]
        found: Ints = gather(rows, segments, _START).column(0).to_numpy()
        return found

    def apply_changes(self, new: Sequence[Sequence[Segment]], watermarks: Sequence[int]) -> None:
        """Apply the changes of a step. `new` has the columns of elements that arrived or returned."""
        horizons = horizons_of(watermarks)
        self.counting = {stream: each.without_expired_ends(horizons[stream]) for stream, each in self.counting.items()}
        for stream in range(len(self.stores)):
            self._make_slice_chunks(stream, self.segments(stream, new[stream]))
        for stream, changes in enumerate(self.join.log_changes()):
            store, ids = self.stores[stream], np.sort(changes.new)
            store.add(ids, gather(ids, new[stream], store.schema))
            store.remove(changes.removed)

    def _make_slice_chunks(self, stream: int, segments: list[Segment]) -> None:
        """Make chunks of new slices, with the columns of their elements."""
        known, cold = self.slices[stream], self.join.cold[stream]
        names = [slice_name(stream, each) for each in cold.slices]
        if names == list(known):
            return
        loose = [each.segment() for name, each in known.items() if name.startswith("loose") and name not in names]
        chunks = {}
        for name, each in zip(names, cold.slices, strict=True):
            if name in known:
                chunks[name] = known[name]
                continue
            own = gather(each.columns["row"], [*segments, *loose], self.stores[stream].schema)
            columns = {column: pa.array(values) for column, values in each.columns.items()}
            columns |= {f"{_OWN}{n}": c for n, c in zip(own.schema.names, own.columns, strict=True)}
            chunks[name] = SliceChunk(pa.RecordBatch.from_pydict(columns), each.first, each.last)
        self.slices[stream] = chunks
        self._attach_slices(stream)

    def save(self, before: Chunks) -> Chunks:
        """Return the state as chunks.

        Unchanged chunks are the same objects as in `before`. If none changed, the state equals `before`.
        """
        beside = ((_SEEN, self.seen), (_SAMPLE, self.sample.parts))
        more = {f"{prefix}{name}": part for prefix, several in beside for name, part in several.items()}
        parts = {**self.join.to_columns(), **more}
        saved: dict[str, tuple[Columns, pa.RecordBatch]] = {}
        for name, part in parts.items():
            if not _is_slice(name):
                known = self.saved.get(name)
                saved[name] = known if known is not None and known[0] is part else (part, chunk_of_columns(part))
        self.saved = saved
        chunks: dict[str, pa.RecordBatch] = {name: chunk for name, (_, chunk) in saved.items()}
        for stream, store in enumerate(self.stores):
            chunks |= {name: each.chunk for name, each in self.slices[stream].items()}
            chunks |= store.chunks(f"{_ROWS}{stream}")
        for stream, counting in self.counting.items():
            chunks |= counting.chunks(_window_prefix(stream))
        if self.open_results_chunk is not None:
            chunks[_OPEN_RESULTS] = self.open_results_chunk
        figures = self._figures()
        same = len(chunks) + 1 == len(before) and all(before.get(n) is chunk for n, chunk in chunks.items())
        if same and figures_of(before) == figures:
            chunks = dict(before)
        else:
            # The state cache finds a state by this chunk, so each state has its own.
            chunks[FIGURES] = figures_chunk(figures)
        _CACHED_STATES.put(chunks[FIGURES], self)
        return chunks

    def _figures(self) -> dict[str, int]:
        figures = {
            f"{name}{stream}": value
            for stream, store in enumerate(self.stores)
            for name, value in (
                ("row", self.next_row[stream]),
                ("met", self.joined_counts[stream]),
                ("segments", store.segments_made),
            )
        }
        for stream, counting in self.counting.items():
            figures |= counting.figures(_window_prefix(stream))
        return figures


_CACHED_STATES: StateCache[KeyedJoinState] = StateCache()
"""Cache of decoded states, by their chunk of figures."""


def _decode_state(shape: KeyedJoinParameters, chunks: Chunks) -> KeyedJoinState:
    figures, streams = figures_of(chunks), range(len(shape.schemas))
    beside = (_ROWS, COUNTED_PREFIX, _OPEN_RESULTS, FIGURES)
    own = {n: c for n, c in chunks.items() if not n.startswith(beside)}
    parts: dict[str, Columns] = {
        name: LazyColumns(chunk)
        if _is_slice(name) or name.startswith(FILTERS)
        else columns_of_chunk(chunk, writable=True)
        for name, chunk in own.items()
    }
    saved = {name: (parts[name], own[name]) for name in own if not _is_slice(name)}
    join = shape.load_join({name: part for name, part in parts.items() if not name.startswith((_SEEN, _SAMPLE))})
    stores = []
    for stream, table in enumerate(join.tables):
        kept = np.sort(table["row"][table["component"] < NO])
        schema, numbered = shape.schemas[stream].arrow, figures.get(f"segments{stream}", 0)
        stores.append(RowStore.load(f"{_ROWS}{stream}", schema, chunks, numbered, kept))
    slices = [
        {
            name: SliceChunk(chunks[name], each.first, each.last)
            for each in cold.slices
            for name in [slice_name(stream, each)]
        }
        for stream, cold in enumerate(join.cold)
    ]
    going_on = chunks.get(_OPEN_RESULTS)
    return KeyedJoinState(
        shape,
        join,
        stores,
        [figures.get(f"row{stream}", 0) for stream in streams],
        [figures.get(f"met{stream}", 0) for stream in streams],
        _parts_with_prefix(_SEEN, parts),
        JoinSample(_parts_with_prefix(_SAMPLE, parts)),
        slices,
        saved,
        {stream: CountWindowProgress.load(_window_prefix(stream), chunks, figures) for stream in shape.counted_inputs},
        None if going_on is None else OpenResults.load(going_on, shape.schema, shape.counted_inputs),
        going_on,
    )


def _is_slice(name: str) -> bool:
    """Return whether a part has the columns of a slice."""
    return name.startswith(("cold", "loose")) and not name.startswith(FILTERS)


def _window_prefix(stream: int) -> str:
    """Return the name prefix for the state of a window of rows."""
    return f"{COUNTED_PREFIX}{stream}."


def _parts_with_prefix(prefix: str, parts: Parts) -> Parts:
    return {name.removeprefix(prefix): part for name, part in parts.items() if name.startswith(prefix)}
