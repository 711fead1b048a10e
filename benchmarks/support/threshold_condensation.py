"""The condensation alert of `examples/condensation` on Spark: as fast as it can, and at a steady rate.

At the steady rate, files of the three streams are renamed into the folders that the query watches, some
times a second. The latency of an alarm is the time from when the file of its last element was there to
when its row reached the caller.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.report import say
from benchmarks.support.spark import Bench, Rate, files
from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.generator import generate
from tidegate.language.bind.program import bind
from tidegate.session import Session

PROGRAM = Path(__file__).resolve().parents[2] / "examples" / "condensation" / "condensation.sql"
STREAMS = ("humidity", "air", "surface")
DISTANCE = 10_000_000
"""How far apart elements may be, in microseconds: as in the program."""
INTERVAL = 500
"""Microseconds between two readings of a stream, as in the program."""
DEW_POINT = """257.14 * (ln(h.value / 100) + 18.678 * a.value / (257.14 + a.value))
  / (18.678 - (ln(h.value / 100) + 18.678 * a.value / (257.14 + a.value)))"""
TICK = 0.15
"""Seconds between two files of a stream."""
PATIENCE = 120
"""Seconds after which a query that has not begun never will."""


@dataclass(frozen=True, slots=True)
class Latency:
    """In milliseconds, of so many alarms; and whether rows came at the rate that was asked for."""

    p50: float
    p99: float
    alarms: int
    rows_per_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Condensation:
    """Readings of 200 machines, in so many batches."""

    bench: Bench
    rows: int
    batches: int

    def measure(self) -> tuple[Rate, bool]:
        """Rows per second and state, and whether the alarms are right."""
        data = self.bench.folder / "condensation"
        per_stream = self.rows // len(STREAMS)
        for stream in streams(f"rows={per_stream}"):
            table = pa.Table.from_batches([generate(stream, 0, per_stream)])
            (data / stream.name).mkdir(parents=True)
            for number, rows in enumerate(np.array_split(np.arange(per_stream), self.batches)):
                part = table.slice(rows[0], len(rows))
                pq.write_table(part, data / stream.name / f"{number:04d}.parquet")
                os.utime(data / stream.name / f"{number:04d}.parquet", (number, number))
        rate = self.bench.ours(program(data, " WITH (files_per_batch = 1)"), self.rows, "condensation-alarms")
        say(f"condensation: {rate.rows_per_s:,.0f} rows/s, {rate.state_bytes:,} bytes, {rate.state_rows:,} rows")
        return rate, are_right(data, files(self.bench.folder / "condensation-alarms" / "condensation"))

    def latency(self, rows_per_s: int, seconds: float, skipped: float) -> Latency:
        """From arrival to alarm at a steady rate, without those of the first seconds."""
        arrivals = _Arrivals(self.bench.folder / "steady", rows_per_s, seconds)
        arrivals.write(0)  # so that there is something to find
        received: list[tuple[float, pa.RecordBatch]] = []
        with Session(spark=self.bench.spark) as session:
            running = session.sql(
                program(arrivals.folder), on_rows=lambda _, rows: received.append((time.time(), rows))
            )
            assert running is not None
            _until(lambda: running.progress().steps > 0)
            writer = threading.Thread(target=arrivals.run)
            writer.start()
            writer.join()
            _until(lambda: running.progress().rows_in == arrivals.rows)
            running.stop()
        return arrivals.latency(received, skipped)


class _Arrivals:
    """Writes files of all streams at a steady rate, and remembers when."""

    def __init__(self, folder: Path, rows_per_s: int, seconds: float) -> None:
        self.folder = folder
        self.per_file = int(rows_per_s * TICK) // len(STREAMS)
        self.ticks = int(seconds / TICK)
        interval = 1_000_000 * len(STREAMS) // rows_per_s
        self.tables = {
            stream.name: generate(stream, 0, self.per_file * (self.ticks + 1))
            for stream in streams(f"rows={self.per_file * (self.ticks + 1)}", interval)
        }
        self.there: dict[str, list[float]] = {name: [] for name in STREAMS}
        self.rows = 0
        for name in STREAMS:
            (folder / name).mkdir(parents=True)

    def run(self) -> None:
        began = time.time()
        for tick in range(1, self.ticks + 1):
            time.sleep(max(0.0, began + tick * TICK - time.time()))
            self.write(tick)

    def write(self, tick: int) -> None:
        for name in STREAMS:
            part = self.tables[name].slice(tick * self.per_file, self.per_file)
            hidden, shown = self.folder / f".{name}", self.folder / name / f"{tick:06d}.parquet"
            pq.write_table(pa.Table.from_batches([part]), hidden)
            hidden.rename(shown)
            self.there[name].append(time.time())
            self.rows += part.num_rows

    def latency(self, received: list[tuple[float, pa.RecordBatch]], skipped: float) -> Latency:
        begin = self.there[STREAMS[0]][1]
        with duckdb.connect() as database:
            for name, table in self.tables.items():
                times = np.repeat(self.there[name], self.per_file)
                columns = {"machine": table.column("machine"), "t": table.column("at"), "there": times}
                database.register(f"{name}_", pa.table(columns))
            got = [
                pa.table({"machine": rows["machine"], "h": rows["h_at"], "a": rows["a_at"], "s": rows["s_at"]})
                .append_column("got", pa.array(np.full(rows.num_rows, at)))
                for at, rows in received
                if "machine" in rows.schema.names
            ]  # fmt: skip
            database.register("alarms", pa.concat_tables(got))
            late = database.sql(
                f"""SELECT 1000 * (got - greatest(h.there, a.there, s.there)) AS ms FROM alarms o
                JOIN humidity_ h ON h.machine = o.machine AND h.t = o.h
                JOIN air_ a ON a.machine = o.machine AND a.t = o.a
                JOIN surface_ s ON s.machine = o.machine AND s.t = o.s
                WHERE greatest(h.there, a.there, s.there) >= {begin + skipped}"""
            ).fetchnumpy()["ms"]
        lasted = self.there[STREAMS[-1]][-1] - begin
        rate = self.per_file * len(STREAMS) * (self.ticks - 1) / lasted
        p50, p99 = np.percentile(late, [50, 99]) if len(late) else (np.nan, np.nan)
        say(f"latency at {rate:,.0f} rows/s: p50 {p50:,.0f} ms, p99 {p99:,.0f} ms, of {len(late):,} alarms")
        return Latency(float(p50), float(p99), len(late), rate)


def streams(rows: str, interval: int | None = None) -> Iterator[SourceStream]:
    """The streams of the example, with other numbers of rows and other microseconds between them.

    Temperatures then still change as fast as in the example: a turn has more readings.
    """
    text = re.sub(r"rows=\d+", rows, PROGRAM.read_text(encoding="utf-8"))
    if interval is not None:
        text = re.sub(r"turn=(\d+)", lambda turn: f"turn={int(turn[1]) * INTERVAL // interval}", text)
        text = text.replace(f"interval={INTERVAL}us", f"interval={interval}us")
    catalog = bind(text).catalog
    for name in STREAMS:
        stream = catalog.find(name)
        assert isinstance(stream, SourceStream)
        yield stream


def program(data: Path, options: str = "") -> str:
    """The example, over files."""
    names = iter(STREAMS)
    text = re.sub(r"'generator://[^']*'", lambda _: f"'{data / next(names)}'", PROGRAM.read_text(encoding="utf-8"))
    return text.replace("DELAY 2 SECONDS;", f"DELAY 2 SECONDS{options};")


def are_right(data: Path, alarms: str) -> bool:
    """Whether all alarms are true, and for every combination that crosses there is an alarm with a value as great.

    A combination is looked for where the extremes of the stretches around it cross, and only there.
    """
    with duckdb.connect() as database:
        for name in STREAMS:
            database.sql(
                f'CREATE TABLE all_{name} AS SELECT machine, value, epoch_us("at") AS t, '
                f"t // {DISTANCE} AS stretch FROM {files(data / name)}"
            )
            database.sql(
                f"CREATE TABLE most_{name} AS SELECT machine, stretch + near AS stretch, "
                f"{'min' if name == 'surface' else 'max'}(value) AS value "
                f"FROM all_{name}, (VALUES (-1), (0), (1)) v(near) GROUP BY ALL"
            )
        for name in STREAMS:
            sources = {alias: f"most_{other}" for alias, other in zip("has", STREAMS, strict=True)}
            sources[name[0]] = f"all_{name}"
            database.sql(
                f"""CREATE TABLE {name} AS SELECT {name[0]}.* FROM {sources["h"]} h
                JOIN {sources["a"]} a USING (machine, stretch) JOIN {sources["s"]} s USING (machine, stretch)
                WHERE {DEW_POINT} > s.value"""
            )
        near = " AND ".join(f"abs({x}.t - {y}.t) <= {DISTANCE}" for x, y in ("ha", "hs", "as"))
        database.sql(
            f"""CREATE TABLE crossing AS SELECT h.machine, h.t AS h_at, a.t AS a_at, s.t AS s_at,
            {DEW_POINT} - s.value AS value FROM humidity h JOIN air a ON a.machine = h.machine
            JOIN surface s ON s.machine = h.machine WHERE {near} AND {DEW_POINT} - s.value > 0"""
        )
        database.sql(
            f"CREATE TABLE ours AS SELECT machine, value, {', '.join(f'epoch_us({c}_at) AS {c}_at' for c in 'has')} "
            f"FROM {alarms}"
        )
        near = " AND ".join(f"abs(o.{x}_at - c.{x}_at) <= {2 * DISTANCE}" for x in "has")
        as_great = f"o.machine = c.machine AND o.value >= c.value - 1e-9 AND {near}"
        # Logarithms of two libraries may differ in the last place.
        raised, crossing, false, missed = (
            int(database.sql(f"SELECT count(*) FROM ({rows})").fetchall()[0][0])
            for rows in (
                "FROM ours",
                "FROM crossing",
                "FROM ours o ANTI JOIN crossing c USING (machine, h_at, a_at, s_at) WHERE o.value > 1e-9",
                f"FROM crossing c ANTI JOIN ours o ON {as_great} WHERE c.value > 1e-9",
            )
        )
    say(f"  {raised:,} alarms; {crossing:,} combinations cross; false: {false}, missed: {missed}")
    return crossing > 0 and false == missed == 0


def _until(holds: Callable[[], bool]) -> None:
    """Wait for something, but not for ever."""
    began = time.monotonic()
    while not holds():
        if time.monotonic() - began > PATIENCE:
            raise TimeoutError("the query does not go on")
        time.sleep(0.1)
