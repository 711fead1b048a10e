"""New queries read what runs already, also partly; OPTIMIZE QUERY moves queries to plans that serve several."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from reference.instants import snapshots
from support.live import Row, SteppedSession
from support.stories import Story

from tidegate.live.exactness import streams_read
from tidegate.live.session import LiveSession
from tidegate.optimizer.advice import PlanAdvice
from tidegate.physical.common.plan import PhysicalPlan, Read
from tidegate.runtime.costs.join_statistics import QueryStudy

STREAM = "CREATE STREAM {s} (t BIGINT, k INT, v INT, w DOUBLE) FROM '{folder}/{s}.csv' TIMESTAMP BY t;"
JOINED = "a WINDOW(RANGE 10) AS x JOIN b WINDOW(RANGE 10) AS y ON x.k = y.k"
GROUPED = "FROM a WINDOW(RANGE 10) GROUP BY k"


class Lab:
    """A live session over two streams, of which rows arrive one by one."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now, self.results = folder, 0, dict[str, list[Row]]()
        for name in "abc":
            (folder / f"{name}.csv").write_text("t,k,v,w\n")
        self.session = SteppedSession(folder / "checkpoint", self.results)
        for name in "abc":
            self.session.execute(STREAM.format(s=name, folder=folder))

    def say(self, text: str) -> str:
        (answer,) = self.session.execute(text)
        return answer.message

    def live_graph(self, text: str) -> list[str]:
        """Return what EXPLAIN says of sharing."""
        (answer,) = self.session.execute(f"EXPLAIN {text}")
        assert answer.table is not None
        lines = answer.table["text"].to_pylist()
        return [line.strip() for line in lines[lines.index("live graph") + 1 :]]

    def arrive(self, rows: int, streams: str = "ab") -> None:
        for _ in range(rows):
            self.now += 1
            for name in streams:
                with (self.folder / f"{name}.csv").open("a") as file:
                    file.write(f"{self.now},{self.now % 2},{self.now * 7 % 5},{self.now * 3 % 4}\n")
            self.session.step()

    def operators(self) -> list[str]:
        """Return the operators with state that run."""
        running = self.session._live.running_operators()
        return sorted(type(part.operator).__name__ for part in running)

    def finish(self) -> None:
        self.now += 1_000
        self.arrive(1, "abc")
        self.session.abandon()

    def same(self, one: str, other: str, begin: int, end: int = 60) -> bool:
        instants = range(begin, end)
        found, expected = (snapshots(self.results[name], instants) for name in (one, other))
        assert any(expected.values())
        return found == expected


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


@pytest.mark.parametrize(
    ("runs", "comes", "shared"),
    [
        (f"SELECT x.k, x.v, y.v FROM {JOINED}", f"SELECT y.v AS q FROM {JOINED}", "join on x.k = y.k"),
        # Filters and conditions that only the new query has are tested on the results of the join.
        (f"SELECT x.k, x.v, y.v FROM {JOINED}", f"SELECT x.k + y.v AS q FROM {JOINED} WHERE x.v < y.v", "join on"),
        (f"SELECT x.k, x.v, y.v FROM {JOINED}", f"SELECT y.v AS q FROM {JOINED} WHERE x.v < 3 AND y.v > 1", "join on"),
        (
            f"SELECT x.k, x.v, y.v FROM {JOINED} WHERE x.v < 3",
            f"SELECT y.v AS q FROM {JOINED} WHERE x.v < 3 AND x.v > 1",
            "join on",
        ),
        (f"SELECT x.k, x.v FROM {JOINED} WHERE x.v < 3", f"SELECT x.k AS q FROM {JOINED}", None),
        (f"SELECT x.k, x.v FROM {JOINED} WHERE x.v < 3", f"SELECT x.k AS q FROM {JOINED} WHERE x.v < 4", None),
        (f"SELECT x.k, y.v FROM {JOINED}", f"SELECT x.k AS q FROM {JOINED} WHERE x.v < 3", None),
        (f"SELECT x.k, x.v FROM {JOINED}", f"SELECT x.k AS q FROM {JOINED} WHERE 9 / x.v < 3", None),
        (f"SELECT x.k, x.v, y.v FROM {JOINED}", f"SELECT x.k AS q FROM {JOINED} AND x.v = y.v", None),
        (
            f"SELECT x.k, COUNT(*) AS n FROM {JOINED} GROUP BY x.k",
            f"SELECT x.k, COUNT(*) AS n FROM {JOINED} WHERE x.k < 3 GROUP BY x.k",
            "join on",
        ),
        (
            f"SELECT k, MAX(v), AVG(w), COUNT(*) {GROUPED}",
            f"SELECT k, COUNT(*) {GROUPED} HAVING MAX(v) > 1",
            "MAX(a.v)",
        ),
        (f"SELECT k, SUM(v) AS s, MAX(v) AS m {GROUPED}", f"SELECT SUM(v) AS s {GROUPED}", "SUM(a.v)"),
        # A sum of integers can overflow, and then its group is no result: only queries with the same sum share.
        (f"SELECT k, SUM(v) AS s, MAX(v) AS m {GROUPED}", f"SELECT MAX(v) AS m {GROUPED}", None),
        (f"SELECT x.k, x.v, y.v FROM {JOINED}", f"SELECT y.w FROM {JOINED}", None),
        # Other groups, and other rows.
        (f"SELECT k, MAX(v) AS m {GROUPED}", "SELECT MAX(v) AS m FROM a WINDOW(RANGE 10)", None),
        (f"SELECT k, MAX(v) AS m {GROUPED}", "SELECT MAX(v) AS m FROM a WINDOW(RANGE 10) WHERE v < 3 GROUP BY k", None),
        (f"SELECT k, MAX(v) AS m {GROUPED}", "SELECT MAX(v) AS m FROM a WINDOW(RANGE 9) GROUP BY k", None),
        # DISTINCT sees whole rows.
        ("SELECT DISTINCT k, v FROM a WINDOW(RANGE 10)", "SELECT DISTINCT k FROM a WINDOW(RANGE 10)", None),
    ],
)
def test_a_new_query_reads_columns_of_an_operator_that_runs(lab: Lab, runs: str, comes: str, shared: str | None):
    lab.say(f"CREATE QUERY wide AS {runs}")
    told = lab.live_graph(comes)
    assert [line for line in told if "shared" in line and (shared or "") in line] == told[-1:] * (shared is not None)
    lab.session.abandon()


FILTERS = ["x.v < 2", "y.v > 0", "x.v < 2 AND y.v > 0", "x.v < y.v", "x.k > 0 AND x.v <= y.v", "x.v IS NULL"]


def test_a_query_that_filters_the_results_of_a_shared_join_is_exact(tmp_path: Path):
    story = Story(tmp_path, 2)
    joined = "FROM a WINDOW(RANGE 4) AS x JOIN b WINDOW(RANGE 6) AS y ON x.k = y.k"
    story.register(f"SELECT x.k AS k, x.v AS v, y.v AS w {joined}")
    for filters in FILTERS:
        story.register(f"SELECT y.v AS v {joined} WHERE {filters}")
    assert len(story.session._live.running_operators()) == 1
    for number in range(8):
        story.arrive("a", [(1, number % 2, None if number % 3 == 0 else number % 4)])
        story.arrive("b", [(1, (number // 2) % 2, number % 3), (1, 1, None)])
        story.session.step()
    story.finish()
    story.check()
    assert all(story.results[f"q{number}"] for number in range(len(FILTERS) + 1))


def test_a_new_query_takes_over_the_state_of_an_operator_that_runs(lab: Lab):
    narrow = f"SELECT k, COUNT(*) AS n {GROUPED} HAVING MAX(v) > 1"
    lab.say(f"CREATE QUERY wide AS SELECT k, MIN(w), MAX(v), COUNT(*) {GROUPED}")
    lab.say("CREATE QUERY alone AS SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 10) WHERE v >= 0 GROUP BY k")
    lab.arrive(20)
    (shared,) = lab.session.execute(f"CREATE QUERY narrow AS {narrow}")
    (new,) = lab.session.execute("CREATE QUERY new AS SELECT k, AVG(v) FROM a WINDOW(RANGE 10) WHERE v < 9 GROUP BY k")
    assert shared.exact_from is not None
    assert new.exact_from is not None
    assert shared.exact_from < new.exact_from
    lab.session.abandon()


def test_a_narrow_query_reports_each_value_once(lab: Lab):
    lab.say(f"CREATE QUERY wide AS SELECT k, COUNT(*) AS n, AVG(w) AS m {GROUPED}")
    lab.say(f"CREATE QUERY narrow AS SELECT k, COUNT(*) AS n {GROUPED}")
    assert lab.operators() == ["AggregateOperator", "CoalesceOperator"]
    lab.arrive(30)
    lab.finish()
    seen = sorted(lab.results["narrow"], key=lambda row: (row[2], row[0]))
    continued = [(one, other) for one, other in pairwise(seen) if one[1:] == (other[0], other[2])]
    assert not continued
    assert len(lab.results["wide"]) > len(seen) > 10


def test_optimized_queries_move_to_one_plan_that_serves_both(lab: Lab):
    lab.say(f"CREATE QUERY low AS SELECT k, MIN(v) AS m {GROUPED}")
    lab.say(f"CREATE QUERY high AS SELECT k, MAX(w) AS m {GROUPED}")
    lab.say("CREATE QUERY low_alone AS SELECT k, MIN(v) AS m FROM a WINDOW(RANGE 10) WHERE v < 9 GROUP BY k")
    assert lab.operators() == ["AggregateOperator"] * 3
    lab.arrive(20)
    assert "moves to a better plan at" in lab.say("OPTIMIZE QUERY low")
    assert "moves to a better plan at" in lab.say("OPTIMIZE QUERY high")
    lab.session.abandon(in_step=True)
    lab.session = SteppedSession(lab.folder / "checkpoint", lab.results)
    lab.arrive(30)
    # Two queries read one operator, each through a coalesce; the third one has its own.
    assert lab.operators() == ["AggregateOperator"] * 2 + ["CoalesceOperator"] * 2
    assert lab.say("OPTIMIZE QUERY low") == "query low has the best plan that is known"
    lab.finish()
    assert lab.same("low", "low_alone", -5)


def test_joins_are_ordered_by_the_rows_of_their_sources(lab: Lab, monkeypatch):
    # Their rows match alike, so the selectivities that a run measures by chance decide nothing.
    study = QueryStudy(PlanAdvice(rows={"a": 240, "b": 6, "c": 6}))
    monkeypatch.setattr(LiveSession, "_study_query", lambda *_: study)
    many = "a WINDOW(RANGE 10) AS x, b WINDOW(RANGE 10) AS y, c WINDOW(RANGE 10) AS z WHERE x.k = y.k AND y.k = z.k"
    lab.say(f"CREATE QUERY q AS SELECT x.v AS p, y.v AS q, z.v AS r FROM {many}")
    lab.say(f"CREATE QUERY alone AS SELECT x.v AS p, y.v AS q, z.v AS r FROM {many} AND x.v >= 0")
    lab.arrive(1, "abc")
    lab.arrive(20, "a")
    lab.arrive(2, "bc")
    lab.arrive(2, "abc")
    before = lab.session._live.compiled[0].physical
    assert "moves to a better plan at" in lab.say("OPTIMIZE QUERY q")
    after = next(each for number, each in lab.session._live.compiled.items() if number > 1).physical
    assert _first_joined(before) == {"a", "b"}
    assert _first_joined(after) == {"b", "c"}
    lab.arrive(40, "abc")
    assert lab.operators() == ["JoinOperator"] * 4
    lab.finish()
    assert lab.same("q", "alone", -5, 90)


def _first_joined(plan: PhysicalPlan) -> frozenset[str]:
    """The streams of the lowest join."""
    if isinstance(plan, Read):
        return frozenset()
    below = [_first_joined(each) for each in plan.inputs]
    lowest = next((each for each in below if each), frozenset())
    return lowest or (streams_read(plan) if len(plan.inputs) > 1 else lowest)


def test_an_alert_cannot_be_optimized(lab: Lab):
    lab.session.execute("CREATE ALERT hot FROM a, b WITHIN 3 US MATCHING k WHEN a.v + b.v > 2")
    with pytest.raises(Exception, match="an alert cannot be moved to another plan"):
        lab.say("OPTIMIZE QUERY hot")
    lab.session.abandon()
