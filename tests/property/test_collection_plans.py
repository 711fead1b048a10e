"""Arrays and maps pass through every operator, and can be keys of all: against the definitions at every instant."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.semantics import relations_of
from reference.values import canonical
from support.examples import examples
from support.harness import rows_of, run_elements

from tidegate.language.bind.program import bind

DECLARED = """
    CREATE STREAM s (a ARRAY<INT>, m MAP<STRING, DOUBLE>) FROM 's.csv';
    CREATE STREAM t (b ARRAY<INT>, n MAP<STRING, DOUBLE>) FROM 't.csv';
"""
QUERIES = [
    "SELECT a, n FROM s [RANGE 4], t [RANGE 3] WHERE overlap(a, b) >= 1",
    "SELECT a, m, b FROM s [RANGE 4], t [RANGE 3] WHERE m = n AND NOT a SUBSET OF b",
    "SELECT a, b FROM s [RANGE 4] LEFT JOIN t [RANGE 3] ON a = b",
    "SELECT m, COUNT(*) AS number, SUM(cardinality(a)) AS held FROM s [RANGE 5] GROUP BY m",
    "SELECT a, COUNT(DISTINCT m) AS many FROM s [RANGE 5] GROUP BY a",
    "SELECT DISTINCT a, m FROM s [RANGE 5]",
    "SELECT a, m FROM s [RANGE 5] EXCEPT ALL SELECT b, n FROM t [RANGE 4]",
    "SELECT ISTREAM(a) FROM s [RANGE 3]",
    "SELECT a FROM s [RANGE 5] WHERE EXISTS (SELECT b FROM t [RANGE 5] WHERE n = m)",
    "SELECT jaccard(a, b) AS likeness, inner_product(m, n) AS weight FROM s [RANGE 2], t [RANGE 2]",
]
SETS = st.none() | st.lists(st.sampled_from([1, 2, None]), max_size=2)
WEIGHTS = st.none() | st.lists(
    st.tuples(st.sampled_from("xy"), st.sampled_from([0.0, -0.0, 1.5, math.nan])), max_size=2, unique_by=lambda p: p[0]
)
INSTANTS = range(14)


def elements(names):
    row = st.tuples(st.integers(0, 6), SETS, WEIGHTS)
    return st.lists(row, min_size=1, max_size=6).map(
        lambda rows: [(t, t + 1, dict(zip(names, map(canonical, each), strict=True))) for t, *each in rows]
    )


@given(st.sampled_from(QUERIES), elements("am"), elements("bn"), st.integers(1, 3), st.integers(1, 3))
@settings(max_examples=examples(60))
def test_they_pass_through_every_operator(query, left, right, buckets, cuts):
    plan = bind(DECLARED + query).queries[-1].plan
    streams = {"s": left, "t": right}
    found = snapshots(rows_of(run_elements(plan, streams, buckets=buckets, cuts=cuts)), INSTANTS)
    assert found == relations_of(plan, streams, INSTANTS)
