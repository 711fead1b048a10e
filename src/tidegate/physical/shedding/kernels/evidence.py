"""Evidence on how productive comparisons are, by lag and kind. Every comparison adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from tidegate.physical.common.arrays import Columns, Floats

ASSUMED_DENSITY = 1e-4
"""Assumed matches per comparison, before any evidence."""

RECENT_DECAY = 0.8
"""Factor by which recent counts fade after a batch: they cover about the last five."""

CHANGE_THRESHOLD = 12.0
"""Threshold of the likelihood-ratio statistic for a change. By chance, one lag in 2,000 exceeds it."""


@dataclass(frozen=True, slots=True, eq=False)
class Tally:
    """Counts of comparisons. The lag of a pair is the left element's slot minus the right element's."""

    matches: Floats
    """Matches by lag, from the most negative one on."""
    units: Floats
    """Units by lag."""
    utility: Floats
    """Utility by lag, probing stream and kind."""
    made: Floats
    """Comparisons by lag, probing stream and kind."""
    recent: Floats
    """Matches and comparisons by lag, over the last few batches."""

    @classmethod
    def empty(cls, reach: int, kinds: int) -> Tally:
        lags = 2 * reach + 1
        return cls(
            np.zeros(lags), np.zeros(lags), np.zeros((lags, 2, kinds)), np.zeros((lags, 2, kinds)), np.zeros((2, lags))
        )

    @property
    def comparisons_by_lag(self) -> Floats:
        """Return the comparisons by lag."""
        return self.made.reshape(len(self.made), -1).cumsum(axis=1)[:, -1]

    @classmethod
    def total(cls, tallies: Iterable[Tally]) -> Tally:
        """Return the sum of the counts of several buckets."""
        several = list(tallies)
        return cls(*(sum(getattr(tally, each.name) for tally in several) for each in fields(cls)))

    def with_decay(self, decay: float) -> Tally:
        matches, units, utility, made = (decay * each for each in (self.matches, self.units, self.utility, self.made))
        return Tally(matches, units, utility, made, RECENT_DECAY * self.recent)

    def with_newer(self, counted: Tally) -> Tally:
        """Add newer counts. Where recent counts differ clearly from earlier ones, keep only the recent ones."""
        late = self.recent + np.stack([counted.matches, counted.comparisons_by_lag])
        both = np.stack([self.matches + counted.matches, self.comparisons_by_lag + counted.comparisons_by_lag])
        late = np.minimum(late, both)
        changed = find_changed_lags(late, both - late) & (both > 0)
        matches, made = np.divide(late, both, out=np.ones(both.shape), where=changed)
        by_matches, by_made = matches[:, None, None], made[:, None, None]
        return Tally(
            matches * both[0],
            made * (self.units + counted.units),
            by_matches * (self.utility + counted.utility),
            by_made * (self.made + counted.made),
            late,
        )

    def with_finer_lags(self) -> Tally:
        """Return the counts by lags of half the width, as far as they can be known.

        Of the pairs of a lag, about a quarter each have the finer lags below and above its middle.
        """
        return self._map_lags(_split_lags)

    def with_coarser_lags(self) -> Tally:
        """Return the counts by lags of twice the width; the pairs of an odd lag belong to either of its neighbours."""
        return self._map_lags(_merge_lags)

    def _map_lags(self, change: Callable[[Floats], Floats]) -> Tally:
        matches, units, utility, made = map(change, (self.matches, self.units, self.utility, self.made))
        return Tally(matches, units, utility, made, change(self.recent.T).T)

    def columns(self) -> dict[str, Columns]:
        """Return the counts in two parts: by lag, and by lag, stream and kind."""
        matches, made = self.recent
        by_lag = {"matches": self.matches, "units": self.units, "late_matches": matches, "late_made": made}
        return {"lags": by_lag, "kinds": {"utility": self.utility.ravel(), "made": self.made.ravel()}}

    @classmethod
    def from_columns(cls, parts: Mapping[str, Columns]) -> Tally:
        lags, kinds = parts["lags"], parts["kinds"]
        utility, made = (kinds[name].reshape(len(lags["matches"]), 2, -1) for name in ("utility", "made"))
        recent = np.stack([lags["late_matches"], lags["late_made"]])
        return cls(lags["matches"], lags["units"], utility, made, recent)


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """Expected yield of comparisons."""

    density: Floats
    """Matches per comparison, by lag."""
    measured: Floats
    """The same from each lag alone: less steady, but a peak does not spread to its neighbours."""
    cost: Floats
    """Units per comparison, by lag."""
    utility: Floats
    """Utility per expected match, by stream and kind."""


def estimate(tally: Tally, worth: Floats, *, prior: float, pool: float) -> Estimate:
    """Estimate the yield of comparisons from decayed counts.

    Neighbours support a lag with little evidence, because densities move, and adjacent slots share lags. The mean of
    the direction does so with less weight. `utility` is the utility of kinds if matches do not depend on them.
    Neighbours and `utility` count like at most `pool` comparisons. Utility is divided by the matches expected from the
    lags, so that kinds get no credit for the lags at which they were compared.
    """
    made = tally.comparisons_by_lag
    matches, compared, units = (smooth_counts(each, made, pool) for each in (tally.matches, made, tally.units))
    density, measured, cost = (np.empty(len(matches)) for _ in range(3))
    middle = len(matches) // 2
    for direction in (slice(0, middle), slice(middle, middle + 1), slice(middle + 1, None)):
        mean = _ratio(_sum(tally.matches[direction]), _sum(made[direction]), ASSUMED_DENSITY)
        usual = _ratio(_sum(tally.units[direction]), _sum(made[direction]), 1.0)
        density[direction] = (matches[direction] + prior * mean) / (compared[direction] + prior)
        measured[direction] = (tally.matches[direction] + prior * mean) / (made[direction] + prior)
        cost[direction] = (units[direction] + prior * usual) / (compared[direction] + prior)
    weight = pool * _ratio(_sum(tally.matches), _sum(made), ASSUMED_DENSITY)
    expected, utility = (each.cumsum(axis=0)[-1] for each in (tally.made * measured[:, None, None], tally.utility))
    return Estimate(density, measured, cost, (utility + weight * worth) / (expected + weight))


def smooth_counts(counts: Floats, compared: Floats, most: float) -> Floats:
    """Add half of the neighbours' counts, which count like at most `most` comparisons."""
    part = 0.5 * np.divide(2.0 * most, compared, out=np.ones(len(compared)), where=compared > 2.0 * most)
    total = counts.copy()
    total[1:] += part[:-1] * counts[:-1]
    total[:-1] += part[1:] * counts[1:]
    return total


def _split_lags(counts: Floats) -> Floats:
    """Return counts by lags of half the width; the first and last lag count all that are farther apart.

    Examples
    --------
    >>> _split_lags(np.array([0.0, 0.0, 4.0, 8.0, 0.0])).tolist()
    [0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 2.0]
    """
    many = len(counts)
    finer = np.zeros((2 * many + 1, *counts.shape[1:]))
    finer[1:-1:2] += 0.5 * counts
    finer[:-2:2] += 0.25 * counts
    finer[2::2] += 0.25 * counts
    finer[2] += finer[:2].sum(axis=0)
    finer[-3] += finer[-2:].sum(axis=0)
    return finer[2:-2]


def _merge_lags(counts: Floats) -> Floats:
    """Return counts by lags of twice the width.

    Examples
    --------
    >>> _merge_lags(np.array([0.0, 0.0, 1.0, 2.0, 3.0, 4.0, 2.0])).tolist()
    [0.0, 0.5, 4.0, 6.5, 1.0]
    """
    even, odd = counts[1::2], 0.5 * counts[::2]
    coarser = np.zeros((len(odd) + 1, *counts.shape[1:]))
    coarser[1:-1] += even
    coarser[:-1] += odd
    coarser[1:] += odd
    return coarser


def find_changed_lags(late: Floats, early: Floats) -> npt.NDArray[np.bool_]:
    """Return by lag whether matches per comparison have halved or doubled, beyond chance.

    Both arguments have matches and comparisons. Neighbours are counted together, because single lags have few matches.
    The test is a likelihood ratio: how much less likely both counts are without a change.
    """
    (m, c), (n, d) = (np.stack([np.convolve(row, np.ones(3), "same") for row in each]) for each in (late, early))
    together = np.divide(m + n, c + d, out=np.zeros(len(c)), where=c + d > 0)
    likelihood = 2.0 * (_surprise(m, together * c) + _surprise(n, together * d))
    return (likelihood > CHANGE_THRESHOLD) & ((m * d > 2.0 * n * c) | (2.0 * m * d < n * c))


def _surprise(seen: Floats, expected: Floats) -> Floats:
    some = seen > 0
    return seen * np.log(np.divide(seen, expected, out=np.ones(len(seen)), where=some))


def _ratio(part: float, whole: float, otherwise: float) -> float:
    return part / whole if part > 0 and whole > 0 else otherwise


def _sum(counts: Floats) -> float:
    """Add in order, so that the sum is the same on every machine."""
    return float(np.cumsum(counts)[-1]) if len(counts) else 0.0
