"""Contract of physical operators.

An operator is a frozen value with its parameters. Its `step` is a pure function. It takes the state before the step,
the new elements of each input and the inputs' watermarks. It returns the state after the step, the new output elements
and the output's watermark. A runtime keeps the state between steps.

Watermarks given to `step` hold *after* its batches: elements of this step may start anywhere at or after the previous
watermark; elements of later steps start at or after the watermark given now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from tidegate.physical.common.batch import Batch
from tidegate.physical.common.control import ControlRecord, Directive, Report
from tidegate.physical.common.dead_letters import NO_DEAD_LETTERS
from tidegate.physical.common.sizes import SizeHistories, SizeHistory
from tidegate.schema import Schema

Directive_contra = TypeVar("Directive_contra", bound=Directive, contravariant=True)
Report_contra = TypeVar("Report_contra", bound=Report, contravariant=True)
RecordT = TypeVar("RecordT", bound=ControlRecord)

Chunks = Mapping[str, pa.RecordBatch]
"""State of an operator: immutable record batches by name.

A step must pass on an unchanged chunk as the same object, so that the state store writes only what changed. Data that
never changes once written (for example a run of a join) gets a name of its own. Small data that changes often goes into
one chunk.
"""

NO_STATE: Chunks = {}

PartitionKeys = tuple[tuple[str, ...] | None, ...]
"""Columns of each input, by position: elements that agree in them must be in the same bucket.

An empty tuple brings all elements into one bucket. None: every bucket gets all elements of that input. An output column
of the same name holds the same value.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Result of one step of an operator."""

    state: Chunks
    output: Batch
    watermark: int
    dead: pa.RecordBatch = field(default_factory=lambda: NO_DEAD_LETTERS)
    report: Report | None = None
    """Report of a steered operator about this step."""
    pairs: int = 0
    """Number of pairs that a bounded operator made."""
    omitted: tuple[int, ...] = ()
    """Numbers of elements of each input that were dropped because they cannot change whether an alarm is raised."""


@runtime_checkable
class Forgetful(Protocol):
    """Operator with several inputs that can drop the elements that it keeps of one input."""

    def forget(self, state: Chunks, which: int) -> Chunks:
        """Return the state without the elements of one input; results made from them stay."""
        ...


@runtime_checkable
class ComparesTables(Protocol):
    """Operator over tables alone that compares their rows before and after they are read again."""

    def read_again(self, state: Chunks, now: int) -> Chunks:
        """Return the state for a step that brings all rows of the tables once more, at this instant."""
        ...


@runtime_checkable
class HoldsElements(Protocol):
    """Operator whose state has nothing but whole elements of its inputs, and that reports results at once."""

    @property
    def schema(self) -> Schema: ...

    def held_elements(self, state: Chunks, which: int) -> Batch:
        """Return the elements of one input that the state has."""
        ...

    def hold_elements(self, inputs: Sequence[Batch]) -> Chunks:
        """Return the state that has these elements; what follows from them was reported before."""
        ...


@runtime_checkable
class MovesTime(Protocol):
    """Operator without state that moves the times of elements, and with them the watermark."""

    def watermark_after(self, watermark: int) -> int:
        """Return the watermark of the output, given that of the input."""
        ...


@runtime_checkable
class Adjustable(Protocol):
    """Operator whose size may change while a query runs: the size of a window or of a granule."""

    @property
    def adjusted_by(self) -> str | None:
        """Key of the history of its size, equal for equal operators over equal inputs; None if the size is fixed."""
        ...

    def with_sizes(self, history: SizeHistory) -> Operator:
        """Return the operator that gives each element the size in force at its start."""
        ...


@runtime_checkable
class FollowsSizes(Protocol):
    """Operator whose output says which sizes of operators below it were in force."""

    @property
    def follows(self) -> frozenset[str]:
        """Keys of their histories."""
        ...

    def with_histories(self, sizes: SizeHistories) -> Operator:
        """Return the operator with the histories of a step."""
        ...


@runtime_checkable
class OmitsElements(Protocol):
    """Operator that drops elements of its inputs because they cannot change whether an alarm is raised."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """The names under which an alert reads the inputs."""
        ...

    @property
    def is_first(self) -> bool:
        """Whether nothing was omitted before, so that its inputs have all elements that may be omitted."""
        ...


@runtime_checkable
class LooksBack(Protocol):
    """Operator whose output at an instant also depends on its input at earlier instants."""

    @property
    def looks_back(self) -> int | None:
        """Return how far the output looks back, in microseconds; None if there is no bound."""
        ...


@runtime_checkable
class EmitsAtOnce(Protocol):
    """Operator that gives every result with the last of the elements that it is made of.

    So a step without new elements gives nothing, whatever the watermarks are.
    """

    def emits_at_once(self) -> bool:
        """Return whether that is so with the parameters of the operator."""
        ...


@runtime_checkable
class NeedsWarmUp(Protocol):
    """Operator whose kernels need more than a few elements to be compiled."""

    def warm_up(self) -> None:
        """Compile or load the kernels."""
        ...


def adjust_operator(operator: Operator, sizes: SizeHistories) -> Operator:
    """Return an operator with the history of its size, if there is one, or with those that it follows."""
    if sizes and isinstance(operator, FollowsSizes):
        return operator.with_histories(sizes)
    if not sizes or not isinstance(operator, Adjustable) or operator.adjusted_by is None:
        return operator
    history = sizes.get(operator.adjusted_by)
    return operator if history is None else operator.with_sizes(history)


class ControlTypes(NamedTuple):
    """Classes of the values by which a steered operator is controlled."""

    directive: type[Directive]
    report: type[Report]
    record: type[ControlRecord]


@runtime_checkable
class Steered(Protocol[Directive_contra, Report_contra, RecordT]):
    """Operator whose parameters are decided again after each step, for all buckets together.

    A runtime records the decision with the step. When it replays a step, it passes the recorded directive, so the step
    does the same again. Before the first decision there is neither a directive nor a record.
    """

    @staticmethod
    def control_types() -> ControlTypes:
        """Return the classes of the operator's directives, reports and records."""
        ...

    def with_directive(self, directive: Directive_contra | None, arrived: Mapping[str, int]) -> Operator:
        """Return the operator for the next step.

        `arrived` counts the rows of each source stream so far, including those of this step.
        """
        ...

    def decide(self, record: RecordT | None, reports: Sequence[Report_contra], seconds: float) -> RecordT | None:
        """Return the record of a step, given the record of the step before and the reports of the buckets.

        Without any report, the record stays as it is. `seconds` is the duration of the whole step, as far as it is
        known.
        """
        ...


@runtime_checkable
class BucketAware(Protocol):
    """Operator that must know its bucket, for example because every bucket gets all elements and keeps only its own."""

    def for_bucket(self, bucket: int, buckets: int) -> Operator:
        """Return the operator for the bucket with this number, out of `buckets`."""
        ...


class TooManyPairs(Exception):  # noqa: N818 - not an error: the step is done again with less input
    """Signal that a step would make more pairs than the operator may; its results are discarded.

    `pairs` is an estimate of the pairs that the whole step would make. `cut` is a time such that a step over the
    elements that start before it is expected to make few enough pairs. It is None if all elements start at the same
    instant.
    """

    def __init__(self, pairs: float, cut: int | None) -> None:
        super().__init__(pairs, cut)
        self.pairs, self.cut = pairs, cut


@runtime_checkable
class PairLimited(Protocol):
    """Operator that pairs elements, and so may return far more elements than it gets."""

    def with_pair_limit(self, most: int) -> Operator:
        """Return the operator that raises `TooManyPairs` rather than make more than `most` pairs in one step."""
        ...


class Operator(Protocol):
    """Physical operator: the instance holds the parameters, the state is passed through."""

    @property
    def schema(self) -> Schema:
        """Columns of the output."""
        ...

    @property
    def partition_keys(self) -> PartitionKeys | None:
        """Columns by which elements must be brought together; None: elements may be processed in any bucket."""
        ...

    def describe(self) -> str:
        """Return one line for EXPLAIN that says what the operator does."""
        ...

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        """Process the new elements; the initial state is `NO_STATE`."""
        ...
