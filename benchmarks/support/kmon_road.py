"""The joins of the paper's Table 3 over Linear Road's position reports, as far as these have what they read.

    CurCarSeg    the last report of each car, forever, with whether it is active: has reported within 30 seconds
    AccSeg       reports of active cars, with cars whose last four reports had one position
    CarExitStr   reports of active cars, with cars that are in the exit lane
    NegTollStr   reports of active cars, with cars that leave at most five segments before an accident

All are many-one. A report is valid until the next one of its car, and 30 seconds in the last three; a car that pauses
is another one from then on. What is known of a car comes with the report that says so, at the same time: the
constraint is that a parent need not wait. CurCarSeg has no constraint but its key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from benchmarks.support.kmon_data import Ints, Mask
from benchmarks.support.kmon_runs import Course, lived
from benchmarks.support.kmon_setups import Feed
from tidegate.physical.keyed_join.kernels.graph import Edge, Graph
from tidegate.physical.keyed_join.kernels.model import NEVER, Bound, Constraints, StreamArrivals

DATA = Path(os.environ.get("TIDEGATE_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))
REPORTS = DATA / "linear_road" / "gen45min_position_reports.parquet"

SECOND = 1_000_000
ACTIVE = 30 * SECOND
BATCH = 10 * SECOND

EXIT_LANE = 4
STOPPED = 4
"""So many reports from one position say that a car is stopped."""

UPSTREAM = 5
WAY = 100
"""Segments of each direction."""

PRINTED = {"CurCarSeg": (0.09, 0.65), "AccSeg": (0.13, 0.99), "CarExitStr": (0.10, 0.49), "NegTollStr": (0.13, 0.62)}
"""The paper's ratios of memory and of time."""


@dataclass(frozen=True, slots=True, eq=False)
class Reports:
    """Position reports in the order of time, and for each when its car reports next."""

    ts: Ints
    car: Ints
    lane: Ints
    segment: Ints
    """With the direction: 0 to 99 one way, 100 to 199 the other."""
    position: Ints
    following: Ints

    @property
    def active_until(self) -> Ints:
        return np.minimum(self.following, self.ts + ACTIVE)


def reports(copies: int) -> Reports:
    """The reports, several times behind one another, each time of other cars: Linear Road lasts three hours."""
    table = pq.read_table(REPORTS)
    ts, car, lane, way, segment, position = (
        table[name].to_numpy() for name in ("ts_us", "vid", "lane", "dir", "seg", "pos")
    )
    length, cars = int(ts[-1]) + SECOND, int(car.max()) + 1
    copy = np.repeat(np.arange(copies), len(ts))
    ts, car = np.tile(ts, copies) + copy * length, np.tile(car, copies) + copy * cars
    following = np.full(len(ts), NEVER)
    order = np.lexsort((ts, car))
    same = (car[order[1:]] == car[order[:-1]]) & (ts[order[1:]] - ts[order[:-1]] <= ACTIVE)
    car[order] = np.cumsum(np.concatenate([[True], ~same]))
    following[order[:-1][same]] = ts[order[1:][same]]
    lane, segment, position = (np.tile(each, copies) for each in (lane, segment + WAY * way, position))
    return Reports(ts, car, lane, segment, position, following)


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """Something that is known of a car for some time."""

    key: Ints
    start: Ints
    end: Ints

    def arrivals(self) -> StreamArrivals:
        order = np.argsort(self.start, kind="stable")
        rows = np.arange(len(order))
        return StreamArrivals({0: self.key[order]}, self.start[order], self.end[order], rows + 1, rows)


def _runs(given: Reports, value: Ints, needed: int = 1) -> tuple[Known, Ints]:
    """When cars had one value in at least so many reports without a pause: from the last that was needed on.

    Also the report with which it was known.
    """
    order = np.lexsort((given.ts, given.car))
    before, after = order[:-1], order[1:]
    goes_on = (given.car[before] == given.car[after]) & (value[before] == value[after])
    first = np.flatnonzero(np.concatenate([[True], ~goes_on]))
    last = np.append(first[1:], len(order)) - 1
    long = last - first + 1 >= needed
    known, end = order[first[long] + needed - 1], given.active_until[order[last[long]]]
    return Known(given.car[known], given.ts[known], end), known


def _chosen(known: Known, which: Mask) -> Known:
    return Known(known.key[which], known.start[which], known.end[which])


def _is_before(given: Reports, report: Ints, accident: Ints, accidents: Known) -> Mask:
    """Whether reports come from at most so many segments before an accident, at its time."""
    found = np.zeros(len(report), np.bool_)
    ts, place = given.ts[report], given.segment[report]
    for segment, start, end in zip(given.segment[accident], accidents.start, accidents.end, strict=True):
        ahead = place - segment if segment >= WAY else segment - place
        near = (place // WAY == segment // WAY) & (ahead >= 0) & (ahead <= UPSTREAM)
        found |= near & (start <= ts) & (ts < end)
    return found


EDGE = Graph(("parent", "child"), (Edge(0, 1),))
AT_ONCE = Constraints(arriving={0: Bound(time=0)})


def joins(given: Reports) -> dict[str, tuple[Feed, Constraints]]:
    """The joins of Table 3, and what holds of them."""
    last = Known(given.car, given.ts, given.following)
    current = Known(given.car, given.ts, given.active_until)
    active, _ = _runs(given, np.zeros(len(given.ts), np.int64))
    stopped, accident = _runs(given, given.position, STOPPED)
    in_lane, report = _runs(given, given.lane)
    leaving = given.lane[report] == EXIT_LANE
    exits, report = _chosen(in_lane, leaving), report[leaving]
    pairs = {
        "CurCarSeg": (last, active, Constraints()),
        "AccSeg": (current, stopped, AT_ONCE),
        "CarExitStr": (current, exits, AT_ONCE),
        "NegTollStr": (current, _chosen(exits, _is_before(given, report, accident, stopped)), AT_ONCE),
    }
    end = int(given.ts[-1]) + 1
    return {
        name: (Feed(EDGE, (parent.arrivals(), child.arrivals()), end), constraints)
        for name, (parent, child, constraints) in pairs.items()
    }


def table3(copies: int = 1) -> Mapping[str, Course]:
    """What each join keeps and costs."""
    return {name: lived(given, held, BATCH) for name, (given, held) in joins(reports(copies)).items()}
