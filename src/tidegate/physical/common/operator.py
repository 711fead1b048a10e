"""The contract of physical operators.

An operator is a frozen value with its parameters. Its `step` is a pure function: from the state
before, the new elements of each input and the inputs' watermarks, it makes the state after, the
new output elements and the output's watermark. A runtime keeps the state between steps.

Watermarks given to `step` hold *after* its batches: elements of this step may start anywhere at
or after the previous watermark, elements of later steps start at or after the one given now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.schema import Schema

Chunks = Mapping[str, pa.RecordBatch]
"""State: immutable record batches by name.

A chunk that a step leaves alone must be handed on as the same object, so that the state store
writes only what changed. What never changes once written (a run of a join, say) gets a name of
its own; what is small and changes often goes into one chunk.
"""

NO_STATE: Chunks = {}

PartitionKeys = tuple[tuple[str, ...] | None, ...]
"""Columns of each input, by position: elements that agree in them must be in the same bucket. Without
columns all elements must be. None: the elements of that input must be in every bucket. A column of that
name in the output holds the same value."""


Facts = Mapping[str, Any]
"""What operators report of a step, and what is decided from it: values that JSON has, by name."""

NO_FACTS: Facts = {}


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """What an operator did with its new elements."""

    state: Chunks
    output: Batch
    watermark: int
    dead: pa.RecordBatch = field(default_factory=lambda: NO_DEAD_LETTERS)
    report: Facts = field(default_factory=lambda: NO_FACTS)
    """What a steered operator saw."""
    pairs: int = 0
    """How many pairs a bounded operator made."""


@runtime_checkable
class Forgetful(Protocol):
    """An operator of several inputs that can forget what it has of one."""

    def forget(self, state: Chunks, which: int) -> Chunks:
        """The state without the elements of an input; what was made of them stays."""
        ...


@runtime_checkable
class Warming(Protocol):
    """An operator whose kernels need more than a few elements to be compiled."""

    def warm_up(self) -> None:
        """Let them be compiled, or loaded."""
        ...


@runtime_checkable
class Steered(Protocol):
    """An operator whose parameters are decided anew after each step, for all buckets together.

    A runtime records what was decided with the step. A step that is replayed is told the same, so that it
    does the same. Before anything has been decided, the order is `NO_FACTS`.
    """

    def steered(self, order: Facts, arrived: Mapping[str, int]) -> Operator:
        """The operator for the next step: `arrived` are the rows of each source stream, those of the step included."""
        ...

    def decide(self, order: Facts, reports: Sequence[Facts], seconds: float) -> Facts:
        """The order after a step, from the one that it had and from what was reported in each bucket.

        `seconds` is how long the whole step took, as far as is known by now.
        """
        ...


@runtime_checkable
class Placed(Protocol):
    """An operator that gets all elements in every bucket, and keeps those that are its own there."""

    def placed(self, bucket: int, buckets: int) -> Operator:
        """The operator in one of so many buckets."""
        ...


class TooManyPairs(Exception):  # noqa: N818 - not an error: the step is done again with less input
    """An operator would make more pairs in one step than it may; nothing of the step counts.

    `pairs` are about as many as the whole step would make. `cut` is a time such that a step over the elements
    that start before it makes few enough, as far as can be foreseen; None if all start at the same instant.
    """

    def __init__(self, pairs: float, cut: int | None) -> None:
        super().__init__(pairs, cut)
        self.pairs, self.cut = pairs, cut


@runtime_checkable
class Bounded(Protocol):
    """An operator that pairs elements, and so can make far more of them than it is given."""

    def bounded(self, most: int) -> Operator:
        """Return the operator that raises `TooManyPairs` rather than make more pairs than that in one step."""
        ...


class Operator(Protocol):
    """One physical operator: parameters in the instance, state passed through."""

    @property
    def schema(self) -> Schema:
        """Columns of the output."""
        ...

    @property
    def partition_keys(self) -> PartitionKeys | None:
        """By which columns elements must be brought together; None: each can be dealt with where it is."""
        ...

    def describe(self) -> str:
        """What it does, in one line, for EXPLAIN."""
        ...

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Absorb the new elements; `NO_STATE` is the state at the beginning."""
        ...
