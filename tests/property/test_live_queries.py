"""Queries come, go and change between steps, and each is exact from its instant on, whatever else happens."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.semantics import relations_of
from support.examples import examples
from support.live import Row, SteppedSession

from tidegate.algebra.plan import Plan
from tidegate.language.bind.program import bind
from tidegate.time import BEGINNING, FOREVER

DELAY = 2
FAR = 1_000
TABLE = [(0, 5), (1, 6), (1, 7)]

STREAMS = """
CREATE STREAM a (t BIGINT, k INT, v INT) FROM '{folder}/a.csv' TIMESTAMP BY t DELAY 2 US;
CREATE STREAM b (t BIGINT, k INT, v INT) FROM '{folder}/b.csv' TIMESTAMP BY t DELAY 2 US;
CREATE TABLE c (k INT, w INT) FROM '{folder}/c.csv';
"""

JOINED = "a WINDOW(RANGE 3) AS x JOIN b WINDOW(RANGE 2) AS y ON x.k = y.k"
QUERIES = [
    "SELECT k, v FROM a WHERE v > 0",
    f"SELECT x.k AS k, y.v AS v FROM {JOINED}",
    f"SELECT x.k AS k, x.v + y.v AS v FROM {JOINED} WHERE x.v < 2",
    "SELECT k, CAST(COUNT(*) AS INT) AS v FROM a WINDOW(RANGE 4) GROUP BY k",
    "SELECT k, CAST(COUNT(*) AS INT) AS v FROM a WINDOW(RANGE 4 SLIDE 2) GROUP BY k",
    "SELECT 0 AS k, CAST(SUM(v) AS INT) AS v FROM b WINDOW(RANGE 3)",
    "SELECT DISTINCT k, v FROM a WINDOW(RANGE 3)",
    "SELECT k, v FROM a UNION ALL SELECT k, v FROM b WINDOW(RANGE 2)",
    f"SELECT x.k AS k, CAST(COUNT(*) AS INT) AS v FROM {JOINED} GROUP BY x.k",
    """SELECT x.k AS k, x.v AS v FROM a WINDOW(RANGE 3) AS x
       WHERE EXISTS (SELECT y.k FROM b WINDOW(RANGE 2) AS y WHERE y.k = x.k)""",
    "SELECT k, v FROM a WINDOW(RANGE 3) EXCEPT SELECT k, v FROM b WINDOW(RANGE 3)",
    "SELECT a.k AS k, c.w AS v FROM a WINDOW(RANGE 2) JOIN c ON a.k = c.k",
    "SELECT c.k AS k, CAST(COUNT(*) AS INT) AS v FROM a WINDOW(RANGE 3) JOIN c ON a.k = c.k GROUP BY c.k",
    "SELECT k, v FROM ISTREAM(SELECT DISTINCT k, v FROM a WINDOW(RANGE 3))",
    "SELECT CAST(COUNT(*) AS INT) AS k, MAX(v) AS v FROM a WINDOW(RANGE 4)",
    "SELECT 0 AS k, MAX(v) AS v FROM a WINDOW(RANGE 4)",
    "SELECT k, MIN(v) AS v FROM a WINDOW(RANGE 4) GROUP BY k HAVING COUNT(*) > 1",
    "SELECT k, MIN(v) + MAX(v) AS v FROM a WINDOW(RANGE 4) GROUP BY k",
    f"SELECT x.v AS k, y.v AS v FROM {JOINED}",
    f"SELECT y.k AS k, x.k AS v FROM {JOINED}",
    f"SELECT x.k AS k, z.v AS v FROM {JOINED} JOIN a WINDOW(RANGE 1) AS z ON y.k = z.k",
    "SELECT k, CAST(COUNT(*) AS INT) AS v FROM (SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 4) GROUP BY k) GROUP BY k",
]


@dataclass
class Interval:
    """In [begin, end) the results of a query are those of a plan; complete, if the query was not ended before."""

    begin: int
    plan: Plan
    end: int = FOREVER
    is_complete: bool = True


@dataclass
class Story:
    """A live session, what was written to its streams, and what its queries must have told."""

    folder: Path
    buckets: int
    results: dict[str, list[Row]] = field(default_factory=dict)
    elements: dict[str, list[tuple[int, int, dict[str, int]]]] = field(default_factory=lambda: {"a": [], "b": []})
    intervals: dict[str, list[Interval]] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        for name in ("a", "b"):
            (self.folder / f"{name}.csv").write_text("t,k,v\n")
        (self.folder / "c.csv").write_text("k,w\n" + "".join(f"{k},{w}\n" for k, w in TABLE))
        self.session = self._open()
        self.session.execute(STREAMS.format(folder=self.folder))

    def _open(self) -> SteppedSession:
        return SteppedSession(self.folder / "checkpoint", self.results, self.buckets)

    def restart(self, *, in_step: bool) -> None:
        self.session.abandon(in_step=in_step)
        self.session = self._open()

    def arrive(self, stream: str, rows: list[tuple[int, int, int]]) -> None:
        latest = max((start for start, _, _ in self.elements[stream]), default=0)
        with (self.folder / f"{stream}.csv").open("a") as file:
            for ahead, k, v in rows:
                latest, t = max(latest, latest + ahead), latest + ahead
                file.write(f"{t},{k},{v}\n")
                self.elements[stream].append((t, t + 1, {"t": t, "k": k, "v": v}))

    def plan_of(self, text: str) -> Plan:
        (query,) = bind(text, self.session._live.catalog).queries
        return query.plan

    def _exact_from(self, text: str) -> int:
        (answer,) = self.session.execute(text)
        return BEGINNING if answer.exact_from is None else answer.exact_from

    def register(self, text: str) -> None:
        name = f"q{len(self.intervals)}"
        begin = self._exact_from(f"CREATE QUERY {name} AS {text}")
        self.intervals[name] = [Interval(begin, self.plan_of(text))]
        self.running.add(name)

    def alter(self, name: str, text: str) -> None:
        if name in self.paused:
            self.session.execute(f"ALTER QUERY {name} AS {text}")
            self.intervals[name].append(Interval(FOREVER, self.plan_of(text), is_complete=False))
            return
        begin = self._exact_from(f"ALTER QUERY {name} AS {text}")
        self.intervals[name][-1].end = begin
        self.intervals[name].append(Interval(begin, self.plan_of(text)))

    def end(self, name: str, statement: str) -> None:
        phases = [p for p in self.session._live.version.phases if p.query == name and not p.is_over]
        for interval in self.intervals[name][max(0, len(self.intervals[name]) - len(phases)) :]:
            interval.is_complete = False
        self.session.execute(f"{statement} QUERY {name}")
        self.running.discard(name)

    def resume(self, name: str) -> None:
        begin = self._exact_from(f"RESUME QUERY {name}")
        last = self.intervals[name][-1]
        last.end = min(last.end, begin)
        self.intervals[name].append(Interval(begin, last.plan))
        self.paused.discard(name)
        self.running.add(name)

    def finish(self) -> None:
        self.arrive("a", [(FAR, 9, 9)])
        self.arrive("b", [(FAR, 9, 9)])
        while self.session.step():
            pass
        self.session.abandon()

    def check(self) -> None:
        table = [(BEGINNING, FOREVER, {"k": k, "w": w}) for k, w in TABLE]
        instants = list(range(-5, 60))
        for name, intervals in self.intervals.items():
            got = snapshots(self.results.get(name, []), instants)
            for interval in intervals:
                within = [t for t in instants if interval.begin <= t < interval.end]
                expected = relations_of(interval.plan, {**self.elements, "c": table}, within)
                for t in within:
                    if interval.is_complete:
                        assert got[t] == expected[t], (name, t, interval)
                    else:
                        assert got[t] <= expected[t], (name, t, interval)
            first = min(interval.begin for interval in intervals)
            assert all(not got[t] for t in instants if t < first), name


ROWS = st.lists(st.tuples(st.integers(-DELAY, 3), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=4)


@st.composite
def stories(draw):
    """Rounds of rows, a step and changes. With few texts, queries share operators."""
    texts = st.sampled_from(draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3)))
    change = st.one_of(
        st.tuples(st.just("register"), texts),
        st.tuples(st.just("alter"), st.integers(0, 5), texts),
        st.tuples(st.sampled_from(["drop", "pause", "resume", "optimize", "optimize"]), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.booleans()),
    )
    actions: list[tuple[Any, ...]] = [("register", draw(texts))]
    for _ in range(draw(st.integers(2, 8))):
        actions += [("rows", stream, draw(ROWS)) for stream in draw(st.sampled_from(["a", "b", "ab", "ab"]))]
        actions += [("step",)] * draw(st.sampled_from([0, 1, 1, 1]))
        actions += draw(st.lists(change, max_size=2))
    return actions


OVERLAPPING = [text for text in QUERIES if JOINED in text or "WINDOW(RANGE 4)" in text]


@st.composite
def overlapping_stories(draw):
    """Queries with other columns of the same joins and groups, which move to plans that serve several of them."""
    texts = st.sampled_from(draw(st.lists(st.sampled_from(OVERLAPPING), min_size=2, max_size=4, unique=True)))
    change = st.one_of(
        st.tuples(st.just("register"), texts),
        st.tuples(st.sampled_from(["optimize", "optimize", "optimize", "drop"]), st.integers(0, 5)),
        st.tuples(st.just("restart"), st.booleans()),
    )
    actions: list[tuple[Any, ...]] = [("register", draw(texts)), ("register", draw(texts))]
    for _ in range(draw(st.integers(3, 8))):
        actions += [("rows", stream, draw(ROWS)) for stream in "ab"]
        actions += [("step",), *draw(st.lists(change, max_size=2))]
    return actions


@given(overlapping_stories(), st.sampled_from([1, 2]))
@settings(max_examples=examples(40), deadline=None)
def test_queries_that_move_to_a_common_plan_stay_exact(actions, buckets):
    run_story(actions, buckets)


@given(stories(), st.sampled_from([1, 2]))
@settings(max_examples=examples(60), deadline=None)
def test_each_query_is_exact_from_its_instant_on(actions, buckets):
    run_story(actions, buckets)


AGGREGATE = "SELECT k, CAST(COUNT(*) AS INT) AS v FROM a WINDOW(RANGE 30) GROUP BY k"


def test_what_an_altered_query_holds_back_is_emitted():
    # The count of the key 0 does not change any more, so the old phase does not know its end when it is over.
    before = [("rows", "a", [(2, 0, 1), (2, 0, 1)]), ("step",)]
    after = [("rows", "a", [(3, 1, 1)]), ("step",)]
    run_story([("register", AGGREGATE), *before, ("alter", 0, QUERIES[0]), *after * 4, ("step",)], 1)


def test_a_new_reader_of_an_operator_that_runs_misses_what_was_given_before():
    rows = [("rows", stream, [(1, 0, 1), (1, 0, 2)]) for stream in "ab"]
    for text in QUERIES:
        run_story([("register", text), *rows, ("step",), ("register", text), *rows, ("step",)], 1)


def run_story(actions, buckets: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), buckets)
        for action in actions:
            act(story, *action)
        story.finish()
        story.check()


def act(story: Story, what: str, *how) -> None:
    match what, how:
        case "register", (text,):
            story.register(text)
        case "rows", (stream, rows):
            story.arrive(stream, rows)
        case "step", ():
            story.session.step()
        case "restart", (in_step,):
            story.restart(in_step=in_step)
        case "optimize", (number,):
            if names := sorted(story.running):
                story.session.execute(f"OPTIMIZE QUERY {names[number % len(names)]}")
        case "resume", (number,):
            if names := sorted(story.paused):
                story.resume(names[number % len(names)])
        case _, (number, *text):
            names = sorted(story.running | (story.paused if what == "alter" else set()))
            if not names:
                return
            name = names[number % len(names)]
            if what == "alter":
                story.alter(name, *text)
            else:
                story.end(name, what.upper())
                if what == "pause":
                    story.paused.add(name)
