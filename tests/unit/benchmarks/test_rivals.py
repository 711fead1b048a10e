"""The benchmark of rivals: the join by hand is right, wrong answers are noticed, and all keys are there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.contestants.deque_join import DequeJoin
from benchmarks.contestants.protocol import Answer, Data, Task
from benchmarks.contestants.tidegate_embedded import run
from benchmarks.rivals import DENSITIES, QUICK, as_table, entries, figures_of, ratios_of
from benchmarks.support.rivals_contest import Contestant, Result
from benchmarks.support.rivals_data import Readings, are_right, count_pairs, crossing_pairs

THRESHOLD, DISTANCE = 1.0, 2_000_000
A = [(0, 1, 0.5, 0), (1, 1, 0.9, 2_000_000), (2, 2, 0.9, 2_000_000), (3, 1, 0.8, 9_000_000)]
B = [(0, 1, 0.5, 0), (1, 1, 0.5, 2_000_000), (2, 1, 0.9, 4_000_000), (3, 1, 0.3, 7_000_000), (4, 2, 0.2, 8_000_000)]
"""Id, key, value and time; some sums equal the threshold, some distances the greatest one."""

CROSSING = [(1, 0), (1, 1), (1, 2), (3, 3)]


def joined_by_hand(a, b):
    by_key: dict[int, list] = {}
    rows = [(at, side, value, id_, key) for side, some in enumerate((a, b)) for id_, key, value, at in some]
    for at, side, value, id_, key in sorted(rows):
        by_key.setdefault(key, []).append((at, side, value, id_))
    return sorted(pair for some in by_key.values() for pair in DequeJoin(THRESHOLD, DISTANCE).alarms(some))


@pytest.fixture
def folder(tmp_path):
    for name, rows in (("a", A), ("b", B)):
        (tmp_path / name).mkdir()
        columns = dict(zip(("id", "key", "value", "at"), map(list, zip(*rows, strict=True)), strict=True))
        arrow_csv.write_csv(pa.table(columns), tmp_path / name / "0000.csv")
    return tmp_path


def test_the_join_by_hand_agrees_with_tidegate_and_with_brute_force(folder):
    data = Data(str(folder), len(A) + len(B))
    task = Task(data, data, THRESHOLD, DISTANCE, every_pair=True, spawned=0.0)
    assert joined_by_hand(A, B) == CROSSING
    assert sorted(run(task, data)) == CROSSING
    crossing = crossing_pairs(folder, THRESHOLD, DISTANCE)
    assert sorted(zip(crossing["a_id"].to_pylist(), crossing["b_id"].to_pylist(), strict=True)) == CROSSING
    assert count_pairs(str(folder), DISTANCE) == 6


reading = st.tuples(st.integers(0, 1), st.sampled_from([0.2, 0.5, 0.8]), st.integers(0, 8))


@given(st.lists(reading, max_size=8), st.lists(reading, max_size=8))
def test_the_join_by_hand_finds_every_pair(some_a, some_b):
    a, b = ([(i, key, value, at * 500_000) for i, (key, value, at) in enumerate(some)] for some in (some_a, some_b))
    expected = [
        (i, j)
        for i, key, value, at in a
        for j, other_key, other, other_at in b
        if key == other_key and abs(at - other_at) <= DISTANCE and value + other > THRESHOLD
    ]
    assert joined_by_hand(a, b) == sorted(expected)


@pytest.mark.parametrize(
    ("alarms", "every_pair", "right"),
    [
        (CROSSING, True, True),
        ([(1, 0), (1, 1), (1, 2)], True, False),  # one is missing
        ([*CROSSING, (0, 1)], True, False),  # does not cross
        ([*CROSSING, (3, 3)], True, False),  # twice
        ([(1, 2), (3, 3)], False, True),  # the other two have a smaller value, and are near
        ([(1, 1), (3, 3)], False, False),  # nothing is as great as (1, 2)
        ([(1, 2), (3, 3), (0, 1)], False, False),
    ],
)
def test_wrong_answers_are_noticed(folder, alarms, every_pair, right):
    crossing = crossing_pairs(folder, THRESHOLD, DISTANCE)
    assert are_right(alarms, crossing, before=10, distance=DISTANCE, every_pair=every_pair) is right


def test_only_the_readings_that_a_contestant_read_count(folder):
    crossing = crossing_pairs(folder, THRESHOLD, DISTANCE)
    assert are_right([(1, 0), (1, 1)], crossing, before=2, distance=DISTANCE, every_pair=True)


def test_readings_have_their_density(tmp_path):
    readings = Readings(tmp_path, density=10, rows=40_000, files=4)
    readings.write()
    assert readings.pairs(4) / (readings.rows / 2) == pytest.approx(10, rel=0.05)
    assert readings.part(2).rows == 20_000
    joined = Path(readings.joined_part(2).folder, "a", "all.csv")
    assert len(joined.read_text(encoding="utf-8").splitlines()) == 10_000


def test_tasks_and_answers_travel_as_json():
    task = Task(Data("x", 1), Data("y", 2), 1.5, 3, every_pair=False, spawned=4.0)
    assert Task.from_json(task.as_json()) == task
    assert Answer.from_json('{"start": 1, "rows": 6, "seconds": 2, "alarms": [[1, 2]]}').rate == 3


def test_all_keys_are_there():
    bytewax, flink = Contestant("bytewax", "bytewax_flow"), Contestant("flink", "flink_sql")
    results = {
        d: {e.who.name: Result(True, (2.0,), 1.0, 1.0) for e in entries(QUICK, d, bytewax, flink)} for d in DENSITIES
    }
    assert set(ratios_of(results)) == {
        *(f"{ours}_vs_bytewax_{d}" for ours in ("embedded", "embedded_all") for d in (10, 100, 1000)),
        *("embedded_vs_duckdb_batch_100", "spark_vs_flink_10", "spark_vs_flink_1000", "spark_vs_spark_join_100"),
    }
    assert figures_of(results)["flink_1000_rows_per_s"] == 2.0
    assert as_table(results).count("\n") == 7


def test_a_rival_that_is_missing_is_left_out():
    results = {
        d: {e.who.name: Result(True, (2.0,), 1.0, 1.0) for e in entries(QUICK, d, None, None)} for d in DENSITIES
    }
    assert not [name for name in ratios_of(results) if "bytewax" in name or "flink" in name]


def test_a_ratio_compares_turns_of_the_same_round():
    one, other = Result(True, (8.0, 2.0, 6.0), 1.0, 1.0), Result(True, (4.0, 1.0), 1.0, 1.0)
    assert one.ratio(other) == 2.0
