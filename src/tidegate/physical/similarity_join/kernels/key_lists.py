"""Elements of a slot by key."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.hashing import read_only


class KeyLists(NamedTuple):
    """Lists of elements by key: list n has the key `codes[n]` and the elements `rows[bounds[n]:bounds[n + 1]]`.

    Codes are in ascending order, the elements of a list in time order.
    """

    codes: Ints
    bounds: Ints
    rows: Ints
    numbers: Ints
    """Number of the list of each element."""


def list_keys(codes: Ints) -> KeyLists:
    """Return the lists of elements with these codes, in time order.

    Examples
    --------
    >>> lists = list_keys(np.array([7, 3, 7]))
    >>> lists.codes.tolist(), lists.bounds.tolist(), lists.rows.tolist(), lists.numbers.tolist()
    ([3, 7], [0, 1, 3], [1, 0, 2], [1, 0, 1])
    """
    order = np.argsort(codes, kind="stable")
    ordered, first = codes[order], np.ones(len(codes), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    numbers = np.empty(len(codes), np.int64)
    numbers[order] = np.cumsum(first) - 1
    bounds = np.append(np.flatnonzero(first), len(codes))
    return KeyLists(*map(read_only, (ordered[first], bounds, order, numbers)))


def lists_met(probing: KeyLists, stored: KeyLists) -> Ints:
    """Return the number of the stored list with the key of each probing element, or -1.

    Examples
    --------
    >>> lists_met(list_keys(np.array([7, 3, 9])), list_keys(np.array([9, 7]))).tolist()
    [0, -1, 1]
    """
    places = np.minimum(np.searchsorted(stored.codes, probing.codes), len(stored.codes) - 1)
    met = np.where(stored.codes[places] == probing.codes, places, -1)
    return read_only(met[probing.numbers])
