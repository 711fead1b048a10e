"""Columns that a similarity join compares, as input of the kernels.

As items of sets, integers, booleans and times are their own codes. Doubles are coded by their bits, with one pattern
each for zero and NaN, and texts by a hash of 64 bits. If one side has floats, the other side's numbers become floats as
well, as in the language.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.algebra.similarity_join import Measure, SimilarityCondition
from tidegate.collection_entries import entries_of
from tidegate.expressions.columns import null_mask, numbers
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.similarity_join.kernels.conditions import (
    Anything,
    Condition,
    InnerProduct,
    Jaccard,
    Near,
    Overlap,
    Subset,
    Superset,
)
from tidegate.physical.similarity_join.kernels.matching import Method
from tidegate.physical.similarity_join.kernels.slots import number_codes
from tidegate.physical.similarity_join.kernels.values import Numbers, Sets, Values
from tidegate.schema import Schema, Type

_DOUBT = 1e-9
"""Upper bound of the rounding difference between sums of products here and in the language, relative to the terms."""

_MOST = 2**62
"""More items than any two sets share."""


class _Form(Enum):
    NOTHING = 0
    NUMBERS = 1
    SETS = 2
    WEIGHTS = 3


_FORMS = {Measure.DISTANCE: _Form.NUMBERS, Measure.PRODUCT: _Form.WEIGHTS}


@dataclass(frozen=True, slots=True)
class SimilarityCoding:
    """Computation of a similarity: a condition that accepts at least the same pairs, and the columns it reads."""

    condition: Condition
    method: Method
    columns: tuple[str, ...]
    form: _Form
    floating: bool
    """True if numbers are compared as doubles."""

    def usable_rows(self, stream: int, columns: pa.RecordBatch) -> Mask | None:
        """Return the rows that can match others, or None for all. NULL matches nothing."""
        if not self.columns or not columns.column(self.columns[stream]).null_count:
            return None
        return ~null_mask(columns.column(self.columns[stream]))

    def values(self, stream: int, columns: pa.RecordBatch, rows: int) -> Values:
        """Return the compared values of rows, all of which are usable."""
        match self.form:
            case _Form.NOTHING:
                return Numbers(np.zeros(rows, np.int8))
            case _Form.NUMBERS:
                return Numbers(_numbers(columns.column(self.columns[stream]), floating=self.floating))
        found = entries_of(columns.column(self.columns[stream]))
        owners, values, keys = found.owners, found.values, found.keys
        if values.null_count:
            known = ~null_mask(values)
            owners, values = owners[known], values.filter(pa.array(known))
            keys = None if keys is None else keys.filter(pa.array(known))
        if keys is None:
            return _build_sets(owners, _item_codes(values, floating=self.floating), None, rows)
        return _build_sets(owners, _item_codes(keys, floating=False), numbers(values).astype(np.float64), rows)


@lru_cache(maxsize=256)
def coding_of(likeness: SimilarityCondition | None, left: Schema, right: Schema) -> SimilarityCoding:
    """Return the computation of a similarity condition between columns of the left and the right."""
    if likeness is None:
        return SimilarityCoding(Anything(), Method.NESTED, (), _Form.NOTHING, floating=False)
    types = left.type_of(likeness.left), right.type_of(likeness.right)
    parts = [type_.parts[0] if type_.parts else type_ for type_ in types]
    form, condition = _FORMS.get(likeness.measure, _Form.SETS), _condition(likeness)
    method = Method.INDEXED if form is _Form.NUMBERS else Method.FILTERED
    if isinstance(condition, Anything):
        method = Method.NESTED
    names = (likeness.left, likeness.right)
    return SimilarityCoding(condition, method, names, form, floating=any(part.is_floating for part in parts))


def _condition(likeness: SimilarityCondition) -> Condition:
    bound = likeness.bound
    match likeness.measure:
        case Measure.OVERLAP:
            return Overlap(max(0, math.ceil(bound)) if bound < _MOST else _MOST)  # NaN is never reached either
        case Measure.JACCARD:
            return Jaccard(float(bound))
        case Measure.SUBSET:
            return Subset()
        case Measure.SUPERSET:
            return Superset()
        case Measure.PRODUCT:
            return InnerProduct(float(bound), _DOUBT)
        case Measure.DISTANCE:
            return Anything() if math.isnan(bound) else Near(bound)  # nothing is greater than NaN


def _numbers(column: pa.Array, *, floating: bool) -> np.ndarray:
    return numbers(column).astype(np.float64 if floating else np.int64, copy=False)


def _item_codes(items: pa.Array, *, floating: bool) -> Ints:
    """Return integers for items, equal ones for equal items. None is NULL."""
    if items.type == Type.STRING.arrow:
        return hash_columns([items]).view(np.int64)
    return number_codes(Numbers(_numbers(items, floating=floating)))


def _build_sets(owners: Ints, codes: Ints, weights: np.ndarray | None, rows: int) -> Sets:
    """Return the distinct items of each row in ascending order."""
    order = np.lexsort((codes, owners))
    owners, codes = owners[order], codes[order]
    first = np.ones(len(codes), np.bool_)
    first[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(owners[first], minlength=rows))])
    return Sets(bounds, codes[first], None if weights is None else weights[order][first])
