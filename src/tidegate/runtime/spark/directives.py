"""Data that the driver sends to Spark tasks. Each kind of data has one way.

- `StepDirective`, what every task of a step needs, is a property of the Spark jobs that the step's thread starts, as
  JSON. The reading tasks are part of the streaming query and are planned before its steps, so nothing of a step can be
  part of their function. All tasks get the directive by `read_announcement`.
- `Setup`, the same in all steps, and `StepStart`, what only the tasks that run stages need, are parts of the functions
  that the tasks run. `StepStart` grows with the number of buckets; Spark sends a function once to each executor, but a
  property with each task.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark import SparkContext, TaskContext

from tidegate.connectors.sinks import FileSink
from tidegate.errors import InternalError
from tidegate.physical.common.codec import Json, from_json, to_json
from tidegate.runtime.control import add_counts
from tidegate.runtime.pieces import MOST_PAIRS
from tidegate.runtime.stage import StageGraph
from tidegate.runtime.state import StateStore
from tidegate.runtime.watermarks import advance_watermarks
from tidegate.time import FOREVER, TimeFormat

_DIRECTIVE = "tidegate.directive"
"""Property of a Spark job that holds the directive of its step."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of the job for every task; the same in all steps."""

    graph: StageGraph
    buckets: int
    streams: tuple[str, ...]
    delays: Mapping[str, int]
    outputs: tuple[str, ...]
    sinks: Mapping[str, FileSink]
    """File sinks by output."""
    store: StateStore
    tables: tuple[str, ...] = ()
    meeting_streams: tuple[frozenset[str], ...] = ()
    """Groups of source streams that meet in a query."""
    times: TimeFormat = "iso"
    most_pairs: int = MOST_PAIRS
    """A step in which a join makes more pairs than this runs in pieces."""


@dataclass(frozen=True, slots=True)
class StepDirective:
    """Directive of the driver for every task of one step."""

    step: int
    label: str
    watermarks: Mapping[str, int]
    tokens: Mapping[str, str]
    """The token of this attempt at the step, by output with a file sink."""
    now: int = 0
    """Time of new rows that are timed by arrival."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Idle streams, each with the time to which the clock has advanced it."""
    again: tuple[str, ...] = ()
    """Tables that are read again in this step."""
    finishing: bool = False
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Number of raw rows of each stream before the step."""

    def announce(self, context: SparkContext) -> None:
        """Attach the directive to the Spark jobs of this thread."""
        context.setLocalProperty(_DIRECTIVE, json.dumps(to_json(self)))


def read_announcement() -> StepDirective:
    """Return the directive of the step that this task belongs to."""
    text = task_context().getLocalProperty(_DIRECTIVE)
    if text is None:
        hint = "is PYSPARK_PIN_THREAD set to false? It must be true, as it is by default"
        raise InternalError("I303", "the directive of the step did not reach a Spark task", hint=hint)
    return from_json(StepDirective, json.loads(text))


@dataclass(frozen=True, slots=True)
class StepStart:
    """State and directives with which the stages of a step start."""

    files: Mapping[str, str] = field(default_factory=dict)
    """The state file of each ``stage/bucket``."""
    directives: Mapping[str, Json] = field(default_factory=dict)
    """Encoded directives of steered operators, by ``stage/operator``."""


def watermarks_after(setup: Setup, directive: StepDirective, latest: Mapping[str, int]) -> dict[str, int]:
    """Return the watermarks after the step; every task computes the same."""
    if directive.finishing:
        return dict.fromkeys(setup.streams, FOREVER)
    return advance_watermarks(directive.watermarks, latest, setup.delays, directive.idle, setup.meeting_streams)


def arrivals_after(setup: Setup, directive: StepDirective, rows: Mapping[str, int]) -> dict[str, int]:
    """Return the number of raw rows of each stream, including this step; every task computes the same."""
    return add_counts({stream: directive.arrived.get(stream, 0) for stream in setup.streams}, rows)


def task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
