"""Figures of operators: what each got, gave and left out, for progress and EXPLAIN ANALYZE."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class OperatorFigures(NamedTuple):
    """Work of an operator, in one step or in all steps so far, in one bucket or in all of them."""

    rows_in: int = 0
    rows_out: int = 0
    omitted: int = 0
    """Elements that the operator dropped because they cannot change whether an alarm is raised."""
    seconds: float = 0.0

    def plus(self, more: OperatorFigures) -> OperatorFigures:
        """Add the figures of another step or bucket."""
        return OperatorFigures(
            self.rows_in + more.rows_in,
            self.rows_out + more.rows_out,
            self.omitted + more.omitted,
            self.seconds + more.seconds,
        )


FiguresByOperator = dict[str, OperatorFigures]
"""Figures by ``stage/operator``."""


def add_figures(figures: FiguresByOperator, more: Mapping[str, OperatorFigures]) -> None:
    """Add the figures of a step, a bucket or a piece to those known so far."""
    for key, each in more.items():
        figures[key] = figures.get(key, OperatorFigures()).plus(each)


def describe_figures(figures: OperatorFigures) -> str:
    """Describe the figures of an operator.

    Examples
    --------
    >>> describe_figures(OperatorFigures(600_000, 1_204, 598_796, 0.0213))
    '600,000 rows in, 1,204 out, 598,796 omitted, 21.3 ms'
    """
    omitted = f", {figures.omitted:,} omitted" if figures.omitted else ""
    return f"{figures.rows_in:,} rows in, {figures.rows_out:,} out{omitted}, {figures.seconds * 1000:.1f} ms"
