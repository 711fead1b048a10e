"""Parse plain CSV lines by a compiled loop, which takes a third of the time of Arrow's parser.

*Plain* are lines without quotes and carriage returns whose numbers are digits, with a minus sign and a point at most,
and so short that one division rounds them exactly. For any other block the loop gives up, and Arrow parses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tidegate.arrays import Bytes, Floats, Ints, Positions
from tidegate.physical.common.kernels.compiled import compiled
from tidegate.schema import Type

SKIPPED, WHOLE, DOUBLE, TEXT = 0, 1, 2, 3
"""What to do with a field: nothing, or read a whole number, a double or a text."""

_MINUS, _POINT, _ZERO, _RETURN = ord("-"), ord("."), ord("0"), ord("\r")
_MOST_DIGITS = 18
"""Whole numbers up to this length fit into 64 bits."""
_EXACT = 1 << 53
"""Whole numbers up to this are doubles."""
_POWERS: Floats = np.float64(10) ** np.arange(23)
"""The powers of ten that are doubles."""


class PlainLayout(NamedTuple):
    """How to read the fields of a line: the kind of each, and the row of the output that it goes to."""

    kinds: Ints
    outputs: Ints
    delimiter: int


class PlainColumns(NamedTuple):
    """Output of the loop, by kind; texts as pairs of positions in the data."""

    whole: Ints
    doubles: Floats
    texts: Positions
    present: Bytes
    """By field and line: 1, or 0 for an empty field."""


def parse_plain_lines(
    lines: pa.Array, width: int, places: Sequence[int], types: Sequence[Type], delimiter: str
) -> list[pa.Array] | None:
    """Return the fields at some places of all lines, as numbers or texts; None if a line is not plain."""
    layout, sizes = _make_layout(width, places, types, delimiter)
    _, offsets, buffer = lines.buffers()
    bounds = np.frombuffer(offsets, np.int32)[lines.offset : lines.offset + len(lines) + 1]
    data, rows = np.frombuffer(buffer, np.uint8), len(lines)
    found = PlainColumns(
        np.empty((sizes[WHOLE], rows), np.int64),
        np.empty((sizes[DOUBLE], rows), np.float64),
        np.empty((sizes[TEXT], 2, rows), np.int32),
        np.empty((width, rows), np.uint8),
    )
    if not _parse_lines(data, bounds, layout, _POWERS, found):
        return None
    columns = [_make_column(found, layout, data, place, each) for place, each in zip(places, types, strict=True)]
    return None if any(column is None for column in columns) else columns


def _make_layout(
    width: int, places: Sequence[int], types: Sequence[Type], delimiter: str
) -> tuple[PlainLayout, dict[int, int]]:
    kinds, outputs, sizes = np.zeros(width, np.int64), np.zeros(width, np.int64), {WHOLE: 0, DOUBLE: 0, TEXT: 0}
    for place, each in zip(places, types, strict=True):
        kind = DOUBLE if each is Type.DOUBLE else WHOLE if each in (Type.INT, Type.BIGINT) else TEXT
        kinds[place], outputs[place] = kind, sizes[kind]
        sizes[kind] += 1
    return PlainLayout(kinds, outputs, ord(delimiter)), sizes


def _make_column(found: PlainColumns, layout: PlainLayout, data: Bytes, place: int, type_: Type) -> pa.Array | None:
    """Return a column of the output; None if a number does not fit into its type."""
    kind, at, is_missing = layout.kinds[place], layout.outputs[place], found.present[place] == 0
    mask = is_missing if is_missing.any() else None
    if kind == TEXT:
        begins, ends = found.texts[at]
        offsets, texts = _copy_texts(data, begins, ends)
        array = pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(texts))
        return array if mask is None else pa.compute.if_else(pa.array(mask), None, array)
    values = found.doubles[at] if kind == DOUBLE else found.whole[at]
    if type_ is Type.INT:
        narrow = values.astype(np.int32)
        if not np.array_equal(narrow, values):
            return None
        values = narrow
    return pa.array(values, mask=mask)


@compiled
def _parse_lines(
    data: Bytes, bounds: Positions, layout: PlainLayout, powers: Floats, found: PlainColumns
) -> bool:  # pragma: no cover - compiled
    """Parse all lines; return False if one of them is not plain."""
    kinds, outputs, delimiter = layout.kinds, layout.outputs, np.uint8(layout.delimiter)
    whole, doubles, texts, present = found.whole, found.doubles, found.texts, found.present
    width, last, at = len(kinds), len(kinds) - 1, np.uint64(bounds[0])
    one, ten, zero = np.uint64(1), np.uint64(10), np.uint8(_ZERO)
    for row in range(len(bounds) - 1):
        stop = np.uint64(bounds[row + 1])
        for field in range(width):
            kind, output, begin = kinds[field], outputs[field], at
            if WHOLE <= kind <= DOUBLE:
                is_negative = at < stop and data[at] == _MINUS
                at += one if is_negative else np.uint64(0)
                number, first, point = np.uint64(0), at, np.uint64(0)
                while at < stop:
                    digit = np.uint8(data[at] - zero)
                    if digit <= np.uint8(9):
                        number = number * ten + np.uint64(digit)
                    elif data[at] == _POINT and kind == DOUBLE and not point and at > first:
                        point = at + one
                    else:
                        break
                    at += one
                decimals = at - point if point else np.uint64(0)
                digits = at - first - (one if point else np.uint64(0))
                if digits > _MOST_DIGITS or (point and not decimals) or (is_negative and not digits):
                    return False
                if kind == WHOLE:
                    whole[output, row] = -np.int64(number) if is_negative else np.int64(number)
                else:
                    if number > _EXACT:
                        return False
                    exact = np.float64(number) / powers[decimals]
                    doubles[output, row] = -exact if is_negative else exact
            else:
                while at < stop and data[at] != delimiter:
                    if data[at] == _RETURN:
                        return False
                    at += one
                if kind == TEXT:
                    texts[output, 0, row], texts[output, 1, row] = begin, at
            present[field, row] = at > begin
            if field == last:
                if at != stop:
                    return False
            else:
                if at == stop or data[at] != delimiter:
                    return False
                at += one
    return True


@compiled
def _copy_texts(
    data: Bytes, begins: Positions, ends: Positions
) -> tuple[Positions, Bytes]:  # pragma: no cover - compiled
    """Return texts one after another, and where each begins."""
    offsets = np.zeros(len(begins) + 1, np.int32)
    for row in range(len(begins)):
        offsets[row + 1] = offsets[row] + ends[row] - begins[row]
    texts = np.empty(offsets[-1], np.uint8)
    for row in range(len(begins)):
        for i in range(ends[row] - begins[row]):
            texts[offsets[row] + i] = data[begins[row] + i]
    return offsets, texts
