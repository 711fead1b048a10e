"""Readings of two streams for the benchmark of rivals, and the right answers.

A reading can meet those of the other stream that are at most 30 seconds from it: in a window of one minute.
The *density* is how many readings of a key and stream come in such a window.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from benchmarks.contestants.protocol import Alarms, Data

KEYS = 100
DISTANCE = 30_000_000
"""In microseconds."""
BEGIN = 1_767_225_600_000_000
ALARMS = 80
"""Pairs that cross the threshold, on average, in a million rows: less than one of 10,000 readings raises an alarm."""
MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Readings:
    """CSV files of both streams, cut at the same times; `rows` counts both streams."""

    folder: Path
    density: int
    rows: int
    files: int

    @property
    def threshold(self) -> float:
        # A sum of two uniform numbers is above 2 - e with a probability of e²/2.
        return round(2 - math.sqrt(2 * ALARMS / (MILLION / 2 * self.density)), 6)

    def write(self) -> None:
        for stream in "ab":
            (self.folder / "all" / stream).mkdir(parents=True)
        for number, tables in enumerate(self._tables()):
            for stream, table in tables.items():
                file = self._file(stream, number)
                arrow_csv.write_csv(table, file)
                os.utime(file, (number, number))  # Spark takes files in the order of their age

    def _tables(self) -> Iterator[dict[str, pa.Table]]:
        random = np.random.default_rng(self.density)
        step = 2 * DISTANCE / (2 * KEYS * self.density)  # between two rows of the two streams together
        size = self.rows // 2 // self.files
        for number in range(self.files):
            ids = np.arange(number * size, (number + 1) * size)
            yield {
                stream: pa.table(
                    {
                        "id": ids,
                        "key": random.integers(0, KEYS, size),
                        "value": np.round(random.random(size), 9),
                        # Whole milliseconds: Flink knows no others.
                        "at": BEGIN + ((2 * ids + side) * step).astype(np.int64) // 1000 * 1000,
                    }
                )
                for side, stream in enumerate("ab")
            }

    def _file(self, stream: str, number: int) -> Path:
        return self.folder / "all" / stream / f"{number:04d}.csv"

    def part(self, files: int) -> Data:
        """The first files, in a folder of their own."""
        where = self.folder / f"first-{files}"
        for stream in "ab":
            (where / stream).mkdir(parents=True, exist_ok=True)
            for number in range(files):
                link = where / stream / f"{number:04d}.csv"
                if not link.exists():
                    link.hardlink_to(self._file(stream, number))
        return Data(str(where), self.rows // self.files * files)

    def joined_part(self, files: int) -> Data:
        """The rows of the first files in one file a stream, without headings.

        For Flink, which reads the files of a folder in no order, and takes headings as rows.
        """
        where = self.folder / f"joined-{files}"
        for stream in "ab":
            (where / stream).mkdir(parents=True, exist_ok=True)
            texts = (self._file(stream, number).read_bytes().split(b"\n", 1)[1] for number in range(files))
            (where / stream / "all.csv").write_bytes(b"".join(texts))
        return Data(str(where), self.rows // self.files * files)

    def crossing(self) -> pa.Table:
        """All pairs that cross the threshold, by brute force."""
        return crossing_pairs(self.folder / "all", self.threshold, DISTANCE)

    def pairs(self, files: int) -> int:
        """How many pairs of the first files are equal in the key and near in time."""
        return count_pairs(self.part(files).folder, DISTANCE)


def crossing_pairs(folder: Path, threshold: float, distance: int) -> pa.Table:
    """Columns key, a_id, a_at, b_id, b_at, value. Values are below one, so small ones cannot cross."""
    with duckdb.connect() as database:
        for stream in "ab":
            database.sql(
                f"CREATE TABLE {stream} AS FROM read_csv('{folder / stream}/*.csv') WHERE value > {threshold} - 1"
            )
        found: pa.Table = database.sql(
            f"SELECT a.key, a.id AS a_id, a.at AS a_at, b.id AS b_id, b.at AS b_at, a.value + b.value AS value "
            f"FROM a JOIN b ON a.key = b.key AND abs(a.at - b.at) <= {distance} WHERE a.value + b.value > {threshold}"
        ).to_arrow_table()
        return found


def count_pairs(folder: str, distance: int) -> int:
    """Count by searching the sorted times of each key."""
    a, b = (_times_by_key(Path(folder, stream)) for stream in "ab")
    return sum(
        int((np.searchsorted(b[key], a[key] + distance, "right") - np.searchsorted(b[key], a[key] - distance)).sum())
        for key in a.keys() & b.keys()
    )


def _times_by_key(folder: Path) -> dict[int, np.ndarray]:
    table = pa.concat_tables(arrow_csv.read_csv(file) for file in folder.iterdir()).sort_by(
        [("key", "ascending"), ("at", "ascending")]
    )
    keys, firsts = np.unique(table["key"].to_numpy(), return_index=True)
    return dict(zip(keys.tolist(), np.split(table["at"].to_numpy(), firsts[1:]), strict=True))


def are_right(alarms: Alarms, crossing: pa.Table, *, before: int, distance: int, every_pair: bool) -> bool:
    """Whether these are the alarms of the readings whose id is before a given one.

    If not every pair is asked for, no alarm may be false, and for each pair that crosses there must be an alarm
    whose value is as great, of readings that are at most a window from those of the pair: what an alert guarantees.
    """
    with duckdb.connect() as database:
        database.register("expected", crossing)
        database.sql(f"CREATE TABLE crossing AS FROM expected WHERE greatest(a_id, b_id) < {before}")
        given = pa.table({"a_id": [a for a, _ in alarms], "b_id": [b for _, b in alarms]}, _IDS)
        database.register("given", given)
        database.sql("CREATE TABLE ours AS SELECT c.* FROM given JOIN crossing c USING (a_id, b_id)")
        (crossing_count,) = database.sql("SELECT count(*) FROM crossing").fetchall()[0]
        (distinct,) = database.sql("SELECT count(*) FROM (SELECT DISTINCT * FROM ours)").fetchall()[0]
        if not crossing_count or len(alarms) != distinct:  # no alarm is false, none is raised twice
            return False
        if every_pair:
            return bool(distinct == crossing_count)
        near = " AND ".join(f"abs(o.{x}_at - c.{x}_at) <= {2 * distance}" for x in "ab")
        missed = database.sql(
            f"SELECT count(*) FROM crossing c ANTI JOIN ours o ON o.key = c.key AND o.value >= c.value AND {near}"
        ).fetchall()[0][0]
        return bool(missed == 0)


_IDS = pa.schema([("a_id", pa.int64()), ("b_id", pa.int64())])
