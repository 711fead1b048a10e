"""Set operations by counting: how often a row is left and right determines how often it is in the result.

Elements of both sides are *tagged* with two columns, of which one is NULL. Grouping by all other columns counts the
tags that are not NULL, or checks for them. `RepeatOperator` then makes the resulting number of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

import numpy as np
import pyarrow as pa

from tidegate.algebra.plan import AggregateCall, Output, SetRule
from tidegate.expressions.nodes import TRUE, Column, Literal
from tidegate.physical.aggregate.operator import AggregateOperator
from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.batch import Batch, take
from tidegate.physical.common.emit import Emit
from tidegate.physical.common.operator import NO_STATE, Chunks, PartitionKeys, Step
from tidegate.physical.stateless.operators import MapOperator
from tidegate.schema import Field, Schema, Type

_TAGS = ("is:left", "is:right")
_COUNTS = ("count:left", "count:right")


def tagged_schema(schema: Schema) -> Schema:
    """Return the columns, then the tags."""
    return schema + Schema(tuple(Field(name, Type.BOOLEAN) for name in _TAGS))


def tag_elements(batch: Batch, *, left: bool) -> Batch:
    """Tag the elements as ones of the left or of the right side."""
    yes, no = pa.repeat(pa.scalar(value=True), len(batch)), pa.nulls(len(batch), pa.bool_())
    names = [*batch.columns.schema.names, *_TAGS]
    columns = [*batch.columns.columns, *((yes, no) if left else (no, yes))]
    return batch.with_columns(pa.RecordBatch.from_arrays(columns, names))


def tag_operator(side: Schema, schema: Schema, *, left: bool) -> MapOperator:
    """Return an operator that tags elements; the columns of the side get the names of the schema."""
    columns = [Output(new.name, Column(old.name, old.type)) for new, old in zip(schema, side, strict=True)]
    nothing = Literal(None, Type.BOOLEAN)
    marks = zip(_TAGS, (TRUE, nothing) if left else (nothing, TRUE), strict=True)
    return MapOperator((*columns, *(Output(name, mark) for name, mark in marks)))


class TagAggregate(Enum):
    """Knowledge of a row that a rule needs on one side; the value is the aggregate of the tags that provides it."""

    NUMBER = "count"
    PRESENCE = "max"  # cheaper, and changes less often


ANY_RIGHT = (TagAggregate.NUMBER, TagAggregate.PRESENCE)
"""Number of copies on the left, and mere presence on the right."""


def tag_aggregates(rule: SetRule) -> tuple[TagAggregate, TagAggregate]:
    """Return what a rule needs to know about both sides."""
    match rule:
        case SetRule.EXCEPT_ALL | SetRule.INTERSECT_ALL | SetRule.MAX_UNION:
            return (TagAggregate.NUMBER, TagAggregate.NUMBER)
        case SetRule.STRICT_EXCEPT_ALL:
            return ANY_RIGHT
        case SetRule.EXCEPT | SetRule.INTERSECT:
            return (TagAggregate.PRESENCE, TagAggregate.PRESENCE)


def counting_operator(schema: Schema, wanted: tuple[TagAggregate, TagAggregate], emit: Emit) -> AggregateOperator:
    """Return an operator that counts how often each row is left and right, over tagged elements with these columns."""
    calls = (
        AggregateCall(amount.value, tag_, name, Type.BIGINT if amount is TagAggregate.NUMBER else Type.BOOLEAN)
        for amount, tag_, name in zip(wanted, _TAGS, _COUNTS, strict=True)
    )
    return AggregateOperator(tagged_schema(schema), schema.names, tuple(calls), emit)


def side_counts(batch: Batch) -> tuple[Ints, Ints]:
    """Return what `counting_operator` found; presence counts as 1."""
    left, right = (_as_numbers(batch.column(name)) for name in _COUNTS)
    return left, right


def _as_numbers(column: pa.Array) -> Ints:
    numbers: Ints = column.cast(pa.int64()).fill_null(0).to_numpy()
    return numbers


def repeat_elements(batch: Batch, copies: Ints, schema: Schema) -> Batch:
    """Repeat each element as often as `copies` says, with only the columns of the schema."""
    columns = [batch.column(name) for name in schema.names]
    chosen = batch.with_columns(pa.RecordBatch.from_arrays(columns, schema=schema.arrow))
    if (copies == 1).all():
        return chosen
    rows = np.repeat(np.arange(len(batch)), copies)
    return Batch(chosen.start[rows], chosen.end[rows], take(chosen.columns, rows))


@dataclass(frozen=True, slots=True)
class RepeatOperator:
    """Repeat each row as often as the rule says, given its counts."""

    schema: Schema
    rule: SetRule

    partition_keys: ClassVar[PartitionKeys | None] = None

    def describe(self) -> str:
        return f"repeat by the rule of {self.rule.value}"

    def step(self, state: Chunks, inputs: Sequence[Batch], watermarks: Sequence[int]) -> Step:
        (batch,) = inputs
        return Step(
            NO_STATE,
            repeat_elements(batch, copies_in_result(self.rule, *side_counts(batch)), self.schema),
            watermarks[0],
        )


def copies_in_result(rule: SetRule, left: Ints, right: Ints) -> Ints:
    """Return how often a row is in the result, given how often it is left and right.

    Examples
    --------
    >>> copies_in_result(SetRule.EXCEPT_ALL, np.array([3, 1]), np.array([1, 2])).tolist()
    [2, 0]
    """
    match rule:
        case SetRule.EXCEPT_ALL:
            return np.where(left > right, left - right, 0)
        case SetRule.INTERSECT_ALL:
            return np.where(left < right, left, right)
        case SetRule.MAX_UNION:
            return np.where(left > right, left, right)
        case SetRule.STRICT_EXCEPT_ALL:
            return np.where(right == 0, left, 0)
        case SetRule.EXCEPT:
            return np.where((left > 0) & (right == 0), 1, 0)
        case SetRule.INTERSECT:
            return np.where((left > 0) & (right > 0), 1, 0)
