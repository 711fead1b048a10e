"""A burst on Spark: a join by any predicate, five times the rate that it can sustain, for a minute of real time.

Things move around in a circle. What sees them first reports where they are; what sees them second does so
seven and a half seconds later. Rows come in files that appear as time goes by. The rate is chosen by what a comparison
costs here: at that rate, all comparisons of a batch take about half of the time that a batch may take.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from numba import njit
from pyarrow import json

from benchmarks.support.report import say
from benchmarks.support.spark import Bench, files
from tidegate.runtime.shedding import SHEDDING_SCHEMA
from tidegate.session import Session

SECOND = 1_000_000
TARGET = 2.0
"""Seconds that a batch may take."""
WINDOW = 10
LAG = 7.5
TICK = 0.25
"""Seconds between files."""
WARMING = 4
"""Files of each stream with which workers start and kernels are loaded, before time begins to count."""
SETTLED = 3
"""Batches of a burst after which durations count."""

PROGRAM = """
CREATE STREAM a (n BIGINT, x DOUBLE, y DOUBLE, ts BIGINT) FROM '{folder}/a' TIMESTAMP BY ts;
CREATE STREAM b (n BIGINT, x DOUBLE, y DOUBLE, ts BIGINT) FROM '{folder}/b' TIMESTAMP BY ts;
SELECT a.n AS a, b.n AS b
FROM a [RANGE 10 SECONDS], b [RANGE 10 SECONDS]
WHERE (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) <= 0.04
WITH ({options});
"""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Phases:
    """Seconds before, of, and after the burst."""

    calm: int
    burst: int
    after: int

    @property
    def seconds(self) -> int:
        return self.calm + self.burst + self.after


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What one of the two streams reports, in the order of time."""

    ts: npt.NDArray[np.int64]
    x: Floats
    y: Floats

    @staticmethod
    def of(phases: Phases, rate: float, late: float, seed: int) -> Seen:
        random = np.random.default_rng(seed)
        rates = ((0, phases.calm, rate), (phases.calm, phases.burst, 5 * rate), (phases.calm + phases.burst, 0, rate))
        parts = []
        for begin, length, each in rates:
            stop = begin + (length or phases.after)
            parts.append(np.sort(random.uniform(begin, stop, int(each * (stop - begin)))))
        seconds = np.concatenate(parts)
        angle = 2 * np.pi * (seconds - late) / (2 * WINDOW)
        x, y = (8 * wave(angle) + random.normal(0, 1.5, len(seconds)) for wave in (np.cos, np.sin))
        return Seen((seconds * SECOND).astype(np.int64), x, y)

    def table(self) -> pa.Table:
        return pa.table({"n": np.arange(len(self.ts)), "x": self.x, "y": self.y, "ts": self.ts})


@dataclass(frozen=True, slots=True)
class Burst:
    """What is told of the run."""

    ratios: dict[str, float]
    figures: dict[str, float]
    right: bool


def spark_burst(*, quick: bool) -> Burst:
    phases = Phases(16, 20, 30) if quick else Phases(30, 60, 40)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        cost = _cost(folder)
        # Comparisons of a batch at a rate r: 2 * (r * TARGET) * (r * WINDOW).
        rate = float(np.sqrt(0.5 * TARGET / (2 * TARGET * WINDOW * cost)))
        say(f"burst: a comparison takes {1e9 * cost:.0f} ns; {rate:.0f} rows/s of each stream, and five times that")
        streams = {"a": Seen.of(phases, rate, 0, 1), "b": Seen.of(phases, rate, LAG, 2)}
        batches = _run(folder, phases, streams)
        return _told(folder, phases, rate, streams, batches)


def _cost(folder: Path) -> float:
    """Seconds that a comparison takes, results included."""
    small = Phases(20, 0, 1)
    both = {name: Seen.of(small, 100.0, late, 3) for name, late in (("a", 0), ("b", LAG))}
    best = np.inf
    for _ in range(3):
        with Session(runtime="embedded") as session:
            for name, seen in both.items():
                session.stream(name, seen.table(), time="ts")
            text = PROGRAM.format(folder=folder, options="shedding = on, budget = 1000000000")
            query = session.sql(text[text.index("SELECT") :], once=True)
            assert query is not None
            began = time.perf_counter()
            query.wait()
            took = time.perf_counter() - began
            best = min(best, took / int(query.shedding()["of_comparisons"].to_numpy().sum()))
    return float(best)


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch: when it began, in seconds since the first file, and how long it took."""

    number: int
    began: float
    seconds: float


def _run(folder: Path, phases: Phases, streams: dict[str, Seen]) -> list[Batch]:
    """Let files appear in real time, and run the query meanwhile."""
    moves = _prepare(folder, phases, streams)
    first = WARMING * len(streams)
    _feed(moves[: len(streams)], time.monotonic() - TICK)  # a stream needs a file to begin with
    bench = Bench.start(folder, 0)
    bench.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
    with Session(spark=bench.spark) as session:
        text = PROGRAM.format(folder=folder, options=f"shedding = on, target_delay = '{TARGET:g} seconds'")
        running = session.sql(text, out=str(folder / "out"), checkpoint=str(folder / "checkpoint"))
        assert running is not None
        for step in range(WARMING):
            _feed(moves[max(1, step) * len(streams) : (step + 1) * len(streams)], 0.0)
            while running.progress().steps <= step:
                time.sleep(0.1)
        began = time.monotonic() - moves[first - 1][0]
        clock = time.time() - time.monotonic() + began
        feeding = threading.Thread(target=_feed, args=(moves[first:], began), daemon=True)
        feeding.start()
        feeding.join()
        running.finish()
        steps = [step for step in running.progress().recent_steps if step.rows]
    return [Batch(step.step, step.began - clock, step.seconds) for step in steps]


def _prepare(folder: Path, phases: Phases, streams: dict[str, Seen]) -> list[tuple[float, Path, Path]]:
    """All files, somewhere else; when each is to be moved, and where to."""
    moves = []
    for name, seen in streams.items():
        (folder / "later" / name).mkdir(parents=True)
        (folder / name).mkdir()
        table, ticks = seen.table(), np.arange(0, phases.seconds + TICK, TICK)
        cuts = np.searchsorted(seen.ts, ticks * SECOND)
        for number, (begin, end) in enumerate(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)):
            if end > begin:
                path = folder / "later" / name / f"{number:05d}.parquet"
                pq.write_table(table.slice(begin, end - begin), path)
                moves.append((float(ticks[number + 1]), path, folder / name / path.name))
    return sorted(moves)


def _feed(moves: list[tuple[float, Path, Path]], began: float) -> None:
    for when, source, target in moves:
        time.sleep(max(0.0, began + when - time.monotonic()))
        os.utime(source)
        source.rename(target)


def _told(folder: Path, phases: Phases, rate: float, streams: dict[str, Seen], batches: list[Batch]) -> Burst:
    shed = _shed(folder / "out" / "shedding")
    found = _query(f"SELECT a, b FROM {files(folder / 'out' / 'query_1')}")
    a, b = found["a"].to_numpy(), found["b"].to_numpy()
    last = np.maximum(streams["a"].ts[a], streams["b"].ts[b])
    begin, end = phases.calm, phases.calm + phases.burst
    burst = [each for each in batches if begin <= each.began < end]
    share = dict(zip(shed["batch"].to_pylist(), shed["compared_share"].to_pylist(), strict=True))
    less = [each.number for each in batches if share[each.number] < 1]
    after = [each.number for each in batches if each.began >= end]
    touched = shed.filter(pa.array([batch in set(less) for batch in shed["batch"].to_pylist()]))
    claimed, truth = _share(touched), _truth(streams)
    # A batch has the rows of files that came between the beginning of the one before, and its own.
    since = max((each.began for each in batches if each.number < min(less, default=0)), default=0.0)
    until = max((each.began for each in batches if each.number in less), default=0.0)
    within = (last >= since * SECOND) & (last < until * SECOND)
    actual = float(within.sum()) / max(1, truth(since, until))
    durations = [each.seconds for each in burst[SETTLED:]]
    figures = {
        "burst_rows_per_s": 10 * rate,
        "burst_batches": float(len(burst)),
        "burst_batches_that_shed": float(len(less)),
        "burst_compared": _sum(touched, "comparisons") / max(1.0, _sum(touched, "of_comparisons")),
        "burst_results_reported": claimed,
        "burst_results_true": actual,
        "burst_batches_until_all_again": float(sum(number <= max(less, default=-1) for number in after)),
        "burst_median_batch": float(np.median(durations)),
        "burst_results": float(len(a)),
    }
    ratios = {"burst_duration_vs_target": max(durations) / TARGET, "burst_share_error": abs(claimed - actual)}
    say(f"burst: {figures} {ratios}")
    say("burst: batches took " + " ".join(f"{each.seconds:.1f}{'*' * (each.number in less)}" for each in batches))
    # When all is compared again, windows still have rows of the burst: if no result is missing, none was lost.
    again = until + 2 * TARGET
    complete = int((last >= again * SECOND).sum()) == truth(again, phases.seconds) > 0
    return Burst(ratios, figures, complete and len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(a))


def _shed(folder: Path) -> pa.Table:
    """What steps say that they left out, with the batches that they are."""
    tables = []
    for path in sorted(folder.glob("batch-*.jsonl")):
        rows = json.read_json(path, parse_options=json.ParseOptions(explicit_schema=SHEDDING_SCHEMA))
        tables.append(rows.append_column("batch", pa.array([int(path.name.split("-")[1])] * len(rows))))
    return pa.concat_tables(tables)


def _sum(rows: pa.Table, column: str) -> float:
    return float(rows[column].to_numpy().sum())


def _missing(rows: pa.Table) -> float:
    """How many results steps say that they have not found."""
    found, share = rows["found"].to_numpy(), rows["results_share"].to_numpy()
    return float((found / np.maximum(share, 1e-9) - found).sum())


def _share(rows: pa.Table) -> float:
    """What steps together say of the share of results."""
    found = _sum(rows, "found")
    return found / (found + _missing(rows)) if found else 1.0


def _truth(streams: dict[str, Seen]) -> Callable[[float, float], int]:
    """How many pairs there are, by when the later of their rows comes, in seconds."""
    a, b = streams["a"], streams["b"]
    times = _pairs(a.ts, a.x, a.y, b.ts, b.x, b.y, WINDOW * SECOND)
    times.sort()
    return lambda begin, end: int(np.diff(np.searchsorted(times, [begin * SECOND, end * SECOND]))[0])


@njit(cache=True)
def _pairs(ts, x, y, other, u, v, window):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202, PLR0917
    found, count, low = np.empty(1 << 16, np.int64), 0, 0
    for n in range(len(ts)):
        while low < len(other) and other[low] <= ts[n] - window:
            low += 1
        for m in range(low, len(other)):
            if other[m] >= ts[n] + window:
                break
            if (x[n] - u[m]) * (x[n] - u[m]) + (y[n] - v[m]) * (y[n] - v[m]) <= 0.04:
                if count == len(found):
                    more = np.empty(2 * count, np.int64)
                    more[:count] = found
                    found = more
                found[count] = max(ts[n], other[m])
                count += 1
    return found[:count]


def _query(text: str) -> pa.Table:
    with duckdb.connect() as database:
        return database.sql(text).to_arrow_table()
