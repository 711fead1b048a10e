"""Arrays and maps by definition: arrays are tuples, maps are tuples of pairs, and both hold canonical values."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

Array = tuple[Any, ...]
Map = tuple[tuple[Any, Any], ...]


def members(array: Array) -> set[Any]:
    """The set that an array stands for; NULL is not in it."""
    return {element for element in array if element is not None}


def jaccard(a: Array, b: Array) -> float:
    both, either = members(a) & members(b), members(a) | members(b)
    return len(both) / len(either) if either else 1.0


def inner_product(a: Map, b: Map) -> float:
    """Products are rounded, their sum is exact, and rounded once."""
    ours, theirs = dict(a), dict(b)
    keys = [key for key in ours if ours[key] is not None and theirs.get(key) is not None]
    products = [ours[key] * theirs[key] for key in keys]
    infinite = [product for product in products if not math.isfinite(product)]
    if infinite:
        return float(sum(infinite))
    exact = sum(map(Fraction, products), Fraction(0))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def map_of(keys: Array, values: Array) -> Map:
    if len(keys) != len(values) or None in keys or len(set(keys)) < len(keys):
        raise ValueError("no map")
    return tuple(sorted(zip(keys, values, strict=True)))


def element(collection: Any, place: Any) -> object:
    if collection and isinstance(collection[0], tuple):
        return dict(collection).get(place)
    return collection[place - 1] if isinstance(place, int) and 1 <= place <= len(collection) else None


SETS: dict[str, Callable[..., object]] = {
    "map": map_of,
    "element": element,
    "cardinality": len,
    "overlap": lambda a, b: len(members(a) & members(b)),
    "jaccard": jaccard,
    "subset of": lambda a, b: members(a) <= members(b),
    "superset of": lambda a, b: members(a) >= members(b),
    "inner_product": inner_product,
}
