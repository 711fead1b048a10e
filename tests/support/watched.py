"""A join of parents and children that is watched and steered, step by step, as an operator does it in one bucket."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from benchmarks.support.kmon_data import Interleaved
from support.recorded import recorded
from tidegate.algebra.constraints import ConstraintSettings, ConstraintUse
from tidegate.algebra.keyed_join import ConstraintKind, EdgeConstraint, JoinEdge
from tidegate.physical.common.arrays import Ints
from tidegate.physical.keyed_join import losses
from tidegate.physical.keyed_join.control import decide
from tidegate.physical.keyed_join.directive import KeyedJoinDirective
from tidegate.physical.keyed_join.kernels.join import SynopsisJoin
from tidegate.physical.keyed_join.kernels.model import Bound, Constraints, Moment, StreamArrivals
from tidegate.physical.keyed_join.monitor import (
    NO_PARTS,
    Watch,
    constraint_name,
    count_hits_on_no,
    summarize_arrivals,
    watch_elements,
)
from tidegate.physical.keyed_join.report import KeyedJoinReport
from tidegate.physical.keyed_join.sample_joins import JoinSample, KeySample
from tidegate.physical.keyed_join.verdicts import ConstraintChoice

EDGE = JoinEdge(0, 1, ("a",), ("a",))
TICK = 1000
"""The time between two arrivals."""


def choice_of(
    watches: Iterable[Watch],
    settings: ConstraintSettings,
    declared: Iterable[EdgeConstraint] = (),
    row_bytes: tuple[int, ...] = (40, 40),
) -> ConstraintChoice:
    return ConstraintChoice((EDGE,), ("p", "c"), tuple(declared), tuple(watches), settings, row_bytes)


def constraints_of(choice: ConstraintChoice, directive: KeyedJoinDirective | None) -> Constraints:
    """What a join makes use of; before anything is decided, what is declared."""
    used = [each for each in choice.declared if each.unused is None and choice.settings.use is not ConstraintUse.OFF]
    declared = {constraint_name(e.edge, e.kind): e.within for e in used}
    bounds: dict[str, dict[int, Bound]] = {kind.name.lower(): {} for kind in ConstraintKind}
    for name, reach in (directive.within if directive else declared).items():
        edge, kind = name.split("/")
        bounds[kind][int(edge)] = Bound(reach.rows, reach.time)
    return Constraints(**bounds, keeps_no=frozenset(directive.keeps_no if directive else [1]))


@dataclass
class Followed:
    """After each step: the record, how many results there were, and what is kept of each stream."""

    records: list[Any] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)

    def used(self, name: str) -> list[Any]:
        return [record.trackers[name].used for record in self.records]


def followed(
    data: Interleaved,
    choice: ConstraintChoice,
    batch: int,
    window: int,
    *,
    lean: bool = True,
    sampled: bool = False,
    keeps_no: Iterable[int] | Literal["chosen"] | None = None,
) -> Followed:
    """Join streams 1 and 2 of interleaved arrivals in steps of so many.

    Those that do not pass do not come; unless it is said, whatever is decided, whether their keys are remembered.
    """
    join = SynopsisJoin.empty(choice.graph, exact=not lean, watched=frozenset({0}))
    record: Any = None
    parts, sample, all_ = NO_PARTS, JoinSample(), Followed()
    numbers = [data.number(stream) for stream in (1, 2)]
    for begin in range(0, len(data), batch):
        rows = np.arange(begin, min(begin + batch, len(data)))
        some = rows[data.passing[rows]] if keeps_no is None else rows
        arrivals = {s: _arrivals(data, some[data.stream[some] == s + 1], numbers[s], window) for s in (0, 1)}
        moment = Moment([(int(rows[-1]) + 1) * TICK] * 2, [int(each[rows[-1]]) for each in numbers])
        directive = record.directive if record else None
        constraints = constraints_of(choice, directive)
        if keeps_no is not None and keeps_no != "chosen":
            constraints = replace(constraints, keeps_no=frozenset(keeps_no))
        parts, watched = watch_elements(choice.watches, directive, parts, choice.graph, arrivals, moment)
        hits = count_hits_on_no(join, arrivals)
        found = join.step(arrivals, moment, constraints).combinations
        all_.results.append(len(found))
        summary = summarize_arrivals(choice.graph, arrivals, moment)
        report = KeyedJoinReport(summary, join.sizes(), hits, watched)
        if sampled:
            common = losses.CommonKeyCodes({s: each.keys[0] for s, each in arrivals.items()}, data.a[found.rows[0]])
            share = choice.settings.monitoring.sample
            lost = losses.observe_losses(sample, join, arrivals, moment, constraints, common, [0], KeySample(share))
            report = replace(report, losses=lost)
        record = recorded(decide(choice, record, [recorded(report)]))
        all_.records.append(record)
        all_.sizes.append(report.sizes)
    return all_


def _arrivals(data: Interleaved, rows: Ints, number: Ints, window: int) -> StreamArrivals:
    start = rows * TICK
    return StreamArrivals({0: data.a[rows]}, start, start + window, number[rows], rows, data.passing[rows])
