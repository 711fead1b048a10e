"""Operators as they run at a place: in a bucket, and with a bound on the pairs that they may make."""

from __future__ import annotations

from typing import NamedTuple, cast

from tidegate.physical.common.operator import Adjustable, BucketAware, FollowsSizes, Operator, PairLimited, Steered


class Placement(NamedTuple):
    """Where a stage runs, and how many pairs one of its operators may make."""

    bucket: int = 0
    buckets: int = 1
    most_pairs: int | None = None
    """An operator raises `TooManyPairs` beyond it; None is unbounded."""


class PlacedOperator(NamedTuple):
    """An operator of a stage as it runs at a placement.

    Batches that flow in a stage are numbered: first those of the ports, then the outputs of operators.
    """

    operator: Operator
    inputs: tuple[int, ...]
    query: str
    """The query that its dead letters belong to."""
    is_steered: bool = False
    is_keyed: bool = False
    """Whether it has state, which is partitioned."""
    is_adjustable: bool = False
    """Whether its size may change, or it follows sizes that do."""


class _Traits(NamedTuple):
    """The protocols that a class of operators follows."""

    is_bucket_aware: bool
    is_pair_limited: bool
    is_adjustable: bool
    follows_sizes: bool
    is_steered: bool


_TRAITS: dict[type, _Traits] = {}
"""Traits by class: to ask an operator for its protocols is slow, and a graph may have thousands of operators."""


def _traits_of(operator: Operator) -> _Traits:
    found = _TRAITS.get(type(operator))
    if found is None:
        protocols = (BucketAware, PairLimited, Adjustable, FollowsSizes, Steered)
        found = _TRAITS[type(operator)] = _Traits(*(isinstance(operator, each) for each in protocols))
    return found


def is_steered(operator: Operator) -> bool:
    """Return whether an operator gets a directive for each step."""
    return _traits_of(operator).is_steered


def place_operator(operator: Operator, inputs: tuple[int, ...], query: str, placement: Placement) -> PlacedOperator:
    """Return an operator as it runs at a placement."""
    traits = _traits_of(operator)
    if traits.is_bucket_aware:
        operator = cast("BucketAware", operator).for_bucket(placement.bucket, placement.buckets)
    if placement.most_pairs is not None and traits.is_pair_limited:
        operator = cast("PairLimited", operator).with_pair_limit(placement.most_pairs)
    is_sized = traits.is_adjustable and cast("Adjustable", operator).adjusted_by is not None
    is_keyed = operator.partition_keys is not None
    return PlacedOperator(operator, inputs, query, traits.is_steered, is_keyed, is_sized or traits.follows_sizes)
