"""Sizes change between the steps of live queries: results are exact for the sizes that were published."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from property.test_live_queries import ROWS, killed_now_and_then
from support.examples import examples
from support.sized_stories import QUERIES, QUERIES_LATER, SizeColumnsStory, SizedStory, open_sized
from support.stories import act


@st.composite
def sized_stories(draw, *, killed: bool = True):
    """Rounds of rows and steps; queries come and go, and the process ends now and then."""
    texts = st.sampled_from(QUERIES)
    actions: list[tuple[Any, ...]] = [("register", draw(texts))]
    for _ in range(draw(st.integers(2, 8))):
        for stream in draw(st.sampled_from(["a", "ab", "ab", "aab"])):
            actions += [("rows", stream, draw(ROWS))]
        moment = draw(st.one_of(st.none(), st.none(), st.integers(0, 8))) if killed else None
        actions.append(("step",) if moment is None else ("step", moment))
        what = draw(st.sampled_from(["", "", "register", "drop", "restart"]))
        if what == "register":
            change = st.tuples(st.just("register"), st.sampled_from(QUERIES_LATER))
            actions.append(draw(killed_now_and_then(change) if killed else change))
        elif what == "drop":
            actions.append(("drop", draw(st.integers(0, 3))))
        elif what == "restart":
            actions.append(("restart", draw(st.booleans())))
    return actions


def play(story, actions):
    """Do what the story says, and check all results."""
    for action in actions:
        act(story, *action)
    story.finish()
    story.check()


@given(sized_stories(), st.sampled_from([1, 2]), st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None)
def test_each_query_is_exact_for_the_sizes_that_were_published(actions, buckets, seed):
    with tempfile.TemporaryDirectory() as folder:
        story = SizedStory(Path(folder), buckets, open_sized(seed))
        play(story, actions)
        story.check_rows()


@given(sized_stories(), st.sampled_from([1, 2]), st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None)
def test_columns_of_each_query_say_the_sizes_that_were_published(actions, buckets, seed):
    with tempfile.TemporaryDirectory() as folder:
        play(SizeColumnsStory(Path(folder), buckets, open_sized(seed)), actions)


def test_the_hook_of_these_stories_changes_sizes():
    """Else the test above says nothing."""
    rows = [("rows", stream, [(1, 0, 1), (1, 1, 2)]) for stream in "ab"]
    with tempfile.TemporaryDirectory() as folder:
        story = SizedStory(Path(folder), 1, open_sized(1))
        registered: list[tuple[Any, ...]] = [("register", text) for text in QUERIES]
        for action in [*registered, *[*rows, ("step",)] * 6, ("restart", True), ("step",)]:
            act(story, *action)
        story.finish()
        story.check()
        story.check_rows()
        assert story.changes > 10
