"""Rows by their key: an exact number for each group, and rows in order of group and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidegate.physical.kernels.compiled import compiled

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """The group of each new row, and for each group not known before the first row of it."""

    groups: Ints
    founders: Ints


def group_rows(known: Sequence[pa.Array], new: Sequence[pa.Array], *, groups: int, rows: int) -> Grouping:
    """Number the groups of new rows: known groups keep their position, new ones follow.

    `known` are the keys of the known groups, all different; both are canonical (see `canonical`).
    Numbers come from dictionaries, not from hashes, so that two keys never share one; NULL is a
    value like others.

    Examples
    --------
    >>> import pyarrow as pa
    >>> found = group_rows([pa.array(["a"])], [pa.array(["b", "a", None, "b"])], groups=1, rows=4)
    >>> found.groups.tolist(), found.founders.tolist()
    ([1, 0, 2, 1], [0, 2])
    """
    if not new:
        return Grouping(np.zeros(rows, np.int64), np.zeros(1 if rows and not groups else 0, np.int64))
    codes, size = _dense(pa.concat_arrays([known[0], new[0]]))
    for old, fresh in zip(known[1:], new[1:], strict=True):
        more, several = _dense(pa.concat_arrays([old, fresh]))
        codes, size = _dense(pa.array(codes * several + more))
    return Grouping(codes[groups:], _first_rows(codes[groups:], groups, size))


def canonical(column: pa.Array) -> pa.Array:
    """The same column with one NaN and one zero, so that equal floats look equal."""
    if not pa.types.is_floating(column.type):
        return column
    numbers = column.fill_null(0).to_numpy(zero_copy_only=False) + np.dtype(column.type.to_pandas_dtype()).type(0)
    numbers[np.isnan(numbers)] = np.nan
    nulls = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(numbers, column.type, mask=nulls)


def positions(ids: Ints, wanted: Ints) -> Ints:
    """Where the wanted ids stand among ids in ascending order."""
    if not len(wanted) or ids[-1] - ids[0] > 8 * len(ids) + 1024:
        return np.searchsorted(ids, wanted)
    table = np.empty(ids[-1] - ids[0] + 1, np.int64)  # where most ids are still alive, looking up is faster
    table[ids - ids[0]] = np.arange(len(ids))
    return table[wanted - ids[0]]


def by_group(groups: Ints, times: Ints, *, count: int) -> tuple[Ints, Ints]:
    """Rows in order of group and time: where each group begins, and the rows."""
    return _distribute(groups, np.argsort(times, kind="stable"), count)


def _dense(column: pa.Array) -> tuple[Ints, int]:
    """Codes 0, 1, … in order of first appearance, and how many there are."""
    encoded = column.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)


@compiled
def _first_rows(groups: Ints, known: int, size: int) -> Ints:
    founders = np.empty(size - known, np.int64)
    found = known
    for row in range(len(groups)):
        if groups[row] == found:  # codes are numbered in order of appearance
            founders[found - known] = row
            found += 1
    return founders


@compiled
def _distribute(groups: Ints, rows: Ints, count: int) -> tuple[Ints, Ints]:
    """A counting sort: stable, so that rows in order of time stay so within their group."""
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
