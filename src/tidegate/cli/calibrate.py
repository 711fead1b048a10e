"""Measure what the work of operators costs on this machine, with a line for each part."""

from __future__ import annotations

import sys
from time import perf_counter

from tidegate.runtime.calibration.calibrate import QUERIES, calibrate
from tidegate.runtime.costs.prices import MeasuredWork, fit_prices, store_prices


def calibrate_machine() -> None:
    """Measure all kinds of operators and store the prices of their work; say what is done on standard error."""
    began, measured = perf_counter(), list[MeasuredWork]()
    for number, (name, found) in enumerate(calibrate(), 1):
        measured += found
        print(f"measured {number} of {len(QUERIES)}: {name}", file=sys.stderr, flush=True)
    file = store_prices(fit_prices(measured))
    print(f"stored in {file}, after {perf_counter() - began:.0f} seconds", file=sys.stderr, flush=True)
