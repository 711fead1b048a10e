"""Warming up runs every operator there is, and nothing may fail there."""

from __future__ import annotations

import pytest

from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.warm import warm_up

DECLARED = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE, name STRING, t BIGINT) FROM 'x.csv' TIMESTAMP BY t;\n" for name in "rs"
)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT r.k FROM r WINDOW(RANGE 5), s WINDOW(RANGE 5) WHERE r.k = s.k AND r.v < s.v",
        "SELECT k, SUM(v) AS total, MIN(name) AS name FROM r WINDOW(RANGE 5 SLIDE 2) GROUP BY k",
        "SELECT k, MEDIAN(v) AS middle FROM (SELECT k, AVG(v) AS v FROM r WINDOW(RANGE 5) GROUP BY k) GROUP BY k",
        "SELECT k, v FROM r WINDOW(ROWS 3) ORDER BY v DESC LIMIT 2 PER k",
        "SELECT k FROM r WINDOW(RANGE 5) EXCEPT SELECT k FROM s WINDOW(RANGE 5)",
        "SELECT k FROM r WINDOW(RANGE 5) WHERE NOT EXISTS (SELECT 1 FROM s WINDOW(RANGE 5) WHERE s.v > r.v)",
        "SELECT DISTINCT r.k FROM r WINDOW(RANGE 5), s WINDOW(RANGE 5) WHERE r.k = s.k AND r.v + s.v > 1",
        "CREATE ALERT a FROM r, s WITHIN 5 SECONDS MATCHING k WHEN r.v * s.v > 1",
        "CREATE ALERT a FROM r, s WITHIN 5 SECONDS WHEN sin(r.v * s.v) > 0 EMIT ALL",
    ],
)
def test_every_operator_can_be_warmed_up(query):
    warm_up(compile_queries(bind(DECLARED + query))[1])
