"""Collect what the tasks of a step send to the driver, and make the record of the step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, reduce
from operator import itemgetter
from typing import Any

import pyarrow as pa

from tidegate.connectors.ranges import RangeEnd, SourcePosition
from tidegate.connectors.time_values import Spread, joint_spread
from tidegate.physical.common.control import ControlRecord
from tidegate.runtime.bucket_step import merge_reaches
from tidegate.runtime.checkpoint import Record
from tidegate.runtime.control import decide_after_step, decode_records, decode_reports, encode_values
from tidegate.runtime.figures import OperatorPlace, StepPhases
from tidegate.runtime.spark.directives import Setup, StepDirective, arrivals_after, watermarks_after
from tidegate.runtime.spark.rows import PayloadKind, Row
from tidegate.runtime.state import StateSize


class Outcome:
    """Combined output of all tasks of a step."""

    def __init__(
        self,
        setup: Setup,
        before: Record,
        directive: StepDirective,
        received: Iterable[Row],
        seconds: Callable[[], float],
    ) -> None:
        self.setup, self.before, self.directive, self.seconds = setup, before, directive, seconds
        reports: list[tuple[int, Mapping[str, Any]]] = []
        self.results: list[tuple[str, pa.RecordBatch]] = []
        latest: dict[str, int] = {}
        rows = Counter[str]()
        for row in received:
            match PayloadKind(row.kind):
                case PayloadKind.REPORT:
                    reports.append((row.bucket, row.payload))
                case PayloadKind.RESULT:
                    self.results.append((setup.outputs[row.number], row.batch))
                case PayloadKind.LATEST:
                    stream = setup.streams[row.number]
                    latest[stream] = max(row.payload, latest.get(stream, row.payload))
                case PayloadKind.ARRIVED:
                    # Each task sends its count to every bucket: count it once.
                    rows[setup.streams[row.number]] += row.payload if row.bucket == 0 else 0
                case _:
                    raise AssertionError(row.kind)
        self.reports = [report for _, report in sorted(reports, key=itemgetter(0))]
        self.rows = rows
        self.heard = [stream for stream, count in rows.items() if count]
        self.watermarks = watermarks_after(setup, directive, latest)
        self.arrived = arrivals_after(setup, directive, rows)

    @cached_property
    def control(self) -> dict[str, ControlRecord]:
        """Control records of steered operators."""
        graph = self.setup.graph
        reports = (decode_reports(graph, each) for report in self.reports for each in report["control"])
        return decide_after_step(graph, decode_records(graph, self.before.control), reports, self.seconds())

    @property
    def spreads(self) -> dict[str, Spread]:
        """Smallest and largest number in the time column of each stream."""
        found: dict[str, Spread] = {}
        for stream, (low, high) in (each for report in self.reports for each in report["spreads"].items()):
            found[stream] = joint_spread((low, high), found.get(stream))
        return found

    @property
    def ends(self) -> dict[str, list[RangeEnd]]:
        """How far each range was read, by stream; those of one part are in order."""
        found: dict[str, list[RangeEnd]] = {}
        for stream, end in (each for report in self.reports for each in report["ends"]):
            found.setdefault(stream, []).append(end)
        return {stream: sorted(ends, key=lambda each: each.range.begin) for stream, ends in found.items()}

    @property
    def state_sizes(self) -> dict[OperatorPlace, StateSize]:
        """The size of the state of each operator in each bucket."""
        return {place: size for report in self.reports for place, size in report["state"].items()}

    @property
    def phases(self) -> StepPhases:
        """Seconds of the phases of all tasks."""
        return reduce(StepPhases.plus, (report["phases"] for report in self.reports), StepPhases())

    def record(self, positions: Mapping[str, SourcePosition], tables: Mapping[str, str]) -> Record:
        files = {key: file for report in self.reports for key, file in report["files"].items()}
        state, control = {**self.before.state, **files}, encode_values(self.control)
        return Record(self.directive.step, self.watermarks, state, positions, tables, self.arrived, control)

    @property
    def reaches(self) -> dict[str, int]:
        """The largest end of an element that each stage and query gave so far."""
        known = dict(self.before.reaches)
        for report in self.reports:
            known = merge_reaches(known, report["reaches"])
        return known
