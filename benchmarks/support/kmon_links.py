"""Packets on three links, on Spark: joins with constraints against plain window joins.

A packet goes through the customer's link, may go on to the backbone within a second, and from there to the
outgoing link within another. Of ten packets one goes on. The query is that of the paper's section 1.1 without
its sum: the packets of the last ten minutes that went through all three.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.support.report import say
from benchmarks.support.spark import Bench, files
from tidegate.runtime.spark.runner import SparkRun
from tidegate.session import Session

SECOND = 1_000_000
RATES = {"c": 1_000, "b": 10_000, "o": 1_000}
"""Packets a second on each link."""
SHARE = 0.1
LATENCY = SECOND
SKIPPED = 2
"""Micro-batches in which kernels are loaded; they do not count."""

SETTINGS = {"plain": "off", "lean": "declared MODE lean", "exact": "declared MODE exact"}

PROGRAM = """
SET constraints = {setting};
CREATE STREAM c (pid BIGINT, size INT, ts BIGINT) FROM '{folder}/c' TIMESTAMP BY ts
  KEY (pid) CONSTRAINT c_to_b (pid) REFERENCES b (pid) WITHIN 1 SECONDS WITH (files_per_batch = 1);
CREATE STREAM b (pid BIGINT, size INT, ts BIGINT) FROM '{folder}/b' TIMESTAMP BY ts
  KEY (pid) CONSTRAINT b_to_o (pid) REFERENCES o (pid) WITHIN 1 SECONDS
  CONSTRAINT b_from_c (pid) REFERENCES c (pid) WITHIN 0 SECONDS WITH (files_per_batch = 1);
CREATE STREAM o (pid BIGINT, size INT, ts BIGINT) FROM '{folder}/o' TIMESTAMP BY ts
  KEY (pid) CONSTRAINT o_from_b (pid) REFERENCES b (pid) WITHIN 0 SECONDS WITH (files_per_batch = 1);
SELECT c.pid, c.size, b.ts AS at_b, o.ts AS at_o
FROM c [RANGE 10 MINUTES], b [RANGE 10 MINUTES], o [RANGE 10 MINUTES]
WHERE c.pid = b.pid AND b.pid = o.pid;
"""

Packets = tuple[np.ndarray, np.ndarray]
"""When packets pass a link, in order, and their ids."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """So many seconds of traffic in each of some micro-batches."""

    batches: int
    seconds: int

    @property
    def tuples(self) -> int:
        return self.batches * self.seconds * sum(RATES.values())

    @property
    def length(self) -> int:
        return self.batches * self.seconds * SECOND

    def write(self, folder: Path) -> None:
        """A folder of files for each link, one for each micro-batch."""
        random = np.random.default_rng(1)
        count = {link: rate * self.batches * self.seconds for link, rate in RATES.items()}
        customers = np.sort(random.integers(0, self.length, count["c"])), np.arange(count["c"])
        backbone = self._onward(customers, count["b"], 10**9, random)
        outgoing = self._onward(backbone, count["o"], 2 * 10**9, random)
        for link, (at, pid) in {"c": customers, "b": backbone, "o": outgoing}.items():
            size = (pid % 1400 + 64).astype(np.int32)
            self._cut(folder / link, pa.table({"pid": pid, "size": size, "ts": at}), at)

    def _onward(self, before: Packets, count: int, first: int, random: np.random.Generator) -> Packets:
        """The packets of the next link: some that came through the one before, and others."""
        times, ids = before
        went = (random.random(len(ids)) < SHARE) & (times + LATENCY < self.length)
        delayed = times[went] + random.integers(0, LATENCY, int(went.sum()))
        others = max(count - len(delayed), 0)
        at = np.concatenate([delayed, random.integers(0, self.length, others)])
        pid = np.concatenate([ids[went], first + np.arange(others)])
        order = np.argsort(at, kind="stable")
        return at[order], pid[order]

    def _cut(self, folder: Path, rows: pa.Table, times: np.ndarray) -> None:
        folder.mkdir(parents=True)
        ends = np.searchsorted(times, np.arange(self.batches + 1) * self.seconds * SECOND)
        for number, (begin, end) in enumerate(pairwise(ends.tolist())):
            path = folder / f"{number:04d}.parquet"
            pq.write_table(rows.slice(begin, end - begin), path)
            os.utime(path, (number, number))


@dataclass(frozen=True, slots=True)
class Ran:
    """What a run took: seconds of the steady state, and bytes that were kept."""

    seconds: float
    state: int
    cold: int


@dataclass(frozen=True, slots=True)
class Links:
    """Ratios and figures of the runs, and whether all had the same results."""

    ratios: dict[str, float]
    figures: dict[str, float]
    equal: bool


def spark_links(*, quick: bool) -> Links:
    """State and speed in terms of the window join's."""
    traffic = Traffic(6, 10) if quick else Traffic(21, 20)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        traffic.write(folder)
        bench = Bench.start(folder, SKIPPED)
        runs = {label: _run(bench, folder, label) for label in SETTINGS}
        equal = all(_is_right(folder, label) for label in SETTINGS)
    plain = runs.pop("plain")
    ratios, figures = {}, {"links_tuples": float(traffic.tuples)} | _figures("plain", plain)
    for label, ran in runs.items():
        name = "links" if label == "exact" else f"links_{label}"  # exact is what queries have unless they say so
        ratios[f"{name}_state_vs_window_join"] = ran.state / plain.state
        ratios[f"{name}_speed_vs_window_join"] = plain.seconds / ran.seconds
        figures |= _figures(label, ran)
    return Links(ratios, figures, equal)


def _figures(label: str, ran: Ran) -> dict[str, float]:
    return {
        f"links_{label}_seconds": ran.seconds,
        f"links_{label}_state_bytes": float(ran.state),
        f"links_{label}_cold_bytes": float(ran.cold),
    }


def _run(bench: Bench, folder: Path, label: str) -> Ran:
    program, out = PROGRAM.format(setting=SETTINGS[label], folder=folder), folder / "out" / label
    with Session(spark=bench.spark) as session:
        running = session.sql(
            program, once=True, out=str(out), format="parquet", checkpoint=str(folder / "checkpoint" / label)
        )
        assert running is not None
        running.wait()
        run, progress = running._run, running.progress()  # noqa: SLF001 - Spark's own figures of the batches
        assert isinstance(run, SparkRun)
    took = [step.seconds for step in run.progress.recent_steps if step.rows]
    ran = Ran(sum(took[SKIPPED:]), progress.peak_state_bytes, progress.cold_bytes)
    say(f"links, {label}: {ran}")
    return ran


def _is_right(folder: Path, label: str) -> bool:
    """Whether a run found the packets that the plain join did, and those that the files have."""
    with duckdb.connect() as database:
        found, plain = (
            f"(SELECT pid, size, at_b, at_o, valid_from, valid_to FROM {files(folder / 'out' / each / 'query_1')})"
            for each in (label, "plain")
        )
        wrong = database.sql(
            f"SELECT count(*) FROM (({found} EXCEPT ALL {plain}) UNION ALL ({plain} EXCEPT ALL {found}))"
        ).fetchall()[0][0]
        c, b, o = (files(folder / link) for link in ("c", "b", "o"))
        wanted = database.sql(
            f"SELECT count(*), sum(c.size) FROM {c} c JOIN {b} b USING (pid) JOIN {o} o USING (pid)"
        ).fetchall()
        have = database.sql(f"SELECT count(*), sum(size) FROM {found}").fetchall()
    say(f"links, {label}: {have[0][0]:,} packets, {wrong:,} different from the plain join's")
    return bool(wrong == 0 and wanted == have and have[0][0] > 0)
