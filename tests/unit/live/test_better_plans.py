"""Queries that move to better plans without being asked."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tidegate.algebra.plan import Join, Scan, walk
from tidegate.catalog.catalog import Catalog
from tidegate.language.bind.program import bind
from tidegate.live import better_plans, plan_choice
from tidegate.live.plan_choice import Proposal
from tidegate.live.session import LiveSession
from tidegate.optimizer.advice import PlanAdvice
from tidegate.optimizer.join_order import cost_of_joins
from tidegate.runtime.compile import compile_queries

STREAMS = "".join(
    f"CREATE STREAM {name} (k INT, v INT, t BIGINT) FROM '{{folder}}/{name}' TIMESTAMP BY t WITH (format = 'csv');"
    for name in "abc"
)


def select(order: str) -> str:
    inputs = ", ".join(f"{each} WINDOW(RANGE 9)" for each in order)
    return f"SELECT a.v AS p, b.v AS q, c.v AS r FROM {inputs} WHERE a.k = b.k AND b.k = c.k"


SELECT, SELECT_BEST = select("abc"), select("bca")
ROWS = {"a": 240, "b": 6, "c": 6}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ROWS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "0.csv").write_text("k,v,t\n")
    return tmp_path


def add_rows(folder: Path, part: int) -> None:
    """Add a file to each stream; all have the same times, and most rows of `c` are missing."""
    for name, count in ROWS.items():
        rows = [f"{at % 3},{at},{part * 240 + at * 240 // count}" for at in range(count)]
        (folder / name / f"{part + 1}.csv").write_text("\n".join(["k,v,t", *rows, ""]))


def plan_of(text: str, folder: Path):
    program = bind(STREAMS.format(folder=folder) + text, Catalog())
    (compiled,) = compile_queries(program)[0]
    return compiled.optimized


def until(is_true, seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not is_true() and time.monotonic() < end:
        time.sleep(0.02)
    assert is_true()


@pytest.fixture
def hasty(monkeypatch) -> None:
    monkeypatch.setattr(better_plans, "LOOK_EVERY", 0.05)
    monkeypatch.setattr(plan_choice, "FEWEST_ROWS", 200)


def follow(folder: Path, name: str, *, reoptimize: bool) -> tuple[list[dict], int]:
    """Run the query over two parts; return its rows, and the number of its last phase."""
    with LiveSession(checkpoint=str(folder / name), reoptimize=reoptimize, buckets=1) as session:
        session.execute(STREAMS.format(folder=folder))
        _, feed = session.follow(f"CREATE QUERY q AS {SELECT}")
        add_rows(folder, 0)
        until(lambda: session.progress().rows_in == 252)
        if reoptimize:
            until(lambda: session._live.version.next_phase > 1)
        add_rows(folder, 1)
        until(lambda: session.progress().rows_in == 504)
        last = max(phase.number for phase in session._live.running_phases())
        session.close()
        return [row for batch in feed for row in batch.to_pylist()], last


def instants(rows: list[dict]) -> list[tuple]:
    """Rows at each instant, sorted."""
    return sorted(
        (at, row["p"], row["q"], row["r"])
        for row in rows
        for at in range(micros(row["valid_from"]), micros(row["valid_to"]))
    )


def micros(time_) -> int:
    return round(time_.timestamp() * 1_000_000)


def cost_of(text: str, folder: Path, **rows: int) -> float:
    return cost_of_joins(plan_of(text, folder), PlanAdvice(rows=rows))


def test_the_best_plan_is_found_by_the_rows_of_the_sources(folder):
    assert cost_of(SELECT, folder, **ROWS) > plan_choice.LEAST_GAIN * cost_of(SELECT_BEST, folder, **ROWS)
    assert cost_of(SELECT, folder, a=5, b=5, c=5) == pytest.approx(cost_of(SELECT_BEST, folder, a=5, b=5, c=5))


@pytest.mark.usefixtures("hasty")
def test_a_query_moves_by_itself_and_stays_exact(folder):
    moved, last = follow(folder, "moved", reoptimize=True)
    assert last > 0
    for name in ROWS:
        for part in (1, 2):
            (folder / name / f"{part}.csv").unlink()
    stayed, first = follow(folder, "stayed", reoptimize=False)
    assert first == 0
    assert instants(moved) == instants(stayed) != []


@pytest.mark.usefixtures("hasty")
def test_a_query_stays_where_little_is_gained(folder, monkeypatch):
    looks = []
    found = better_plans.queries_to_move

    def look(live, propose):
        looks.append(propose("q").advice.rows)
        return list(found(live, propose))

    monkeypatch.setattr(better_plans, "queries_to_move", look)
    with LiveSession(checkpoint=str(folder / "live"), buckets=1) as session:
        session.execute(STREAMS.format(folder=folder) + f"CREATE QUERY q AS {SELECT_BEST}")
        add_rows(folder, 0)
        until(lambda: any(sum(rows.values()) >= 200 for rows in looks))
        assert session._live.version.next_phase == 1


@pytest.mark.usefixtures("hasty")
def test_a_query_moves_because_of_measured_selectivities(folder):
    """All streams have equal rates; all rows of `a` and `b` match each other, and few rows of `b` and `c` do."""
    with LiveSession(checkpoint=str(folder / "live"), reoptimize=False, buckets=1) as session:
        session.execute(STREAMS.format(folder=folder) + f"CREATE QUERY q AS {SELECT}")
        for part in range(8):
            for name in "abc":
                times = range(part * 100, part * 100 + 100)
                rows = [f"{5 if name != 'c' else at % 50},{at},{at}" for at in times]
                (folder / name / f"{part + 1}.csv").write_text("\n".join(["k,v,t", *rows, ""]))
            until(lambda part=part: session.progress().rows_in == 300 * (part + 1))
        advice = session._study_query("q").advice
        assert advice.span == pytest.approx(800, rel=0.2)
        assert advice.selectivities["a.k = b.k"] == pytest.approx(1.0, rel=0.1)
        assert advice.selectivities["b.k = c.k"] == advice.selectivities["c.k = b.k"] == pytest.approx(0.02, rel=0.3)
        (phase,) = session._live.running_phases()
        assert better_plans.gain_of_move(session._live, phase, Proposal(advice)) > plan_choice.LEAST_GAIN


CYCLE = (
    "SELECT a.v AS p, b.v AS q, c.v AS r FROM a WINDOW(RANGE 100), b WINDOW(RANGE 100), c WINDOW(RANGE 100) "
    "WHERE a.k = b.k AND b.v = c.k AND a.v = c.v"
)


def write_cycle(folder: Path, part: int) -> None:
    """A tenth of the rows of `a` and `b` match, all of `b` and `c`, and few of `a` and `c`."""
    times = range(part * 100, part * 100 + 100)
    values = {"a": lambda at: (at % 10, at % 100), "b": lambda at: (at % 10, 1), "c": lambda at: (1, at % 100)}
    for name, value in values.items():
        rows = ["{},{},{}".format(*value(at), at) for at in times]
        (folder / name / f"{part + 1}.csv").write_text("\n".join(["k,v,t", *rows, ""]))


def first_joined(session: LiveSession) -> set[str]:
    """The streams of the join without joins below it, in the newest plan of the only query."""
    last = max(session._live.running_phases(), key=lambda phase: phase.number)
    joins = [each for each in walk(session._live.compiled[last.number].optimized) if isinstance(each, Join)]
    (lowest,) = (each for each in joins if sum(isinstance(below, Join) for below in walk(each)) == 1)
    return {each.stream for each in walk(lowest) if isinstance(each, Scan)}


@pytest.mark.parametrize("buckets", [1, 3])
def test_a_query_moves_because_of_one_of_several_conditions_of_a_join(folder, buckets):
    """The last join has two conditions. Its results show their product; the rows that joins hold show each."""
    with LiveSession(checkpoint=str(folder / "live"), reoptimize=False, buckets=buckets) as session:
        session.execute(STREAMS.format(folder=folder) + f"CREATE QUERY q AS {CYCLE}")
        for part in range(8):
            write_cycle(folder, part)
            until(lambda part=part: session.progress().rows_in == 300 * (part + 1))
        assert first_joined(session) == {"a", "b"}
        advice = session._study_query("q").advice
        found = [advice.selectivities[text] for text in ("a.k = b.k", "b.v = c.k", "a.v = c.v")]
        assert found == pytest.approx([0.1, 1.0, 0.01], rel=0.1)
        (phase,) = session._live.running_phases()
        of_results = session._run.study_query("q").advice
        assert better_plans.gain_of_move(session._live, phase, Proposal(of_results)) < plan_choice.LEAST_GAIN
        assert better_plans.gain_of_move(session._live, phase, Proposal(advice)) > plan_choice.LEAST_GAIN
        session.execute("OPTIMIZE QUERY q")
        assert first_joined(session) == {"a", "c"}


@pytest.mark.usefixtures("hasty")
def test_a_run_that_fails_ends_the_look_for_better_plans_quietly(folder, monkeypatch):
    """Rows are read in the thread of the run; without it, the watch must not raise."""
    looks: list[None] = []
    found = better_plans.queries_to_move

    def look(live, propose):
        if not live.version.queries:
            return []  # the statements below are still on their way
        looks.append(None)
        monkeypatch.setattr(session, "_submit", lambda _: session._find_query("gone"))
        return list(found(live, propose))

    monkeypatch.setattr(better_plans, "queries_to_move", look)
    with LiveSession(checkpoint=str(folder / "live"), buckets=1) as session:
        session.execute(STREAMS.format(folder=folder) + f"CREATE QUERY q AS {SELECT}")
        add_rows(folder, 0)
        until(lambda: len(looks) > 0)
        add_rows(folder, 1)
        until(lambda: len(looks) > 1)
