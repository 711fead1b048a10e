"""Incidents against plain Python: alarms of a key without a pause between them are one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.physical.threshold_alert.kernels.incidents import Incidents

ALARM = st.tuples(st.integers(0, 1), st.integers(0, 20), st.integers(0, 4))


def told(steps: list[list[tuple[int, int, int]]], pause: int) -> list[tuple[int, int]]:
    """The incident and number of each alarm, one after the other."""
    last: dict[int, list[int]] = {}
    found: list[tuple[int, int]] = []
    for step in steps:
        here = dict.fromkeys(range(len(step)), (0, 0))
        for at in sorted(range(len(step)), key=lambda i: (step[i][0], step[i][1], step[i][1] + step[i][2])):
            key, start, length = step[at]
            known = last.get(key)
            if known is not None and start + length + pause < known[0]:
                here[at] = (start, 1)
            elif known is None or start > known[1] + pause:
                last[key] = [start, start + length, 1]
                here[at] = (start, 1)
            else:
                known[1], known[2] = max(known[1], start + length), known[2] + 1
                here[at] = (known[0], known[2])
        found += here.values()
    return found


@given(st.lists(st.lists(ALARM, max_size=6), max_size=4), st.integers(0, 4))
def test_alarms_are_counted_within_their_incident(steps: list[list[tuple[int, int, int]]], pause: int) -> None:
    known, found = Incidents.none(2), list[tuple[int, int]]()
    for step in steps:
        group, start, length = (np.array([alarm[i] for alarm in step], np.int64) for i in range(3))
        known, incident, number = known.add_alarms(group, start, start + length, pause)
        found += zip(incident.tolist(), number.tolist(), strict=True)
    assert found == told(steps, pause)


def test_an_incident_goes_on_until_there_is_a_pause() -> None:
    group = np.array([0, 0])
    first, incident, number = Incidents.none(1).add_alarms(group, np.array([5, 1]), np.array([6, 2]), 3)
    assert (incident.tolist(), number.tolist()) == ([1, 1], [2, 1])
    _, incident, number = first.add_alarms(group, np.array([9, 20]), np.array([9, 20]), 3)
    assert (incident.tolist(), number.tolist()) == ([1, 20], [3, 1])
