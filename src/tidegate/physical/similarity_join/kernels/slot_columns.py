"""Columns of a slot that compiled loops read together."""

from __future__ import annotations

from typing import NamedTuple

from tidegate.physical.common.arrays import Array, Floats, Ints, Words


class SlotTimes(NamedTuple):
    """Validities in the order of their starts, and the latest end up to each."""

    start: Ints
    end: Ints
    until: Ints


class SlotNumbers(NamedTuple):
    """Number of each element, or a code that is equal for equal values."""

    times: SlotTimes
    values: Array


class SlotSets(NamedTuple):
    """Set of each element: the items of element n are those from `bounds[n]` to `bounds[n + 1]`."""

    times: SlotTimes
    bounds: Ints
    items: Ints


class SlotBits(NamedTuple):
    """Set of each element as bits: bit n of its words represents the item `codes[n]`."""

    times: SlotTimes
    sizes: Ints
    codes: Ints
    bits: Words


class WeightedSets(NamedTuple):
    """Set of each element, with a weight for each item."""

    times: SlotTimes
    bounds: Ints
    items: Ints
    weights: Floats


class NumberRanges(NamedTuple):
    """Range of numbers in which the matches of each element lie."""

    lowest: Array
    highest: Array


class ItemLists(NamedTuple):
    """Lists of elements by item: those of `codes[n]` from `bounds[n]` to `bounds[n + 1]`, in time order."""

    codes: Ints
    ranks: Ints
    """Rank of each item; the rarest is first."""
    bounds: Ints
    rows: Ints
    weights: Floats
    heaviest: Floats
    """Largest absolute weight of each item."""
    empty: Ints
    """Elements without items."""
