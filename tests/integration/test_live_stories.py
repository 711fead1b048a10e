"""Stories of a live session on Spark: queries come, go, change and move, and each is exact from its instant on."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from property.test_live_queries import JOINED, overlapping_stories, stories, stories_of_joins
from support.examples import examples
from support.live import SteppedSparkSession
from support.stories import Story, act

THREE = {"x": "a WINDOW(RANGE 9) AS x", "y": "b WINDOW(RANGE 12) AS y", "c": "c"}


def joined(order: str) -> str:
    return f"SELECT x.v AS k, c.w AS v FROM {', '.join(THREE[each] for each in order)} WHERE x.k = y.k AND y.k = c.k"


ROWS = [("rows", "a", [(1, 0, 1), (1, 1, 2)]), ("rows", "b", [(1, 0, 0), (2, 1, 1)]), ("step",)]
MOVES = [
    ("register", joined("xyc")),
    *ROWS,
    *ROWS,
    ("alter", 0, joined("cyx")),
    ("assert moved",),
    ("restart", False),
    *ROWS,
    ("alter", 0, joined("xcy")),
    ("restart", True),
    *ROWS,
    ("optimize", 0),
    *ROWS,
]
SHARES = [
    ("register", f"SELECT x.k AS k, y.v AS v FROM {JOINED}"),
    *ROWS,
    ("register", f"SELECT y.k AS k, x.k AS v FROM {JOINED}"),
    ("register", f"SELECT x.v AS k, y.v AS v FROM {JOINED}"),
    ("register", "SELECT k, CAST(COUNT(*) AS INT) AS v FROM a WINDOW(RANGE 4) GROUP BY k"),
    *ROWS,
    ("optimize", 0),
    ("pause", 1),
    *ROWS,
    ("optimize", 1),
    ("resume", 0),
    ("alter", 2, "SELECT k, MIN(v) + MAX(v) AS v FROM a WINDOW(RANGE 4) GROUP BY k"),
    *ROWS,
    ("restart", True),
    ("drop", 0),
    *ROWS,
]


@pytest.mark.parametrize("actions", [MOVES, SHARES], ids=["moves", "shares"])
def test_each_query_on_spark_is_exact_from_its_instant_on(tmp_path: Path, spark, actions) -> None:
    story = Story(tmp_path, 2, partial(SteppedSparkSession, spark))
    for action in actions:
        if action == ("assert moved",):
            assert story.session._live.version.moved.files
        else:
            act(story, *action)
    story.finish()
    story.check()


@given(st.one_of(stories(), overlapping_stories(), stories_of_joins()), st.sampled_from([1, 2]))
@settings(max_examples=examples(16), deadline=None, suppress_health_check=list(HealthCheck))
def test_random_stories_on_spark(spark, actions, buckets) -> None:
    with tempfile.TemporaryDirectory() as folder:
        story = Story(Path(folder), buckets, partial(SteppedSparkSession, spark))
        for action in actions:
            act(story, *action)
        story.finish()
        story.check()
