"""Incidents: sequences of alarms of a key without a long pause between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate.physical.common.arrays import Ints
from tidegate.physical.common.kernels.compiled import compiled


@dataclass(frozen=True, slots=True, eq=False)
class Incidents:
    """Last incident of each group: its start, the end of its last alarm, and its number of alarms (0: no incident)."""

    began: Ints
    last: Ints
    alarms: Ints

    @staticmethod
    def none(groups: int) -> Incidents:
        return Incidents(*(np.zeros(groups, np.int64) for _ in range(3)))

    def add_alarms(self, group: Ints, start: Ints, end: Ints, pause: int) -> tuple[Incidents, Ints, Ints]:
        """Add alarms; return the incidents after them, and the incident and number of each alarm.

        An alarm belongs to an incident if at most `pause` lies between them. A late alarm that ends more than `pause`
        before the known incident begins becomes an incident of its own.
        """
        return self.add_in_order(group, start, end, np.lexsort([end, start, group]), pause)

    def add_in_order(
        self, group: Ints, start: Ints, end: Ints, order: Ints, pause: int
    ) -> tuple[Incidents, Ints, Ints]:
        """Add alarms in a given order; see `add_alarms`."""
        known = Incidents(self.began.copy(), self.last.copy(), self.alarms.copy())
        incident, number = _assign_incidents(group, start, end, order, pause, known.began, known.last, known.alarms)
        return known, incident, number


@compiled
def _assign_incidents(
    group: Ints, start: Ints, end: Ints, order: Ints, pause: int, began: Ints, last: Ints, alarms: Ints
) -> tuple[Ints, Ints]:
    incident, number = np.empty(len(order), np.int64), np.ones(len(order), np.int64)
    for row in order:
        at = group[row]
        if alarms[at] == 0 or start[row] > last[at] + pause:
            began[at], last[at], alarms[at] = start[row], end[row], 1
        elif end[row] + pause < began[at]:
            incident[row] = start[row]
            continue
        else:
            last[at], alarms[at] = max(last[at], end[row]), alarms[at] + 1
        incident[row], number[row] = began[at], alarms[at]
    return incident, number
