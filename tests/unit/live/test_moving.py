"""Moving of states: a new order of joins takes over the rows that the old joins hold, and counts at once."""

from __future__ import annotations

from itertools import count, permutations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.stories import Story

from tidegate.catalog.catalog import Catalog
from tidegate.expressions.nodes import TRUE
from tidegate.language.bind.program import bind
from tidegate.live import moving
from tidegate.live.session import LiveSession
from tidegate.optimizer.advice import PlanAdvice
from tidegate.optimizer.join_meaning import is_same_join
from tidegate.physical.common.batch import Batch
from tidegate.physical.common.operator import NO_STATE
from tidegate.physical.join.operator import JoinOperator
from tidegate.runtime.costs.join_statistics import QueryStudy
from tidegate.schema import Schema, Type

ITEMS = {"x": "a WINDOW(RANGE 20) AS x", "y": "b WINDOW(RANGE 20) AS y", "z": "a WINDOW(RANGE 15) AS z"}
WHERE = "x.k = y.k AND y.k = z.k"


def text_of(order: str, where: str = WHERE, columns: str = "x.v AS p, y.v AS q, z.v AS r") -> str:
    return f"SELECT {columns} FROM {', '.join(ITEMS[each] for each in order)} WHERE {where}"


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return begin_story(tmp_path, text_of("xyz"))


def begin_story(folder: Path, text: str, buckets: int = 2) -> Story:
    folder.mkdir(exist_ok=True)
    story = Story(folder, buckets)
    story.register(text)
    arrive(story, 3)
    return story


def arrive(story: Story, times: int) -> None:
    """Let rows arrive, more of them in the stream a, which is ahead."""
    for _ in range(times):
        story.arrive("a", [(1, 0, 1), (1, 1, 2)])
        story.arrive("b", [(1, 0, 3)])
        story.session.step()


def say(story: Story, text: str) -> str:
    (answer,) = story.session.execute(text)
    return answer.message


def phases(story: Story) -> int:
    return len(list(story.session._live.running_phases()))


def test_another_order_of_joins_counts_from_the_largest_watermark_on(story: Story):
    story.change("alter", "q0", text_of("zyx"))
    begin = story.session._live.version.query("q0").exact_from
    # The windows are much longer. The window of 15 does not move in steps, so watermarks are those of the streams.
    assert begin == max(story.session._run.engine.watermarks[stream] for stream in "ab")
    assert phases(story) == 2
    arrive(story, 6)
    assert phases(story) == 1
    story.finish()
    story.check()


def test_rows_that_an_old_join_has_dropped_are_joined_by_the_old_plan(tmp_path: Path):
    items = {"x": "a WINDOW(RANGE 3) AS x", "z": "a WINDOW(RANGE 30) AS z", "y": "b WINDOW(RANGE 30) AS y"}

    def ordered(order: str) -> str:
        return f"SELECT x.v AS p FROM {', '.join(items[each] for each in order)} WHERE x.k = z.k AND z.k = y.k"

    story = Story(tmp_path, 1)
    story.register(ordered("xzy"))
    story.arrive("a", [(1, 0, 1), (20, 1, 2)])
    story.arrive("b", [(1, 1, 0)])
    story.session.step()
    # Its first join needs no row of x before 19 any more. The new plan joins x last, and would need them for long.
    story.change("alter", "q0", ordered("zyx"))
    assert story.session._live.version.moved.files
    story.arrive("b", [(2, 0, 0)])
    story.session.step()
    story.finish()
    story.check()
    assert (3, 4, (1,)) in story.results["q0"]


def test_rows_that_meet_a_table_at_once_are_not_held(tmp_path: Path):
    items = {"x": "a WINDOW(RANGE 9) AS x", "y": "b WINDOW(RANGE 9) AS y", "c": "c"}

    def ordered(order: str) -> str:
        return f"SELECT x.v AS p FROM {', '.join(items[each] for each in order)} WHERE x.k = y.k AND y.k = c.k"

    story = Story(tmp_path, 1)
    story.register(ordered("xyc"))
    arrive(story, 2)
    story.change("alter", "q0", ordered("cyx"))
    assert story.session._live.version.moved.files
    while phases(story) > 1:
        arrive(story, 1)
    # Rows of y are joined with the table when they arrive, and then only the pairs are held.
    story.change("alter", "q0", ordered("xyc"))
    assert not story.session._live.version.moved.files
    arrive(story, 4)
    story.finish()
    story.check()


@pytest.mark.parametrize("in_step", [False, True])
def test_moved_states_are_there_after_a_restart(story: Story, in_step: bool):
    story.change("alter", "q0", text_of("zyx"))
    story.restart(in_step=in_step)
    story.restart(in_step=False)
    arrive(story, 4)
    story.change("alter", "q0", text_of("yxz"))
    story.restart(in_step=False)
    arrive(story, 4)
    story.finish()
    story.check()


CHANGES = {
    "register": [("register", "q1", text_of("zyx"))],
    "share": [("register", "q1", text_of("xyz", columns="x.v AS p"))],
    "drop": [("register", "q1", text_of("zyx")), ("drop", "q1", "")],
    "pause": [("pause", "q0", ""), ("resume", "q0", "")],
    "alter": [("alter", "q0", text_of("xyz", f"{WHERE} AND x.v < 2")), ("alter", "q0", text_of("xyz"))],
    "move": [("alter", "q0", text_of("zxy")), ("alter", "q0", text_of("xyz"))],
    "optimize": [("alter", "q0", text_of("xyz")), ("optimize", "q0", "")],
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=list(CHANGES))
def test_a_process_may_be_killed_at_each_write_of_a_change(story: Story, changes: list[tuple[str, str, str]]):
    is_killed, written = True, set[bool]()
    for moment in count():
        for what, name, text in changes:
            own = name if name == "q0" else f"q{len(story.intervals) - (what == 'drop')}"
            before = story.session._live.version.version
            is_killed = story.change(what, own, text, killed=moment)
            is_written = story.session._live.version.version > before
            written.add(is_written)
            if is_killed and not is_written:
                story.change(what, own, text)
        arrive(story, 1)
        if not is_killed:
            break
    story.finish()
    story.check()
    assert written == {False, True}
    assert moment > 2


@pytest.mark.parametrize("change", ["move", "alter"])
def test_a_process_may_be_killed_at_each_write_of_a_step_after_a_change(tmp_path: Path, change: str):
    story = begin_story(tmp_path, text_of("xyz"), buckets=1)
    for moment in count():
        story.change(*CHANGES[change][moment % 2])
        killed = []
        for ahead in (1, 2):
            # The old phase is flushed in one of these steps, and dropped after it.
            story.arrive("a", [(ahead, 0, 1), (ahead, 1, 2)])
            story.arrive("b", [(2 * ahead, 0, 3)])
            killed.append(story.step_killed_at(moment))
        if not any(killed):
            break
    story.finish()
    story.check()
    assert moment > 4


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (text_of("xyz"), text_of("zyx", f"{WHERE} AND x.v < 2"), "more than the order of joins"),
        (text_of("xyz"), text_of("zyx", columns="y.v AS p, y.v AS q, z.v AS r"), "more than the order of joins"),
        (text_of("xyz"), text_of("zyx", "x.k = y.k AND x.k < z.k"), "more than the order of joins"),
    ],
)
def test_other_meanings_run_side_by_side(tmp_path: Path, old: str, new: str, why: str):
    story = begin_story(tmp_path, old)
    story.change("alter", "q0", new)
    assert story.session._live.version.query("q0").exact_from > 10
    story.session.abandon()


@pytest.fixture
def many_of_a(monkeypatch) -> None:
    """What is known of the sources: `a` has many more rows than `b`, so that another order of joins is better."""
    study = QueryStudy(PlanAdvice(rows={"a": 1000, "b": 1}))
    monkeypatch.setattr(LiveSession, "_study_query", lambda *_: study)


@pytest.mark.usefixtures("many_of_a")
def test_optimize_says_how_a_query_moves_and_why(story: Story, monkeypatch):
    monkeypatch.setattr(moving, "MOST_PAIRS", 3)
    assert "until then both plans run: the rows of the joins would make" in say(story, "OPTIMIZE QUERY q0")
    story.session.abandon()


@pytest.mark.usefixtures("many_of_a")
def test_optimize_moves_the_states_of_joins(story: Story):
    arrive(story, 1)
    assert say(story, "OPTIMIZE QUERY q0").endswith("; its joins take over the rows of the old ones")
    assert say(story, "OPTIMIZE QUERY q0") == "query q0 has the best plan that is known"
    arrive(story, 3)
    story.restart(in_step=True)
    story.finish()
    story.check()


@pytest.mark.parametrize("more", ["PAUSE QUERY q0", "OPTIMIZE QUERY q0", f"ALTER QUERY q0 AS {text_of('yzx')}"])
def test_a_text_may_change_a_query_twice(story: Story, more: str):
    *_, answer = story.session.execute(f"ALTER QUERY q0 AS {text_of('zyx')}; {more}")
    assert answer.query == "q0"
    story.restart(in_step=False)
    arrive(story, 8)
    if "PAUSE" in more:
        story.session.abandon()
        return
    story.finish()
    story.check()


@pytest.mark.usefixtures("many_of_a")
def test_an_aggregate_over_joins_runs_on_both_plans(story: Story):
    story.register(f"SELECT COUNT(*) AS n FROM ({text_of('xyz')})")
    arrive(story, 1)
    assert "keeps more than the rows of its inputs" in say(story, "OPTIMIZE QUERY q1")
    story.finish()
    story.check()


def test_the_meaning_of_a_tree_of_joins_does_not_depend_on_its_order():
    catalog = bind(
        "CREATE STREAM a (t BIGINT, k INT, v INT) FROM 'a.csv' TIMESTAMP BY t;"
        "CREATE STREAM b (t BIGINT, k INT, v INT) FROM 'b.csv' TIMESTAMP BY t;",
        Catalog(),
    ).catalog

    def plan(order: str, where: str, columns: str = "x.v AS p"):
        return bind(text_of(order, where, columns), catalog).queries[0].plan

    same = ["x.k = y.k AND y.k = z.k", "z.k = y.k AND x.k = z.k", "x.k = y.k AND y.k = z.k AND x.k = z.k"]
    others = ["x.k = y.k AND y.k = z.v", "x.k = y.k AND y.k < z.k", "x.k = y.k", "x.k = y.k AND y.k = z.k AND x.v > 1"]
    first = plan("xyz", same[0])
    for order in map("".join, permutations("xyz")):
        assert all(is_same_join(first, plan(order, where)) for where in same)
        assert not any(is_same_join(first, plan(order, where)) for where in others)
        assert not is_same_join(first, plan(order, same[0], "z.v AS p"))


def test_a_join_holds_elements_as_it_got_them():
    left, right = Schema.of(a=Type.INT), Schema.of(b=Type.INT)
    join = JoinOperator(left, right, ("a",), ("b",), TRUE)
    ints = [pa.array(values, pa.int32()) for values in ([1, 2, 2], [2, 3])]
    a = Batch(np.array([0, 1, 2]), np.array([5, 6, 7]), pa.record_batch({"a": ints[0]}))
    b = Batch(np.array([3, 4]), np.array([9, 9]), pa.record_batch({"b": ints[1]}))
    stepped, held = join.step(NO_STATE, [a, b], [0, 0]).state, join.hold_elements([a, b])
    for state in (stepped, held):
        for which, batch in enumerate((a, b)):
            rows = [tuple(row.values()) for row in join.held_elements(state, which).to_arrow().to_pylist()]
            assert sorted(rows) == sorted(tuple(row.values()) for row in batch.to_arrow().to_pylist())
    later = Batch(np.array([4]), np.array([6]), pa.record_batch({"a": pa.array([2], pa.int32())}))
    steps = [join.step(state, [later, Batch.empty(right)], [4, 4]).output.to_arrow() for state in (stepped, held)]
    assert steps[0].num_rows == 1
    assert steps[0].equals(steps[1])
