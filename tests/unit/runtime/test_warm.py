"""Warming up runs every operator on real elements, and nothing may fail."""

from __future__ import annotations

import pytest

from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.stage import Stage
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
def test_warming_up_runs_every_stage_on_elements_and_most_have_results(query, monkeypatch):
    graph = compile_queries(bind(DECLARED + query))[1]
    inputs: dict[int, list[int]] = {}
    results: dict[int, int] = {}
    step = Stage.step

    def record(stage, state, batches, *more):
        done = step(stage, state, batches, *more)
        inputs.setdefault(stage.number, []).append(sum(map(len, batches)))
        results[stage.number] = results.get(stage.number, 0) + sum(map(len, done.outputs))
        return done

    monkeypatch.setattr(Stage, "step", record)
    warm_up(graph)
    # Elements come to every stage: some that can be written to, some that cannot, and some before the end of time.
    assert inputs == {stage.number: [2 * len(stage.feeds)] * 3 for stage in graph.stages}
    # All elements are equal, so that a condition that one is less than another holds for none of them.
    assert any(results.values())
