"""Decide how much a similarity join may compare in the next step, from the reports of all buckets.

If a budget is given, no value that a step depends on is measured with a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from tidegate.algebra.similarity_join import SECOND, Policy, Shedding
from tidegate.physical.common.control import ControlRecord, Directive, Report, ShedWork
from tidegate.physical.shedding.kernels.evidence import Tally
from tidegate.physical.shedding.pace import FADING, StepPace
from tidegate.physical.shedding.report import record_shedding
from tidegate.physical.similarity_join.kernels.conditions import SameKey
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.model import SimilarityJoinSettings, SimilarityStepResult
from tidegate.physical.similarity_join.slot_width import SETTLED_STEPS, change_lags, choose_halvings

_COSTS = {Method.FILTERED: 1e-8, Method.INDEXED: 1e-8, Method.NESTED: 3e-7}
"""Assumed seconds per unit of comparing, before any measurement. NESTED evaluates a predicate."""

_COST_OF_SAME_KEY = 5e-8
"""The same for a pair with equal keys, which evaluates a predicate or a condition program."""


@dataclass(frozen=True, slots=True)
class TallyCounts:
    """Counts of a `Tally` as plain numbers."""

    matches: tuple[float, ...]
    units: tuple[float, ...]
    late_matches: tuple[float, ...]
    late_made: tuple[float, ...]
    utility: tuple[float, ...]
    made: tuple[float, ...]

    @classmethod
    def of(cls, tally: Tally) -> TallyCounts:
        parts = tally.columns().values()
        return cls(**{name: tuple(column.tolist()) for part in parts for name, column in part.items()})

    def restore(self) -> Tally:
        """Return the tally."""
        columns = {each.name: np.array(getattr(self, each.name), np.float64) for each in fields(self)}
        return Tally.from_columns({"lags": columns, "kinds": columns})


@dataclass(frozen=True, slots=True)
class SimilarityJoinDirective(Directive):
    """Evidence on how productive comparisons are, and the pace from which budgets follow."""

    tally: TallyCounts
    """Results of comparisons in all buckets, decayed."""
    pace: StepPace
    volumes: tuple[float, ...] = ()
    """Comparisons that were to make, decayed, by bucket; only if buckets have keys of their own."""
    halvings: int = 0
    """How often the original width of slots is halved; the tally is by lags of that width."""


@dataclass(frozen=True, slots=True)
class SimilarityJoinReport(Report):
    """Comparisons of a bucket in a step."""

    tally: TallyCounts
    comparisons: int
    volume: int
    """Comparisons that all rows would have needed."""
    units: int
    found: int
    missed: float
    """Estimated number of missed results."""
    worth: float
    """Utility of the results found."""
    worth_missed: float
    dropped: int
    """Rows dropped."""
    rows: int
    """New rows."""
    comparing: float
    """Seconds spent on comparing."""
    budget: float
    bucket: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimilarityJoinRecord(ControlRecord):
    """Record of a similarity join that may shed."""

    directive: SimilarityJoinDirective
    step: int
    changed: int = 0
    """Step after which the width of slots has changed last."""


@dataclass(frozen=True, slots=True)
class SheddingParameters:
    """Parameters of a decision: the text of the join condition, and how the join sheds."""

    join: str
    shedding: Shedding
    settings: SimilarityJoinSettings

    @property
    def target(self) -> float:
        """Return the target in seconds."""
        return self.shedding.target / SECOND


def tally_of(directive: SimilarityJoinDirective | None, settings: SimilarityJoinSettings) -> Tally:
    """Return the tally of a directive; an empty one before the first decision."""
    return directive.tally.restore() if directive else Tally.empty(settings.reach, settings.kinds)


def halvings_of(directive: SimilarityJoinDirective | None) -> int:
    """Return how often the original width of slots is halved."""
    return directive.halvings if directive else 0


def budget_of(
    choice: SheddingParameters, directive: SimilarityJoinDirective | None, rows: int, place: tuple[int, int]
) -> float:
    """Return the units that a bucket may compare in a step with `rows` new rows.

    `place` is the number of the bucket, and how many there are. A given budget is divided by the comparisons that
    buckets had to make, if they have keys of their own: of skewed keys, some buckets have many more. Otherwise all have
    about as many.
    """
    if choice.shedding.budget is not None:
        bucket, buckets = place
        volumes = directive.volumes if directive else ()
        if len(volumes) != buckets:
            return choice.shedding.budget / buckets
        return choice.shedding.budget * (volumes[bucket] + 1.0) / (sum(volumes) + buckets)
    return _pace_of(choice, directive).budget(choice.target, rows)


def report_of(
    answer: SimilarityStepResult, budget: float, rows: int, volume: int, dropped: int
) -> SimilarityJoinReport:
    """Return the report of a bucket on a step.

    If rows were dropped, `volume` is the number of comparisons that all rows would have needed.
    """
    lost = max(0.0, volume / answer.compared - 1.0) if answer.compared and volume > answer.volume else 0.0
    worth = answer.found_utility
    return SimilarityJoinReport(
        tally=TallyCounts.of(answer.tally),
        comparisons=answer.compared,
        volume=max(volume, answer.volume),
        units=answer.units,
        found=len(answer.left),
        missed=answer.missed + lost * len(answer.left),
        worth=worth,
        worth_missed=answer.missed_utility + lost * worth,
        dropped=dropped,
        rows=rows,
        comparing=answer.seconds,
        budget=budget,
    )


def decide(
    choice: SheddingParameters,
    record: SimilarityJoinRecord | None,
    reports: Sequence[SimilarityJoinReport],
    seconds: float,
) -> SimilarityJoinRecord | None:
    """Return the record of a step, from the one before, the buckets' reports and the seconds of the step."""
    if not reports:
        return record
    step = record.step + 1 if record else 1
    directive = record.directive if record else None
    budget = float(sum(report.budget for report in reports))
    policy, before = choice.shedding.policy.value, record.shed[0] if record else None
    tally, work = _learn_from_reports(choice.settings, directive, reports), _shed_work(choice, reports)
    changed, halvings = record.changed if record else 0, halvings_of(directive)
    if work.comparisons < work.volume and choice.shedding.policy is Policy.ON and step >= changed + SETTLED_STEPS:
        width = choice.settings.with_halvings(halvings).width
        halvings = choose_halvings(tally, halvings, width)
    if halvings != halvings_of(directive):
        tally, changed = change_lags(tally, halvings - halvings_of(directive)), step
    return SimilarityJoinRecord(
        directive=SimilarityJoinDirective(
            TallyCounts.of(tally),
            _update_pace(choice, directive, reports, seconds),
            _update_volumes(choice, directive, reports),
            halvings,
        ),
        step=step,
        changed=changed,
        shed=(record_shedding(choice.join, policy, work, budget, step, before),),
    )


def _learn_from_reports(
    settings: SimilarityJoinSettings,
    directive: SimilarityJoinDirective | None,
    reports: Sequence[SimilarityJoinReport],
) -> Tally:
    """Return the tally with the counts of all buckets. It decays only if anything was compared."""
    before, counted = tally_of(directive, settings), Tally.total(report.tally.restore() for report in reports)
    known = before.with_newer(counted)
    return known.with_decay(settings.decay) if counted.made.any() else known


def _update_volumes(
    choice: SheddingParameters, directive: SimilarityJoinDirective | None, reports: Sequence[SimilarityJoinReport]
) -> tuple[float, ...]:
    if not isinstance(choice.settings.condition, SameKey):
        return ()
    before = directive.volumes if directive else ()
    buckets = max(len(before), max(report.bucket for report in reports) + 1)
    volumes = [FADING * each for each in before] + [0.0] * (buckets - len(before))
    for report in reports:
        volumes[report.bucket] += report.volume
    return tuple(volumes)


def _update_pace(
    choice: SheddingParameters,
    directive: SimilarityJoinDirective | None,
    reports: Sequence[SimilarityJoinReport],
    seconds: float,
) -> StepPace:
    comparing = [report.comparing for report in reports]
    rows, units = max(report.rows for report in reports), sum(report.units for report in reports)
    return _pace_of(choice, directive).after_step(choice.target, rows, units, sum(comparing), max(comparing), seconds)


def _shed_work(choice: SheddingParameters, reports: Sequence[SimilarityJoinReport]) -> ShedWork:
    has_utility = choice.shedding.utility is not None
    return ShedWork(
        comparisons=sum(report.comparisons for report in reports),
        volume=sum(report.volume for report in reports),
        found=sum(report.found for report in reports),
        missed=float(sum(report.missed for report in reports)),
        dropped=sum(report.dropped for report in reports),
        worth=float(sum(report.worth for report in reports)) if has_utility else None,
        worth_missed=float(sum(report.worth_missed for report in reports)) if has_utility else 0.0,
    )


def _pace_of(choice: SheddingParameters, directive: SimilarityJoinDirective | None) -> StepPace:
    """Return the pace of a directive; before the first decision, one with a guess of the cost."""
    if directive:
        return directive.pace
    is_keyed = isinstance(choice.settings.condition, SameKey)
    return StepPace(_COST_OF_SAME_KEY if is_keyed else _COSTS[choice.settings.method])
