"""A migration in a live session: ALTER QUERY between two texts of equal meaning, while rows flow."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import pyarrow as pa

from benchmarks.support.migration_boxes import SECOND, STREAMS, Elements, Load, arrivals, whole_results
from tidegate.live.feeds import ResultFeed
from tidegate.live.session import LiveSession
from tidegate.physical.common.batch import Batch
from tidegate.time import FOREVER

_PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class LiveMigration:
    """What a migration by ALTER QUERY took: windows of time, and the longest step compared with the median one."""

    windows: float
    alter_ms: float
    longest_step: float
    results: pa.Table


def migrate_live(load: Load) -> LiveMigration:
    """Run the load through a live session, and migrate in the middle; without a clock, as fast as steps go."""
    with tempfile.TemporaryDirectory() as folder, LiveSession(checkpoint=f"{folder}/checkpoint", buckets=1) as session:
        files = {s: Path(folder, f"{s}.csv") for s in STREAMS}
        for stream, file in files.items():
            file.write_text("t,v,id\n")
            columns = f"CREATE STREAM {stream} (t BIGINT, v INT, id INT)"
            session.execute(f"{columns} FROM '{file}' TIMESTAMP BY t")
        _, feed = session.follow(f"CREATE QUERY joined AS {left_deep_text(load.window)}")
        windows = alter_ms = 0.0
        exact_from = FOREVER
        durations: dict[int, tuple[int, float]] = {}
        for watermark, elements in arrivals(load):
            _append(files, elements)
            _wait_for_step(session, watermark - SECOND // load.rate)
            for step in list(session.progress().recent_steps.copy()):
                durations.setdefault(step.step, (watermark, step.seconds))
            if watermark == load.begin * SECOND:
                began = time.perf_counter()
                (answer,) = session.execute(f"ALTER QUERY joined AS {right_deep_text(load.window)}")
                alter_ms = 1_000 * (time.perf_counter() - began)
                exact_from = FOREVER if answer.exact_from is None else answer.exact_from
                windows = (exact_from - watermark) / (load.window * SECOND)
        results = whole_results(list(_drain(feed)))
    during = [seconds for at, seconds in durations.values() if load.begin * SECOND < at <= exact_from + SECOND]
    usual = median(seconds for _, seconds in durations.values())
    return LiveMigration(windows, alter_ms, max(during) / usual, results)


def left_deep_text(window: int) -> str:
    w = f"WINDOW(RANGE {window} SECONDS)"
    joins = f"a {w} JOIN b {w} ON a.v = b.v JOIN c {w} ON b.v = c.v JOIN d {w} ON c.v = d.v"
    return f"SELECT a.v AS v, a.id AS a, b.id AS b, c.id AS c, d.id AS d FROM {joins}"


def right_deep_text(window: int) -> str:
    w = f"WINDOW(RANGE {window} SECONDS)"
    low = f"(SELECT c.v AS v, c.id AS c, d.id AS d FROM c {w} JOIN d {w} ON c.v = d.v) AS y"
    high = f"(SELECT b.v AS v, b.id AS b, y.c AS c, y.d AS d FROM b {w} JOIN {low} ON b.v = y.v) AS z"
    return f"SELECT a.v AS v, a.id AS a, z.b AS b, z.c AS c, z.d AS d FROM a {w} JOIN {high} ON a.v = z.v"


def _append(files: dict[str, Path], elements: Elements) -> None:
    for stream, batch in elements.items():
        values, ids = (batch.column(name).to_pylist() for name in ("v", "id"))
        with files[stream].open("a") as file:
            file.writelines(f"{t},{v},{i}\n" for t, v, i in zip(batch.start.tolist(), values, ids, strict=True))


def _wait_for_step(session: LiveSession, watermark: int) -> None:
    until = time.monotonic() + _PATIENCE
    while any(session.progress().watermarks.get(stream, -1) < watermark for stream in STREAMS):
        if time.monotonic() > until or session.wait(0.001):
            raise TimeoutError(f"the session did not reach {watermark}")


def _drain(feed: ResultFeed) -> Iterator[Batch]:
    while (rows := feed.next(0.0)) is not None:
        times = [rows.column(name).cast(pa.int64()) for name in ("valid_from", "valid_to")]
        yield Batch.from_arrow(pa.RecordBatch.from_arrays([*times, *rows.columns[2:]], names=rows.schema.names))
