"""Rows come out of a schedule when their time has come, each once; what is not touched is not rewritten."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidegate.physical.common.kernels.schedule import MOST_RUNS, Schedule

steps = st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=6), st.integers(0, 4)), max_size=25)


def rows(times: list[int], first: int) -> pa.RecordBatch:
    numbers = list(range(first, first + len(times)))
    return pa.RecordBatch.from_pydict({"time": pa.array(times, pa.int64()), "number": pa.array(numbers, pa.int64())})


@given(steps)
def test_rows_come_out_in_their_time(moves: list[tuple[list[int], int]]) -> None:
    schedule, waiting, now, given_out = Schedule("s"), set(), 0, 0
    for times, advance in moves:
        schedule = schedule.with_rows(rows(times, given_out))
        waiting |= {(time, given_out + n) for n, time in enumerate(times)}
        given_out, now = given_out + len(times), now + advance
        before = schedule.chunks()
        schedule, due = schedule.take_before(now)
        assert all(part.column(0).to_pylist() == sorted(part.column(0).to_pylist()) for part in due)
        found = [(row["time"], row["number"]) for part in due for row in part.to_pylist()]
        assert sorted(found) == sorted(w for w in waiting if w[0] < now)
        waiting = {w for w in waiting if w[0] >= now}
        assert len(schedule.runs) <= MOST_RUNS
        assert sum(run.waiting_count for run in schedule.runs) == len(waiting)
        assert all(before[name] is chunk for name, chunk in schedule.chunks().items())
        schedule = Schedule.load("s", schedule.chunks(), schedule.figures())


def test_each_run_has_a_name_of_its_own() -> None:
    schedule = Schedule("s")
    seen: dict[str, pa.RecordBatch] = {}
    for time in range(40):
        schedule = schedule.with_rows(rows([time], 0)).take_before(time - 20)[0]
        for name, chunk in schedule.chunks().items():
            assert seen.setdefault(name, chunk) is chunk
