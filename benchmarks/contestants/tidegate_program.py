"""The query of the rivals as an alert of Tidegate."""

from __future__ import annotations

from benchmarks.contestants.protocol import Alarms, Data, Task
from tidegate.runtime.running_query import RunningQuery


def alert(task: Task, data: Data) -> str:
    streams = "".join(
        f"CREATE STREAM {s} (id BIGINT, key INT, value DOUBLE, at BIGINT) FROM '{data.folder}/{s}' TIMESTAMP BY at;\n"
        for s in "ab"
    )
    return (
        f"{streams}CREATE ALERT alarm FROM a, b WITHIN {task.distance} MICROSECONDS MATCHING key "
        f"WHEN a.value + b.value > {task.threshold}{' EMIT ALL' if task.every_pair else ''};"
    )


def alarms_of(running: RunningQuery | None) -> Alarms:
    """Wait for a query, and return its alarms."""
    assert running is not None
    table = running.results()
    return list(zip(table["a_id"].to_pylist(), table["b_id"].to_pylist(), strict=True))
