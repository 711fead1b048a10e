"""Conditions under which two elements match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from tidegate.physical.common.kernels.compiled import inlined


@dataclass(frozen=True, slots=True)
class Equal:
    """Equal numbers or equal sets. NaN equals itself, -0.0 equals 0.0."""


@dataclass(frozen=True, slots=True)
class Near:
    """Numbers that differ by at most a distance. NaN is near nothing."""

    distance: float


@dataclass(frozen=True, slots=True)
class Overlap:
    """Sets that share at least `least` items."""

    least: int


@dataclass(frozen=True, slots=True)
class Subset:
    """The left set is part of the right one."""


@dataclass(frozen=True, slots=True)
class Superset:
    """The right set is part of the left one."""


@dataclass(frozen=True, slots=True)
class Jaccard:
    """Sets whose common items are at least this share of the items of both. Two empty sets have 1."""

    least: float


@dataclass(frozen=True, slots=True)
class InnerProduct:
    """Weighted sets: the products of the weights of common items add up to at least this.

    With a `doubt`, pairs also match if they miss it by this share of the terms. Then a caller that adds up in another
    order, or exactly, finds no pair that is missing here.
    """

    least: float
    doubt: float = 0.0


@dataclass(frozen=True, slots=True)
class Anything:
    """All pairs. A predicate of the caller decides."""


@dataclass(frozen=True, slots=True)
class SameKey:
    """All pairs with the same key: only these are compared. A predicate of the caller decides."""


Condition: TypeAlias = Equal | Near | Overlap | Subset | Superset | Jaccard | InnerProduct | Anything | SameKey


class RequiredOverlap(NamedTuple):
    """Items that two sets must share.

    At least `least` items; all items of the probing set; all items of the stored set; a share of the items of both.
    """

    least: int = 0
    probing: bool = False
    stored: bool = False
    share: float = 0.0


class RequiredProduct(NamedTuple):
    """Least sum of the products of common items' weights; `doubt` is that of `InnerProduct`."""

    least: float
    doubt: float


def required_overlap(condition: Condition, *, flipped: bool) -> RequiredOverlap:
    """Return the common items that a condition on sets needs. If `flipped`, the right set is the probing one."""
    match condition:
        case Overlap(least):
            return RequiredOverlap(least=least)
        case Equal():
            return RequiredOverlap(probing=True, stored=True)
        case Subset():
            return RequiredOverlap(probing=not flipped, stored=flipped)
        case Superset():
            return RequiredOverlap(probing=flipped, stored=not flipped)
        case Jaccard(least):
            return RequiredOverlap(share=least)
        case _:
            raise AssertionError(condition)


@inlined
def is_match(common: int, probing: int, stored: int, need: RequiredOverlap) -> bool:
    """Return whether sets of these sizes with `common` shared items match. More shared items then match as well."""
    if common < need.least:
        return False
    if (need.probing and common < probing) or (need.stored and common < stored):
        return False
    if need.share <= 0.0:
        return True
    both = probing + stored - common
    return (1.0 if both == 0 else common / both) >= need.share


@inlined
def least_common(size: int, whole: bool, need: RequiredOverlap) -> int:  # noqa: FBT001 - Numba takes arguments by position
    """Return the fewest items that a set of this size must share with any other set that is not empty; at least 1."""
    least = max(need.least, 1)
    if whole:
        least = max(least, size)
    if need.share > 0.0 and size > 0:
        share = int(need.share * size)
        while share > 0 and (share - 1) / size >= need.share:
            share -= 1
        while share / size < need.share and share <= size:
            share += 1
        least = max(least, share)
    return least


def needs_common_items(condition: Condition) -> bool:
    """Return whether sets that are not empty match only if they share items, so that an index finds all matches."""
    match condition:
        case Overlap(least):
            return least > 0
        case Jaccard(least) | InnerProduct(least):
            return least > 0
        case Equal() | Subset() | Superset():
            return True
        case _:
            return False
