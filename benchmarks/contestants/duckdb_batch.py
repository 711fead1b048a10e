"""DuckDB: no stream, but one query over all files, with time buckets so that it can join by equality."""

from __future__ import annotations

import duckdb

from benchmarks.contestants.protocol import Alarms, Data, Task, compete


def run(task: Task, data: Data) -> Alarms:
    columns = "{'id': 'BIGINT', 'key': 'INTEGER', 'value': 'DOUBLE', 'at': 'BIGINT'}"
    a, b = (f"read_csv('{data.folder}/{s}/*.csv', header = true, columns = {columns})" for s in "ab")
    query = f"""
        WITH
          l AS (SELECT *, "at" // {task.distance} AS bucket FROM {a}),
          r AS (SELECT *, "at" // {task.distance} + unnest([-1, 0, 1]) AS bucket FROM {b})
        SELECT l.id, r.id FROM l JOIN r ON l.key = r.key AND l.bucket = r.bucket
        WHERE l.value + r.value > {task.threshold} AND l.at - r.at BETWEEN -{task.distance} AND {task.distance}
        """
    with duckdb.connect() as database:
        return [(left, right) for left, right in database.sql(query).fetchall()]


if __name__ == "__main__":
    compete(run)
