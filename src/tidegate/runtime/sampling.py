"""Samples of a run: their rates, and the decision on rates after each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidegate.algebra.plan import EVERY_ROW, LEAST_RATE, Sample, Scan, walk
from tidegate.expressions.parse.times import instant_text
from tidegate.physical.common.sizes import SizeHistories, SizeHistory
from tidegate.physical.shedding.sample import SampleOperator
from tidegate.physical.shedding.sample_pace import SamplePace
from tidegate.runtime.adaptation import Adapt, Adaptation, AdjustedWindow, AdjustedWindows
from tidegate.runtime.stage_graph import StageGraph
from tidegate.time import EARLIEST, FOREVER
from tidegate.values import value

SHRINK, GROW = 0.9, 1.2
"""A rate changes only if it becomes less or more than these multiples of itself, or if all rows can be kept."""

FASTEST_FALL, FASTEST_GROWTH = 0.25, 2.0
"""Least and greatest factor by which a rate changes after one step."""


@value
class SampledStream:
    """The sample of a stream that a query reads, with its rate in millionths and the recent changes of that."""

    query: str
    stream: str
    rate: int
    history: tuple[tuple[int, int], ...] = ()
    """Instants from which rates are in force, and the rates; empty for a rate that is fixed."""

    @property
    def share(self) -> float:
        return self.rate / EVERY_ROW

    @property
    def history_text(self) -> str:
        """Describe the changes of the rate."""
        changes = (each for each in self.history if EARLIEST <= each[0] < FOREVER)
        return ", ".join(f"{100 * rate / EVERY_ROW:.3g} % from {instant_text(instant)} on" for instant, rate in changes)


def sampled_streams(graph: StageGraph, sizes: SizeHistories) -> tuple[SampledStream, ...]:
    """Return the samples of a graph, with the newest rates."""
    if "samples" not in graph.memo:
        # Asked for after every step, also of thousands of queries without a sample.
        graph.memo["samples"] = tuple(
            (stage.query, node.operator)
            for stage in graph.stages
            for node in stage.nodes
            if isinstance(node.operator, SampleOperator)
        )
    found = [_sampled_stream(query, operator, sizes) for query, operator in graph.memo["samples"]]
    return tuple(dict.fromkeys(found))


def _sampled_stream(query: str, operator: SampleOperator, sizes: SizeHistories) -> SampledStream:
    history = sizes.get(operator.adjusted_by) if operator.adjusted_by is not None else None
    if history is None:
        return SampledStream(query, operator.stream, operator.rate or EVERY_ROW)
    changes = tuple((each.instant, each.size) for each in history.changes)
    return SampledStream(query, operator.stream, history.newest.size, changes)


# ---- the decision


class SampleManager:
    """Hook of a job that decides the rates of samples; another hook decides all other sizes.

    What it has learnt of the time of steps is not recorded, only the rates are.
    """

    def __init__(self, others: Adapt | None = None) -> None:
        self.others = others
        self._pace = SamplePace()

    def __call__(self, seen: Adaptation) -> Mapping[str, SizeHistory]:
        """Return the histories that change after a step."""
        rated = {key for key, each in seen.windows.items() if each.bounds.kind == "rate"}
        changed: dict[str, SizeHistory] = {}
        if self.others is not None:
            windows = {key: each for key, each in seen.windows.items() if key not in rated}
            changed.update(self.others(replace(seen, windows=windows, sizes={key: seen.sizes[key] for key in windows})))
        arrived = {key: _rows_of(seen.windows[key], seen) for key in rated}
        kept = sum(rows * seen.sizes[key].newest.size / EVERY_ROW for key, rows in arrived.items())
        if sum(arrived.values()):
            self._pace = self._pace.after_step(kept, seen.seconds)
        # All queries wait for a step, so the shortest target counts.
        target = min((_target_of(seen.windows[key]) for key in rated), default=0)
        for key in sorted(rated):
            if (history := self._decide(seen, key, target, sum(arrived.values()))) is not None:
                changed[key] = history
        return changed

    def _decide(self, seen: Adaptation, key: str, target: int, arrived: int) -> SizeHistory | None:
        """Return the history of a rate that changes."""
        rate = seen.sizes[key].newest.size
        wanted = next_rate(self._pace, target / 1e6, arrived, rate)
        reason = f"a step took {seen.seconds:.2g} s" if wanted < rate else "steps have time for more rows"
        return None if wanted == rate else seen.change(key, wanted, reason)


def next_rate(pace: SamplePace, target: float, arrived: int, rate: int) -> int:
    """Return the rate with which a step over as many rows is expected to take the target time.

    Examples
    --------
    >>> pace = SamplePace().after_step(1000, 9.0).after_step(1000, 1.8).after_step(1000, 1.8)
    >>> next_rate(pace, 1.0, 1000, 1_000_000) < 500_000, next_rate(pace, 2.0, 1000, 1_000_000)
    (True, 1000000)
    """
    rows = pace.rows_in(target)
    if rows is None or not arrived:
        return rate
    lowest, highest = max(FASTEST_FALL * rate, LEAST_RATE), min(FASTEST_GROWTH * rate, EVERY_ROW)
    wanted = min(max(rows / arrived * EVERY_ROW, lowest), highest)
    is_clear = wanted < SHRINK * rate or wanted > GROW * rate or wanted == EVERY_ROW
    return round(wanted) if is_clear else rate


def _target_of(window: AdjustedWindow) -> int:
    """Return how long a step may take for the sake of a sample, in microseconds."""
    assert isinstance(window.node, Sample)
    return window.node.target


def _rows_of(window: AdjustedWindow, seen: Adaptation) -> int:
    return sum(seen.rows.get(each.stream, 0) for each in walk(window.node) if isinstance(each, Scan))


def manage_samples(adjusted: AdjustedWindows, others: Adapt | None) -> Adapt | None:
    """Return a hook that also decides the rates of samples, if there are any whose rate may change."""
    if not any(each.bounds.kind == "rate" for each in adjusted.values()):
        return others
    return SampleManager(others)
