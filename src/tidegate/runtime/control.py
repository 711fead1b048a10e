"""Control of steered operators: decide their directives from their reports, and extract what is shown to users.

After each step the driver has the reports of all buckets. It decides the directives of the next step. They are part
of the control records, which are recorded with the step, together with the number of rows that have arrived. So a
replayed step gets the same directives.

The rows that have *arrived* are all raw rows of a source stream, including dead letters. Their number does not
depend on which columns are read, which rows are wanted, or how rows are cut into steps and spread over tasks.
Rows of a table count each time they are read.

Directives, reports and records are kept by the *place* of their operator, ``stage/operator``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar, cast

from tidegate.catalog.constraints import ConstraintFinding
from tidegate.physical.common.codec import Json, as_recorded, from_json, to_json
from tidegate.physical.common.control import ControlRecord, Directive, Losses, Report
from tidegate.physical.common.operator import Steered
from tidegate.runtime.stage import Stage, StageStep
from tidegate.runtime.stage_graph import StageGraph

T = TypeVar("T")

ControlRecords = Mapping[str, ControlRecord]
"""The newest record of each steered operator, by place."""

Directives = Mapping[str, Directive]
"""The directive of each steered operator, by place."""

NO_RECORDS: ControlRecords = {}
NO_DIRECTIVES: Directives = {}


def directives_of(records: ControlRecords) -> dict[str, Directive]:
    """Return the directives for the next step."""
    return {place: record.directive for place, record in records.items()}


def directives_for_stage(stage: Stage, directives: Directives) -> dict[int, Directive]:
    """Return the directives of the steered operators of a stage, by operator number."""
    pairs = ((_split_place(place), directive) for place, directive in directives.items())
    return {number: directive for (at, number), directive in pairs if at == stage.number}


def reports_of(stage: Stage, step: StageStep) -> dict[str, Report]:
    """Return the reports of the steered operators of a stage in one bucket, by place."""
    return {f"{stage.number}/{number}": report for number, report in step.reports.items()}


def decide_after_step(
    graph: StageGraph, records: ControlRecords, buckets: Iterable[Mapping[str, Report]], seconds: float
) -> dict[str, ControlRecord]:
    """Return the records after a step that took some seconds, from those before it and the reports of its buckets."""
    reports: dict[str, list[Report]] = {}
    for bucket in buckets:
        for place, report in bucket.items():
            reports.setdefault(place, []).append(as_recorded(report))
    decided = {
        place: _decide_for_operator(graph, place, records.get(place), reports[place], seconds)
        for place in sorted(reports)
    }
    return {**records, **{place: record for place, record in decided.items() if record is not None}}


def records_of_stages(records: Mapping[str, T], numbers: Collection[int]) -> dict[str, T]:
    """Return the records, encoded or not, of the operators in some stages."""
    return {place: record for place, record in records.items() if _split_place(place)[0] in numbers}


def encode_values(values: Mapping[str, Directive | Report | ControlRecord]) -> dict[str, Json]:
    """Return directives, reports or records as JSON, by place."""
    return {place: to_json(value) for place, value in values.items()}


def decode_directives(graph: StageGraph, data: Mapping[str, Json]) -> dict[str, Directive]:
    """Return the directives that `encode_values` encoded."""
    return {place: from_json(_operator_at(graph, place).control_types().directive, data[place]) for place in data}


def decode_reports(graph: StageGraph, data: Mapping[str, Json]) -> dict[str, Report]:
    """Return the reports that `encode_values` encoded."""
    return {place: from_json(_operator_at(graph, place).control_types().report, data[place]) for place in data}


def decode_records(graph: StageGraph, data: Mapping[str, Json]) -> dict[str, ControlRecord]:
    """Return the records that `encode_values` encoded."""
    return {place: from_json(_operator_at(graph, place).control_types().record, data[place]) for place in data}


def decode_shown(data: Mapping[str, Json]) -> dict[str, ControlRecord]:
    """Return from encoded records only what is shown to users. The stages need not be known for that."""
    return {place: from_json(ControlRecord, each) for place, each in data.items()}


def add_counts(before: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Add up the rows that have arrived, by stream.

    Examples
    --------
    >>> add_counts({"a": 3, "b": 1}, {"a": 2})
    {'a': 5, 'b': 1}
    """
    return {stream: before.get(stream, 0) + more.get(stream, 0) for stream in {**before, **more}}


def constraint_findings(records: ControlRecords) -> tuple[ConstraintFinding, ...]:
    """Return what was found about constraints: a row for each stream and constraint."""
    return tuple(finding for record in records.values() for finding in record.found)


def total_losses(records: ControlRecords) -> Losses | None:
    """Add up the losses of all operators; return None if no operator reports any.

    Examples
    --------
    >>> lean = ControlRecord(Directive(), losses=Losses(estimate=4, low=1, high=9))
    >>> total_losses({"2/0": lean, "3/0": ControlRecord(Directive())})
    Losses(estimate=4, low=1, high=9, of='results', found=None)
    """
    losses = [record.losses for record in records.values() if record.losses is not None]
    if not losses:
        return None
    estimates = [each.estimate for each in losses if each.estimate is not None]
    return Losses(
        sum(estimates) if len(estimates) == len(losses) else None,
        sum(each.low for each in losses),
        sum(each.high for each in losses),
        " or ".join(sorted({each.of for each in losses})),
    )


def _decide_for_operator(
    graph: StageGraph, place: str, record: ControlRecord | None, reports: Sequence[Report], seconds: float
) -> ControlRecord | None:
    decided = _operator_at(graph, place).decide(record, reports, seconds)
    if decided is None:
        return None
    query = graph.by_number[_split_place(place)[0]].query
    return as_recorded(replace(decided, shed=tuple(replace(shed, query=query) for shed in decided.shed)))


def _operator_at(graph: StageGraph, place: str) -> Steered[Directive, Report, ControlRecord]:
    stage, number = _split_place(place)
    operator = graph.by_number[stage].nodes[number].operator
    assert isinstance(operator, Steered)
    return cast("Steered[Directive, Report, ControlRecord]", operator)


def _split_place(place: str) -> tuple[int, int]:
    stage, _, number = place.partition("/")
    return int(stage), int(number)
