"""A snapshot query over materialized views says what is valid at its instant, whatever happened before."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_live_queries import QUERIES, ROWS
from reference.semantics import relations_of
from support.examples import examples
from support.stories import TABLE, Story

from tidegate.algebra.plan import Plan
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.live.answers import Answer
from tidegate.time import BEGINNING, EARLIEST, FOREVER

SNAPSHOTS = [
    "SELECT * FROM {x}",
    "SELECT v FROM {x} WHERE k = 0",
    "SELECT k, COUNT(*) AS n, SUM(v) AS total FROM {x} GROUP BY k",
    "SELECT p.k AS k, p.v AS v, q.v AS w FROM {x} AS p JOIN {y} AS q ON p.k = q.k",
    "SELECT p.v AS v, c.w AS w FROM {x} AS p JOIN c ON p.k = c.k",
    "SELECT k, v FROM {x} EXCEPT SELECT k, v FROM {y}",
    "SELECT p.k AS k FROM {x} AS p WHERE NOT EXISTS (SELECT q.k FROM {y} AS q WHERE q.v = p.v)",
    "SELECT DISTINCT v FROM {x} UNION ALL SELECT v FROM {y}",
]


class ViewStory(Story):
    """A live session with views."""

    def create(self, text: str, history: int) -> None:
        name = f"v{len(self.intervals)}"
        begin = self._last_exact_from(f"CREATE MATERIALIZED VIEW {name} WITH (history = '{history} us') AS {text}")
        self.intervals[name] = []
        self.begins = {**getattr(self, "begins", {}), name: begin}
        self.running.add(name)

    def _last_exact_from(self, text: str) -> int:
        *_, answer = self.session.execute(text)
        return BEGINNING if answer.exact_from is None else answer.exact_from

    def arrive_late(self, stream: str) -> None:
        """Write a row before the watermark: it must not count anywhere."""
        with (self.folder / f"{stream}.csv").open("a") as file:
            file.write(f"{self.session._run.engine.watermarks.get(stream, EARLIEST) - 1},0,1\n")

    def ask(self, text: str, x: str, y: str) -> None:
        """Ask for a snapshot, and check it."""
        text = text.format(x=x, y=y)
        read = {name for name in (x, y) if name in text}
        try:
            (answer,) = self.session.execute(text)
        except QueryError as error:
            if error.code == "Q323" and (len(read) > 1 or self.begins[x] > BEGINNING):
                return
            raise
        self.check_answer(answer, self.plan_of(text), max(self.begins[name] for name in read))

    def plan_of(self, text: str) -> Plan:
        # Bound as a query over streams: for it, a view is its text.
        (query,) = bind(text, self.session._live.catalog).queries
        return query.plan

    def check_answer(self, answer: Answer, plan: Plan, begin: int) -> None:
        instant = -1_000 if answer.instant is None else answer.instant
        assert answer.instant is None or instant >= begin
        table = [(BEGINNING, FOREVER, {"k": k, "w": w}) for k, w in TABLE]
        expected = relations_of(plan, {**self.elements, "c": table}, [instant])[instant]
        assert Counter(tuple(row.values()) for row in answer.table.to_pylist()) == Counter(expected), instant


@st.composite
def view_stories(draw):
    texts = st.sampled_from(draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3)))
    actions: list[tuple[object, ...]] = []
    for number in range(draw(st.integers(2, 7))):
        if number < 2 or draw(st.booleans()):
            actions += [("create", draw(texts), draw(st.sampled_from([0, 0, 2, 1_000])))]
        actions += [("rows", stream, draw(ROWS)) for stream in draw(st.sampled_from(["a", "b", "ab", "ab"]))]
        actions += draw(st.lists(st.sampled_from([("late", "a"), ("late", "b"), ("restart", False), ("drop", number)])))
        actions += [("step",)] * draw(st.sampled_from([0, 1, 1]))
        which = st.integers(0, 5)
        actions += draw(st.lists(st.tuples(st.just("ask"), st.sampled_from(SNAPSHOTS), which, which), max_size=4))
        actions += [("restart", True)] * draw(st.sampled_from([0, 0, 1]))
    return actions


@given(view_stories(), st.sampled_from([1, 2]))
@settings(max_examples=examples(80), deadline=None)
def test_a_snapshot_is_what_is_valid_at_its_instant(actions, buckets):
    with tempfile.TemporaryDirectory() as folder:
        story = ViewStory(Path(folder), buckets)
        for action in actions:
            act(story, *action)
        story.session.abandon()


def act(story: ViewStory, what: str, *how) -> None:
    names = sorted(story.running)
    match what, how:
        case "create", (text, history):
            story.create(text, history)
        case "rows", (stream, rows):
            story.arrive(stream, rows)
        case "late", (stream,):
            story.arrive_late(stream)
        case "step", ():
            story.session.step()
        case "restart", (in_step,):
            story.restart(in_step=in_step)
        case "drop", (number,) if len(names) > 1:
            name = names[number % len(names)]
            story.session.execute(f"DROP VIEW {name}")
            story.running.discard(name)
        case "ask", (text, x, y) if names:
            story.ask(text, names[x % len(names)], names[y % len(names)])
