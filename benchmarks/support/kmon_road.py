"""The joins of the paper's Table 3 over Linear Road's position reports, as far as these have what they read.

    CurCarSeg    the last report of each car, forever, with whether it is active: has reported within 30 seconds
    AccSeg       reports of active cars, with cars whose last four reports had one position
    CarExitStr   reports of active cars, with cars that are in the exit lane
    NegTollStr   reports of active cars, with cars that leave at most five segments before an accident

All are many-one. A report is valid until the next one of its car, and 30 seconds in the last three; a car that pauses
is another one from then on. What is known of a car comes with the report that says so, at the same time: the
constraint is that a parent need not wait. CurCarSeg has no constraint but its key.

What is known of cars is computed before. The joins are queries in SQL in the embedded runtime, with constraints and as
plain joins; memory is in bytes of state.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import process_time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.kmon_data import Ints, Mask
from benchmarks.support.kmon_runs import Course
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.physical.keyed_join.kernels.model import NEVER
from tidegate.runtime.compile import compile_job, source_stream_of
from tidegate.runtime.embedded.engine import Engine

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

    def table(self) -> pa.Table:
        """Return the rows in the order of time; what never ends has no end."""
        order = np.argsort(self.start, kind="stable")
        till = pa.array(self.end[order], mask=self.end[order] >= NEVER)
        return pa.table({"car": self.key[order], "ts": self.start[order], "till": till})


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


AT_ONCE = "CONSTRAINT (car) REFERENCES child (car) WITHIN 0 SECONDS"

PROGRAM = """
SET constraints = {setting};
CREATE STREAM parent (car BIGINT, ts BIGINT, till BIGINT) FROM 'memory' VALID FROM ts TO till {constraint};
CREATE STREAM child (car BIGINT, ts BIGINT, till BIGINT) FROM 'memory' VALID FROM ts TO till KEY (car);
SELECT p.car, p.ts, c.ts AS since FROM parent p, child c WHERE p.car = c.car;
"""
PLAIN, KEYED = "off", "declared MODE lean"


@dataclass(frozen=True, slots=True, eq=False)
class RoadJoin:
    """A join of what is known of cars: many rows of the parent with one of the child, and a promise of the parent."""

    parent: Known
    child: Known
    constraint: str = AT_ONCE


def joins(given: Reports) -> dict[str, RoadJoin]:
    """The joins of Table 3, and what holds of them."""
    last = Known(given.car, given.ts, given.following)
    current = Known(given.car, given.ts, given.active_until)
    active, _ = _runs(given, np.zeros(len(given.ts), np.int64))
    stopped, accident = _runs(given, given.position, STOPPED)
    in_lane, report = _runs(given, given.lane)
    leaving = given.lane[report] == EXIT_LANE
    exits, report = _chosen(in_lane, leaving), report[leaving]
    return {
        "CurCarSeg": RoadJoin(last, active, ""),
        "AccSeg": RoadJoin(current, stopped),
        "CarExitStr": RoadJoin(current, exits),
        "NegTollStr": RoadJoin(current, _chosen(exits, _is_before(given, report, accident, stopped))),
    }


class RunningQuery:
    """The query of a join in the embedded runtime, with what it costs and gives."""

    def __init__(self, join: RoadJoin, setting: str, tables: Mapping[str, pa.Table]) -> None:
        program = bind(PROGRAM.format(setting=setting, constraint=join.constraint))
        opened = {name: MemorySource(source_stream_of(program.catalog, name), table) for name, table in tables.items()}
        self.engine = Engine(compile_job(program, sinks={}, sources=opened))
        self.results: list[pa.Table] = []

    def step(self, raw: Mapping[str, list[pa.RecordBatch]], until: int) -> float:
        """Take in the rows of a step, after which all streams are at a time; return the processor seconds."""
        begin = process_time()
        out, _ = self.engine.step(raw, idle=dict.fromkeys(raw, until))
        took = process_time() - begin
        assert not out.dead
        for _, batch in out.results:
            times = {"start": pa.array(batch.start), "end": pa.array(batch.end)}
            self.results.append(pa.table(times | dict(zip("abc", batch.columns.columns, strict=True))))
        return took

    @property
    def state_bytes(self) -> int:
        return self.engine.state_size().bytes


def road_course(join: RoadJoin) -> Course:
    """What a join keeps in bytes, and costs, with constraints and as a plain join, step by step in turn."""
    tables = {"parent": join.parent.table(), "child": join.child.table()}
    ours, plain = (RunningQuery(join, setting, tables) for setting in (KEYED, PLAIN))
    course, arrived, end = Course(), 0, int(join.parent.start.max()) + 1
    starts = {name: table["ts"].to_numpy() for name, table in tables.items()}
    for begin in range(0, end, BATCH):
        raw = {}
        for name, table in tables.items():
            first, after = np.searchsorted(starts[name], [begin, begin + BATCH]).tolist()
            raw[name], arrived = table.slice(first, after - first).to_batches(), arrived + after - first
        course.ours.append(ours.step(raw, begin + BATCH))
        course.others.append(plain.step(raw, begin + BATCH))
        course.arrived.append(arrived)
        course.kept.append(ours.state_bytes)
        course.window.append(plain.state_bytes)
    found, expected = (_sorted_rows(query.results) for query in (ours, plain))
    course.results, course.equal = expected.num_rows, found.equals(expected)
    return course


def _sorted_rows(parts: list[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(parts)
    return rows.sort_by([(name, "ascending") for name in rows.schema.names]).combine_chunks()


def table3(copies: int = 1) -> Mapping[str, Course]:
    """What each join keeps and costs."""
    return {name: road_course(join) for name, join in joins(reports(copies)).items()}
