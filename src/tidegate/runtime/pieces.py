"""Run stages in pieces of a step, so that the pairs that joins make fit in memory.

Results never depend on how the input is cut into steps. So a step that would make too many pairs is
abandoned and runs in *pieces*, one after the other. Each piece has the elements that start before some
time, and its watermarks advance no further than that time. A step with few pairs, which is the usual case,
runs as a whole and costs nothing extra. Stages that feed each other run a piece together: each stage
consumes the output of the previous one before more is made, and results are delivered with their piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidegate.errors import DataError
from tidegate.physical.common.operator import NO_STATE, Chunks, TooManyPairs
from tidegate.runtime.bucket_step import (
    Inbox,
    Outbox,
    Parcel,
    PortWatermark,
    run_stage,
    runs_in,
)
from tidegate.runtime.figures import add_figures
from tidegate.runtime.piece_extents import ALL, REST, Trials, WaitingElements
from tidegate.runtime.placement import Placement
from tidegate.runtime.stage import Address, Stage
from tidegate.runtime.threads import map_in_threads

MOST_PAIRS = 1 << 20
"""A piece in which a join makes more pairs than this is cut, unless it has a single element."""

States = dict[tuple[int, int], Chunks]
"""State by stage and bucket."""

NO_STATES: Mapping[tuple[int, int], Chunks] = {}

Deliver = Callable[[Outbox], None]
"""Callback that takes the output of a piece: results, dead letters, and parcels for other stages."""

Marks = Callable[[], Mapping[Address, int]]
"""Function that returns the known watermarks of ports before the step; called only if a step is cut."""


@dataclass(frozen=True, slots=True)
class Part:
    """Stages that feed each other, in running order, and their number of buckets."""

    stages: tuple[Stage, ...]
    buckets: int
    most_pairs: int | None = MOST_PAIRS
    """Bound on the pairs of one operator in a piece; None if steps are never cut."""

    @staticmethod
    def of(stages: tuple[Stage, ...], buckets: int, most_pairs: int) -> Part:
        """Return the part of some stages; with steered operators, which report once per step, it never cuts a step."""
        is_steered = any(stage.is_steered for stage in stages)
        return Part(stages, buckets, None if is_steered else most_pairs)


def run_part(
    part: Part, inboxes: Sequence[Inbox], states: States, deliver: Deliver, before: Marks
) -> tuple[States, Outbox]:
    """Run the stages over the inboxes of all buckets; return their new states and the output of the last piece.

    The output of earlier pieces goes to `deliver` as soon as they are done.
    """
    try:
        return _run_once(part, inboxes, states, part.most_pairs)
    except (TooManyPairs, MemoryError) as reason:
        if part.most_pairs is None:
            raise out_of_memory_error(part.stages, states) from reason
        first = reason
    return _run_in_pieces(part, inboxes, states, deliver, before, because=first)


def _run_in_pieces(
    part: Part, inboxes: Sequence[Inbox], states: States, deliver: Deliver, before: Marks, *, because: Exception
) -> tuple[States, Outbox]:
    """Run a step in pieces; the whole of it at once ended with the error `because`."""
    numbers = frozenset(stage.number for stage in part.stages)
    waiting, trials = WaitingElements.of(inboxes, numbers).with_watermarks(before()), Trials().after(because)
    extent = waiting.smaller_extent(waiting.cut(ALL), getattr(because, "cut", None))
    while True:
        piece = waiting.cut(extent)
        most = part.most_pairs if piece.extent.is_bounded else None
        try:
            states, out = _run_once(part, piece.inboxes, states, most)
        except (TooManyPairs, MemoryError) as reason:
            if most is None:
                raise out_of_memory_error(part.stages, states) from reason
            trials = trials.after(reason)
            extent = REST if trials.is_futile else waiting.smaller_extent(piece, getattr(reason, "cut", None))
            continue
        if piece.rest is None:
            return states, out
        out.marks.clear()
        deliver(out)
        extent, waiting = waiting.next_extent(piece, out.pairs / (part.most_pairs or MOST_PAIRS)), piece.rest
        trials = Trials()


def _run_once(part: Part, inboxes: Sequence[Inbox], states: States, most: int | None) -> tuple[States, Outbox]:
    """Run the stages once; parcels and marks between them stay inside.

    They go into copies of the inboxes. A piece that is too large must be cut by the elements that had arrived, not by
    those that the stages sent each other, which may start long before.
    """
    inboxes = [inbox.copy() for inbox in inboxes]
    by_bucket = {inbox.bucket: inbox for inbox in inboxes}
    numbers = {stage.number for stage in part.stages}
    after, out = dict(states), Outbox()
    for stage in part.stages:

        def run_bucket(inbox: Inbox, stage: Stage = stage) -> tuple[Chunks, Outbox]:
            made, state = Outbox(), states.get((stage.number, inbox.bucket), NO_STATE)
            return run_stage(stage, state, inbox, made, Placement(inbox.bucket, part.buckets, most)), made

        running = [inbox for bucket, inbox in by_bucket.items() if runs_in(stage, bucket)]
        rows = sum(inbox.count_rows(stage.number) for inbox in running)
        for inbox, (state, made) in zip(running, map_in_threads(run_bucket, running, rows=rows), strict=True):
            after[stage.number, inbox.bucket] = state
            for parcel in made.parcels:
                _route_parcel(parcel, by_bucket if parcel.to[0] in numbers else {}, out)
            for mark in made.marks:
                _route_mark(mark, inboxes if mark.to[0] in numbers else (), out)
            _collect_output(out, made)
    return after, out


def _route_parcel(parcel: Parcel, inboxes: Mapping[int, Inbox], out: Outbox) -> None:
    if parcel.bucket in inboxes:
        inboxes[parcel.bucket].add_parcel(parcel)
    else:
        out.parcels.append(parcel)


def _route_mark(mark: PortWatermark, inboxes: Sequence[Inbox], out: Outbox) -> None:
    for inbox in inboxes:
        inbox.add_mark(mark)
    if not inboxes:
        out.marks.append(mark)


def _collect_output(out: Outbox, made: Outbox) -> None:
    out.results += made.results
    out.dead += made.dead
    out.reports += made.reports
    add_figures(out.figures, made.figures)
    out.pairs = max(out.pairs, made.pairs)
    out.reaches += made.reaches


def out_of_memory_error(
    stages: Sequence[Stage] = (), states: Mapping[tuple[int, int], Chunks] = NO_STATES
) -> DataError:
    """Return the error for a step that does not fit in memory even in small pieces."""
    kept = sum(chunk.nbytes for chunks in states.values() for chunk in chunks.values())
    queries = ", ".join(dict.fromkeys(stage.query for stage in stages))
    return DataError(
        "D420",
        f"out of memory in {queries}, which keeps {kept / 1e6:,.1f} MB of state" if stages else "out of memory",
        hint="use shorter windows, join on an equality (a.key = b.key), or aggregate before the join; "
        "on Spark, --buckets spreads the state over more workers",
    )
