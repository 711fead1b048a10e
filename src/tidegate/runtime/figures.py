"""Figures of a run: what each operator got, gave and left out, how fast sources are, and where steps spent their time.

Figures are for people and for decisions that are recorded. They never enter results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import zip_longest
from math import exp
from time import perf_counter
from typing import NamedTuple

import pyarrow as pa

from tidegate.time import BEGINNING
from tidegate.values import value

NO_BUCKET = -1
"""Bucket of operators that run wherever rows are read."""


class OperatorPlace(NamedTuple):
    """Where an operator runs: its stage, its number in it, and a bucket."""

    stage: int
    operator: int
    bucket: int = NO_BUCKET


class OperatorFigures(NamedTuple):
    """Work of an operator, in one step or in all steps so far, in one bucket or in all of them."""

    rows_in: int = 0
    rows_out: int = 0
    omitted: int = 0
    """Elements that the operator dropped because they cannot change whether an alarm is raised."""
    seconds: float = 0.0
    watermark: int = BEGINNING
    """Output watermark. For an operator that runs where rows are read, it follows from that of the stream."""
    omitted_of_inputs: tuple[int, ...] = ()
    """The omitted elements of each input; empty if there are none."""

    def plus(self, more: OperatorFigures) -> OperatorFigures:
        """Add the figures of another step or piece in the same bucket."""
        # Called for each operator in each step: names would take twice as long.
        rows_in, rows_out, omitted, seconds, mark, of_inputs = self
        more_in, more_out, more_omitted, more_seconds, other_mark, more_of_inputs = more
        return OperatorFigures(
            rows_in + more_in,
            rows_out + more_out,
            omitted + more_omitted,
            seconds + more_seconds,
            max(mark, other_mark),
            add_counts(of_inputs, more_of_inputs) if of_inputs or more_of_inputs else (),
        )

    def plus_bucket(self, more: OperatorFigures) -> OperatorFigures:
        """Add the figures of another bucket: the output is known up to the lower watermark."""
        return self.plus(more)._replace(watermark=min(self.watermark, more.watermark))


def add_counts(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    """Add counts by position; missing ones are 0.

    Examples
    --------
    >>> add_counts((1, 2), (3,)), add_counts((), (4,))
    ((4, 2), (4,))
    """
    return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))


FiguresByPlace = dict[OperatorPlace, OperatorFigures]


def add_figures(figures: FiguresByPlace, more: Mapping[OperatorPlace, OperatorFigures]) -> None:
    """Add the figures of a step or a piece to those known so far."""
    if not figures:
        figures.update(more)
        return
    for place, each in more.items():
        known = figures.get(place)
        figures[place] = each if known is None else known.plus(each)


def figures_of_operators(figures: Mapping[OperatorPlace, OperatorFigures]) -> dict[tuple[int, int], OperatorFigures]:
    """Return the figures by stage and operator, added up over buckets."""
    found: dict[tuple[int, int], OperatorFigures] = {}
    for (stage, operator, _), each in figures.items():
        known = found.get((stage, operator))
        found[stage, operator] = each if known is None else known.plus_bucket(each)
    return found


def describe_figures(figures: OperatorFigures) -> str:
    """Describe the figures of an operator.

    Examples
    --------
    >>> describe_figures(OperatorFigures(600_000, 1_204, 598_796, 0.0213))
    '600,000 rows in, 1,204 out, 598,796 omitted, 21.3 ms'
    """
    omitted = f", {figures.omitted:,} omitted" if figures.omitted else ""
    return f"{figures.rows_in:,} rows in, {figures.rows_out:,} out{omitted}, {figures.seconds * 1000:.1f} ms"


# ---- sources


RATE_SPAN = 10.0
"""Seconds after which a row counts a third (1/e) as much as a new one in a rate."""


@value
class SourceFigures:
    """Rows of a source so far, and what their rate follows from."""

    since: float
    """When the first step with rows of the source began, in seconds of a steady clock."""
    rows: int = 0
    weight: float = 0.0
    """Rows at the time `at`, each counted less the older it is."""
    at: float = 0.0

    def after(self, rows: int, now: float) -> SourceFigures:
        """Return the figures after a step that ended now."""
        kept = self.weight * exp((self.at - now) / RATE_SPAN)
        return SourceFigures(self.since, self.rows + rows, kept + rows, now)

    def rows_per_second(self, now: float) -> float:
        """Return the smoothed rate.

        Examples
        --------
        >>> steady = SourceFigures(0.0)
        >>> for second in range(1, 1_001):
        ...     steady = steady.after(50, second / 10)
        >>> round(steady.rows_per_second(100.0)), round(steady.rows_per_second(110.0))
        (503, 185)
        """
        if now <= self.since:
            return 0.0
        kept = self.weight * exp((self.at - now) / RATE_SPAN)
        return kept / (RATE_SPAN * (1 - exp((self.since - now) / RATE_SPAN)))


# ---- steps


class StepPhases(NamedTuple):
    """Seconds of the phases of a step; on Spark, the first four are added up over tasks."""

    read: float = 0.0
    decode: float = 0.0
    run: float = 0.0
    save: float = 0.0
    publish: float = 0.0
    record: float = 0.0

    def plus(self, more: StepPhases) -> StepPhases:
        return StepPhases(*(one + other for one, other in zip(self, more, strict=True)))


class PhaseClock:
    """Clock of the phases of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the time of a block to a phase."""
        began = perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] = self.seconds.get(phase, 0.0) + perf_counter() - began

    def add(self, other: PhaseClock) -> None:
        """Add the phases of another clock."""
        for phase, seconds in other.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds

    def so_far(self) -> StepPhases:
        return StepPhases(**self.seconds)

    def take(self) -> StepPhases:
        """Return the phases so far, and start again."""
        phases, self.seconds = StepPhases(**self.seconds), {}
        return phases


# ---- tables


@value
class Metadata:
    """Metadata at one moment. Times are seconds; a lag is the time since a watermark."""

    operators: pa.Table
    """A row for each operator and bucket. `query` is NULL if several queries share the operator, `bucket` if it runs
    wherever rows are read."""
    sources: pa.Table
    phases: pa.Table
    """Seconds of each phase of steps: in total, in the last step, and the quantiles of the last steps."""
    omissions: pa.Table
    """A row for each stream of which an alert may omit readings: how many it got, and how many it omitted."""
