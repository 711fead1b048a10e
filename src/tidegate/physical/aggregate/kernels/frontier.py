"""Best value among the valid elements of each group, as time advances.

An element matters only if no other element dominates it, that is, stays valid at least as long and is at least as good.
The remaining elements form a frontier: the longer valid, the strictly worse. The first is the best now; when it ends,
the next one is. A greater code is better; for MIN, codes are reversed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled, inlined


class Frontiers(NamedTuple):
    """Frontiers of several columns (first axis) and groups: rows [head, tail) of `end` and `code`."""

    head: Ints
    tail: Ints
    end: Ints
    code: Ints


@compiled
def lay_out_frontiers(sizes: Ints, bounds: Ints, ends: Ints, codes: Ints, frontiers: Frontiers, column: int) -> None:
    """Lay out the frontiers of a column, with room after each for the new elements of its group."""
    source = 0
    for group in range(len(bounds) - 1):
        size = sizes[group] if group < len(sizes) else 0
        at = source + bounds[group]  # after all rows and all new elements of earlier groups
        frontiers.head[column, group], frontiers.tail[column, group] = at, at + size
        frontiers.end[column, at : at + size] = ends[source : source + size]
        frontiers.code[column, at : at + size] = codes[source : source + size]
        source += size


@compiled
def gather_frontiers(frontiers: Frontiers, column: int, groups: Ints) -> tuple[Ints, Ints, Ints]:
    """Return sizes, ends and codes of a column's frontiers for the given groups, concatenated."""
    sizes = np.empty(len(groups), np.int64)
    for i in range(len(groups)):
        sizes[i] = frontiers.tail[column, groups[i]] - frontiers.head[column, groups[i]]
    ends, codes = np.empty(sizes.sum(), np.int64), np.empty(sizes.sum(), np.int64)
    at = 0
    for i in range(len(groups)):
        head, tail = frontiers.head[column, groups[i]], frontiers.tail[column, groups[i]]
        ends[at : at + sizes[i]] = frontiers.end[column, head:tail]
        codes[at : at + sizes[i]] = frontiers.code[column, head:tail]
        at += sizes[i]
    return sizes, ends, codes


@inlined
def insert(head: Ints, tail: Ints, ends: Ints, codes: Ints, column: int, group: int, end: int, code: int) -> None:
    """Insert an element unless another one dominates it; remove those that it dominates."""
    first, last = head[column, group], tail[column, group]
    after, above = first, last
    if first < last and ends[column, last - 1] < end:
        after = last  # the usual case: the new element ends last
    while after < above:  # find the first that ends no earlier
        middle = (after + above) // 2
        after, above = (after, middle) if ends[column, middle] >= end else (middle + 1, above)
    if after == last or codes[column, after] < code:
        before = after
        while before > first and codes[column, before - 1] <= code:
            before -= 1
        if after < last and ends[column, after] == end:
            after += 1
        _replace_range(ends, column, before, after, last, end)
        _replace_range(codes, column, before, after, last, code)
        tail[column, group] = last + 1 - (after - before)


@inlined
def _replace_range(values: Ints, column: int, first: int, last: int, tail: int, value: int) -> None:
    """Replace values [first, last) by one value, and move those up to `tail`."""
    if last == first:
        for at in range(tail, last, -1):
            values[column, at] = values[column, at - 1]
    elif last > first + 1:
        for at in range(last, tail):
            values[column, at - (last - first) + 1] = values[column, at]
    values[column, first] = value
