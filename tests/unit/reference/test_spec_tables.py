"""The tables of PIPES' physical algebra follow from the definition of its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from reference.instants import assert_output_of, snapshots
from reference.letters import lasting
from reference.semantics import relation_of
from reference.table import S1, S2, Table, elements
from reference.tables import TABLES, sum_11_9

from tidegate.algebra.plan import Scan, Validity, walk

tables = pytest.mark.parametrize("build", [build for _, build in TABLES], ids=[name for name, _ in TABLES])


@tables
def test_the_printed_rows_are_the_relation_at_every_instant(build: Callable[[], Table]) -> None:
    table = build()
    assert_output_of(table.expected, table.plan, table.inputs)


@tables
def test_a_table_without_one_of_its_rows_is_wrong(build: Callable[[], Table]) -> None:
    table = build()
    for position in range(len(table.expected)):
        others = table.expected[:position] + table.expected[position + 1 :]
        with pytest.raises(AssertionError, match=r"at -?\d+: missing"):
            assert_output_of(others, table.plan, table.inputs)


@tables
def test_a_table_with_one_row_twice_is_wrong(build: Callable[[], Table]) -> None:
    table = build()
    with pytest.raises(AssertionError, match="surplus"):
        assert_output_of([*table.expected, table.expected[-1]], table.plan, table.inputs)


@tables
def test_rows_of_a_table_may_be_cut_anywhere(build: Callable[[], Table]) -> None:
    table = build()
    cut = [part for row in table.expected for part in _halves(row)]
    assert_output_of(cut, table.plan, table.inputs)


def _halves(row: tuple[int, int, tuple[object, ...]]) -> list[tuple[int, int, tuple[object, ...]]]:
    start, end, values = row
    middle = (start + end) // 2
    return [row] if middle == start else [(start, middle, values), (middle, end, values)]


@tables
def test_inputs_are_ordered_by_start_and_those_of_raw_streams_are_chronons(build: Callable[[], Table]) -> None:
    table = build()
    for scan in (node for node in walk(table.plan) if isinstance(node, Scan)):
        given = [(start, end) for start, end, _ in table.inputs[scan.stream]]
        assert [start for start, _ in given] == sorted(start for start, _ in given)
        assert scan.validity is not Validity.INSTANT or all(end == start + 1 for start, end in given)


def test_an_element_counts_at_every_instant_of_its_validity() -> None:
    plan = lasting("s")
    both = {"s": elements(S1 + S2)}
    expected = {t: Counter((e,) for e, start, end in S1 + S2 if start <= t < end) for t in range(20)}
    assert {t: relation_of(plan, both, t) for t in range(20)} == expected


def test_a_sum_has_no_row_where_nothing_is_valid() -> None:
    table = sum_11_9()
    assert snapshots(table.expected, [0, 17]) == {0: Counter(), 17: Counter()}
    assert relation_of(table.plan, table.inputs, 0) == relation_of(table.plan, table.inputs, 17) == Counter()
