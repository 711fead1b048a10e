"""Turn a log of DNS transactions, as written by Zeek, into streams of requests and responses.

    python examples/dns/prepare.py LOG.csv.gz FOLDER [--files 20]

The log has the columns ts_us, uid, trans_id, rtt (in seconds), query, qtype_name, rcode_name and seq; a line is a
request and, unless rtt is empty, its response. A client that gets no answer asks again (`attempt`), and where
traffic is watched on two links, everything appears twice, a few microseconds apart (`link`). The streams are
request and response; and outer_request, inner_request and inner_response, which have what one link sees of them.
"""

from __future__ import annotations

import argparse
import os
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq

LINES = """
CREATE TABLE line AS
SELECT *, ((copy - 1) // 2)::INT AS attempt, ((copy - 1) % 2 + 1)::INT AS link FROM (
  SELECT *, row_number() OVER (PARTITION BY uid, trans_id ORDER BY ts_us, seq) AS copy FROM read_csv('{log}'))
"""
REQUEST = "SELECT uid, trans_id, attempt, {} query, qtype_name AS qtype, ts_us FROM line {} ORDER BY ts_us, seq"
RESPONSE = """
SELECT uid, trans_id, attempt, {} rcode_name AS rcode, ts_us + round(rtt * 1e6)::BIGINT AS ts_us
FROM line WHERE rtt IS NOT NULL {} ORDER BY ts_us, seq
"""
STREAMS = {
    "request": REQUEST.format("link,", ""),
    "response": RESPONSE.format("link,", ""),
    "outer_request": REQUEST.format("", "WHERE link = 1"),
    "inner_request": REQUEST.format("", "WHERE link = 2"),
    "inner_response": RESPONSE.format("", "AND link = 2"),
}


def prepare(log: Path, folder: Path, files: int, database: duckdb.DuckDBPyConnection) -> None:
    """Make a table and a folder of files for each stream; the n-th files of all streams are of the same time."""
    database.sql(LINES.format(log=log))
    for name, rows in STREAMS.items():
        database.sql(f"CREATE TABLE {name} AS {rows}")
    shares = [number / files for number in range(1, files)]
    limits = database.sql(f"SELECT quantile_disc(ts_us, {shares}) FROM line").fetchall()[0][0] if shares else []
    for name in STREAMS:
        _write(folder / name, database.table(name), limits)


def _write(folder: Path, rows: duckdb.DuckDBPyRelation, limits: list[int]) -> None:
    table = rows.to_arrow_table()
    folder.mkdir(parents=True, exist_ok=True)
    cuts = [0, *np.searchsorted(table["ts_us"].to_numpy(), limits).tolist(), table.num_rows]
    for number, (begin, end) in enumerate(pairwise(cuts)):
        path = folder / f"{number:03d}.parquet"
        pq.write_table(table.slice(begin, end - begin), path)
        os.utime(path, (number, number))  # Spark takes files by the time of change


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", type=Path, help="dns.csv.gz")
    parser.add_argument("folder", type=Path, help="where the folders of the streams go")
    parser.add_argument("--files", type=int, default=20, help="into how many files each stream is cut")
    given = parser.parse_args()
    prepare(given.log, given.folder, given.files, duckdb.connect())


if __name__ == "__main__":
    main()
