"""NEXMark's queries q0 to q8: on Spark, embedded, and written by hand in PySpark where it can say them.

The same files for everyone, in the same run; results are compared. q4 and q6, averages over
results that change, cannot be said in PySpark's append mode and have no ratio.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from benchmarks.support.report import Report, main, say
from benchmarks.support.spark import Bench, Rate, files
from examples.nexmark import generate
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.engine import Engine

EXAMPLES = Path(generate.__file__).parent
BATCHES, SKIPPED = 8, 2
FULL, QUICK = 2_000_000, 100_000
QUICK_BATCHES, QUICK_SKIPPED = 2, 1

Frames = dict[str, DataFrame]


# ---- by hand in PySpark


def q0(streams: Frames) -> DataFrame:
    return streams["bid"].select("ts_us", "auction", "bidder", "price", "channel")


def q1(streams: Frames) -> DataFrame:
    return streams["bid"].selectExpr("ts_us", "auction", "bidder", "0.908D * price AS price", "channel")


def q2(streams: Frames) -> DataFrame:
    return streams["bid"].where("auction % 123 = 0").select("auction", "price")


def q3(streams: Frames) -> DataFrame:
    person = streams["person"].where("state IN ('OR', 'ID', 'CA')").withColumnRenamed("ts", "p_ts")
    auction = streams["auction"].where("category = 10").selectExpr("ts AS a_ts", "seller", "id AS item")
    near = "a_ts < p_ts + INTERVAL 1 HOUR AND p_ts < a_ts + INTERVAL 1 HOUR"
    joined = auction.join(person, F.expr(f"seller = id AND {near}"))
    return joined.selectExpr("name", "city", "state", "item AS id")


def q5(streams: Frames) -> DataFrame:
    counted = (
        streams["bid"].groupBy(F.window("ts", "10 seconds", "2 seconds"), "auction").agg(F.count("*").alias("num"))
    )
    most = counted.groupBy("window").agg(
        F.max("num").alias("most"), F.collect_list(F.struct("auction", "num")).alias("all")
    )
    hot = most.selectExpr("unix_micros(window.end) AS ending", "most", "explode(all) AS one")
    return hot.where("one.num = most").selectExpr("ending", "one.auction AS auction", "one.num AS num")


def q7(streams: Frames) -> DataFrame:
    best = F.max(F.struct("price", "ts_us", "auction", "bidder", "channel")).alias("best")
    highest = streams["bid"].groupBy(F.window("ts", "10 seconds")).agg(best)
    return highest.selectExpr("unix_micros(window.end) AS ending", "best.*")


def q8(streams: Frames) -> DataFrame:
    person = streams["person"].selectExpr("id", "name", "window(ts, '10 seconds') AS p_window")
    auction = streams["auction"].selectExpr("seller", "window(ts, '10 seconds') AS a_window")
    joined = person.join(auction, F.expr("id = seller AND p_window = a_window"))
    return joined.selectExpr("unix_micros(p_window.end) AS ending", "id", "name")


# ---- what is compared


def all_rows(columns: str) -> tuple[str, str]:
    """Rows as they are, on both sides."""
    return f"SELECT {columns} FROM {{native}}", f"SELECT {columns} FROM {{ours}}"


def at_ends(columns: str) -> tuple[str, str]:
    """Rows of each window that Spark closed: ours are those at its last instant."""
    ours = (
        f"SELECT ending, {columns} FROM (SELECT DISTINCT ending FROM {{native}}) e "
        "JOIN {ours} o ON epoch_us(o.valid_from) < e.ending AND e.ending <= epoch_us(o.valid_to)"
    )
    return f"SELECT DISTINCT ending, {columns} FROM {{native}}", ours


@dataclass(frozen=True, slots=True)
class Query:
    """A query of the benchmark: its streams, the same by hand, and what of both must be equal."""

    name: str
    streams: tuple[str, ...]
    by_hand: Callable[[Frames], DataFrame] | None = None
    compared: tuple[str, str] = ("", "")


QUERIES = (
    Query("q0", ("bid",), q0, all_rows("ts_us, auction, bidder, price, channel")),
    Query("q1", ("bid",), q1, all_rows("ts_us, auction, bidder, price, channel")),
    Query("q2", ("bid",), q2, all_rows("auction, price")),
    Query("q3", ("person", "auction"), q3, all_rows("name, city, state, id")),
    Query("q4", ("bid", "auction")),
    Query("q5", ("bid",), q5, at_ends("auction, num")),
    Query("q6", ("bid", "auction")),
    Query("q7", ("bid",), q7, at_ends("ts_us, auction, bidder, price, channel")),
    Query("q8", ("person", "auction"), q8, at_ends("id, name")),
)


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of all queries over one set of files."""

    bench: Bench
    data: Path
    batches: int

    def rows(self, query: Query) -> int:
        return sum(pq.read_metadata(f).num_rows for s in query.streams for f in (self.data / s).glob("*.parquet"))

    def program(self, query: Query) -> str:
        text = (EXAMPLES / f"{query.name}.sql").read_text().replace("'data/", f"'{self.data}/")
        return text.replace("DELAY 1 SECOND;", "DELAY 1 SECOND WITH (files_per_batch = 1);").replace(
            "DELAY 1 MINUTE;", "DELAY 1 MINUTE WITH (files_per_batch = 1);"
        )

    def ours(self, query: Query) -> Rate:
        return self.bench.ours(self.program(query), self.rows(query), query.name)

    def by_hand(self, query: Query) -> Rate:
        streams = {
            s: self.bench.stream(self.data / s)
            .withColumn("ts", F.timestamp_micros("ts_us"))
            .withWatermark("ts", "1 second")
            for s in query.streams
        }
        assert query.by_hand is not None
        return self.bench.native(query.by_hand(streams), self.rows(query), f"{query.name}-by-hand")

    def embedded(self, query: Query) -> float:
        """Rows per second in this process, from batches that are in memory; the better of two runs."""
        job = compile_job(bind(self.program(query)), buckets=1, sinks={})
        tables = {
            s: [pq.read_table(f) for f in sorted(Path(source.stream.location).glob("*.parquet"))]
            for s, source in job.sources.items()
        }
        steps = [
            {s: given[i].combine_chunks().to_batches() for s, given in tables.items()} for i in range(self.batches)
        ]
        best = 0.0
        for _ in range(2):
            engine = Engine(job)
            began = time.perf_counter()
            for raw in steps:
                engine.step(raw)
            best = max(best, self.rows(query) / (time.perf_counter() - began))
        return best

    def is_equal(self, query: Query) -> bool:
        """Whether the results by hand and ours are the same multiset of rows."""
        places = {
            "native": files(self.bench.folder / f"{query.name}-by-hand"),
            "ours": files(self.bench.folder / query.name / "query_1"),
        }
        native, ours = (_digest(text.format(**places)) for text in query.compared)
        say(f"  {query.name}: {native[0]:,} rows by hand, {ours[0]:,} of ours")
        return native == ours and native[0] > 0


def _digest(rows: str) -> tuple[int, int]:
    ((count, total),) = duckdb.sql(f"SELECT count(*), coalesce(sum(hash(r)::HUGEINT), 0) FROM ({rows}) r").fetchall()
    return int(count), int(total)


def measure(quick: bool) -> Report:  # noqa: FBT001 - the contract of all benchmarks
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-"))
    batches, skipped = (QUICK_BATCHES, QUICK_SKIPPED) if quick else (BATCHES, SKIPPED)
    try:
        # A quick run has fewer events a second, so that some windows end in it.
        scale = generate.Scale(QUICK, per_second=2_000) if quick else generate.Scale(FULL)
        generate.write(folder / "data", scale, batches)
        return _measure(Run(Bench.start(folder, skipped), folder / "data", batches))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(run: Run) -> Report:
    equal, ratios, figures = True, dict[str, float](), dict[str, float]()
    for query in QUERIES:
        figures[f"{query.name}_embedded_events_per_s"] = run.embedded(query)
        ours = run.ours(query)
        figures[f"{query.name}_events_per_s"] = ours.rows_per_s
        figures[f"{query.name}_peak_state_bytes"] = ours.state_bytes
        if query.by_hand is not None:
            theirs = run.by_hand(query)
            figures[f"{query.name}_by_hand_events_per_s"] = theirs.rows_per_s
            ratios[f"{query.name}_vs_pyspark"] = ours.rows_per_s / theirs.rows_per_s
            equal &= run.is_equal(query)
        say(
            f"{query.name}: {ours.rows_per_s:,.0f} events/s, {ratios.get(f'{query.name}_vs_pyspark', 0):.2f} of by hand"
        )
    run.bench.spark.stop()
    return Report("nexmark", equal, ratios, figures)


if __name__ == "__main__":
    main(measure, __doc__)
