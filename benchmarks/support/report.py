"""The contract of all benchmarks: a readable table, or one JSON object as the last line of stdout."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_LARGE = 100
"""Figures from here on are shown without decimals."""


@dataclass(frozen=True, slots=True)
class Report:
    """`equal` is the outcome of really comparing results; a ratio above one says that we are faster."""

    benchmark: str
    equal: bool
    ratios: Mapping[str, float]
    figures: Mapping[str, float]

    def as_json(self) -> str:
        return json.dumps(
            {"benchmark": self.benchmark, "equal": self.equal, "ratios": self.ratios, "figures": self.figures}
        )

    def as_table(self) -> str:
        lines = [f"{self.benchmark}: results {'equal' if self.equal else 'DIFFER'}"]
        lines += [f"  {name:<36} {value:>16,.2f} ×" for name, value in self.ratios.items()]
        lines += [
            f"  {name:<36} {value:>16,{'.0f' if abs(value) >= _LARGE else '.3f'}}"
            for name, value in self.figures.items()
        ]
        return "\n".join(lines)


def say(text: str) -> None:
    """Words on the way, apart from the result."""
    print(text, file=sys.stderr, flush=True)


def main(
    measure: Callable[[bool], Report], description: str, *, measure_paper: Callable[[], Report] | None = None
) -> None:
    """Run a benchmark as a command; the argument of `measure` says whether the run is quick.

    `measure_paper` measures at the scale of a paper, for hours.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="a smaller run that ends within a minute")
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line")
    if measure_paper is not None:
        parser.add_argument("--paper", action="store_true", help="a run at the scale of the paper, for hours")
    arguments = parser.parse_args()
    report = measure_paper() if measure_paper is not None and arguments.paper else measure(arguments.quick)
    print(report.as_json() if arguments.json else report.as_table())
    sys.exit(0 if report.equal else 1)
