"""Prices of work: seconds of a step and of rows, by kind of operator, as measured on this machine or by default."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from tidegate.arrays import Floats
from tidegate.costs.estimates import SECOND, Prices, Work
from tidegate.runtime.cache_folders import user_cache
from tidegate.values import value

USUAL_PRICES = Prices(step=1e-4, row_in=1e-7, row_out=1e-7, touched=2e-8)
"""Prices of a kind of operator that was not measured."""

DEFAULT_PRICES: Mapping[str, Prices] = {
    "aggregate": Prices(3.5e-04, 3.1e-08, 5.7e-08),
    "alert": Prices(1.4e-04, 0.0, 0.0, 8.7e-07, 0.0, 0.0, 4.1e-04),
    "changes": Prices(0.0, 7.1e-08, 0.0, 0.0, 0.0, 0.0, 3.0e-04),
    "check": Prices(2.1e-05, 2.4e-09, 0.0, 0.0, 0.0, 0.0, 3.3e-05),
    "coalesce": Prices(1.9e-04, 1.9e-07, 0.0, 0.0, 0.0, 0.0, 3.7e-04),
    "count window": Prices(0.0, 6.8e-08, 0.0, 0.0, 0.0, 0.0, 3.8e-04),
    "filter": Prices(0.0, 5.1e-09, 0.0, 0.0, 0.0, 0.0, 6.7e-05),
    "granularity": Prices(1.4e-05, 3.2e-09, 0.0),
    "join": Prices(9.6e-05, 9.2e-08, 0.0, 0.0, 1.4e-08, 5.1e-05),
    "keyed join": Prices(8.6e-04, 2.1e-07, 0.0),
    "limit": Prices(0.0, 6.4e-07, 1.1e-05, 2.1e-07, 0.0, 0.0, 4.9e-04),
    "map": Prices(2.3e-05, 5.7e-10, 0.0),
    "nested join": Prices(0.0, 4.8e-07, 2.0e-08, 0.0, 0.0, 8.8e-05),
    "omit": Prices(6.1e-05, 3.0e-08, 0.0, 0.0, 0.0, 0.0, 7.0e-05),
    "repeat": Prices(7.2e-05, 1.7e-08, 0.0),
    "select": Prices(4.8e-06, 5.9e-11, 0.0, 0.0, 0.0, 1.6e-06),
    "semi join": Prices(0.0, 6.4e-07, 1.7e-07, 0.0, 0.0, 1.9e-04),
    "similarity join": Prices(1.1e-03, 9.2e-06, 0.0),
    "slots": Prices(0.0, 6.9e-07, 0.0, 0.0, 0.0, 0.0, 6.6e-04),
    "totals": Prices(1.8e-05, 5.8e-08, 7.1e-05, 0.0, 0.0, 0.0, 3.3e-04),
    "union": Prices(0.0, 1.3e-09, 0.0, 0.0, 0.0, 0.0, 2.1e-05),
    "window": Prices(8.0e-06, 1.7e-09, 0.0),
}
"""Prices by kind where `tidegate calibrate` has not run: those of one machine with two cores."""

FORMAT = 2
"""Number of the form of the stored prices. Prices in another form are not read."""


CLEARLY = 0.9
"""Part of the error that must remain at most for another choice of units to be better."""


@value
class MeasuredWork:
    """Work of an operator in a microsecond, and the seconds that it took for each second of application time."""

    work: Work
    seconds: float


def fit_prices(measured: Iterable[MeasuredWork]) -> dict[str, Prices]:
    """Return the prices that explain measurements best, by kind, in relative terms; none is negative."""
    by_kind: dict[str, list[MeasuredWork]] = {}
    for each in measured:
        if each.seconds > 0:
            by_kind.setdefault(each.work.kind, []).append(each)
    return {kind: _fit_kind(many) for kind, many in sorted(by_kind.items())}


def _fit_kind(measured: Sequence[MeasuredWork]) -> Prices:
    units = np.array([each.work.units for each in measured]) * SECOND
    seconds = np.array([each.seconds for each in measured])
    found = solve_without_negative(units / seconds[:, None], np.ones(len(measured)))
    return Prices(*map(float, found))


def solve_without_negative(units: Floats, seconds: Floats) -> Floats:
    """Return the solution of least squares of which no part is negative: the best over all choices of parts.

    Examples
    --------
    >>> units = np.array([[1.0, 10.0], [1.0, 20.0], [1.0, 30.0]])
    >>> solve_without_negative(units, np.array([12.0, 22.0, 32.0])).round(6).tolist()
    [2.0, 1.0]
    >>> solve_without_negative(units, np.array([8.0, 18.0, 28.0])).round(2).tolist()
    [0.0, 0.91]
    """
    width = units.shape[1]
    best, least = np.zeros(width), float(np.sum(seconds**2))
    for choice in sorted(range(1, 1 << width), key=lambda each: (each.bit_count(), each)):
        chosen = [at for at in range(width) if choice >> at & 1]
        part = units[:, chosen]
        scale = np.maximum(np.abs(part).max(axis=0), np.finfo(np.float64).tiny)
        solved = np.linalg.lstsq(part / scale, seconds, rcond=1e-9)[0] / scale
        error = float(np.sum((part @ solved - seconds) ** 2))
        # Units that grow together cannot be told apart: further ones count only if they explain clearly more.
        if (solved >= 0).all() and error < least * CLEARLY:
            best, least = np.zeros(width), error
            best[chosen] = solved
    return best


def scale_prices(prices: Mapping[str, Prices], measured: Iterable[MeasuredWork]) -> dict[str, Prices]:
    """Return prices scaled, by kind, by the median of what work cost relative to them.

    The median, because a process that is interrupted makes a few operators seem many times as slow.
    """
    ratios: dict[str, list[float]] = {}
    for each in measured:
        priced = prices.get(each.work.kind, USUAL_PRICES).seconds_of(each.work)
        if priced > 0:
            ratios.setdefault(each.work.kind, []).append(each.seconds / priced)
    return {**prices, **{kind: prices.get(kind, USUAL_PRICES).scale(median(many)) for kind, many in ratios.items()}}


# ---- storage


def prices_file() -> Path:
    """Return the file in which the prices of this machine are kept."""
    return user_cache() / "prices.json"


def store_prices(prices: Mapping[str, Prices], file: Path | None = None) -> Path:
    """Store prices for later processes; return the file."""
    file = file or prices_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    rows = {kind: list(each.of_units) for kind, each in prices.items()}
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"format": FORMAT, "prices": rows}, indent=1), encoding="utf-8")
    part.replace(file)
    return file


def load_prices(file: Path | None = None) -> Mapping[str, Prices]:
    """Return the prices of this machine; those by default for kinds, or in a whole, that were not measured."""
    try:
        stored = json.loads((file or prices_file()).read_text(encoding="utf-8"))
        if stored["format"] != FORMAT:
            return DEFAULT_PRICES
        return {**DEFAULT_PRICES, **{kind: Prices(*map(float, row)) for kind, row in stored["prices"].items()}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return DEFAULT_PRICES
