"""The tables of PIPES come out of the real operators, however their input is cut and spread."""

from __future__ import annotations

from collections import Counter

import pytest
from reference.errata_tables import coalesce_beyond_its_length_e04
from reference.instants import snapshots
from reference.letters import lasting
from reference.logical_tables import LOGICAL_TABLES
from reference.semantics import elements_of
from reference.table import INPUTS
from reference.tables import TABLES
from reference.window_tables import coalesce_11_15, split_11_14
from support.harness import rows_of, run_elements

from tidegate.algebra.plan import Coalesce, Split
from tidegate.time import FOREVER

HORIZON = (*range(-8, 80), FOREVER - 1)
spread = pytest.mark.parametrize(("buckets", "cuts"), [(1, 1), (1, 4), (4, 3)])


@spread
@pytest.mark.parametrize("build", [build for _, build in TABLES], ids=[name for name, _ in TABLES])
def test_a_table_of_the_physical_algebra(build, buckets, cuts):
    table = build()
    rows = rows_of(run_elements(table.plan, table.inputs, buckets=buckets, cuts=cuts))
    assert snapshots(rows, HORIZON) == snapshots(table.expected, HORIZON)


@spread
@pytest.mark.parametrize("build", [build for _, build in LOGICAL_TABLES], ids=[name for name, _ in LOGICAL_TABLES])
def test_a_table_of_the_logical_algebra(build, buckets, cuts):
    table = build()
    rows = rows_of(run_elements(table.plan, elements_of(table.streams), buckets=buckets, cuts=cuts))
    found = snapshots(rows, HORIZON)
    assert {t: relation for t, relation in found.items() if relation} == table.at(HORIZON)


@spread
@pytest.mark.parametrize("length", [1, 2, 3])
def test_split_gives_no_element_longer_than_asked_for(length, buckets, cuts):
    rows = rows_of(run_elements(Split(lasting("s1"), length), INPUTS, buckets=buckets, cuts=cuts))
    assert max(end - start for start, end, _ in rows) == length


def test_split_into_chronons_gives_the_rows_of_table_11_14():
    table = split_11_14()
    assert Counter(rows_of(run_elements(table.plan, table.inputs, buckets=1, cuts=3))) == Counter(table.expected)


@pytest.mark.parametrize("build", [coalesce_11_15, coalesce_beyond_its_length_e04])
def test_coalesce_joins_neighbours_up_to_its_length_and_no_further(build):
    table = build()
    assert Counter(rows_of(run_elements(table.plan, table.inputs, buckets=1, cuts=1))) == Counter(table.expected)


@spread
@pytest.mark.parametrize("length", [2, 4, 9])
def test_coalesce_makes_nothing_longer_than_its_length(length, buckets, cuts):
    pieces = Split(lasting("s2"), 1)
    rows = rows_of(run_elements(Coalesce(pieces, length), INPUTS, buckets=buckets, cuts=cuts))
    assert max(end - start for start, end, _ in rows) <= length


@spread
@pytest.mark.parametrize("build", [build for _, build in TABLES], ids=[name for name, _ in TABLES])
def test_no_table_gives_an_empty_validity(build, buckets, cuts):
    table = build()
    rows = rows_of(run_elements(table.plan, table.inputs, buckets=buckets, cuts=cuts))
    assert all(start < end for start, end, _ in rows)
