"""Streams over tiny domains, where ties are the rule, and the ways in which they can arrive."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tidegate.algebra.plan import Validity
from tidegate.schema import Field, Schema, Type
from tidegate.time import BEGINNING, FOREVER

RawElement = tuple[int, dict[str, object]]
Element = tuple[int, int, dict[str, object]]

EXACT = {
    Type.INT: (0, 1, 2, -1, None),
    Type.DOUBLE: (0.0, 1.0, -0.0, 0.5, -2.0, math.nan, None),
    Type.STRING: ("", "a", "b", "7", None),
}
"""Values whose sums, products and quotients by powers of two are doubles: no order of adding matters."""

VALUES = {**EXACT, Type.DOUBLE: (*EXACT[Type.DOUBLE], 0.1, 1e16, -1e16, math.inf, -math.inf)}
"""The same, and values whose sum depends on the order in which a naive sum adds them."""


@dataclass(frozen=True, slots=True)
class Streams:
    """Source streams by name: their columns, and their raw elements in order of time."""

    schemas: Mapping[str, Schema]
    elements: Mapping[str, Sequence[RawElement]]


@dataclass(frozen=True, slots=True)
class Sources:
    """Raw streams, streams that bring validities, and tables: all as elements (start, end, row)."""

    schemas: Mapping[str, Schema]
    elements: Mapping[str, Sequence[Element]]
    validities: Mapping[str, Validity]


@st.composite
def sources(draw: DrawFn, *, size: int = 6, times: tuple[int, int] = (0, 10)) -> Sources:
    """Up to three sources of all kinds; tables have few rows, which are always valid."""
    raw = draw(streams(size=size, times=times))
    kinds = [Validity.INSTANT, Validity.INSTANT, Validity.INTERVAL, Validity.INTERVAL, Validity.RELATION]
    validities = {name: draw(st.sampled_from(kinds)) for name in raw.schemas}
    elements = {name: _lasting(draw, raw.elements[name], validities[name]) for name in raw.schemas}
    return Sources(raw.schemas, elements, validities)


def _lasting(draw: DrawFn, elements: Sequence[RawElement], validity: Validity) -> list[Element]:
    match validity:
        case Validity.INSTANT:
            return [(t, t + 1, row) for t, row in elements]
        case Validity.INTERVAL:
            lengths = draw(st.lists(st.integers(1, 5), min_size=len(elements), max_size=len(elements)))
            return [(t, t + length, row) for (t, row), length in zip(elements, lengths, strict=True)]
        case Validity.RELATION:
            return [(BEGINNING, FOREVER, row) for _, row in elements[:3]]


@st.composite
def streams(
    draw: DrawFn,
    *,
    most: int = 3,
    size: int = 6,
    times: tuple[int, int] = (0, 10),
    values: Mapping[Type, Sequence[object]] = VALUES,
) -> Streams:
    """One to `most` streams with up to `size` elements each; column k is an INT of 0, 1 and 2."""
    names = [f"s{i}" for i in range(draw(st.integers(1, most)))]
    schemas = {name: _schema(draw) for name in names}
    fewest = draw(st.sampled_from([min(3, size), min(5, size), size, 0]))
    span = draw(st.sampled_from([times, (times[0], times[0] + 3)]))
    pools = {name: {f.name: _pool(draw, f, values) for f in schema} for name, schema in schemas.items()}
    elements = {name: draw(_elements(pool, (fewest, size), span)) for name, pool in pools.items()}
    return Streams(schemas, elements)


def _schema(draw: DrawFn) -> Schema:
    types = draw(st.lists(st.sampled_from([Type.DOUBLE, Type.INT, Type.STRING]), min_size=1, max_size=2))
    others = tuple(Field(name, type_) for name, type_ in zip("ab", types, strict=False))
    return Schema((Field("k", Type.INT), *others))


def _pool(draw: DrawFn, field: Field, values: Mapping[Type, Sequence[object]]) -> Sequence[object]:
    """The few values of a column, so that some rows are alike."""
    if field.name == "k":
        return (0, 1, 2)
    return draw(st.lists(st.sampled_from(values[field.type]), min_size=1, max_size=3))


def _elements(
    pools: Mapping[str, Sequence[object]], size: tuple[int, int], times: tuple[int, int]
) -> SearchStrategy[list[RawElement]]:
    columns = {name: st.sampled_from(pool) for name, pool in pools.items()}
    element = st.tuples(st.integers(*times), st.fixed_dictionaries(columns))
    return st.lists(element, min_size=size[0], max_size=size[1]).map(lambda found: sorted(found, key=lambda e: e[0]))


@dataclass(frozen=True, slots=True)
class Arrival:
    """One step: the new elements of each stream, and the watermarks that hold after them."""

    elements: Mapping[str, Sequence[Any]]
    watermarks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Delivery:
    """How elements arrive; the last arrival finishes every stream."""

    arrivals: tuple[Arrival, ...]
    buckets: int


@st.composite
def deliveries(draw: DrawFn, source: Streams | Sources, delay: int = 0, *, most: int = 4) -> Delivery:
    """Any arrival order in which an element at t comes after elements up to t + delay at the latest; tables at once."""
    steps = draw(st.integers(1, most))
    tables = {name for name, elements in source.elements.items() if any(e[0] == BEGINNING for e in elements)}
    batches: dict[str, list[Sequence[Any]]] = {
        name: [found, *([] for _ in range(steps - 1))]
        if name in tables
        else _cut(draw, _shuffled(draw, found, delay), steps)
        for name, found in source.elements.items()
    }
    marks = {name: _marks(draw, cut, delay) for name, cut in batches.items()}
    marks |= {name: [FOREVER] * steps for name in tables}
    arrivals = [
        Arrival(
            {name: cut[step] for name, cut in batches.items()}, {name: found[step] for name, found in marks.items()}
        )
        for step in range(steps)
    ]
    end = Arrival({name: [] for name in batches}, dict.fromkeys(batches, FOREVER))
    return Delivery((*arrivals, end), draw(st.sampled_from([1, 2, 5])))


def _marks(draw: DrawFn, batches: Sequence[Sequence[Any]], delay: int) -> list[int]:
    """The watermark after each batch: what follows from the delay, or the furthest that a heartbeat may bring."""
    marks: list[int] = []
    latest = BEGINNING + delay
    for step, batch in enumerate(batches):
        latest = max([latest, *(e[0] for e in batch)])
        coming = [e[0] for later in batches[step + 1 :] for e in later]
        furthest = min(coming, default=max(latest, 0) + 8)
        known = furthest if draw(st.booleans()) else latest - delay
        marks.append(max([known, *marks[-1:]]))
    return marks


def _shuffled(draw: DrawFn, elements: Sequence[Any], delay: int) -> list[Any]:
    """Each element waits for up to the delay, and ties fall as they may: that gives every order allowed."""
    waits = st.tuples(st.integers(0, delay), st.integers(0, 3))
    drawn = draw(st.lists(waits, min_size=len(elements), max_size=len(elements)))
    order = sorted(range(len(elements)), key=lambda i: (elements[i][0] + drawn[i][0], drawn[i][1]))
    return [elements[i] for i in order]


def _cut(draw: DrawFn, elements: list[Any], pieces: int) -> list[Sequence[Any]]:
    cuts = sorted(draw(st.lists(st.integers(0, len(elements)), min_size=pieces - 1, max_size=pieces - 1)))
    return [elements[a:b] for a, b in zip([0, *cuts], [*cuts, len(elements)], strict=True)]
