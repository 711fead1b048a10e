"""What the driver tells the tasks of Spark: once for a job, and anew for each step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from pyspark import SparkContext, TaskContext

from tidegate.connectors.sinks import FileSink
from tidegate.errors import InternalError
from tidegate.physical.common.operator import Facts
from tidegate.runtime.control import summed
from tidegate.runtime.pieces import MOST_PAIRS
from tidegate.runtime.stage import StageGraph
from tidegate.runtime.state import StateStore
from tidegate.runtime.watermarks import advanced
from tidegate.time import FOREVER, TimeFormat

_ORDERS = "tidegate.orders"
"""The property of a Spark job that has the orders of its step."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What every task knows of the job; it stays the same from step to step."""

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
    """Source streams in groups that meet in a query."""
    times: TimeFormat = "iso"
    most_pairs: int = MOST_PAIRS
    """A step in which a join makes more pairs than this is done in pieces."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What the driver tells every task of one step."""

    step: int
    label: str
    watermarks: Mapping[str, int]
    tokens: Mapping[str, str]
    """The token of this attempt at the step, by output with a file sink."""
    files: Mapping[str, str] = field(default_factory=dict)
    """The state file of each ``stage/bucket`` to start from."""
    now: int = 0
    """The time of rows that have none of their own."""
    idle: Mapping[str, int] = field(default_factory=dict)
    """Streams that are not waited for, and how far the clock has moved time on for each."""
    again: tuple[str, ...] = ()
    """Tables that are read again in this step."""
    finishing: bool = False
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Raw rows of each stream before the step."""
    steering: Mapping[str, Facts] = field(default_factory=dict)
    """The orders of steered operators, by ``stage/operator``."""

    def announce(self, context: SparkContext) -> None:
        """Attach the orders to the jobs of this thread: their reading tasks were planned long before the step."""
        context.setLocalProperty(_ORDERS, json.dumps(asdict(replace(self, files={}, steering={}))))


def announced() -> Orders:
    """The orders for this task."""
    text = task_context().getLocalProperty(_ORDERS)
    if text is None:
        hint = "is PYSPARK_PIN_THREAD set to false? It must be true, as it is by default"
        raise InternalError("I303", "the orders of the step did not reach a task of Spark", hint=hint)
    return Orders(**json.loads(text))


def watermarks_after(setup: Setup, orders: Orders, latest: Mapping[str, int]) -> dict[str, int]:
    """Watermarks after the step; every task computes the same."""
    if orders.finishing:
        return dict.fromkeys(setup.streams, FOREVER)
    return advanced(orders.watermarks, latest, setup.delays, orders.idle, setup.meeting_streams)


def arrived_after(setup: Setup, orders: Orders, rows: Mapping[str, int]) -> dict[str, int]:
    """Raw rows of each stream, those of the step included; every task computes the same."""
    return summed({stream: orders.arrived.get(stream, 0) for stream in setup.streams}, rows)


def task_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context
