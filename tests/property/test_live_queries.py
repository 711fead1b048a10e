"""Queries come, go and change between steps, and each is exact from its instant on, whatever else happens."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples
from support.stories import DELAY, Story, act

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
    f"SELECT x.v AS k, y.v AS v FROM {JOINED} WHERE x.v < y.v",
    f"SELECT y.v AS k, x.v AS v FROM {JOINED} WHERE x.v > 0 AND y.v < 2",
    f"SELECT x.v AS k, CAST(COUNT(*) AS INT) AS v FROM {JOINED} WHERE y.v < 2 GROUP BY x.v",
    f"SELECT x.k AS k, z.v AS v FROM {JOINED} JOIN a WINDOW(RANGE 1) AS z ON y.k = z.k",
    "SELECT k, CAST(COUNT(*) AS INT) AS v FROM (SELECT k, COUNT(*) AS n FROM a WINDOW(RANGE 4) GROUP BY k) GROUP BY k",
]


ROWS = st.lists(st.tuples(st.integers(-DELAY, 3), st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=4)


def killed_now_and_then(change):
    """Add to some changes the durable write before which the process is killed."""
    moments = st.one_of(st.none(), st.none(), st.none(), st.integers(0, 8))
    return st.tuples(change, moments).map(lambda both: both[0] if both[1] is None else (*both[0], both[1]))


@st.composite
def stories(draw):
    """Rounds of rows, a step and changes. With few texts, queries share operators."""
    texts = st.sampled_from(draw(st.lists(st.sampled_from(QUERIES), min_size=1, max_size=3)))
    change = st.one_of(
        killed_now_and_then(st.tuples(st.just("register"), texts)),
        killed_now_and_then(st.tuples(st.just("alter"), st.integers(0, 5), texts)),
        killed_now_and_then(st.tuples(st.sampled_from(["drop", "pause", "resume", "optimize"]), st.integers(0, 5))),
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


ITEMS = {
    "x": "a WINDOW(RANGE 3) AS x",
    "y": "b WINDOW(RANGE 2) AS y",
    "z": "a WINDOW(RANGE 4 SLIDE 2) AS z",
    "w": "b WINDOW(RANGE 5) AS w",
    "c": "c",
}
CONDITIONS = {
    "xyz": "x.k = y.k AND y.k = z.k",
    "xyzw": "x.k = y.k AND y.v = z.v AND z.k = w.k",
    "xyc": "x.k = y.k AND y.k = c.k",
    "yzw": "y.v = z.v AND z.v < w.v",
}
COLUMNS = {"xyz": "x.k AS k, z.v AS v", "xyzw": "x.v AS k, w.v AS v", "xyc": "y.v AS k, c.w AS v", "yzw": "y.k, w.v"}
SKEWED_ROWS = st.lists(
    st.tuples(st.integers(-DELAY, 3), st.integers(0, 1), st.sampled_from([None, 0, 1])), min_size=1, max_size=4
)


@st.composite
def stories_of_joins(draw):
    """Queries whose joins get another order, while one stream is ahead of the other."""
    inputs = draw(st.sampled_from(list(CONDITIONS)))
    orders = st.permutations(inputs).map(lambda order: ", ".join(ITEMS[each] for each in order))
    texts = orders.map(lambda items: f"SELECT {COLUMNS[inputs]} FROM {items} WHERE {CONDITIONS[inputs]}")
    actions: list[tuple[Any, ...]] = [("register", draw(texts))]
    for _ in range(draw(st.integers(3, 8))):
        for stream in draw(st.sampled_from(["a", "b", "ab", "ab", "aab"])):
            actions += [("rows", stream, draw(SKEWED_ROWS))]
        actions += [("step",)] * draw(st.sampled_from([0, 1, 1, 1])) + draw(
            st.sampled_from([[], [], [("restart", True)]])
        )
        which = st.integers(0, 2)
        changes = {
            "optimize": st.tuples(st.just("optimize"), which),
            "alter": st.tuples(st.just("alter"), which, texts),
            "register": st.tuples(st.just("register"), texts),
            "pause": st.tuples(st.sampled_from(["pause", "resume"]), which),
        }
        what = draw(st.sampled_from(["", "optimize", "optimize", "alter", "alter", "register", "pause"]))
        actions += [draw(killed_now_and_then(changes[what]))] if what else []
    return actions


@given(stories_of_joins(), st.sampled_from([1, 2]))
@settings(max_examples=examples(40), deadline=None)
def test_joins_whose_states_are_moved_stay_exact(actions, buckets):
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
