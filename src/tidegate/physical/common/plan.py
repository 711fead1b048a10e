"""Physical plan: operators over inputs, with source streams at the leaves."""

from __future__ import annotations

from dataclasses import field

from tidegate.expressions.nodes import Expression
from tidegate.physical.common.operator import Operator
from tidegate.schema import Schema
from tidegate.values import value


@value
class Read:
    """Source stream, with the columns that are needed.

    `wanted` is a condition that every useful row fulfils. A source may leave out other rows; it must keep rows for
    which it cannot decide. The plan above does not rely on the condition.
    """

    stream: str
    schema: Schema
    wanted: Expression


@value
class Apply:
    """Operator applied to its inputs."""

    operator: Operator
    inputs: tuple[PhysicalPlan, ...]
    # Plans are looked up often while they are cut. The stored hash saves hashing the whole plan below each time.
    code: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", hash((self.operator, self.inputs)))

    def __hash__(self) -> int:
        return self.code

    @property
    def schema(self) -> Schema:
        return self.operator.schema


PhysicalPlan = Read | Apply
