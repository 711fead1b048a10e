"""Measures of the elements that are live in each slot; aggregates are defined in terms of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pyarrow as pa

from tidegate.expressions.functions.aggregates import Fold, Rank, SlotValues
from tidegate.physical.aggregate.folds import fold_slots
from tidegate.physical.aggregate.kernels.slot_order import quantiles
from tidegate.physical.aggregate.kernels.slot_sums import double_sums, integer_sums, variances
from tidegate.physical.aggregate.kernels.slots import Slots, Spans, first_live, live_counts, merge_equal_codes
from tidegate.physical.common.arrays import Ints, Mask
from tidegate.physical.common.dead_letters import Reason
from tidegate.physical.common.kernels.order_codes import doubles, integers, order_codes, presence, row_order_by_codes


@dataclass(frozen=True, slots=True, eq=False)
class LiveElements:
    """Elements by the slots in which they are live; the implementation of `Live` in the table of aggregates."""

    slots: Slots
    spans: Spans
    columns: Mapping[str, pa.Array]

    def count(self, column: str | None = None) -> SlotValues:
        spans = self.spans if column is None else self.spans.take(_has_value(self.columns[column]))
        return SlotValues(pa.array(live_counts(spans, self.slots.total)))

    def total(self, column: str) -> SlotValues:
        numbers, spans, is_double = self._numbers(column)
        empty = live_counts(spans, self.slots.total) == 0
        if is_double:
            sums = double_sums(numbers, spans, self.slots.total, is_double=True)
            return SlotValues(pa.array(sums + 0.0, mask=empty))
        whole, fits = integer_sums(numbers, spans, self.slots.total)
        if fits.all():
            return SlotValues(pa.array(whole, mask=empty))
        text = pa.scalar("the sum is outside the range of BIGINT")
        details = pa.repeat(text, len(fits)).to_numpy(zero_copy_only=False)
        return SlotValues(pa.array(whole, mask=empty | ~fits), Reason.OVERFLOW.value, pa.array(details, mask=fits))

    def average(self, column: str) -> SlotValues:
        numbers, spans, is_double = self._numbers(column)
        size = live_counts(spans, self.slots.total)
        sums = double_sums(numbers, spans, self.slots.total, is_double=is_double)
        return SlotValues(pa.array(sums / np.maximum(size, 1) + 0.0, mask=size == 0))

    def variance(self, column: str, *, sample: bool) -> SlotValues:
        numbers, spans, is_double = self._numbers(column)
        found, missing = variances(numbers, spans, self.slots.total, is_double=is_double, sample=sample)
        return SlotValues(pa.array(found, mask=missing))

    def quantile(self, column: str, share: Fraction) -> SlotValues:
        numbers, spans, is_double = self._numbers(column)
        (codes,) = order_codes([self.columns[column].filter(pa.array(_has_value(self.columns[column])))]).codes
        ratio = (share.numerator, share.denominator)
        found, missing = quantiles(numbers, np.argsort(codes), self.slots, spans, is_double=is_double, share=ratio)
        return SlotValues(pa.array(found + 0.0, mask=missing))

    def first_in_order(self, column: str, *order: Rank, known: str) -> SlotValues:
        rows = np.flatnonzero(_has_value(self.columns[known]))
        keys = [key[rows] for rank in order for key in self._sort_keys(rank)]
        winner = first_live(row_order_by_codes(keys), self.spans.take(rows), self.slots.total)
        taken = pa.array(rows[winner] if len(rows) else winner, mask=winner < 0)
        return SlotValues(self.columns[column].take(taken))

    def fold_values(self, columns: Sequence[str], fold: Fold) -> SlotValues:
        arguments = [self.columns[name] for name in columns]
        rows = np.flatnonzero(np.logical_and.reduce([_has_value(a) for a in arguments]))
        keys = [order_codes([a]).codes[0][rows] for a in arguments]
        values = [*zip(*(a.take(pa.array(rows)).to_pylist() for a in arguments), strict=True)]
        return fold_slots(fold, values, row_order_by_codes(keys), self.spans.take(rows), self.slots.total)

    def distinct(self, column: str) -> LiveElements:
        """Return elements that have each value once in every slot."""
        rows = np.flatnonzero(_has_value(self.columns[column]))
        codes, spans = order_codes([self.columns[column]]).codes[0][rows], self.spans.take(rows)
        kept, once = merge_equal_codes(row_order_by_codes([codes, spans.first]), codes, spans)
        chosen = rows[kept]
        return LiveElements(self.slots, once, {column: self.columns[column].take(pa.array(chosen))})

    def _numbers(self, column: str) -> tuple[Ints, Spans, bool]:
        """Return the values as integers, or as doubles by their bits, with their slots."""
        values = self.columns[column]
        present, is_double = _has_value(values), pa.types.is_floating(values.type)
        numbers = doubles(values).view(np.int64) if is_double else integers(values)
        return numbers[present], self.spans.take(present), is_double

    def _sort_keys(self, rank: Rank) -> list[Ints]:
        """Return the sort keys, the most important first; NULLs come last."""
        column = self.columns[rank.column]
        (codes,) = order_codes([column]).codes
        turned = ~codes if rank.descending else codes
        return [(presence(column) == 0).astype(np.int64), turned] if column.null_count else [turned]


def _has_value(column: pa.Array) -> Mask:
    return presence(column).view(np.bool_)
