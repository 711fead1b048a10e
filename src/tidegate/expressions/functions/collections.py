"""Arrays and maps: construction and access."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tidegate.collection_entries import Entries, codes_of, entries_of, rows_with_repeated_keys, without_rows
from tidegate.expressions.columns import Kernel, Outcome, Value, as_array, is_constant, make_column, null_mask, numbers
from tidegate.expressions.failures import Failure, errors_where
from tidegate.schema import Type


def as_arrays(arguments: Sequence[Value]) -> list[pa.Array]:
    """Return all arguments as arrays; at least one must be an array."""
    rows = next(len(argument) for argument in arguments if not is_constant(argument))
    return [as_array(argument, rows) for argument in arguments]


def _array(arguments: Sequence[Value], type_: Type) -> Outcome:
    """Make one array per row, with the arguments as its elements."""
    columns = as_arrays(arguments)
    width, rows = len(columns), len(columns[0])
    places = np.arange(width * rows).reshape(width, rows).T.ravel()
    elements = pa.concat_arrays(columns).take(pa.array(places))
    made = Entries(np.arange(rows + 1) * width, elements, None, np.zeros(rows, np.bool_))
    return made.column(type_.arrow), None


def _map(arguments: Sequence[Value], type_: Type) -> Outcome:
    """Make a map from keys and values in order; NULL keys, repeated keys and different lengths fail."""
    keys, values = (entries_of(argument) for argument in as_arrays(arguments))
    missing = keys.missing | values.missing
    wrong = np.diff(keys.bounds) != np.diff(values.bounds)
    wrong[keys.owners[null_mask(keys.values)]] = True
    keys, values = without_rows(keys, missing | wrong), without_rows(values, missing | wrong)
    made = Entries(keys.bounds, values.values, keys.values, keys.missing)
    repeated = rows_with_repeated_keys(made)
    return without_rows(made, repeated).column(type_.arrow), errors_where((wrong | repeated) & ~missing, Failure.DOMAIN)


def _element(arguments: Sequence[Value], _: Type) -> Outcome:
    """Return the element with a number, from 1 on, or the value of a key; NULL if there is none."""
    collection, place = as_arrays(arguments)
    found = entries_of(collection)
    at = _find_by_number(found, place) if found.keys is None else _find_by_key(found, found.keys, place)
    return found.values.take(pa.array(at, mask=at < 0)), None


def _find_by_number(found: Entries, place: pa.Array) -> np.ndarray:
    number = numbers(place)  # 0 where NULL, which is the number of no element
    return np.where((number >= 1) & (number <= np.diff(found.bounds)), found.bounds[:-1] + number - 1, -1)


def _find_by_key(found: Entries, keys: pa.Array, wanted: pa.Array) -> np.ndarray:
    codes, _ = codes_of(pa.concat_arrays([keys, wanted]))
    own, asked = codes[: len(keys)], codes[len(keys) :]
    at, owners = np.full(found.rows, -1), found.owners
    hits = np.flatnonzero(own == asked[owners])
    at[owners[hits]] = hits
    return at


def _cardinality(arguments: Sequence[Value], type_: Type) -> Outcome:
    found = entries_of(*arguments)
    return make_column(np.diff(found.bounds), found.missing, type_), None


ARRAY_FUNCTIONS: dict[str, Kernel] = {
    "array": _array,
    "map": _map,
    "element": _element,
    "cardinality": _cardinality,
}
