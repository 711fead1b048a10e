"""Streams of sets whose popular items wander, as the paper's generator makes them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from numba import njit

from tidegate.physical.common.arrays import Ints
from tidegate.physical.similarity_join.kernels.slots import SlotArrivals
from tidegate.physical.similarity_join.kernels.values import Sets

SECOND = 1_000_000

Rates = tuple[tuple[float, float], ...]
"""Seconds, and elements a second in them; the last one goes on."""

BURST: Rates = ((60.0, 100.0), (15.0, 500.0), (30.0, 300.0), (math.inf, 100.0))
"""The paper's Figure 8."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Two streams, the second of which follows the first one by `shift` seconds.

    With a shift of 5/8 of the cycle and windows of half a cycle, most matches are 3/4 of a window apart, if the
    left stream's elements are the later ones. `swap` is when the two streams exchange their parts.
    """

    skew: float
    shift: float = 25.0
    rates: Rates = ((math.inf, 200.0),)
    seconds: int = 160
    seed: int = 1
    items: int = 100
    mean: float = 5.0
    deviation: float = 1.0
    cycle: float = 40.0
    windows: tuple[float, float] = (20.0, 20.0)
    swap: float = math.inf
    frequencies: tuple[float, ...] = ()
    """How frequent each kind of element is."""


@lru_cache(maxsize=8)
def streams(load: Workload) -> tuple[SlotArrivals, SlotArrivals]:
    """All elements of both streams, in the order of time."""
    return _stream(load, 0), _stream(load, 1)


def batches(load: Workload, width: float = 1.0) -> list[tuple[SlotArrivals, SlotArrivals]]:
    """Elements of both streams in batches of so many seconds."""
    both = streams(load)
    edges = np.arange(0, math.ceil(load.seconds / width) + 1) * round(width * SECOND)
    cuts = [np.searchsorted(each.start, edges) for each in both]
    return [(_cut(both[0], cuts[0], k), _cut(both[1], cuts[1], k)) for k in range(len(edges) - 1)]


def most_popular(time: float, shift: float, items: int = 100, cycle: float = 40.0) -> int:
    """The item that is the most popular one at a time, from 1 on."""
    return 1 + math.floor(items * (((time - shift) % cycle) / cycle))


def kept(arrivals: SlotArrivals, mask: npt.NDArray[np.bool_]) -> SlotArrivals:
    """Some of the elements."""
    rows = np.flatnonzero(mask)
    kind = None if arrivals.kind is None else arrivals.kind[rows]
    return SlotArrivals(arrivals.start[rows], arrivals.end[rows], arrivals.row[rows], arrivals.values.take(rows), kind)


def _cut(arrivals: SlotArrivals, cuts: Ints, number: int) -> SlotArrivals:
    mask = np.zeros(len(arrivals), np.bool_)
    mask[cuts[number] : cuts[number + 1]] = True
    return kept(arrivals, mask)


def _stream(load: Workload, stream: int) -> SlotArrivals:
    random = np.random.default_rng((load.seed, stream))
    start = _times(load, random)
    shifts = np.where((start >= load.swap * SECOND) != (stream == 1), load.shift, 0.0)
    phase = np.mod(start / SECOND - shifts, load.cycle) / load.cycle
    first = np.floor(load.items * phase).astype(np.int64)
    sizes = np.clip(np.rint(random.normal(load.mean, load.deviation, len(start))), 1, load.items).astype(np.int64)
    popularity = 1.0 / np.arange(1, load.items + 1) ** load.skew
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
    items = _items(bounds, first, np.cumsum(popularity / popularity.sum()), random)
    kind = None
    if load.frequencies:
        shares = np.array(load.frequencies)
        kind = random.choice(len(shares), len(start), p=shares / shares.sum()).astype(np.int64)
    end = start + round(load.windows[stream] * SECOND)
    return SlotArrivals(start, end, np.arange(len(start)), Sets(bounds, items), kind)


def _times(load: Workload, random: np.random.Generator) -> Ints:
    """Starts of a Poisson process with these rates."""
    found, begin = [], 0.0
    for length, rate in load.rates:
        stop = min(load.seconds, begin + length)
        count = random.poisson(rate * (stop - begin))
        found.append(np.sort(random.uniform(begin, stop, count)))
        begin = stop
        if begin >= load.seconds:
            break
    return (np.concatenate(found) * SECOND).astype(np.int64)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _items(bounds: Ints, first: Ints, chances: npt.NDArray[np.float64], random: np.random.Generator) -> Ints:
    """Different items of each set, by their popularity, and sorted."""
    items, count = np.empty(bounds[-1], np.int64), len(chances)
    for n in range(len(first)):
        place = bounds[n]
        while place < bounds[n + 1]:
            rank = min(count - 1, np.searchsorted(chances, random.random(), side="right"))
            item, new = (first[n] + rank) % count + 1, True
            for k in range(bounds[n], place):
                new = new and items[k] != item
            if new:
                items[place] = item
                place += 1
        items[bounds[n] : bounds[n + 1]].sort()
    return items
