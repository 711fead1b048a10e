"""The paper's decisions, one element at a time, with their formulas corrected: what ours are compared with.

Window i is that of stream i, and is probed by elements of the other stream. Both are numbered from 0.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence
from itertools import combinations, product
from random import Random

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Pair = Sequence[float]
Table = Sequence[Sequence[float]]
Case = tuple[list[int], list[float], list[float], list[list[float]], list[list[float]], list[list[float]], float]
"""What Algorithm 5 is given."""


def rate_adapted(fraction: float, fetched: float, arriving: float, period: float, boost: float = 1.2) -> float:
    """Algorithm 1: the fraction of windows to process, from how much of what arrives is taken in."""
    kept = fetched / (arriving * period) if arriving else 1.0
    return kept * fraction if kept < 1.0 else min(1.0, boost * fraction)


def selected(sizes: Sequence[int], order: Sequence[int], fraction: float) -> list[tuple[int, int]]:
    """Algorithm 3: how many elements of which basic windows are compared, the best ones first."""
    left, found = fraction * sum(sizes), []
    for window in order:
        if sizes[window] and left > 1e-9:
            found.append((window, round(min(left, sizes[window]))))
            left -= sizes[window]
    return found


def directed(fraction: float, windows: Pair, densities: Pair) -> tuple[float, float]:
    """Algorithm 4: the fractions of the two windows, of which the more productive one takes what it can."""
    first, second = windows
    whole = fraction * (first + second) / first
    one = min(1.0, whole) if densities[0] >= densities[1] else max(0.0, whole - second / first)
    return one, fraction * (first + second) / second - one * first / second


def utility_adapted(  # noqa: PLR0917 - the paper's
    counts: Sequence[int], windows: Pair, rates: Pair, shares: Table, worth: Table, densities: Table, fraction: float
) -> list[list[float]]:
    """Algorithm 5: the fraction of each window for probing elements of each kind.

    `shares` are those of the kinds in a stream, `worth` the utility per comparison of a probing kind with a
    window, `densities` the matches per comparison with its basic windows.
    """
    kinds = range(len(shares[0]))
    ranked = [sorted(each, reverse=True) for each in densities]
    both = rates[0] * rates[1]
    volume = [[shares[1 - i][z] * both * windows[i] / counts[i] for z in kinds] for i in (0, 1)]

    def value(i: int, place: int, z: int) -> float:
        total = sum(ranked[i])
        return worth[i][z] * (counts[i] * ranked[i][place] / total if total > 0 else 1.0)

    fractions = [[0.0 for _ in kinds] for _ in (0, 1)]
    heap = [(-value(i, 0, z), i, 0, z) for i in (0, 1) for z in kinds if shares[1 - i][z] > 0]
    heapq.heapify(heap)
    left = both * fraction * (windows[0] + windows[1])
    while heap and left > 0:
        _, i, place, z = heapq.heappop(heap)
        part = min(1.0, left / volume[i][z])
        fractions[i][z] += part / counts[i]
        left -= volume[i][z]
        if place + 1 < counts[i]:
            heapq.heappush(heap, (-value(i, place + 1, z), i, place + 1, z))
    return fractions


def utility_of(  # noqa: PLR0917 - the paper's
    counts: Sequence[int], windows: Pair, rates: Pair, shares: Table, worth: Table, densities: Table, fractions: Table
) -> float:
    """What fractions of windows yield, if the best basic windows are taken first."""
    total, both = 0.0, rates[0] * rates[1]
    for i, z in product((0, 1), range(len(shares[0]))):
        ranked, mass = sorted(densities[i], reverse=True), sum(densities[i])
        weights = [each / mass if mass > 0 else 1.0 / counts[i] for each in ranked]
        left = fractions[i][z] * counts[i]
        reached = sum(weight * min(1.0, max(0.0, left - place)) for place, weight in enumerate(weights))
        total += both * windows[i] * shares[1 - i][z] * worth[i][z] * reached
    return total


def best_by_vertices(values: Sequence[float], volumes: Sequence[float], budget: float) -> float:
    """The optimum of the linear program: at most one item of a vertex is taken in part."""
    best, items = 0.0, range(len(values))
    for size in range(len(values) + 1):
        for whole in combinations(items, size):
            left = budget - sum(volumes[item] for item in whole)
            if left < -1e-12 * max(1.0, budget):
                continue
            sure = sum(values[item] * volumes[item] for item in whole)
            part = max((values[item] * min(left, volumes[item]) for item in items if item not in whole), default=0.0)
            best = max(best, sure + max(0.0, part))
    return best


def random_case(random: Random) -> tuple[Case, list[tuple[float, float]]]:
    """Parameters of Algorithm 5 for two kinds, and value and volume of each item of the knapsack."""
    counts = [random.randint(2, 3) for _ in (0, 1)]
    windows = [random.uniform(1, 20) for _ in (0, 1)]
    rates = [random.uniform(1, 100) for _ in (0, 1)]
    shares = [[x, 1 - x] for x in (random.uniform(0.1, 0.9), random.uniform(0.1, 0.9))]
    worth = [[random.random() for _ in (0, 1)] for _ in (0, 1)]
    densities = [[random.choice([0.0, random.random()]) for _ in range(n)] for n in counts]
    items = []
    for i in (0, 1):
        total = sum(densities[i])
        weights = [counts[i] * o / total if total > 0 else 1.0 for o in densities[i]]
        volumes = [rates[0] * rates[1] * shares[1 - i][z] * windows[i] / counts[i] for z in (0, 1)]
        items += [(worth[i][z] * weight, volumes[z]) for z in (0, 1) for weight in weights]
    return (counts, windows, rates, shares, worth, densities, random.uniform(0.01, 1.0)), items


def basic_windows(window: float, width: float) -> int:
    """How many basic windows there are."""
    return 1 + math.ceil(window / width)


def optimality(density: Callable[[Floats], Floats], fraction: float, width: float, steps: int = 20_000) -> float:
    """Which part of the best output a window of length 1 yields if it is cut into basic windows of this width."""
    at = (np.arange(steps) + 0.5) / steps
    mass = density(at)
    mass = mass / mass.sum()
    cumulative = np.concatenate([np.zeros(1), np.cumsum(mass)])

    def upto(lag: Floats) -> Floats:
        return np.asarray(np.interp(np.clip(lag, 0.0, 1.0), np.arange(steps + 1) / steps, cumulative))

    filled, count = (np.arange(500) + 0.5) / 500, basic_windows(1.0, width)
    found = [float((upto((filled + j) * width) - upto((filled + j - 1) * width)).mean()) for j in range(count)]
    found.sort(reverse=True)
    whole = min(count, math.floor(fraction / width + 1e-9))
    part = (fraction - whole * width) / width * found[whole] if whole < count else 0.0
    best = np.sort(mass)[::-1][: round(steps * min(1.0, fraction))].sum()
    return (sum(found[:whole]) + part) / float(best)
