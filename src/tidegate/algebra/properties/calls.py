"""Properties of aggregates, found by recording what their definitions measure, so that there is no second table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

import pyarrow as pa

from tidegate.algebra.plan import AggregateCall
from tidegate.expressions.functions.aggregates import AGGREGATES, AggregateFunction, Fold, Rank, SlotValues
from tidegate.schema import Type


@dataclass(slots=True)
class Traits:
    """Properties of an aggregate: dependence on the number of copies of a row, and possible failures."""

    sees_copies: bool = False
    totals: bool = False
    runs_user_code: bool = False


def sees_own_times(call: AggregateCall) -> bool:
    """Return whether the call reads the own times of elements: FIRST and LAST, unless a column already holds these."""
    return _definition(call).by_time and not call.others


def sees_copies(call: AggregateCall) -> bool:
    """Return whether the result depends on the number of copies of a row, as for all but MIN, MAX and the like."""
    return sees_own_times(call) or (not call.distinct and _traits(call).sees_copies)


def call_can_fail(call: AggregateCall) -> bool:
    """Return whether the call can make a group a dead letter: a sum of integers, or a user-defined function."""
    traits = _traits(call)
    return traits.runs_user_code or (traits.totals and call.type is not Type.DOUBLE)


def _traits(call: AggregateCall) -> Traits:
    columns = (*call.columns, "own time") if sees_own_times(call) else call.columns
    return _record_traits(_definition(call), columns, call.options)


def _definition(call: AggregateCall) -> AggregateFunction:
    return call.user or AGGREGATES[call.function]


@lru_cache(maxsize=256)
def _record_traits(function: AggregateFunction, columns: tuple[str, ...], options: tuple[object, ...]) -> Traits:
    watch = _TraitRecorder()
    function.compute(watch, *columns, *options)
    return watch.traits


@dataclass(slots=True)
class _TraitRecorder:
    """Placeholder elements that record what an aggregate asks of them."""

    traits: Traits = field(default_factory=Traits)

    def count(self, column: str | None = None) -> SlotValues:
        return self._of_all(column)

    def total(self, column: str) -> SlotValues:
        self.traits.totals = True
        return self._of_all(column)

    def average(self, column: str) -> SlotValues:
        return self._of_all(column)

    def variance(self, column: str, *, sample: bool) -> SlotValues:
        return self._of_all(column, sample)

    def quantile(self, column: str, share: Fraction) -> SlotValues:
        return self._of_all(column, share)

    def first_in_order(self, column: str, *order: Rank, known: str) -> SlotValues:
        return _no_values(column, known)

    def fold_values(self, columns: Sequence[str], fold: Fold) -> SlotValues:
        self.traits.runs_user_code = True
        return self._of_all(columns, fold)

    def _of_all(self, *_: object) -> SlotValues:
        self.traits.sees_copies = True
        return _no_values()


def _no_values(*_: object) -> SlotValues:
    return SlotValues(pa.array([], pa.float64()))
