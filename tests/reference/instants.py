"""Instants worth looking at, and output rows seen as snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from reference.changes import change_points
from reference.semantics import Elements, Raw, Relation, elements_of, relations_of
from reference.values import Row, canonical_row
from tidegate.algebra.plan import Plan
from tidegate.time import EARLIEST, FOREVER

OutputRow = tuple[int, int, Sequence[Any]]
"""A row of the output: valid_from, valid_to, values."""


def snapshots(rows: Iterable[OutputRow], instants: Iterable[int]) -> dict[int, Relation]:
    """The relation at each instant that output rows stand for."""
    given = [(start, end, canonical_row(values)) for start, end, values in rows]
    return {t: Counter(values for start, end, values in given if start <= t < end) for t in instants}


def interesting_instants(plan: Plan, streams: Raw, rows: Iterable[OutputRow] = ()) -> list[int]:
    """All instants where the plan's relation, or the given output, can change, and their neighbours."""
    return interesting_instants_of(plan, elements_of(streams), rows)


def interesting_instants_of(plan: Plan, given: Elements, rows: Iterable[OutputRow] = ()) -> list[int]:
    """The same, over streams whose elements have validities already.

    Instants end before `FOREVER`. They begin where times can: what was before no row can say. One
    instant is always among them, since a table may never change.
    """
    points = {0} | change_points(plan, given) | {t for start, end, _ in rows for t in (start, end)}
    return sorted({t + step for t in points for step in (-1, 0, 1) if EARLIEST < t + step < FOREVER})


def assert_output(rows: Iterable[OutputRow], plan: Plan, streams: Raw, *, until: int | None = None) -> None:
    """Check that output rows are the plan's relation at every instant (before `until`, where given)."""
    assert_output_of(rows, plan, elements_of(streams), until=until)


def assert_output_of(rows: Iterable[OutputRow], plan: Plan, given: Elements, *, until: int | None = None) -> None:
    """The same, over streams whose elements have validities already."""
    seen = list(rows)
    assert all(start < end for start, end, _ in seen), "an output row has an empty validity"
    instants = [t for t in interesting_instants_of(plan, given, seen) if until is None or t < until]
    actual, expected = snapshots(seen, instants), relations_of(plan, given, instants)
    for t in instants:
        assert actual[t] == expected[t], _difference(t, actual[t], expected[t])


def _difference(instant: int, actual: Relation, expected: Relation) -> str:
    missing: list[Row] = list((expected - actual).elements())
    surplus: list[Row] = list((actual - expected).elements())
    return f"at {instant}: missing {missing}, surplus {surplus}"
