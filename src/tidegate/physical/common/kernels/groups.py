"""Group rows by key: an exact number for each group, and rows in the order of group and time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidegate.collection_entries import identity_bytes, is_collection, normalize, normalize_floats
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled


class Grouping(NamedTuple):
    """Group of each new row, and the first row of each group that was not known before."""

    groups: Ints
    founders: Ints


def group_rows(known: Sequence[pa.Array], new: Sequence[pa.Array], *, groups: int, rows: int) -> Grouping:
    """Number the groups of new rows: known groups keep their position, new ones follow.

    `known` are the keys of the known groups, all different. Both must be canonical (see `canonical`). Numbers come from
    dictionaries, not from hashes, so two keys never share one. NULL is a value like others.

    Examples
    --------
    >>> import pyarrow as pa
    >>> found = group_rows([pa.array(["a"])], [pa.array(["b", "a", None, "b"])], groups=1, rows=4)
    >>> found.groups.tolist(), found.founders.tolist()
    ([1, 0, 2, 1], [0, 2])
    """
    if not new:
        return Grouping(np.zeros(rows, np.int64), np.zeros(1 if rows and not groups else 0, np.int64))
    codes, matches, size = _encode_column(known[0], new[0])
    for old, fresh in zip(known[1:], new[1:], strict=True):
        more, others, several = _encode_column(old, fresh)
        both = np.where((matches < 0) | (others < 0), -1, matches * several + others)
        codes, matches, size = _encode_column(pa.array(both), pa.array(codes * several + more))
    return _number_groups(codes, matches, size)


def _encode_column(known: pa.Array, new: pa.Array) -> tuple[Ints, Ints, int]:
    """Return codes 0, 1, … of the new values in order of appearance, those of known values or -1, and their number.

    Known values are looked up among the new ones, not vice versa: the new ones are few and stay in the CPU cache.
    """
    if is_collection(new.type):
        known, new = identity_bytes(known), identity_bytes(new)
    encoded = new.dictionary_encode(null_encoding="encode")
    matches = pc.index_in(known, value_set=encoded.dictionary, skip_nulls=False).fill_null(-1)
    return encoded.indices.to_numpy().astype(np.int64), matches.to_numpy().astype(np.int64), len(encoded.dictionary)


@compiled
def _number_groups(codes: Ints, matches: Ints, size: int) -> Grouping:
    """Turn codes into positions: that of the known group if there is one, else a position after the known groups."""
    position, founders = np.full(size, -1), np.empty(size, np.int64)
    for group in range(len(matches)):
        if matches[group] >= 0:
            position[matches[group]] = group
    groups, found = np.empty(len(codes), np.int64), 0
    for row in range(len(codes)):
        if position[codes[row]] < 0:
            position[codes[row]] = len(matches) + found
            founders[found] = row
            found += 1
        groups[row] = position[codes[row]]
    return Grouping(groups, founders[:found])


def canonical(column: pa.Array) -> pa.Array:
    """Return the column with equal values represented alike: one NaN, one zero, maps in the order of keys."""
    if is_collection(column.type):
        return normalize(column)
    return normalize_floats(column) if pa.types.is_floating(column.type) else column


def positions_of_ids(ids: Ints, wanted: Ints) -> Ints:
    """Return the positions of the wanted ids among ids in ascending order."""
    if not len(wanted) or ids[-1] - ids[0] > 8 * len(ids) + 1024:
        return np.searchsorted(ids, wanted)
    table = np.empty(ids[-1] - ids[0] + 1, np.int64)  # if most ids are still in use, a table is faster
    table[ids - ids[0]] = np.arange(len(ids))
    return table[wanted - ids[0]]


def sort_by_group_and_time(groups: Ints, times: Ints, *, count: int) -> tuple[Ints, Ints]:
    """Sort rows by group and time; return where each group begins, and the rows."""
    return sort_by_group(groups, np.argsort(times, kind="stable"), count)


@compiled
def sort_by_group(groups: Ints, rows: Ints, count: int) -> tuple[Ints, Ints]:
    """Sort rows by group with a stable counting sort; return where each group begins, and the rows."""
    bounds = np.zeros(count + 1, np.int64)
    for row in rows:
        bounds[groups[row] + 1] += 1
    for group in range(count):
        bounds[group + 1] += bounds[group]
    place, order = bounds.copy(), np.empty(len(rows), np.int64)
    for row in rows:
        order[place[groups[row]]] = row
        place[groups[row]] += 1
    return bounds, order
