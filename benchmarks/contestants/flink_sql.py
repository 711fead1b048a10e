"""Flink SQL: an interval join, in a cluster within the process, with two slots."""

from __future__ import annotations

from pyflink.table import EnvironmentSettings, TableEnvironment

from benchmarks.contestants.protocol import Alarms, Data, Task, compete


def run(task: Task, data: Data) -> Alarms:
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set("parallelism.default", "2")
    for stream in "ab":
        # Flink's times have milliseconds, as those of the data.
        tables.execute_sql(
            f"""CREATE TABLE {stream} (
              id BIGINT, `key` INT, `value` DOUBLE, `at` BIGINT,
              ts AS TO_TIMESTAMP_LTZ(`at` / 1000, 3), WATERMARK FOR ts AS ts
            ) WITH ('connector' = 'filesystem', 'path' = 'file://{data.folder}/{stream}', 'format' = 'csv')"""
        )
    near = f"INTERVAL '{task.distance // 1_000_000}' SECOND"
    query = f"""SELECT a.id, b.id FROM a JOIN b ON a.`key` = b.`key`
        AND a.ts BETWEEN b.ts - {near} AND b.ts + {near} AND a.`value` + b.`value` > {task.threshold}"""
    with tables.execute_sql(query).collect() as rows:
        return [(row[0], row[1]) for row in rows]


if __name__ == "__main__":
    compete(run, without_fixed_cost=True)  # each run starts a cluster
