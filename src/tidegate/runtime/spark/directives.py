"""Data that the driver sends to Spark tasks.

`Setup`, the same in all steps, is sent once to each worker, which keeps it. `StepDirective` and `StepStart`, which
differ from step to step, are parts of the function that the tasks of a step run, and are small.
"""

from __future__ import annotations

import pickle
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from pyspark import SparkContext, cloudpickle
from pyspark.core.broadcast import Broadcast

from tidegate.connectors.decode import Decoder
from tidegate.connectors.ranges import Source
from tidegate.connectors.sinks import FileSink
from tidegate.physical.common.codec import Json
from tidegate.physical.common.sizes import SizeHistories
from tidegate.runtime.control import add_counts
from tidegate.runtime.pieces import MOST_PAIRS
from tidegate.runtime.stage_graph import StageGraph
from tidegate.runtime.state import StateStore
from tidegate.runtime.watermarks import advance_watermarks
from tidegate.time import FOREVER, TimeFormat


@dataclass(frozen=True, slots=True)
class Setup:
    """Settings of the job for every task; the same in all steps."""

    graph: StageGraph
    buckets: int
    streams: tuple[str, ...]
    sources: Mapping[str, Source]
    delays: Mapping[str, int]
    outputs: tuple[str, ...]
    sinks: Mapping[str, FileSink]
    """File sinks by output."""
    store: StateStore
    tables: tuple[str, ...] = ()
    meeting_streams: tuple[frozenset[str], ...] = ()
    """Groups of source streams that meet in a query."""
    times: TimeFormat = "iso"
    is_live: bool = False
    most_pairs: int = MOST_PAIRS
    """A step in which a join makes more pairs than this runs in pieces."""
    decoders: dict[str, Decoder] = field(default_factory=dict, compare=False)
    """Decoders that were made so far, by stream."""

    def decoder(self, stream: str) -> Decoder:
        if stream not in self.decoders:
            self.decoders[stream] = self.sources[stream].decoder(self.graph.columns(stream))
        return self.decoders[stream]


@dataclass(frozen=True, slots=True)
class ShippedSetup:
    """A setup that Spark sends to each worker once, when a task first asks for it."""

    key: str
    sent: Broadcast[bytes]

    @staticmethod
    def of(context: SparkContext, setup: Setup) -> ShippedSetup:
        # Functions of users may be lambdas, which only cloudpickle can send.
        return ShippedSetup(secrets.token_hex(8), context.broadcast(cloudpickle.dumps(setup)))  # type: ignore[no-untyped-call]

    @property
    def setup(self) -> Setup:
        """The setup, in a worker."""
        if self.key not in _SETUPS:
            for old in list(_SETUPS)[: 1 - _MOST_SETUPS]:
                del _SETUPS[old]
            _SETUPS[self.key] = pickle.loads(self.sent.value)  # noqa: S301 - from our own driver
        return _SETUPS[self.key]


_MOST_SETUPS = 8
_SETUPS: dict[str, Setup] = {}
"""Setups that this worker keeps."""


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
    repeated: bool = False
    """Whether an earlier attempt at the step was interrupted."""
    arrived: Mapping[str, int] = field(default_factory=dict)
    """Number of raw rows of each stream before the step."""
    unread: frozenset[str] = frozenset()
    """Outputs without a reader: they are counted, and go no further."""
    sizes: SizeHistories = field(default_factory=dict)
    """Histories of the sizes of windows and granularities, which reading tasks need, too."""


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
