"""The tables of PIPES come out of the real operators, however their input is cut and spread."""

from __future__ import annotations

import pytest
from harness import rows_of, run_elements
from reference.instants import snapshots
from reference.logical_tables import LOGICAL_TABLES
from reference.semantics import elements_of
from reference.tables import TABLES

HORIZON = range(-2, 80)
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
    assert {t: relation for t, relation in found.items() if relation} == table.expected
