"""Tidegate in one process."""

from __future__ import annotations

from benchmarks.contestants.protocol import Alarms, Data, Task, compete
from benchmarks.contestants.tidegate_program import alarms_of, alert
from tidegate.session import Session


def run(task: Task, data: Data) -> Alarms:
    with Session(runtime="embedded") as session:
        return alarms_of(session.sql(alert(task, data), once=True))


if __name__ == "__main__":
    compete(run)
