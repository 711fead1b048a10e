"""Calls of user-defined Python functions on columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from typing import Any

import pyarrow as pa

from tidegate.schema import Type
from tidegate.values import value


@value
class UserFunction:
    """A Python function of columns or, with `vectorized` false, of single values, of which none is NULL.

    It must return the same result for the same arguments, row by row. An exception makes dead letters of the rows
    concerned.
    """

    name: str
    parameters: tuple[Type, ...]
    result: Type
    function: Callable[..., Any] = field(hash=False)
    vectorized: bool = True

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(p.name for p in self.parameters)}) {self.result.name}"

    def apply(self, columns: Sequence[pa.Array], rows: int) -> tuple[pa.Array, dict[int, str]]:
        """Return the values, NULL where the function fails, and its messages for these rows."""
        texts: dict[int, str] = {}
        if not rows:
            return pa.array([], self.result.arrow), texts
        return self._apply_by_halves(columns, 0, rows, texts), texts

    def _apply_by_halves(self, columns: Sequence[pa.Array], first: int, last: int, texts: dict[int, str]) -> pa.Array:
        """Halve the rows that the function refuses, to find those that it refuses alone."""
        try:
            return self._call_function([column[first:last] for column in columns], last - first)
        except _WrongResultError as error:
            texts.update(dict.fromkeys(range(first, last), str(error)))
            return pa.nulls(last - first, self.result.arrow)
        except Exception as error:  # noqa: BLE001 - whatever the user's function raises
            if last - first == 1:
                texts[first] = describe_error(error)
                return pa.nulls(1, self.result.arrow)
        middle = (first + last) // 2
        halves = [self._apply_by_halves(columns, *bounds, texts) for bounds in ((first, middle), (middle, last))]
        return pa.concat_arrays(halves)

    def _call_function(self, columns: Sequence[pa.Array], rows: int) -> pa.Array:
        if not self.vectorized:
            return pa.array([self._call_for_row(row) for row in _iterate_rows(columns, rows)], self.result.arrow)
        made = self.function(*columns)
        made = made.combine_chunks() if isinstance(made, pa.ChunkedArray) else made
        made = made if isinstance(made, pa.Array) else pa.array(made)
        if len(made) != rows:
            raise _WrongResultError(f"{self.name} gave {len(made)} values for {rows} rows")
        return made if made.type == self.result.arrow else made.cast(self.result.arrow)

    def _call_for_row(self, row: tuple[Any, ...]) -> Any:
        return None if any(value is None for value in row) else self.function(*row)


class _WrongResultError(Exception):
    """The error of a function that does not work row by row, so that halving its rows would not help."""


def _iterate_rows(columns: Sequence[pa.Array], rows: int) -> Iterator[tuple[Any, ...]]:
    if not columns:
        return iter([()] * rows)
    return zip(*(column.to_pylist() for column in columns), strict=True)


def describe_error(error: BaseException) -> str:
    """Return an exception as one line for people."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
