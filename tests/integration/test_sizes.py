"""Sizes that change while queries run on Spark: in reading tasks and in those of later levels, after restarts too."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from property.test_live_sizes import sized_stories
from support.examples import examples
from support.live import SteppedSparkSession
from support.sized_stories import QUERIES, SizeColumnsStory, SizedStory, random_adapt
from support.stories import act

pytestmark = pytest.mark.spark


def open_on_spark(spark, seed: int):
    return lambda folder, results, buckets: SteppedSparkSession(spark, folder, results, buckets, random_adapt(seed))


@pytest.mark.parametrize("buckets", [1, 2])
def test_each_query_on_spark_is_exact_for_the_sizes_that_were_published(tmp_path: Path, spark, buckets: int) -> None:
    rows = [("rows", stream, [(1, 0, 1), (0, 1, 2), (2, 1, 0)]) for stream in "ab"]
    rounds = [*rows, ("step",)] * 3
    registered: list[tuple[Any, ...]] = [("register", text) for text in QUERIES]
    actions = [*registered, *rounds, ("restart", True), *rounds, ("step", 3), *rounds]
    story = SizedStory(tmp_path, buckets, open_on_spark(spark, 1))
    for action in actions:
        act(story, *action)
    story.finish()
    story.check()
    story.check_rows()
    assert story.changes > 10


@pytest.mark.parametrize("buckets", [1, 2])
def test_columns_of_each_query_on_spark_say_the_sizes_that_were_published(tmp_path: Path, spark, buckets: int) -> None:
    rows = [("rows", stream, [(1, 0, 1), (0, 1, 2), (2, 1, 0)]) for stream in "ab"]
    # The second stream pauses: sizes change while results wait for it.
    rounds = [*rows, ("step",), rows[0], ("step",), rows[0], ("step",)] * 2
    registered: list[tuple[Any, ...]] = [("register", text) for text in QUERIES]
    story = SizeColumnsStory(tmp_path, buckets, open_on_spark(spark, 1))
    for action in [*registered, *rounds, ("restart", True), *rounds, ("step", 3), *rounds]:
        act(story, *action)
    story.finish()
    story.check()
    assert story.changes > 10


@given(sized_stories(), st.sampled_from([1, 2]), st.integers(0, 1000))
@settings(max_examples=examples(6), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_stories_on_spark(spark, actions, buckets, seed) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = SizedStory(Path(folder), buckets, open_on_spark(spark, seed))
        for action in actions:
            act(story, *action)
        story.finish()
        story.check()
        story.check_rows()
