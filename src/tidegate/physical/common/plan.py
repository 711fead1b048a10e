"""The physical plan: operators over inputs, reading source streams at the leaves."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate.expressions.nodes import Expression
from tidegate.physical.common.operator import Operator
from tidegate.schema import Schema


@dataclass(frozen=True, slots=True)
class Read:
    """The needed columns of a source stream.

    `wanted` is a condition that every row of use fulfils; a source may leave out other rows, and
    must not if it cannot tell. The plan above does not rely on it.
    """

    stream: str
    schema: Schema
    wanted: Expression


@dataclass(frozen=True, slots=True)
class Apply:
    """An operator over its inputs."""

    operator: Operator
    inputs: tuple[PhysicalPlan, ...]
    # Plans are looked up again and again while they are cut: without it, all below would be hashed each time.
    code: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", hash((self.operator, self.inputs)))

    def __hash__(self) -> int:
        return self.code

    @property
    def schema(self) -> Schema:
        return self.operator.schema


PhysicalPlan = Read | Apply
