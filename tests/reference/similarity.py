"""Likeness by definition: what two values that are not NULL must have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reference.sets import SETS
from reference.values import Row, is_less
from tidegate.algebra.similarity_join import Measure, SimilarityJoin

MEASURED: dict[Measure, Callable[[Any, Any, Any], bool]] = {
    Measure.OVERLAP: lambda a, b, bound: SETS["overlap"](a, b) >= bound,
    Measure.JACCARD: lambda a, b, bound: SETS["jaccard"](a, b) >= bound,
    Measure.SUBSET: lambda a, b, _: bool(SETS["subset of"](a, b)),
    Measure.SUPERSET: lambda a, b, _: bool(SETS["superset of"](a, b)),
    Measure.PRODUCT: lambda a, b, bound: not is_less(SETS["inner_product"](a, b), bound),
    Measure.DISTANCE: lambda a, b, bound: abs(a - b) <= bound,
}


def are_alike(join: SimilarityJoin, left: Row, right: Row) -> bool:
    """Whether two rows are; without a likeness all are, and with NULL none."""
    likeness = join.similarity
    if likeness is None:
        return True
    one = left[join.left.schema.names.index(likeness.left)]
    other = right[join.right.schema.names.index(likeness.right)]
    return one is not None and other is not None and MEASURED[likeness.measure](one, other, likeness.bound)
