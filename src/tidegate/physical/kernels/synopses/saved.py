"""The state of a join as named parts of columns.

rows0…     the elements of a stream that are Yes or Unknown
no0…       of those that are No, what parents find them by, and when they expire
cold0.1…   a slice of cold elements; filter0.1… its filters; returned0.1… which of it have been brought back
loose0…    cold elements of no slice yet
slices0…   the numbers of the slices, and when the last element of each expires
clusters0… for an edge whose clusters may be used: keys of parents that have no child yet
order…     what is known of the order of a key
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tidegate.physical.kernels.synopses.bounds import Order, Stairs
from tidegate.physical.kernels.synopses.clusters import Clusters
from tidegate.physical.kernels.synopses.cold import Cold, Slice
from tidegate.physical.kernels.synopses.model import NO, Columns
from tidegate.physical.kernels.synopses.table import Table

_OF_NO = ("key", "base", "after", "first")


def to_columns(
    tables: Sequence[Table],
    cold: Sequence[Cold],
    clusters: Mapping[int, Clusters],
    orders: Mapping[str, Order],
    written: Mapping[str, Columns],
) -> dict[str, Columns]:
    """All parts; those that were written before and have not changed are the same objects."""
    parts: dict[str, Columns] = {}
    for stream, (table, chilled) in enumerate(zip(tables, cold, strict=True)):
        parts |= _table(stream, table, written)
        for name, columns in _cold(stream, chilled).items():
            parts[name] = _same(columns, written.get(name))
    for edge, each in clusters.items():
        parts[f"clusters{edge}"] = _same(each._asdict(), written.get(f"clusters{edge}"))
    for name, order in orders.items():
        for unit, stairs in (("rows", order.rows), ("time", order.time)):
            part = f"order.{name}.{unit}"
            parts[part] = _same(_stairs(stairs), written.get(part))
    return parts


def from_columns(parts: Mapping[str, Columns], tables: Sequence[Table], cold: Sequence[Cold]) -> dict[str, Order]:
    """Fill empty tables; what is known of the order of keys."""
    for stream, (table, chilled) in enumerate(zip(tables, cold, strict=True)):
        for name in (f"rows{stream}", f"no{stream}"):
            table.append(parts[name], len(parts[name]["high"]))
        _fill_cold(parts, stream, chilled)
    names = {name.split(".")[1] for name in parts if name.startswith("order.")}
    return {name: Order(*(_from_stairs(parts[f"order.{name}.{unit}"]) for unit in ("rows", "time"))) for name in names}


def _table(stream: int, table: Table, written: Mapping[str, Columns]) -> dict[str, Columns]:
    rows, no = f"rows{stream}", f"no{stream}"
    if not table.changed and rows in written:
        return {rows: written[rows], no: written[no]}
    never = table["component"] == NO
    lives, dead = np.flatnonzero(~never), np.flatnonzero(never)
    above = [f"{kind}{edge}" for edge in table.indexes for kind in _OF_NO]
    bare = [name for name in above if name in table.columns] + ["component", "high"]
    kept = [name for name in table.columns if not name.startswith("child")]
    parts: dict[str, Columns] = {
        rows: {name: table[name][lives] for name in kept},
        no: {name: table[name][dead] for name in bare},
    }
    return {name: _same(columns, written.get(name)) for name, columns in parts.items()}


def _cold(stream: int, cold: Cold) -> dict[str, Columns]:
    parts: dict[str, Columns] = {}
    for each in cold.slices:
        parts[f"cold{stream}.{each.number}"] = each.columns
        parts[f"filter{stream}.{each.number}"] = each.filters
        parts[f"returned{stream}.{each.number}"] = {"returned": each.returned}
    numbers, ends = [s.number for s in cold.slices], [s.last_end for s in cold.slices]
    parts[f"slices{stream}"] = {"number": np.array(numbers, np.int64), "last_end": np.array(ends, np.int64)}
    parts[f"count{stream}"] = {"sealed": np.array([cold.sealed], np.int64)}
    if cold.loose:
        parts[f"loose{stream}"] = cold.all_loose()
    return parts


def _fill_cold(parts: Mapping[str, Columns], stream: int, cold: Cold) -> None:
    listed = parts[f"slices{stream}"]
    for number, last_end in zip(listed["number"].tolist(), listed["last_end"].tolist(), strict=True):
        filters, returned = parts[f"filter{stream}.{number}"], parts[f"returned{stream}.{number}"]["returned"]
        cold.slices.append(Slice(number, parts[f"cold{stream}.{number}"], filters, last_end, returned))
    cold.sealed = int(parts[f"count{stream}"]["sealed"][0])
    if f"loose{stream}" in parts:
        cold.loose = [parts[f"loose{stream}"]]


def _stairs(stairs: Stairs) -> Columns:
    position = np.concatenate([np.array([stairs.slack]), stairs.position])
    return {"position": position, "value": np.concatenate([np.array([stairs.low]), stairs.value])}


def _from_stairs(columns: Columns) -> Stairs:
    position, value = columns["position"], columns["value"]
    return Stairs(int(value[0]), int(position[0]), position[1:], value[1:])


def _same(columns: Columns, before: Columns | None) -> Columns:
    """The columns as they were written before, if they have not changed."""
    if before is columns or before is None or before.keys() != columns.keys():
        return columns
    same = all(before[name] is columns[name] or np.array_equal(before[name], columns[name]) for name in columns)
    return before if same else columns
