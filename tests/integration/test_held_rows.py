"""Selectivities from rows that joins hold: Spark reads the states of a run from its checkpoint."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from support.live import SteppedSession, SteppedSparkSession
from support.stories import OpenSession, Story

from tidegate.optimizer.advice import PlanAdvice

CYCLE = (
    "SELECT x.v AS p FROM a WINDOW(RANGE 90) AS x, b WINDOW(RANGE 90) AS y, a WINDOW(RANGE 80) AS z "
    "WHERE x.k = y.k AND y.v = z.v AND x.v = z.k"
)


def advise(folder: Path, open_session: OpenSession) -> PlanAdvice:
    """Return the advice after three steps."""
    folder.mkdir()
    story = Story(folder, 2, open_session)
    story.register(CYCLE)
    for _ in range(3):
        story.arrive("a", [(1, 0, 1), (0, 1, 1), (0, 1, 2), (0, 2, None)])
        story.arrive("b", [(1, 1, 1), (0, 1, 2), (0, 0, 2), (0, 2, 2)])
        story.session.step()
    advice = story.session._study_query("q0").advice
    story.session.abandon()
    return advice


def test_both_runtimes_give_the_same_selectivities(tmp_path: Path, spark) -> None:
    on_spark = advise(tmp_path / "spark", partial(SteppedSparkSession, spark))
    assert on_spark.selectivities["x.k = y.k"] == pytest.approx((3 * 3 + 6 * 6 + 3 * 3) / 144)
    embedded = advise(tmp_path / "embedded", SteppedSession)
    assert on_spark.selectivities == embedded.selectivities
