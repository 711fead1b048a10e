"""Similarity joins and shedding on Spark: exact where there is time, else a part of that, and told of."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from tidegate.session import Session

FILES, ROWS = 6, 60

PROGRAM = """
CREATE STREAM a (n INT, items ARRAY<INT>, level STRING, at BIGINT) FROM '{folder}/a' TIMESTAMP BY at
  WITH (files_per_batch = 1);
CREATE STREAM b (n INT, items ARRAY<INT>, level STRING, at BIGINT) FROM '{folder}/b' TIMESTAMP BY at
  WITH (files_per_batch = 1);
SELECT a.n AS a, b.n AS b FROM a WINDOW(RANGE 150), b WINDOW(RANGE 150)
WHERE OVERLAP(a.items, b.items) >= 2 {more};
"""
UTILITY = "UTILITY BY a.level WORTH ('high' = 10, ELSE = 1)"
ALERT = """
CREATE ALERT both FROM a, b WITHIN 20 MICROSECONDS EMIT ALL WHEN a.n + b.n > 550
  WITH (shedding = on, budget = {budget});
"""


def write(folder: Path) -> None:
    dice = random.Random(1)
    for name in "ab":
        (folder / name).mkdir()
        for number in range(FILES):
            rows = [
                {
                    "n": number * ROWS + n,
                    "items": dice.sample(range(12), 4),
                    "level": dice.choice(["high", "low", None]),
                    "at": number * 100 + n * 100 // ROWS,
                }
                for n in range(ROWS)
            ]
            path = folder / name / f"{number}.parquet"
            pq.write_table(pa.Table.from_pylist(rows), path)
            os.utime(path, (1_700_000_000 + number,) * 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("shedding")
    write(made)
    return made


def pairs(path: Path) -> list[tuple[int, ...]]:
    tables = [pq.read_table(each) for each in path.glob("*.parquet")]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted((row["valid_from"], row["valid_to"], row["a"], row["b"]) for row in rows)


def told(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for each in sorted(path.glob("*.jsonl")) for line in each.read_text().splitlines()]


def run(text: str, out: Path, **settings) -> None:
    with Session(**settings) as session:
        query = session.sql(text, once=True, out=str(out), checkpoint=str(out / "checkpoint"))
        assert query is not None
        query.wait()


@pytest.fixture(scope="module")
def exact(folder):
    out = folder / "exact"
    run(PROGRAM.format(folder=folder, more=""), out, runtime="embedded")
    found = pairs(out / "query_1")
    assert len(found) > 1000
    return found


@pytest.mark.spark
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_join_on_spark_is_exact_and_what_it_sheds_is_told(spark, folder, exact, tmp_path, buckets):
    options = {"off": "", "enough": "WITH (shedding = on, budget = 1000000)"}
    options["little"] = f"{UTILITY} WITH (shedding = on, budget = 1200)"
    for name, more in options.items():
        run(PROGRAM.format(folder=folder, more=more), tmp_path / name, spark=spark, buckets=buckets)
    assert pairs(tmp_path / "off" / "query_1") == exact
    assert pairs(tmp_path / "enough" / "query_1") == exact
    assert {row["compared_share"] for row in told(tmp_path / "enough" / "shedding")} == {1}
    some, said = pairs(tmp_path / "little" / "query_1"), told(tmp_path / "little" / "shedding")
    assert len(set(some)) == len(some) < len(exact)
    assert set(some) < set(exact)
    assert len(said) == FILES
    assert sum(row["found"] for row in said) == len(some)
    missed = sum(row["found"] / row["results_share"] - row["found"] for row in said if row["results_share"])
    assert len(some) / (len(some) + missed) == pytest.approx(len(some) / len(exact), abs=0.1)
    assert all(row["utility_share"] >= row["results_share"] - 0.05 for row in said[2:])


# ---- joins by key, over one file of each stream

LENGTH, LATE = 42_000, 7_500
BY_KEY = """
CREATE STREAM a (n INT, k INT, x DOUBLE, at BIGINT) FROM '{folder}/a.{format}' TIMESTAMP BY at;
CREATE STREAM b (n INT, k INT, x DOUBLE, at BIGINT) FROM '{folder}/b.{format}' TIMESTAMP BY at;
SELECT a.n AS a, b.n AS b FROM a WINDOW(RANGE 10000), b WINDOW(RANGE 10000)
WHERE a.k = b.k AND ABS(a.x - b.x) <= 15 {more};
"""
LITTLE = "WITH (shedding = on, budget = 150000)"


@pytest.fixture(scope="module")
def single_files(tmp_path_factory):
    """What comes on the left comes on the right three quarters of a window later."""
    made = tmp_path_factory.mktemp("single")
    for name, late in (("a", 0), ("b", LATE)):
        times = range(0, 10 * LENGTH, 10)
        rows = {"n": range(LENGTH), "k": [n % 7 for n in range(LENGTH)], "x": [float(t - late) for t in times]}
        table = pa.table({**rows, "at": times})
        pq.write_table(table, made / f"{name}.parquet")
        pa_csv.write_csv(table, made / f"{name}.csv")
    return made


def once(
    folder: Path, out: Path, format_: str, more: str, **settings
) -> tuple[set[tuple[int, ...]], list[dict[str, Any]]]:
    run(BY_KEY.format(folder=folder, format=format_, more=more), out, **settings)
    found = pairs(out / "query_1")
    assert len(set(found)) == len(found)
    return set(found), told(out / "shedding") if more else []


@pytest.fixture(scope="module")
def exact_by_key(single_files):
    found, _ = once(single_files, single_files / "exact", "csv", "", runtime="embedded")
    assert len(found) > 10_000
    return found


def check_learning(found, said, exact):
    """Several steps of a single file find some of the results, and later ones more than the first one."""
    assert found < exact
    assert sum(row["found"] for row in said) == len(found)
    assert len([row for row in said if row["of_comparisons"]]) >= LENGTH // 10_000
    first, last = said[0], next(row for row in reversed(said) if row["of_comparisons"])
    assert last["results_share"] > 3 * last["compared_share"]
    assert last["found"] / last["of_comparisons"] > 1.5 * first["found"] / first["of_comparisons"]


@pytest.mark.parametrize("format_", ["csv", "parquet"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_a_join_by_key_learns_within_one_file(single_files, exact_by_key, tmp_path, format_, buckets):
    settings: dict[str, Any] = {"runtime": "embedded", "buckets": buckets}
    check_learning(*once(single_files, tmp_path / "some", format_, LITTLE, **settings), exact_by_key)
    enough = LITTLE.replace("150000", "1000000000")
    assert once(single_files, tmp_path / "all", format_, enough, **settings)[0] == exact_by_key


@pytest.mark.spark
@pytest.mark.parametrize(("format_", "buckets"), [("csv", 1), ("parquet", 3)])
def test_on_spark_it_does_so_as_well(spark, single_files, exact_by_key, tmp_path, format_, buckets):
    found = once(single_files, tmp_path / "some", format_, LITTLE, spark=spark, buckets=buckets)
    check_learning(*found, exact_by_key)


@pytest.mark.spark
def test_an_alert_on_spark_sheds_what_pruning_leaves(spark, folder, tmp_path):
    streams = PROGRAM.format(folder=folder, more="").partition("SELECT")[0]
    for budget in (10**9, 100):
        run(streams + ALERT.format(budget=budget), tmp_path / str(budget), spark=spark)
    every, some = ([json.dumps(r, default=str) for r in alarms(tmp_path / str(b) / "both")] for b in (10**9, 100))
    assert 0 < len(some) < len(every)
    assert set(some) < set(every)
    assert any(row["compared_share"] < 1 for row in told(tmp_path / "100" / "shedding"))
    assert all(row["compared_share"] == 1 for row in told(tmp_path / str(10**9) / "shedding"))


def alarms(path: Path) -> list[dict[str, object]]:
    rows = [row for each in path.glob("*.parquet") for row in pq.read_table(each).to_pylist()]
    return [{k: v for k, v in row.items() if k not in ("incident", "alarm")} for row in rows]
