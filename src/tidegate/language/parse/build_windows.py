"""From Lark's tree to the syntax tree: windows and granularities."""

from __future__ import annotations

from typing import NamedTuple

from lark import Token, v_args
from lark.tree import Meta

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.build_expressions import ExpressionBuilder, microseconds, span_of
from tidegate.language.syntax import ColumnReference, Name
from tidegate.time import CHRONON

Keys = tuple[ColumnReference, ...]


class AmountWithUnit(NamedTuple):
    """A number, with or without a unit of time."""

    number: Token
    unit: Token | None
    span: Span

    @property
    def microseconds(self) -> int:
        return microseconds(self.number, self.unit)


@v_args(meta=True, inline=True)
class WindowBuilder(ExpressionBuilder):
    """One method for each grammar rule about windows."""

    def amount(self, meta: Meta, number: Token, unit: Token | None) -> AmountWithUnit:
        return AmountWithUnit(number, unit, span_of(meta))

    def window(self, meta: Meta, frame: syntax.AnyWindow) -> syntax.AnyWindow:
        match frame:
            case syntax.WindowClause(size=size, slide=slide, least=least, keys=keys):
                return syntax.WindowClause(size, slide, span_of(meta), least, keys)
            case syntax.RowsClause(rows=rows, slide=slide, keys=keys, least=least):
                return syntax.RowsClause(rows, slide, keys, span_of(meta), least)

    def partition(self, meta: Meta, *columns: ColumnReference) -> Keys:
        return columns

    def partition_column(self, meta: Meta, first: Name, second: Name | None) -> ColumnReference:
        qualifier, name = (None, first) if second is None else (first, second)
        return ColumnReference(qualifier, name, span_of(meta))

    # ---- by time

    def range_frame(
        self, meta: Meta, keys: Keys | None, size: AmountWithUnit, slide: AmountWithUnit | None
    ) -> syntax.AnyWindow:
        return syntax.WindowClause(
            _positive_duration("RANGE", size), _slide_duration(slide), span_of(meta), None, keys or ()
        )

    def varying_frame(
        self, meta: Meta, keys: Keys | None, least: AmountWithUnit, most: AmountWithUnit, slide: AmountWithUnit | None
    ) -> syntax.AnyWindow:
        smallest, largest = _positive_duration("MIN", least), _positive_duration("MAX", most)
        _refuse_reversed(smallest, largest, span_of(meta), "MIN is more than MAX")
        return syntax.WindowClause(largest, _slide_duration(slide), span_of(meta), smallest, keys or ())

    def unbounded_frame(self, meta: Meta, keys: Keys | None) -> syntax.AnyWindow:
        return syntax.WindowClause(None, CHRONON, span_of(meta), None, keys or ())

    def now_frame(self, meta: Meta) -> syntax.AnyWindow:
        return syntax.WindowClause(CHRONON, CHRONON, span_of(meta))

    # ---- by count

    def rows_frame(
        self, meta: Meta, keys: Keys | None, rows: AmountWithUnit, slide: AmountWithUnit | None
    ) -> syntax.AnyWindow:
        return syntax.RowsClause(_positive_count("ROWS", rows), _slide_rows(slide), keys or (), span_of(meta))

    def varying_rows_frame(
        self, meta: Meta, keys: Keys | None, least: AmountWithUnit, most: AmountWithUnit, slide: AmountWithUnit | None
    ) -> syntax.AnyWindow:
        fewest, largest = _positive_count("ROWS", least), _positive_count("ROWS", most)
        _refuse_reversed(fewest, largest, span_of(meta), "MIN is more than MAX")
        return syntax.RowsClause(largest, _slide_rows(slide), keys or (), span_of(meta), fewest)

    def all_rows_frame(self, meta: Meta, keys: Keys | None, slide: AmountWithUnit | None) -> syntax.AnyWindow:
        return syntax.RowsClause(None, _slide_rows(slide), keys or (), span_of(meta))

    # ---- granularity

    def granularity(self, meta: Meta, size: AmountWithUnit) -> syntax.GranularityClause:
        return syntax.GranularityClause(_positive_duration("GRANULARITY", size), span_of(meta))

    def varying_granularity(
        self, meta: Meta, coarsest: AmountWithUnit, finest: AmountWithUnit
    ) -> syntax.GranularityClause:
        largest, smallest = _positive_duration("COARSEST", coarsest), _positive_duration("FINEST", finest)
        _refuse_reversed(smallest, largest, span_of(meta), "FINEST is coarser than COARSEST")
        return syntax.GranularityClause(smallest, span_of(meta), largest)


def _slide_duration(slide: AmountWithUnit | None) -> int:
    return CHRONON if slide is None else _positive_duration("SLIDE", slide)


def _slide_rows(slide: AmountWithUnit | None) -> int:
    return 1 if slide is None else _positive_count("SLIDE", slide)


def _positive_duration(word: str, amount: AmountWithUnit) -> int:
    if amount.microseconds <= 0:
        hint = f"write for example {word} 10 SECONDS"
        raise QueryError("Q114", f"{word} must be longer than zero", amount.span, hint=hint)
    return amount.microseconds


def _positive_count(word: str, amount: AmountWithUnit) -> int:
    """Return a number of elements, at least one."""
    if amount.unit is not None:
        hint = f"write {word} {amount.number}, or a window by time: RANGE {amount.number} {amount.unit}"
        raise QueryError("Q114", f"{word} of a window of ROWS counts elements, not time", amount.span, hint=hint)
    if not amount.number.isdigit() or int(amount.number) < 1:
        hint = f"write for example {word} 10"
        raise QueryError("Q114", f"{word} takes a whole number of elements, at least 1", amount.span, hint=hint)
    return int(amount.number)


def _refuse_reversed(least: int, most: int, span: Span, message: str) -> None:
    if least > most:
        raise QueryError("Q114", message, span, hint="swap the two")
