"""Alerts over longer streams: a stream that stops and recovers, devices that omit, runs on Spark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.edge import ThresholdFilter
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.engine import Engine
from tidegate.session import Session

SECOND = 1_000_000
Alarms = set[tuple[int, int, int]]
"""A key and the times of both elements."""


def declared(name: str, place: str) -> str:
    time = "TIMESTAMP BY ts UNIT MICROSECONDS DELAY 1 SECOND"
    return f"CREATE STREAM {name} (k INT, v DOUBLE, ts BIGINT) FROM '{place}' {time};\n"


def alert(threshold: float, *, end: str = "") -> str:
    return f"CREATE ALERT a FROM l, r WITHIN 10 SECONDS MATCHING k WHEN l.v + r.v > {threshold}{end};"


def stream(seed: int, *, seconds: int, per_second: int, keys: int) -> pa.Table:
    random = np.random.default_rng(seed)
    rows = seconds * per_second * keys
    times = np.sort(random.integers(0, seconds * SECOND, rows))
    key = random.integers(0, keys, rows).astype(np.int32)
    return pa.table({"k": key, "v": random.random(rows).round(4), "ts": times + 1000 * SECOND})


def engine_of(text: str) -> Engine:
    program = bind("".join(declared(n, f"dataframe://{n}") for n in "lr") + text)
    empty = stream(0, seconds=0, per_second=1, keys=1)
    streams = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
    sources = {stream.name: MemorySource(stream, empty) for stream in streams}
    return Engine(compile_job(program, buckets=1, sinks={}, sources=sources))


def alarms_of(rows: Sequence[Mapping[str, Any]]) -> Alarms:
    return {(row["k"], row["l_ts"], row["r_ts"]) for row in rows}


def stepped(engine: Engine, **tables: pa.Table) -> Alarms:
    outbox, _ = engine.step({n: t.combine_chunks().to_batches() for n, t in tables.items()})
    return alarms_of([row for _, batch in outbox.results for row in batch.columns.to_pylist()])


def brute(left: pa.Table, right: pa.Table, threshold: float) -> Alarms:
    """All pairs that cross: for each row of the right, the rows of the left around it."""
    k, v, ts = (np.array(left.column(c)) for c in ("k", "v", "ts"))
    found: Alarms = set()
    for row in right.to_pylist():
        begin, end = np.searchsorted(ts, [row["ts"] - 10 * SECOND, row["ts"] + 10 * SECOND + 1])
        near = slice(begin, end)
        for at in np.flatnonzero((k[near] == row["k"]) & (v[near] + row["v"] > threshold)) + begin:
            found.add((row["k"], int(ts[at]), row["ts"]))
    return found


def assert_none_missed(found: Alarms, every: Alarms, left: pa.Table, right: pa.Table) -> None:
    """No alarm is false, and for each of all there is one at least as great, near by."""
    assert found <= every
    value = {(side, row["k"], row["ts"]): row["v"] for side, t in (("l", left), ("r", right)) for row in t.to_pylist()}
    total = {a: value["l", a[0], a[1]] + value["r", a[0], a[2]] for a in every}
    raised = {key: [a for a in found if a[0] == key] for key in {a[0] for a in every}}
    for missed in every - found:
        near = [a for a in raised[missed[0]] if max(abs(a[1] - missed[1]), abs(a[2] - missed[2])) <= 20 * SECOND]
        assert any(total[a] >= total[missed] for a in near), missed


def test_a_stream_that_stops_for_ten_minutes_costs_little_and_no_alarm():
    left = stream(1, seconds=620, per_second=1000, keys=2)
    right = stream(2, seconds=620, per_second=1, keys=2)
    engine, found, step = engine_of(alert(1.996)), set(), left.num_rows // 62
    found |= stepped(engine, l=left.slice(0, step), r=right.slice(0, 20))
    for at in range(1, 62):
        found |= stepped(engine, l=left.slice(at * step, step))
        assert engine.state_size().rows < 20 * (at + 2)
    for at in range(20, right.num_rows, 100):
        found |= stepped(engine, r=right.slice(at, 100))
    every = brute(left, right, 1.996)
    assert len(every) > 100
    assert_none_missed(found, every, left, right)


def test_an_incident_is_counted_on_from_step_to_step_until_there_is_a_pause():
    engine = engine_of(alert(1))
    counted = []
    for seconds in (0, 5, 12, 60, 63):
        table = pa.table(
            {"k": pa.array([1], pa.int32()), "v": [0.9], "ts": pa.array([(1000 + seconds) * SECOND], pa.int64())}
        )
        outbox, _ = engine.step({n: table.to_batches() for n in "lr"})
        rows = [row for _, batch in outbox.results for row in batch.columns.to_pylist()]
        counted.append([(int(row["incident"].timestamp()) - 1000, row["alarm"]) for row in rows])
    assert [{incident for incident, _ in step} for step in counted] == [{0}, {0}, {0}, {60}, {60}]
    first = sorted(number for step in counted[:3] for _, number in step)
    assert first == list(range(1, 1 + len(first)))
    assert [number for _, number in counted[3]] == [1]


def test_what_a_device_omits_changes_no_alarm():
    left, right = (stream(seed, seconds=60, per_second=50, keys=1) for seed in (3, 4))
    sent = []
    for table in (left, right):
        device = ThresholdFilter(20 * SECOND, shape="rising")
        first = device.offer_many(*(np.array(table.column(c)) for c in ("ts", "v")))
        times, values = zip(*zip(*first, strict=True), *device.flush(), strict=True)
        sent.append(pa.table({"k": np.zeros(len(times), np.int32), "v": values, "ts": pa.array(times, pa.int64())}))
    assert sent[0].num_rows < left.num_rows / 20
    assert stepped(engine_of(alert(1.9)), l=sent[0], r=sent[1]) == stepped(engine_of(alert(1.9)), l=left, r=right)


@pytest.mark.spark
@pytest.mark.parametrize("buckets", [1, 3])
def test_alarms_on_spark_are_true_and_none_is_missed_also_after_a_restart(tmp_path: Path, spark, buckets):
    tables = {"l": stream(5, seconds=120, per_second=20, keys=5), "r": stream(6, seconds=120, per_second=20, keys=5)}
    text = "".join(declared(n, str(tmp_path / n)) for n in "lr") + alert(1.95)
    for part in range(2):
        for name, table in tables.items():
            (tmp_path / name).mkdir(exist_ok=True)
            half = table.num_rows // 2
            for piece in range(2):
                rows = table.slice(part * half + piece * half // 2, half // 2)
                pq.write_table(rows, tmp_path / name / f"{part}{piece}.parquet")
        with Session(spark=spark, buckets=buckets) as session:
            running = session.sql(
                text, once=True, out=str(tmp_path / "out"), format="parquet", checkpoint=str(tmp_path / "checkpoint")
            )
            running.wait()
    found = alarms_of(pq.read_table(tmp_path / "out" / "a").to_pylist())
    every = brute(tables["l"], tables["r"], 1.95)
    assert len(every) > 100
    assert_none_missed(found, every, tables["l"], tables["r"])
