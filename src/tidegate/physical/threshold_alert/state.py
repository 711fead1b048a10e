"""Elements of each input that one step of a threshold join works on, by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from tidegate.algebra.threshold_alert import Demand
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.batch import Batch, concat, concat_columns
from tidegate.physical.common.kernels.groups import canonical, group_rows
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.common.operator import Chunks
from tidegate.physical.threshold_alert.kernels.incidents import Incidents
from tidegate.physical.threshold_alert.omission import needed_rows
from tidegate.schema import Schema

_INCIDENTS = "incidents"
_MOST_RUNS = 32
"""Number of chunks of an input from which they are merged into one."""

_FIGURES = ("number", "began", "last", "alarms")


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """Elements of one input in the order of group and time, and which of them are new."""

    batch: Batch
    group: Ints
    is_new: Mask
    is_whole: bool
    omitted: int = 0
    """Number of elements, kept so far or new, that are omitted from this step on."""

    def group_bounds(self, groups: int) -> Ints:
        """Return where each group begins, and where the last one ends."""
        return np.searchsorted(self.group, np.arange(groups + 1))

    def canonical_order(self, ranks: Ints) -> Ints:
        """Return the order of rows by the rank of their group, time and content."""
        columns = self.batch.columns.columns
        content = [hash_columns(columns)] if columns else []
        return np.lexsort([*content, self.batch.start, ranks[self.group]])

    def save(self, name: str, state: Chunks, horizon: int) -> Chunks:
        """Return chunks with the elements that are not before the horizon.

        If elements of the input can be omitted, few are kept and any may be dropped later, so they form one chunk.
        Otherwise the elements of a step stay in one chunk until the last of them is before the horizon.
        """
        alive = self.batch.start >= horizon
        if not self.is_whole:
            return _chunk_unless_empty(name, self.batch.filter(alive))
        runs = {run: chunk for run, chunk in state.items() if run.startswith(f"{name}.")}
        place = f"{name}.{1 + max((int(run.rpartition('.')[2]) for run in runs), default=0)}"
        if len(runs) >= _MOST_RUNS:
            return _chunk_unless_empty(place, self.batch.filter(alive))
        lasting = {run: chunk for run, chunk in runs.items() if np.array(chunk.column(0)).max() >= horizon}
        return {**lasting, **_chunk_unless_empty(place, self.batch.filter(alive & self.is_new))}


@dataclass(frozen=True, slots=True, eq=False)
class ThresholdAlertState:
    """All sides, the number of groups, the keys of each group, and the incidents known before the step."""

    sides: tuple[Side, ...]
    groups: int
    keys: tuple[pa.Array, ...]
    known_incidents: Mapping[int, Incidents]

    @property
    def group_ranks(self) -> Ints:
        """Return the rank of each group in an order that depends on keys alone."""
        ranks = np.zeros(self.groups, np.int64)
        if self.keys:
            ranks[np.argsort(hash_columns(self.keys), kind="stable")] = np.arange(self.groups)
        return ranks

    def incidents_of_alert(self, number: int) -> Incidents:
        return self.known_incidents.get(number) or Incidents.none(self.groups)

    def save(
        self, state: Chunks, horizons: Sequence[int], incidents: Mapping[int, Incidents], pauses: Mapping[int, int]
    ) -> Chunks:
        """Return the state after the step: elements, and incidents that may continue; reuse equal chunks."""
        chunks: dict[str, pa.RecordBatch] = {}
        for which, (side, horizon) in enumerate(zip(self.sides, horizons, strict=True)):
            chunks |= side.save(_side_name(which), state, horizon)
        rows = [self._incident_rows(n, each, pauses[n]) for n, each in incidents.items() if each.alarms.any()]
        if any(each.num_rows for each in rows):
            chunks[_INCIDENTS] = concat_columns([each for each in rows if each.num_rows])
        return {name: state[name] if _is_same(state.get(name), chunk) else chunk for name, chunk in chunks.items()}

    def _incident_rows(self, number: int, incidents: Incidents, until: int) -> pa.RecordBatch:
        alive = np.flatnonzero((incidents.alarms > 0) & (incidents.last >= until))
        figures = [
            np.full(len(alive), number),
            *(f[alive] for f in (incidents.began, incidents.last, incidents.alarms)),
        ]
        keys = [key.take(pa.array(alive)) for key in self.keys]
        names = [*_FIGURES, *(f"key.{place}" for place in range(len(keys)))]
        return pa.RecordBatch.from_arrays([*map(pa.array, figures), *keys], names)


def load_with_inputs(
    state: Chunks,
    inputs: Sequence[Batch],
    schemas: Sequence[Schema],
    keys: Sequence[tuple[str, ...]],
    demands: Sequence[tuple[Demand, ...]],
) -> ThresholdAlertState:
    """Return the kept and the new elements without those that can be omitted."""
    stored = [_load_side(state, which, schema) for which, schema in enumerate(schemas)]
    new = [_drop_null_keys(batch, names) for batch, names in zip(inputs, keys, strict=True)]
    known = state.get(_INCIDENTS)
    groups, count, keys_of_groups = _number_groups(
        [*zip(stored, keys, strict=True), *zip(new, keys, strict=True)], known
    )
    many = len(schemas)
    sides = tuple(_build_side(stored[i], new[i], groups[i], groups[many + i], demands[i]) for i in range(many))
    return ThresholdAlertState(
        sides, count, keys_of_groups, _restore_incidents(known, groups[-1], count) if known is not None else {}
    )


def _build_side(stored: Batch, new: Batch, old_group: Ints, new_group: Ints, demands: tuple[Demand, ...]) -> Side:
    batch, group = concat([stored, new]), np.concatenate([old_group, new_group])
    needed = needed_rows(batch, group, demands)
    omitted = len(batch) - len(needed)
    return Side(batch.take(needed), group[needed], needed >= len(stored), is_whole=not demands, omitted=omitted)


def _number_groups(
    sides: Sequence[tuple[Batch, tuple[str, ...]]], known: pa.RecordBatch | None
) -> tuple[list[Ints], int, tuple[pa.Array, ...]]:
    """Return the groups of all sides' elements and of the known incidents, the number of groups, and their keys."""
    lengths = [len(batch) for batch, _ in sides] + [known.num_rows if known is not None else 0]
    columns = []
    for place in range(len(sides[0][1])):
        parts = [canonical(batch.column(names[place])) for batch, names in sides]
        parts += [known.column(len(_FIGURES) + place)] if known is not None else []
        columns.append(pa.concat_arrays(parts))
    found = group_rows([c[:0] for c in columns], columns, groups=0, rows=sum(lengths))
    keys = tuple(column.take(pa.array(found.founders)) for column in columns)
    return np.split(found.groups, np.cumsum(lengths)[:-1]), len(found.founders), keys


def _restore_incidents(known: pa.RecordBatch, group: Ints, groups: int) -> dict[int, Incidents]:
    number, *figures = (np.array(known.column(name)) for name in _FIGURES)
    found: dict[int, Incidents] = {}
    for each in np.unique(number).tolist():
        mine, found[each] = number == each, Incidents.none(groups)
        for target, figure in zip((found[each].began, found[each].last, found[each].alarms), figures, strict=True):
            target[group[mine]] = figure[mine]
    return found


def _load_side(state: Chunks, which: int, schema: Schema) -> Batch:
    name = _side_name(which)
    chunks = [chunk for run, chunk in state.items() if run == name or run.startswith(f"{name}.")]
    return concat([Batch.empty(schema), *map(Batch.from_arrow, chunks)])


def _drop_null_keys(batch: Batch, names: tuple[str, ...]) -> Batch:
    """Return the elements without NULL in their keys; NULL equals nothing."""
    known = [batch.column(name).is_valid() for name in names if batch.column(name).null_count]
    if not known:
        return batch
    return batch.filter(np.logical_and.reduce([k.to_numpy(zero_copy_only=False) for k in known]))


def _chunk_unless_empty(name: str, batch: Batch) -> Chunks:
    return {name: batch.to_arrow()} if len(batch) else {}


def _side_name(which: int) -> str:
    return f"side.{which}"


def _is_same(before: pa.RecordBatch | None, after: pa.RecordBatch) -> bool:
    return before is not None and before.num_rows == after.num_rows and before.equals(after)
