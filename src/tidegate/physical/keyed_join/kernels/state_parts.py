"""State of a keyed join as named parts of columns.

rows0 1…   elements of a stream as they arrived, and again as they changed
gone0 1…   which of these rows, counted from the first row ever, are no longer valid
cold0.1…   a slice of cold elements with filters; cold filters 0.1… its filters; loose0.1… a slice without filters
returned0.1… positions in a slice of elements that have returned
slices0…   figures of the slices, so that the slices need not be read
digest0.1… filters of the keys of slices, from the slice with this number on; digests0… figures of the digests
clusters0… for an edge whose cluster constraints may be used: keys of parents that have no child yet
order…     running maxima of an ordered key
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints
from tidegate.physical.common.kernels.journal import Journal, journal_from
from tidegate.physical.keyed_join.kernels.bounds import KeyOrder, RunningMaxima
from tidegate.physical.keyed_join.kernels.changes import TableChanges
from tidegate.physical.keyed_join.kernels.clusters import Clusters
from tidegate.physical.keyed_join.kernels.cold import ColdElements, Digest, Slice
from tidegate.physical.keyed_join.kernels.model import GONE
from tidegate.physical.keyed_join.kernels.table import Table

FILTERS = "cold filters "
"""Name prefix of the parts with the filters of slices."""
_GONE_COLUMNS = ("at",)
_SLICE_FIGURES = ("number", "count", "first", "last", "last_end")
_DIGEST_FIGURES = ("first", "last", "room", "held")
_MOST_GONE = 256
"""Rows of a log that may be gone, however few are left."""


@dataclass(slots=True, eq=False)
class Log:
    """Log of a stream's elements: how they arrived and changed, and which were removed."""

    rows: Journal
    gone: Journal

    @classmethod
    def empty(cls, table: Table) -> Log:
        return cls(Journal(table.stored_columns), Journal(_GONE_COLUMNS))

    def log_changes(self, table: Table) -> TableChanges:
        """Log the changes of a table. Rewrite the log if many of its rows are no longer valid."""
        changes = table.take_changes(self.rows.end)
        self.gone.append(changes.gone)
        self.rows.append(*(table[name][changes.at] for name in self.rows.names))
        if len(self.rows) - len(self.gone) < len(self.gone) * 2 - _MOST_GONE:
            alive = np.flatnonzero(table["component"] < GONE)
            self.rows, self.gone = Journal(self.rows.names, self.rows.end), Journal(_GONE_COLUMNS)
            table["noted"][alive] = self.rows.end + np.arange(len(alive))
            self.rows.append(*(table[name][alive] for name in self.rows.names))
        return changes

    def live_elements(self) -> dict[str, Ints]:
        """Return the elements, with their log rows as `noted`."""
        begin = self.rows.chunks[0].begin if self.rows.chunks else 0
        columns = dict(zip(self.rows.names, self.rows.columns_since(begin), strict=True))
        counts = np.ones(len(columns["row"]), np.bool_)
        counts[self.gone.columns_since(self.gone.chunks[0].begin if self.gone.chunks else 0)[0] - begin] = False
        found = np.flatnonzero(counts)
        return {name: column[found] for name, column in columns.items()} | {"noted": begin + found}


def to_columns(
    logs: Sequence[Log],
    cold: Sequence[ColdElements],
    clusters: Mapping[int, Clusters],
    orders: Mapping[str, KeyOrder],
    written: Mapping[str, Columns],
) -> dict[str, Columns]:
    """Return all parts. A part that has not changed since it was written is the same object."""
    parts: dict[str, Columns] = {}
    for stream, (log, chilled) in enumerate(zip(logs, cold, strict=True)):
        parts |= log.rows.to_columns(f"rows{stream}") | log.gone.to_columns(f"gone{stream}")
        # Do not read the columns of slices: an unchanged number means unchanged columns.
        for each in chilled.slices:
            parts[slice_name(stream, each)] = each.columns
            if not each.is_loose:
                parts[filters_name(stream, each)] = each.filters
        for name, columns in _cold_parts(stream, chilled).items():
            parts[name] = _reuse_if_equal(columns, written.get(name))
    for edge, cluster in clusters.items():
        parts[f"clusters{edge}"] = _reuse_if_equal(cluster.to_columns(), written.get(f"clusters{edge}"))
    for name, order in orders.items():
        for unit, stairs in (("rows", order.rows), ("time", order.time)):
            part = f"order.{name}.{unit}"
            parts[part] = _reuse_if_equal(_maxima_to_columns(stairs), written.get(part))
    return parts


def log_from(parts: Mapping[str, Columns], stream: int, table: Table) -> Log:
    """Load the log of a stream from its parts."""
    rows = journal_from(f"rows{stream}", table.stored_columns, parts)
    return Log(rows, journal_from(f"gone{stream}", _GONE_COLUMNS, parts))


def orders_from(parts: Mapping[str, Columns]) -> dict[str, KeyOrder]:
    """Load the running maxima of ordered keys."""
    names = {name.split(".")[1] for name in parts if name.startswith("order.")}
    return {
        name: KeyOrder(*(_maxima_from_columns(parts[f"order.{name}.{unit}"]) for unit in ("rows", "time")))
        for name in names
    }


def slice_name(stream: int, each: Slice) -> str:
    """Return the name of the part with the columns of a slice."""
    return f"{'loose' if each.is_loose else 'cold'}{stream}.{each.number}"


def filters_name(stream: int, each: Slice) -> str:
    """Return the name of the part with the filters of a slice."""
    return f"{FILTERS}{stream}.{each.number}"


def _cold_parts(stream: int, cold: ColdElements) -> dict[str, Columns]:
    parts: dict[str, Columns] = {}
    for each in cold.slices:
        if len(each.returned):
            parts[f"returned{stream}.{each.number}"] = {"at": each.returned}
    for digest in cold.digests:
        parts[f"digest{stream}.{digest.first}"] = digest.words
    if cold.digests:
        parts[f"digests{stream}"] = _figures_of(cold.digests, _DIGEST_FIGURES)
    if cold.slices_made:
        # The last row has the number of slices made so far, and the horizon up to which elements have expired.
        last = {"number": cold.slices_made, "last_end": cold.horizon}
        listed = _figures_of(cold.slices, _SLICE_FIGURES)
        parts[f"slices{stream}"] = {name: np.append(values, last.get(name, 0)) for name, values in listed.items()}
    return parts


def _figures_of(several: Sequence[object], names: Sequence[str]) -> dict[str, Ints]:
    return {name: np.array([getattr(each, name) for each in several], np.int64) for name in names}


def cold_from(parts: Mapping[str, Columns], stream: int) -> ColdElements:
    """Load the cold elements of a stream."""
    cold = ColdElements()
    if f"slices{stream}" not in parts:
        return cold
    *rows, (cold.slices_made, *_, cold.horizon) = zip(
        *(parts[f"slices{stream}"][name].tolist() for name in _SLICE_FIGURES), strict=True
    )
    for number, count, first, last, last_end in rows:
        filters = parts.get(f"{FILTERS}{stream}.{number}", {})
        returned = parts.get(f"returned{stream}.{number}", {"at": np.empty(0, np.int64)})["at"]
        columns = parts[f"{'cold' if filters else 'loose'}{stream}.{number}"]
        cold.slices.append(Slice(number, columns, filters, count, first, last, last_end, returned))
    listed = parts.get(f"digests{stream}")
    for first, last, room, held in zip(*(listed[n].tolist() for n in _DIGEST_FIGURES), strict=True) if listed else ():
        cold.digests.append(Digest(first, last, room, held, parts[f"digest{stream}.{first}"]))
    return cold


def _maxima_to_columns(stairs: RunningMaxima) -> Columns:
    position = np.concatenate([np.array([stairs.slack]), stairs.position])
    return {"position": position, "value": np.concatenate([np.array([stairs.low]), stairs.value])}


def _maxima_from_columns(columns: Columns) -> RunningMaxima:
    position, value = columns["position"], columns["value"]
    return RunningMaxima(int(value[0]), int(position[0]), position[1:], value[1:])


def _reuse_if_equal(columns: Columns, before: Columns | None) -> Columns:
    """Return the columns as they were written before, if they have not changed."""
    if before is columns or before is None or before.keys() != columns.keys():
        return columns
    same = all(before[name] is columns[name] or np.array_equal(before[name], columns[name]) for name in columns)
    return before if same else columns
