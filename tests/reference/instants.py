"""Instants worth looking at, and output rows seen as snapshots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from reference.semantics import Elements, Raw, Relation, elements_of, relation_of
from reference.values import Row, canonical_row
from tidegate.algebra.plan import Plan, Scan, Window, inputs

FOREVER = 2**62
"""The end of validities that never end."""

OutputRow = tuple[int, int, Sequence[object]]
"""A row of the output: valid_from, valid_to, values."""


def snapshots(rows: Iterable[OutputRow], instants: Iterable[int]) -> dict[int, Relation]:
    """The relation at each instant that output rows stand for."""
    given = [(start, end, canonical_row(values)) for start, end, values in rows]
    return {t: Counter(values for start, end, values in given if start <= t < end) for t in instants}


def interesting_instants(plan: Plan, streams: Raw, rows: Iterable[OutputRow] = ()) -> list[int]:
    """All instants where the plan's relation, or the given output, can change, and their neighbours."""
    return interesting_instants_of(plan, elements_of(streams), rows)


def interesting_instants_of(plan: Plan, given: Elements, rows: Iterable[OutputRow] = ()) -> list[int]:
    """The same, over streams whose elements have validities already; instants end before `FOREVER`."""
    points = _changes(plan, given) | {t for start, end, _ in rows for t in (start, end)}
    return sorted({t + step for t in points for step in (-1, 0, 1) if t + step < FOREVER})


def _changes(plan: Plan, given: Elements) -> set[int]:
    """At least all instants whose relation differs from that of the instant before."""
    if isinstance(plan, Scan):
        return {t for start, end, _ in given[plan.stream] for t in (start, end)}
    below = {t for each in inputs(plan) for t in _changes(each, given)}
    return {t for change in below for t in _slid(plan, change)} if isinstance(plan, Window) else below


def _slid(window: Window, change: int) -> set[int]:
    """Where an element that begins, or ends, at the instant can begin and end in the window."""
    grid, size = window.slide, window.size or 0
    moved = [at + shift for at in (change - 1, change) for shift in (0, size)]
    return {t // grid * grid - 1 + step for t in moved for step in (0, grid)}


def assert_output(rows: Iterable[OutputRow], plan: Plan, streams: Raw, *, until: int | None = None) -> None:
    """Check that output rows are the plan's relation at every instant (before `until`, where given)."""
    assert_output_of(rows, plan, elements_of(streams), until=until)


def assert_output_of(rows: Iterable[OutputRow], plan: Plan, given: Elements, *, until: int | None = None) -> None:
    """The same, over streams whose elements have validities already."""
    seen = list(rows)
    assert all(start < end for start, end, _ in seen), "an output row has an empty validity"
    instants = [t for t in interesting_instants_of(plan, given, seen) if until is None or t < until]
    actual = snapshots(seen, instants)
    for t in instants:
        assert actual[t] == relation_of(plan, given, t), _difference(t, actual[t], relation_of(plan, given, t))


def _difference(instant: int, actual: Relation, expected: Relation) -> str:
    missing: list[Row] = list((expected - actual).elements())
    surplus: list[Row] = list((actual - expected).elements())
    return f"at {instant}: missing {missing}, surplus {surplus}"
