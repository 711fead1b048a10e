"""The queries of Table 3: results with constraints and of plain joins are compared, and state is measured."""

from __future__ import annotations

import numpy as np

from benchmarks.support.kmon_road import BATCH, RoadJoin, road_course
from benchmarks.support.kmon_road import Known as Facts
from tidegate.physical.keyed_join.kernels.model import NEVER


def test_a_join_of_facts_about_cars_gives_the_same_with_constraints_and_keeps_less() -> None:
    reports = np.arange(400)
    parent = Facts(reports // 4, reports * BATCH // 10, np.where(reports % 4 == 3, NEVER, (reports + 1) * BATCH // 10))
    cars = np.arange(0, 100, 5)
    child = Facts(cars, 4 * cars * BATCH // 10, (4 * cars + 4) * BATCH // 10)
    course = road_course(RoadJoin(parent, child))
    assert course.equal
    assert course.results == 4 * len(cars)
    assert 0 < course.level() < course.window_level()
    assert course.arrived[-1] == len(reports) + len(cars)
