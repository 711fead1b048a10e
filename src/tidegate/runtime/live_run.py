"""What runs of a live graph have in common: what a change sees of a run, and which phases are over."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from tidegate.physical.common.operator import Chunks
from tidegate.runtime.bucket_step import reach_of_query, reach_of_stage
from tidegate.runtime.checkpoint import Record
from tidegate.runtime.control import records_of_stages
from tidegate.runtime.ending_phase import EndingPhase
from tidegate.runtime.graph_parts import carry_figures
from tidegate.runtime.job import Job, Progress
from tidegate.runtime.live_tables import current_readings
from tidegate.runtime.moved_states import MovedStates
from tidegate.values import value

T = TypeVar("T")


@value
class RunMoment:
    """What a change sees of a run between two steps."""

    step: int
    """The last step that is recorded."""
    watermarks: Mapping[str, int]
    read: frozenset[str]
    """Streams of which something was read."""
    reaches: Mapping[str, int]
    flushed: frozenset[int]
    """Phases that are over and whose results were emitted."""


class LiveRun(Protocol):
    """A run whose job can be replaced between steps."""

    def moment(self) -> RunMoment:
        """Return the state between two steps; only the thread of the run calls it."""
        ...

    def swap_job(self, job: Job, queries: Collection[str], forgotten: Collection[str], moved: MovedStates) -> None:
        """Go on with another job, between two steps; only the thread of the run calls it.

        `queries` are all queries that are registered. `forgotten` are streams that were dropped. New stages have the
        states that were `moved` to them.
        """
        ...

    def stage_states(self, number: int) -> list[Chunks]:
        """Return the state of a stage in all buckets, between two steps; only the thread of the run calls it."""
        ...

    def wake(self) -> None:
        """End the waiting for input, so that a change is applied soon."""
        ...


def phases_to_flush(job: Job, last: Record | None, flushed: Collection[int]) -> dict[int, EndingPhase]:
    """Return the phases whose results are to be emitted in the step after a record.

    It follows from the record alone, so that a repeated step flushes the same phases.
    """
    if last is None:
        return {}
    over = {number: each for number, each in job.endings.items() if number not in flushed}
    return {number: each for number, each in over.items() if each.is_over(last.watermarks)}


def known_reaches(reaches: Mapping[str, int], job: Job, queries: Collection[str]) -> dict[str, int]:
    """Return the reaches of the stages and queries that still exist."""
    givers = {*map(reach_of_stage, job.graph.numbers), *map(reach_of_query, queries)}
    return {giver: reach for giver, reach in reaches.items() if giver in givers}


def keep_figures(progress: Progress, before: Job, after: Job) -> None:
    """Keep the figures of the operators and sources that both jobs have."""
    progress.operators = carry_figures(progress.operators, before.graph, after.graph)
    same = {s for s, source in after.sources.items() if before.sources.get(s) is source}
    progress.sources = {s: each for s, each in progress.sources.items() if s in same}
    progress.distances = {s: each for s, each in progress.distances.items() if s in same}


def fit_record(record: Record, job: Job, forgotten: Mapping[str, int], moved: MovedStates) -> Record:
    """Return a record without what no longer exists, with the first watermarks of new streams and moved states.

    `forgotten` has the streams that were dropped, each with the last step before that.
    """
    gone = {stream for stream, step in forgotten.items() if record.step <= step}
    numbers = job.graph.numbers
    fitted = replace(
        record,
        watermarks={**job.first_watermarks(), **_without(record.watermarks, gone)},
        state={place: file for place, file in record.state.items() if int(place.partition("/")[0]) in numbers},
        positions=_without(record.positions, gone),
        tables=current_readings(job.graph, record.tables, gone),
        arrived={**dict.fromkeys(job.graph.streams, 0), **_without(record.arrived, gone)},
        control=records_of_stages(record.control, numbers),
        flushed=tuple(number for number in record.flushed if number in job.endings),
        sizes={key: each for key, each in record.sizes.items() if key in job.adjusted},
        readers={key: each for key, each in record.readers.items() if key in job.adjusted},
    )
    return moved.add_to(fitted, job.graph)


def _without(values: Mapping[str, T], gone: Collection[str]) -> dict[str, T]:
    return {name: each for name, each in values.items() if name not in gone}
