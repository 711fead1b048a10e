"""Boundaries in the order of key, then of place; the first dimension is a key, and every range has exactly one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Columns, Ints, Mask, Positions
from tidegate.physical.common.kernels.compiled import inlined


class Keys(NamedTuple):
    """Keys of boundaries: those of `key[k]` are the ones from `begin[k]` to before `begin[k + 1]`, at least one."""

    key: Ints
    begin: Ints


def keys_of(ascending: Ints) -> Keys:
    """Return the keys of boundaries, given the ascending key of each boundary."""
    key, begin = np.unique(ascending, return_index=True)
    return Keys(key, np.append(begin, len(ascending)).astype(np.int64))


def key_at(keys: Keys, boundary: Ints | Positions) -> Ints:
    """Return the keys of some boundaries."""
    return keys.key[np.searchsorted(keys.begin, boundary, side="right") - 1]


def keys_of_used(keys: Keys, used: Mask) -> Keys:
    """Return the keys of the boundaries that are used."""
    count = np.add.reduceat(used.astype(np.int64), keys.begin[:-1])
    begin = np.append(0, np.cumsum(count[count > 0]))
    return Keys(keys.key[count > 0], begin)


def to_columns(keys: Keys) -> Columns:
    return {"key": keys.key, "begin": keys.begin[:-1]}


def restore_keys(columns: Columns, boundaries: int) -> Keys:
    key = np.require(columns["key"], np.int64, ["C", "W"])
    return Keys(key, np.append(columns["begin"], boundaries).astype(np.int64))


def rank_pairs(key: Ints, place: Ints) -> tuple[Keys, Ints, Ints]:
    """Return the distinct pairs in order, as keys and places, and the rank of each pair among them."""
    order = np.lexsort((place, key))
    sorted_key, sorted_place = key[order], place[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (np.diff(sorted_key) != 0) | (np.diff(sorted_place) != 0)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.cumsum(new) - 1
    return keys_of(sorted_key[new]), sorted_place[new], rank


def order_for_blocks_by_key(key: Ints, ends: Ints, size: int) -> Ints:
    """Return an order by key in which, within a key, every `size` consecutive rows are similar in all ends."""
    order = np.argsort(key, kind="stable")
    _, segment, count = np.unique(key[order], return_inverse=True, return_counts=True)
    slices, width = np.ceil(np.maximum(1, count / size) ** (1 / len(ends))), count
    group = segment
    for end in ends:
        order = order[np.lexsort((end[order], group))]
        width = np.maximum(1, np.ceil(width / slices)).astype(np.int64)
        part = (np.arange(len(key)) - np.searchsorted(group, group)) // width[segment]
        group = np.cumsum((np.diff(group, prepend=0) != 0) | (np.diff(part, prepend=0) != 0))
    return order


@inlined
def cells_by_key(keys: Keys, boundary: Ints, key: Ints, place: Ints) -> Ints:
    """Return how many boundaries are not above each element; 0 for a key that has no boundaries.

    All elements are searched in step, as without keys: first their keys, then their places.
    """
    at, length = np.zeros(len(key), np.int64), len(keys.key)
    while length > 0:
        half = (length + 1) >> 1
        for row in range(len(key)):
            at[row] += half if keys.key[at[row] + half - 1] <= key[row] else 0
        length -= half
    cell, end, most = np.zeros(len(key), np.int64), np.zeros(len(key), np.int64), 1
    for row in range(len(key)):
        if at[row] > 0 and keys.key[at[row] - 1] == key[row]:
            cell[row], end[row] = keys.begin[at[row] - 1], keys.begin[at[row]]
            most = max(most, end[row] - cell[row])
    step = 1
    while 2 * step <= most:
        step *= 2
    while step > 0:
        for row in range(len(key)):
            then = cell[row] + step
            inside = then <= end[row]
            above = boundary[then - 1 if inside else 0] > place[row]
            cell[row] = cell[row] if above | (not inside) else then
        step >>= 1
    # The cell before the first boundary of a key follows the last boundary of the previous key: it is in no range.
    return cell
