"""Data that the driver sends to Spark tasks: the setup once per job, and the orders for each step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from pyspark import SparkContext, TaskContext

from tidegate.connectors.sinks import FileSink
from tidegate.errors import InternalError
from tidegate.physical.common.operator import Facts
from tidegate.runtime.control import add_counts
from tidegate.runtime.pieces import MOST_PAIRS
from tidegate.runtime.stage import StageGraph
from tidegate.runtime.state import StateStore
from tidegate.runtime.watermarks import advance_watermarks
from tidegate.time import FOREVER, TimeFormat

_ORDERS = "tidegate.orders"
"""Property of a Spark job that holds the orders of its step."""


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
class Orders:
    """Orders of the driver to every task of one step."""

    step: int
    label: str
    watermarks: Mapping[str, int]
    tokens: Mapping[str, str]
    """The token of this attempt at the step, by output with a file sink."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The state file of each ``stage/bucket`` to start from."""
    now: int = 0
    """Time of new rows that are timed by arrival."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Idle streams, each with the time to which the clock has advanced it."""
    again: tuple[str, ...] = ()
    """Tables that are read again in this step."""
    finishing: bool = False
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Number of raw rows of each stream before the step."""
    steering: Mapping[str, Facts] = field(default_factory=dict)
    """Orders of steered operators, by ``stage/operator``."""

    def announce(self, context: SparkContext) -> None:
        """Attach the orders to the Spark jobs of this thread, because reading tasks are planned before the step."""
        context.setLocalProperty(_ORDERS, json.dumps(asdict(replace(self, files={}, steering={}))))


def read_announcement() -> Orders:
    """Return the orders of the step that this task belongs to."""
    text = task_context().getLocalProperty(_ORDERS)
    if text is None:
        hint = "is PYSPARK_PIN_THREAD set to false? It must be true, as it is by default"
        raise InternalError("I303", "the directives of the step did not reach a Spark task", hint=hint)
    return Orders(**json.loads(text))


def watermarks_after(setup: Setup, orders: Orders, latest: Mapping[str, int]) -> dict[str, int]:
    """Return the watermarks after the step; every task computes the same."""
    if orders.finishing:
        return dict.fromkeys(setup.streams, FOREVER)
    return advance_watermarks(orders.watermarks, latest, setup.delays, orders.idle, setup.meeting_streams)


def arrivals_after(setup: Setup, orders: Orders, rows: Mapping[str, int]) -> dict[str, int]:
    """Return the number of raw rows of each stream, including this step; every task computes the same."""
    return add_counts({stream: orders.arrived.get(stream, 0) for stream in setup.streams}, rows)


def task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
