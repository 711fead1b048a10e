"""Rows at an instant, and where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from reference.values import Failed, Row
from tidegate.algebra.plan import Plan

Raw = Mapping[str, Sequence[tuple[int, Mapping[str, object]]]]
Elements = Mapping[str, Sequence[tuple[int, int, Mapping[str, object]]]]


@dataclass(frozen=True, slots=True)
class Member:
    """A row at an instant, and what it comes from: that makes it one element over time.

    `start` is the element's own time: when it began, before windows and granularities moved it. It
    means something only where the row comes from one element; FIRST and LAST look at it, nothing else does.
    """

    lineage: tuple[object, ...]
    values: Row
    start: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class FailedMember:
    member: Member
    kinds: frozenset[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an operator makes of its inputs at one instant."""

    kept: list[Member]
    failed: list[FailedMember]


Sizes = Mapping[Plan, Sequence[tuple[int, int]]]
"""The sizes of windows and granularities over time: from each instant on, the size; others have the best one always."""


class History(Protocol):
    """The streams, and the rows of any plan over them at any instant."""

    given: Elements
    sizes: Sizes

    def members(self, plan: Plan, instant: int) -> list[Member]: ...


def without_identity(rows: Iterable[Row], instant: int) -> list[Member]:
    """Rows of which only the values are known: equal ones are told apart by their number."""
    seen: dict[Row, int] = {}
    made = []
    for row in rows:
        seen[row] = seen.get(row, 0) + 1
        made.append(Member((*row, seen[row]), row, instant))
    return made


def failed(results: Iterable[tuple[Member, object]]) -> list[FailedMember]:
    return [FailedMember(m, result.kinds) for m, result in results if isinstance(result, Failed)]
