"""Columns that are compared by likeness, as the kernels take them.

Integers, booleans and times stand for themselves as items of sets; doubles are told apart by their bits, of which zero
and NaN have one pattern each; texts by a hash of 64 bits. If one side has floats, the other side's numbers become
floats too, as they do in the language.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import numpy as np
import pyarrow as pa

from tidegate.algebra.similarity_join import Likeness, Measure
from tidegate.entries import entries_of
from tidegate.expressions.columns import nulls, numbers
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
from tidegate.physical.similarity_join.kernels.slots import codes_of
from tidegate.physical.similarity_join.kernels.values import Numbers, Sets, Values
from tidegate.schema import Schema, Type

_DOUBT = 1e-9
"""Sums of products are rounded differently here and in the language: by less than this share of what is added up."""

_MOST = 2**62
"""More items than any two sets have in common."""


class _Form(Enum):
    NOTHING = 0
    NUMBERS = 1
    SETS = 2
    WEIGHTS = 3


_FORMS = {Measure.DISTANCE: _Form.NUMBERS, Measure.PRODUCT: _Form.WEIGHTS}


@dataclass(frozen=True, slots=True)
class Coding:
    """How a likeness is computed: a condition that holds wherever the likeness does, and the columns that it reads."""

    condition: Condition
    method: Method
    columns: tuple[str, ...]
    form: _Form
    floating: bool
    """Whether numbers are compared as doubles."""

    def usable(self, stream: int, columns: pa.RecordBatch) -> Mask | None:
        """The rows that can be like others at all: NULL is like nothing. None: all of them."""
        if not self.columns or not columns.column(self.columns[stream]).null_count:
            return None
        return ~nulls(columns.column(self.columns[stream]))

    def values(self, stream: int, columns: pa.RecordBatch, rows: int) -> Values:
        """What is compared of rows, all of which are usable."""
        match self.form:
            case _Form.NOTHING:
                return Numbers(np.zeros(rows, np.int8))
            case _Form.NUMBERS:
                return Numbers(_numbers(columns.column(self.columns[stream]), floating=self.floating))
        found = entries_of(columns.column(self.columns[stream]))
        owners, values, keys = found.owners, found.values, found.keys
        if values.null_count:
            known = ~nulls(values)
            owners, values = owners[known], values.filter(pa.array(known))
            keys = None if keys is None else keys.filter(pa.array(known))
        if keys is None:
            return _sets(owners, _codes(values, floating=self.floating), None, rows)
        return _sets(owners, _codes(keys, floating=False), numbers(values).astype(np.float64), rows)


@lru_cache(maxsize=256)
def coding_of(likeness: Likeness | None, left: Schema, right: Schema) -> Coding:
    """How a likeness of columns of the left and of the right is computed."""
    if likeness is None:
        return Coding(Anything(), Method.NESTED, (), _Form.NOTHING, floating=False)
    types = left.type_of(likeness.left), right.type_of(likeness.right)
    parts = [type_.parts[0] if type_.parts else type_ for type_ in types]
    form, condition = _FORMS.get(likeness.measure, _Form.SETS), _condition(likeness)
    method = Method.INDEXED if form is _Form.NUMBERS else Method.FILTERED
    if isinstance(condition, Anything):
        method = Method.NESTED
    names = (likeness.left, likeness.right)
    return Coding(condition, method, names, form, floating=any(part.is_floating for part in parts))


def _condition(likeness: Likeness) -> Condition:
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


def _codes(items: pa.Array, *, floating: bool) -> Ints:
    """Integers for items, the same for equal ones; none is NULL."""
    if items.type == Type.STRING.arrow:
        return hash_columns([items]).view(np.int64)
    return codes_of(Numbers(_numbers(items, floating=floating)))


def _sets(owners: Ints, codes: Ints, weights: np.ndarray | None, rows: int) -> Sets:
    """The items of each row in ascending order, each of them once."""
    order = np.lexsort((codes, owners))
    owners, codes = owners[order], codes[order]
    first = np.ones(len(codes), np.bool_)
    first[1:] = (codes[1:] != codes[:-1]) | (owners[1:] != owners[:-1])
    bounds = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.bincount(owners[first], minlength=rows))])
    return Sets(bounds, codes[first], None if weights is None else weights[order][first])
