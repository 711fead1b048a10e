"""The paper's join one element at a time, on a machine of so many comparisons a second.

Elements wait in buffers of one second; what arrives when these are full is dropped. Statistics begin anew with
each period, and the more productive direction takes all, as in the paper; formulas are corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from benchmarks.support.shedding_data import SECOND, Workload, streams
from tidegate.physical.common.arrays import Floats, Ints, Words
from tidegate.physical.similarity_join.kernels.values import Sets

DROP, RATE, TIME, DIRECTION = range(4)
"""What is adapted: nothing, so that input is dropped; then one more thing each."""

PERIOD, BOOST, SAMPLING, BUFFER = 5.0, 1.2, 0.1, 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """Of a run: matches and drops by second, fractions by period, and the comparisons of a sample by lag."""

    matches: Floats
    """Those found by elements that arrived in each second."""
    dropped: Floats
    arrived: Floats
    fractions: Floats
    """Of each period: the overall one, and those of both windows."""
    work: float
    """Comparisons, or what was read of lists, a second."""


class Ordered(NamedTuple):
    """Elements of both streams in the order of time."""

    time: Floats
    stream: Ints
    bits: Words
    items: Ints
    """Padded by -1."""


def run(load: Workload, capacity: float, adapts: int, *, threshold: int = 3, indexed: bool = False) -> Trace:
    """Run the join with so many comparisons a second; indexed, it is what is read of lists (for `DROP` alone).

    With a threshold of 0 no matches are looked for.
    """
    ordered = _ordered(load)
    found = _simulate(ordered, np.array(load.windows), capacity, adapts, threshold, indexed, load.seconds, load.seed)
    return Trace(*found)


def _ordered(load: Workload) -> Ordered:
    both = streams(load)
    time = np.concatenate([each.start for each in both])
    order = np.argsort(time, kind="stable")
    stream = np.repeat(np.arange(2), [len(each) for each in both])
    bits = np.concatenate([_bits(each.values) for each in both if isinstance(each.values, Sets)])
    items = [_padded(each.values) for each in both if isinstance(each.values, Sets)]
    width = max(each.shape[1] for each in items)
    padded = np.concatenate([np.pad(e, ((0, 0), (0, width - e.shape[1])), constant_values=-1) for e in items])
    return Ordered(time[order] / SECOND, stream[order], bits[order], padded[order])


def _bits(sets: Sets) -> Words:
    """At most 128 items."""
    bits = np.zeros((len(sets), 2), np.uint64)
    owners = np.repeat(np.arange(len(sets)), np.diff(sets.bounds))
    places = sets.items - 1
    np.bitwise_or.at(bits, (owners, places >> 6), np.uint64(1) << (places & 63).astype(np.uint64))
    return bits


def _padded(sets: Sets) -> Ints:
    sizes = np.diff(sets.bounds)
    padded = np.full((len(sets), int(sizes.max(initial=1))), -1, np.int64)
    owners = np.repeat(np.arange(len(sets)), sizes)
    padded[owners, np.arange(len(owners)) - sets.bounds[owners]] = sets.items - 1
    return padded


@njit(cache=True, error_model="numpy", forceinline=True)  # type: ignore[untyped-decorator]
def _ones(word: np.uint64) -> Any:
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _matches(  # noqa: PLR0917 - Numba takes arguments by position
    bits: Words, o: int, low: int, high: int, one: np.uint64, two: np.uint64, threshold: int
) -> int:
    count = 0
    if threshold == 0:
        return count
    for n in range(low, high):
        count += _ones(one & bits[o, n, 0]) + _ones(two & bits[o, n, 1]) >= threshold
    return count


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _simulate(  # noqa: PLR0915, PLR0917 - one straight loop, which Numba takes by position
    ordered: Ordered,
    windows: Floats,
    capacity: float,
    adapts: int,
    threshold: int,
    indexed: bool,  # noqa: FBT001
    seconds: int,
    seed: int,
) -> tuple[Floats, Floats, Floats, Floats, float]:
    np.random.seed(seed)  # noqa: NPY002 - what Numba compiles
    time, stream, bits, items = ordered
    total, slots = len(time), seconds + 2
    stored = np.empty((2, total, 2), np.uint64)
    origin = np.empty((2, total), np.int64)
    counts, head = np.zeros(2, np.int64), np.zeros(2, np.int64)
    begins = np.zeros((2, slots + 1), np.int64)
    latest = np.zeros(2, np.int64)
    listed = np.zeros((2, 128), np.int64)
    lags = int(np.ceil(windows.max())) + 1
    found, seen = np.zeros((2, lags)), np.zeros((2, lags))
    density, order = np.zeros((2, lags)), np.zeros((2, lags), np.int64)
    for j in range(lags):
        order[0, j] = order[1, j] = j
    matches, dropped, arrived = np.zeros(slots), np.zeros(slots), np.zeros(slots)
    fractions = np.ones((int(seconds / PERIOD) + 2, 3))
    fraction, parts, means = 1.0, np.ones(2), np.zeros(2)
    free, adaptation, fetched, arriving, upto, work = 0.0, PERIOD, 0, 0, 0, 0.0
    for n in range(total):
        now, i = time[n], stream[n]
        o = 1 - i
        free = max(free, now)  # elements are fetched when those before them have been compared
        while free >= adaptation:
            period = int(adaptation / PERIOD)
            while upto < total and time[upto] < adaptation:
                upto += 1
                arriving += 1
            if adapts >= TIME:
                for w in range(2):
                    if not seen[w].any():  # nothing sampled: what was known remains
                        continue
                    means[w] = 0.0
                    ranked = found[w].any()  # without any match, the order remains
                    for j in range(lags):
                        density[w, j] = found[w, j] / seen[w, j] if seen[w, j] else 0.0
                        found[w, j] = seen[w, j] = 0.0
                        means[w] += density[w, j]
                        rank = j
                        while ranked and rank > 0 and density[w, order[w, rank - 1]] < density[w, j]:
                            order[w, rank] = order[w, rank - 1]
                            rank -= 1
                        if ranked:
                            order[w, rank] = j
            if adapts >= RATE:
                share = fetched / arriving if arriving else 1.0
                fraction = share * fraction if share < 1.0 else min(1.0, BOOST * fraction)
                parts[0] = parts[1] = fraction
            if adapts >= DIRECTION:
                whole = fraction * (windows[0] + windows[1]) / windows[0]
                one = means[0] >= means[1]
                parts[0] = min(1.0, whole) if one else max(0.0, whole - windows[1] / windows[0])
                parts[1] = fraction * (windows[0] + windows[1]) / windows[1] - parts[0] * windows[0] / windows[1]
            fractions[period, 0], fractions[period, 1], fractions[period, 2] = fraction, parts[0], parts[1]
            fetched = arriving = 0
            adaptation += PERIOD
        slot = int(now)
        arrived[slot] += 1
        if free - now > BUFFER:
            dropped[slot] += 1
            continue
        fetched += 1
        place = counts[i]
        stored[i, place, 0], stored[i, place, 1], origin[i, place] = bits[n, 0], bits[n, 1], n
        for s in range(latest[i] + 1, slot + 1):
            begins[i, s] = place
        latest[i] = slot
        counts[i] += 1
        while head[o] < counts[o] and now - time[origin[o, head[o]]] >= windows[o]:
            for k in range(items.shape[1]):
                if items[origin[o, head[o]], k] >= 0:
                    listed[o, items[origin[o, head[o]], k]] -= 1
            head[o] += 1
        low, high, cost, hits = head[o], counts[o], 0, 0
        a, b = bits[n, 0], bits[n, 1]
        for k in range(items.shape[1]):
            if items[n, k] >= 0:
                listed[i, items[n, k]] += 1
        if adapts == DROP:
            hits, cost = _matches(stored, o, low, high, a, b, threshold), high - low
            if indexed:
                cost = 0
                for k in range(items.shape[1]):
                    if items[n, k] >= 0:
                        cost += listed[o, items[n, k]]
        elif adapts == RATE:
            first = high - int(fraction * (high - low) + np.random.random())  # noqa: NPY002
            first = max(low, first)
            hits, cost = _matches(stored, o, first, high, a, b, threshold), high - first
        else:
            sampled = np.random.random() < fraction * SAMPLING  # noqa: NPY002
            left = float(high - low) if sampled else parts[o] * (high - low)
            for rank in range(lags):
                j = order[o, rank]
                s = slot - j
                if left <= 0 or s < 0:
                    if left <= 0:
                        break
                    continue
                first = max(low, begins[o, s] if s <= latest[o] else counts[o])
                last = begins[o, s + 1] if s + 1 <= latest[o] else counts[o]
                size = last - first
                if size <= 0:
                    continue
                if left < size:
                    part = int(left + np.random.random())  # noqa: NPY002
                    first += int(np.random.random() * (size - part + 1))  # noqa: NPY002
                    size = part
                hit = _matches(stored, o, first, first + size, a, b, threshold)
                hits += hit
                cost += size
                left -= last - max(low, begins[o, s] if s <= latest[o] else counts[o])
                if sampled:
                    found[o, j] += hit
                    seen[o, j] += size
        matches[slot] += hits
        work += cost
        free += cost / capacity
    return matches, dropped, arrived, fractions, work / seconds
