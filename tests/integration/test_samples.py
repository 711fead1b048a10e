"""Samples on Spark whose rate is decided after each step: with the same rates, an embedded run gives the same."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tidegate.algebra.plan import EVERY_ROW, LEAST_RATE
from tidegate.language.bind.program import bind
from tidegate.physical.common.sizes import SizeHistory
from tidegate.runtime.adaptation import Adapt, Adaptation
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.session import Session

FILES, ROWS = 10, 3_000

TEXT = """
CREATE STREAM s (k INT, at BIGINT) FROM '{folder}/*.csv' TIMESTAMP BY at WITH (files_per_batch = 1);
SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 500) GROUP BY k
  WITH (shedding = sample, sample = auto, target_delay = '{target}');
"""


def write(folder: Path) -> None:
    random = np.random.default_rng(3)
    for number in range(FILES):
        keys, at = random.integers(0, 3, ROWS), number * ROWS + np.arange(ROWS)
        lines = [f"{k},{t}" for k, t in zip(keys, at, strict=True)]
        path = folder / f"{number}.csv"
        path.write_text("\n".join(["k,at", *lines, ""]))
        os.utime(path, (1_700_000_000 + number,) * 2)


def follow(changes: list[tuple[int, int]]) -> Adapt:
    """A hook that decides the changes of another run, each after the same step."""

    def adapt(seen: Adaptation) -> Mapping[str, SizeHistory]:
        [key] = seen.windows
        if not changes or seen.first_instant(key, changes[0][1]) != changes[0][0]:
            return {}
        return {key: seen.change(key, changes.pop(0)[1])}

    return adapt


def rows_of(table: pa.Table) -> list[tuple[object, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize("buckets", [1, 2])
def test_an_automatic_rate_on_spark_falls_when_steps_are_late_and_is_exact(spark, tmp_path, buckets):
    write(tmp_path)
    text = TEXT.format(folder=tmp_path, target="1 us")  # no step is as fast
    with Session(spark=spark, buckets=buckets) as session:
        query = session.sql(text, once=True)
        assert query is not None
        query.wait()
        found, quality = query.results(), query.quality().to_pylist()
        rates = query.shedding().column("rate").to_pylist()
    assert rates[0] == 1.0
    assert LEAST_RATE / EVERY_ROW <= min(rates) < 1.0
    changes = [(row["valid_from"], row["size"]) for row in quality if row["reason"]]
    micros = [(round(begin.timestamp() * 1e6), size) for begin, size in changes]
    job, batches = compile_job(bind(text), sinks={}), list[pa.RecordBatch]()
    EmbeddedRun(
        replace(job, adapt=follow(micros)),
        on_rows=lambda name, rows: batches.append(rows) if name == "query_1" else None,
        once=True,
    ).wait()
    assert micros == []
    assert rows_of(found) == rows_of(pa.Table.from_batches(batches))


@pytest.mark.spark
def test_a_sample_on_spark_that_has_time_keeps_all_rows(spark, tmp_path):
    write(tmp_path)
    with Session(spark=spark, buckets=1) as session:
        query = session.sql(TEXT.format(folder=tmp_path, target="1 hour"), once=True)
        assert query is not None
        query.wait()
        assert set(query.shedding().column("rate").to_pylist()) == {1.0}
        assert [row["size"] for row in query.quality().to_pylist()] == [EVERY_ROW]
