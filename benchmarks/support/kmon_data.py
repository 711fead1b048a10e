"""Interleaved streams whose arrivals keep constraints up to a k: the data of the experiments with k-constraints.

Keys of children are unique. A group of arrivals has one child of each child stream and `multiplicity` parents of
each parent stream; the order in a group is random. The k of the data is about the k asked for,
now and then more: measure it with `joins_k`, `clusters_k` and `orders_k`.

    many_children       S1 → S2 on a, S1 → S3 on b; S2 and S3 filtered     (figures 4, 5 and, combined, 10)
    many_parents        S1 → S3 ← S2 on a; S3 filtered                     (figures 6 to 9)
    one_edge            S1 → S2 on a; S2 filtered                          (figures 11 and 20)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

Course = Callable[[Ints], Ints]
"""The k at each of all arrivals, from their numbers."""

Change = Literal["constant", "slow up", "slow down", "fast up", "fast down", "jump"]

RECENT = 50
"""A child that is there before its parent is one of so many."""


@dataclass(frozen=True, slots=True, eq=False)
class Interleaved:
    """Arrivals of streams 1, 2 and 3 in their order: join columns (-1 where a stream has none), and who passes."""

    stream: Ints
    a: Ints
    b: Ints
    passing: Mask

    def __len__(self) -> int:
        return len(self.stream)

    def number(self, stream: int) -> Ints:
        """How many of a stream have arrived, with each arrival of any stream."""
        return np.cumsum(self.stream == stream)

    def first(self, count: int) -> Interleaved:
        return Interleaved(self.stream[:count], self.a[:count], self.b[:count], self.passing[:count])


def course(change: Change, low: int, high: int, start: int, length: int) -> Course:
    """A k that changes from one number of an arrival on: at once, in a tenth of the length, or in all of it."""
    begin, end = (high, low) if change.endswith("down") else (low, high)
    match change:
        case "constant":
            end, lasting = begin, 1
        case "jump":
            lasting = 1
        case "fast up" | "fast down":
            lasting = max(length // 10, 1)
        case _:
            lasting = length

    def at(number: Ints) -> Ints:
        return begin + (end - begin) * np.clip(number - start, 0, lasting) // lasting

    return at


def turning(points: Sequence[tuple[int, int]]) -> Course:
    """A k that changes evenly between numbers of arrivals at which it is given."""
    at, k = zip(*points, strict=True)
    return lambda number: np.interp(number, at, k).astype(np.int64)


def many_children(
    count: int,
    k: int | Course,
    seed: int,
    *,
    nearest: float = 0.0,
    dangling: float = 0.0,
    selectivity: float = 0.5,
    multiplicity: int = 5,
) -> Interleaved:
    """Join distances to S2 and to S3 uniform in 0 to k, or `nearest` times k to k; some of S1 have no child in S3."""
    random = np.random.default_rng(seed)
    stream = _groups(random, count, [1] * multiplicity + [2, 3])
    limit = np.full(count, k) if isinstance(k, int) else k(np.arange(count))
    keys = []
    for child in (2, 3):
        arrived = np.cumsum(stream == child)
        behind = random.integers((nearest * limit).astype(np.int64), limit + 1)
        recent = np.maximum(arrived - random.integers(0, RECENT, count), np.minimum(arrived, 1))
        keys.append(2 * np.where(stream == child, arrived, np.where(behind > 0, arrived + behind, recent)))
    a, b = keys
    b += (stream == 1) & (random.random(count) < dangling)
    return Interleaved(stream, a, b, _passing(random, stream, [2, 3], selectivity))


def many_parents(
    count: int, k: int | Course, seed: int, *, ordered: bool, selectivity: float = 0.5, multiplicity: int = 5
) -> Interleaved:
    """S1 and S2 spread over 0 to k arrivals from about when their child in S3 comes; values ordered or not."""
    random = np.random.default_rng(seed)
    values = count // (2 * multiplicity + 1) + 1
    names = np.arange(values) if ordered else random.permutation(values)
    stream = _groups(random, count, [1] * multiplicity + [2] * multiplicity, first=[3])
    limit = k if isinstance(k, int) else k(np.arange(values) * (2 * multiplicity + 1))
    a = np.full(count, -1)
    for parent in (1, 2):
        _fill(a, stream == parent, names[_spread(random, values, limit, multiplicity)])
    _fill(a, stream == 3, names)
    return Interleaved(stream, a, np.full(count, -1), _passing(random, stream, [3], selectivity))


def one_edge(
    count: int,
    seed: int,
    *,
    orders: int = 0,
    clusters: int = 0,
    joins: int | None = None,
    selectivity: float = 0.5,
    multiplicity: int = 5,
) -> Interleaved:
    """Children scrambled over 0 to `orders`, or 0 to `joins` late; parents spread over 0 to `clusters` arrivals."""
    random = np.random.default_rng(seed)
    values = count // (multiplicity + 1) + 1
    children = _scrambled(random, values, orders) if joins is None else _late(random, values, joins)
    stream = _groups(random, count, [1] * multiplicity + [2])
    a = np.full(count, -1)
    _fill(a, stream == 1, _spread(random, values, clusters, multiplicity))
    _fill(a, stream == 2, children)
    return Interleaved(stream, a, np.full(count, -1), _passing(random, stream, [2], selectivity))


def combined(count: int, seed: int, *, orders: int = 5000, dangling: float = 0.25) -> Interleaved:
    """S1 clustered by a without gaps behind S2; S3 scrambled by b; a quarter of S1 has no child in S3."""
    random = np.random.default_rng(seed)
    values = count // 7 + 1
    stream = _groups(random, count, [1] * 5 + [3], first=[2])
    group = np.arange(count) // 7
    near = np.clip(group + random.integers(-3, 4, count), 0, values - 1)
    b = 2 * near + (random.random(count) < dangling)
    _fill(b, stream == 3, 2 * _scrambled(random, values, orders))
    return Interleaved(stream, group, b, _passing(random, stream, [2, 3], 0.5))


def joins_k(data: Interleaved, parent: int, child: int, column: Literal["a", "b"] = "a") -> int:
    """The exact k of the join distances of two streams."""
    values, number = getattr(data, column), data.number(child)
    children, parents = data.stream == child, data.stream == parent
    if not children.any():
        return 0
    order = np.argsort(values[children], kind="stable")
    keys, places = values[children][order], number[children][order]
    found = np.minimum(np.searchsorted(keys, values[parents]), len(keys) - 1)
    behind = np.where(keys[found] == values[parents], places[found] - number[parents], 0)
    return max(int(behind.max(initial=0)), 0)


def clusters_k(data: Interleaved, stream: int, column: Literal["a", "b"] = "a") -> int:
    """The exact k of the clustering distances of a stream."""
    values = getattr(data, column)[data.stream == stream]
    if not len(values):
        return 0
    _, first, count = np.unique(values, return_index=True, return_counts=True)
    _, last = np.unique(values[::-1], return_index=True)
    return int((len(values) - 1 - last - first - count + 1).max())


def orders_k(data: Interleaved, stream: int, column: Literal["a", "b"] = "a") -> int:
    """The exact k of the scrambling distances of a stream."""
    values = getattr(data, column)[data.stream == stream]
    greatest = np.maximum.accumulate(values)
    behind = np.arange(len(values)) - np.searchsorted(greatest, values, side="right")
    return max(int(behind.max(initial=0)), 0)


def _groups(random: np.random.Generator, count: int, shuffled: list[int], first: list[int] | None = None) -> Ints:
    """Streams of so many arrivals, in groups in random order behind what is first in them."""
    before = first or []
    groups = count // (len(before) + len(shuffled)) + 1
    rest = random.permuted(np.tile(shuffled, (groups, 1)), axis=1)
    return np.hstack([np.tile(before, (groups, 1)).astype(np.int64), rest]).ravel()[:count]


def _passing(random: np.random.Generator, stream: Ints, filtered: list[int], selectivity: float) -> Mask:
    return (random.random(len(stream)) < selectivity) | ~np.isin(stream, filtered)


def _fill(column: Ints, rows: Mask, values: Ints) -> None:
    column[rows] = values[: np.count_nonzero(rows)]


def _spread(random: np.random.Generator, values: int, k: int | Ints, multiplicity: int) -> Ints:
    """Values, each so many times, from its place on and up to k arrivals behind it, and once at either end."""
    each = np.repeat(np.arange(values), multiplicity)
    if isinstance(k, int) and k == 0:
        return each
    where = random.random((values, multiplicity))
    where[:, 0] = 0
    where[:, 1:2] = 1
    width = random.uniform(0, 1, (values, 1)) * np.reshape(k, (-1, 1))
    place = np.arange(values)[:, None] * multiplicity + where * width
    return each[np.argsort(place.ravel(), kind="stable")]


def _scrambled(random: np.random.Generator, values: int, k: int) -> Ints:
    late = random.random(values) * random.uniform(0, max(k, 1e-9), values)
    return np.argsort(np.arange(values) + late, kind="stable")


def _late(random: np.random.Generator, values: int, k: int) -> Ints:
    return np.argsort(np.arange(values) + random.integers(0, k + 1, values), kind="stable")
