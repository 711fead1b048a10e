"""A reader that applies a changelog in its order has the relation at every instant."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_live_queries import QUERIES, ROWS
from reference.semantics import relations_of
from support.examples import examples
from support.live import Row, SteppedSession
from support.stories import TABLE, Story

from tidegate.runtime.job import DEAD_LETTERS
from tidegate.session import Session
from tidegate.time import BEGINNING, FOREVER

INSTANTS = range(-5, 60)
Change = tuple[int, str, tuple[object, ...]]
TABLES = {"c": [(BEGINNING, FOREVER, {"k": k, "w": w}) for k, w in TABLE]}


class ChangeSession(SteppedSession):
    """A session that collects the rows of changelogs as rows whose end is their op."""

    def _on_rows(self, name: str, rows: pa.RecordBatch) -> None:
        if name != DEAD_LETTERS:
            self.results.setdefault(name, []).extend(changes_of(rows))  # type: ignore[arg-type]


def changes_of(rows: pa.RecordBatch | pa.Table) -> list[Change]:
    assert rows.schema.names[:2] == ["op", "valid_from"]
    times = rows.column("valid_from").cast(pa.int64()).fill_null(BEGINNING).to_pylist()
    values = [tuple(row.values())[2:] for row in rows.to_pylist()]
    return list(zip(times, rows.column("op").to_pylist(), values, strict=True))


def relation_over_time(changes: list[Change]) -> dict[int, Counter[tuple[object, ...]]]:
    """Apply changes in their order; nothing may be removed that is not there."""
    assert [time for time, _, _ in changes] == sorted(time for time, _, _ in changes)
    found, current, waiting = {}, Counter[tuple[object, ...]](), list(changes)
    for instant in INSTANTS:
        while waiting and waiting[0][0] <= instant:
            _, op, row = waiting.pop(0)
            if op == "-":
                assert current[row] > 0, row
            current[row] += 1 if op == "+" else -1
        found[instant] = +current
    return found


class ChangeStory(Story):
    """A live session whose queries report changes."""

    def _open(self) -> SteppedSession:
        return ChangeSession(self.folder / "checkpoint", self.results, self.buckets)

    def check_changes(self) -> None:
        for name, intervals in self.intervals.items():
            rows: list[Row] = self.results.get(name, [])
            found = relation_over_time(rows)  # type: ignore[arg-type]
            for interval in intervals:
                within = [t for t in INSTANTS if interval.begin <= t < interval.end]
                expected = relations_of(interval.plan, {**self.elements, **TABLES}, within)
                assert {t: found[t] for t in within} == expected, (name, interval)


@st.composite
def change_stories(draw):
    texts = st.sampled_from(draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3)))
    actions: list[tuple[object, ...]] = [("register", draw(texts))]
    for _ in range(draw(st.integers(2, 6))):
        actions += [("rows", stream, draw(ROWS)) for stream in draw(st.sampled_from(["a", "b", "ab", "ab"]))]
        actions += [("step",)] * draw(st.sampled_from([0, 1, 1]))
        changes = st.sampled_from(["register", "alter", "restart"])
        actions += [(change, draw(texts), draw(st.booleans())) for change in draw(st.lists(changes, max_size=2))]
    return actions


@given(change_stories(), st.sampled_from([1, 2]))
@settings(max_examples=examples(60), deadline=None)
def test_applying_the_changes_of_a_live_query_gives_its_relation(actions, buckets):
    with tempfile.TemporaryDirectory() as folder:
        story = ChangeStory(Path(folder), buckets)
        for what, *how in actions:
            match what, how:
                case "register", (text, *_):
                    story.register(f"{text} EMIT CHANGES")
                case "alter", (text, in_step):
                    names = sorted(story.running)
                    story.change("alter", names[-1 if in_step else 0], f"{text} EMIT CHANGES")
                case "rows", (stream, rows):
                    story.arrive(stream, rows)
                case "step", ():
                    story.session.step()
                case "restart", (_, in_step):
                    story.restart(in_step=in_step)
        story.finish()
        story.check_changes()


@given(st.sampled_from(QUERIES), st.lists(ROWS, min_size=1, max_size=4), st.integers(1, 2))
@settings(max_examples=examples(40), deadline=None)
def test_applying_the_changes_of_a_run_gives_its_relation(text, batches, buckets):
    with tempfile.TemporaryDirectory() as folder:
        story = ChangeStory(Path(folder), buckets)
        for number, rows in enumerate(batches):
            story.arrive("ab"[number % 2], rows)
        with Session(runtime="embedded", buckets=buckets) as session:
            session.catalog = story.session._live.catalog
            query = session.sql(f"{text} EMIT CHANGES", once=True)
            assert query is not None
            found = relation_over_time(changes_of(query.finish()))
        assert found == relations_of(story.plan_of(text), {**story.elements, **TABLES}, INSTANTS)
        story.session.abandon()
