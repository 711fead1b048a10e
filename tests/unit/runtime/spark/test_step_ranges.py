"""Ranges that are listed while a step runs are those that a listing after it would find."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.ranges import START, RangeEnd, Source, SourceRange
from tidegate.connectors.source import RangeReader, open_source
from tidegate.errors import DataError
from tidegate.language.bind.program import bind
from tidegate.runtime.spark.listing_ahead import ListingAhead
from tidegate.runtime.spark.step_ranges import RangeQueue

PATIENCE = 60.0


def source_in(folder: Path) -> Source:
    stream = bind(f"CREATE STREAM s (k INT, at BIGINT) FROM '{folder}/*.csv' TIMESTAMP BY at;").catalog.find("s")
    assert isinstance(stream, SourceStream)
    return open_source(stream)


def read_ranges(source: Source, ranges: Sequence[SourceRange]) -> tuple[list[RangeEnd], int]:
    """Read ranges; return how far, and the number of rows."""
    readers = [RangeReader(source, each, 100, frozenset({"k", "at"})) for each in ranges]
    count = sum(batch.num_rows for reader in readers for batch in reader)
    return [reader.end for reader in readers], count


changes = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["1,1\n", "2,2\n" * 9, "4,", "5\n", "replace", "remove"])),
    min_size=1,
    max_size=3,
)


def apply_changes(folder: Path, some: list[tuple[str, str]], clock: list[int]) -> None:
    for name, text in some:
        path = folder / f"{name}.csv"
        before = path.read_text() if path.exists() else "k,at\n"
        clock[0] += 1
        if text == "remove":
            path.unlink(missing_ok=True)
            continue
        path.write_text("k,at\n9,9\n" if text == "replace" else before + text)
        os.utime(path, ns=(clock[0], clock[0]))


@given(rounds=st.lists(changes, min_size=3, max_size=6), growing=st.booleans(), rows=st.sampled_from([1, 1000]))
def test_what_is_listed_ahead_is_what_a_listing_after_the_step_finds(rounds, growing, rows, tmp_path_factory):
    folder, clock = tmp_path_factory.mktemp("in"), [10**9]
    for name in "ab":
        (folder / f"{name}.csv").write_text("k,at\n" + "0,0\n" * 20)
    queue, late = (RangeQueue(source_in(folder), START) for _ in range(2))
    for some in rounds:
        for each in (queue, late):
            each.list_ranges(growing=growing)
        ranges = queue.take(rows)
        assert ranges == late.take(rows)
        found = read_ranges(queue.source, ranges)
        apply_changes(folder, some, clock)
        queue.list_ahead(growing=growing)
        queue.settle(*found)
        late.settle(*found)
        assert queue.position == late.position
        # Nothing changes before the next listing, so both must find the same.


@pytest.mark.parametrize("rows", [1, 2500, 3000, 20_000])
def test_a_file_of_columns_is_read_in_parts_if_steps_must_be_short(tmp_path, rows):
    names = [f"{rows * n} text that takes some bytes" for n in range(rows)]
    table = pa.table({"k": pa.array(range(rows), pa.int32()), "at": range(rows), "name": names})
    pq.write_table(table, tmp_path / "s.parquet")
    stream = bind(f"CREATE STREAM s (k INT, at BIGINT) FROM '{tmp_path}/*.parquet' TIMESTAMP BY at;").catalog.find("s")
    assert isinstance(stream, SourceStream)
    queue, counts = RangeQueue(open_source(stream), START), []
    for _ in range(100):
        queue.list_ranges(growing=False)
        if not (ranges := queue.take(1000, in_parts=True)):
            break
        ends, count = read_ranges(queue.source, ranges)
        queue.settle(ends, count)
        counts.append(count)
    assert (sum(counts), max(counts)) == (rows, min(rows, 1000))
    assert queue.position.of_part("s.parquet").is_done
    assert not queue.take(1000)


class SlowQueue(RangeQueue):
    """A queue that notes when it is listed ahead."""

    def __init__(self, source: Source, seconds: float) -> None:
        super().__init__(source, START)
        self.listing_seconds, self.times, self.listed = seconds, list[float](), threading.Event()

    def list_ahead(self, *, growing: bool) -> None:
        del growing
        self.times.append(time.perf_counter())
        self.listed.set()


def test_a_slow_listing_is_made_towards_the_end_of_the_step(tmp_path):
    (tmp_path / "0.csv").write_text("k,at\n")
    slow, quick = SlowQueue(source_in(tmp_path), 0.02), SlowQueue(source_in(tmp_path), 0.0)
    listing = ListingAhead()
    with listing.during_job([slow, quick], growing=True):
        time.sleep(0.3)
    slow.listed.clear()
    began = time.perf_counter()
    with listing.during_job([slow, quick], growing=True):
        assert slow.listed.wait(PATIENCE)
    assert slow.times[-1] > began + 0.2
    assert quick.times == []


def test_a_step_that_ends_early_does_not_wait_for_a_listing(tmp_path):
    (tmp_path / "0.csv").write_text("k,at\n")
    slow, listing = SlowQueue(source_in(tmp_path), 0.02), ListingAhead()
    with listing.during_job([], growing=True):
        time.sleep(0.3)
    with listing.during_job([slow], growing=True):
        pass
    assert slow.times == []


def test_a_listing_that_fails_is_left_to_the_next_step(tmp_path):
    class Failing(SlowQueue):
        def list_ahead(self, *, growing: bool) -> None:
            super().list_ahead(growing=growing)
            raise DataError("D408", "gone")

    (tmp_path / "0.csv").write_text("k,at\n")
    failing = Failing(source_in(tmp_path), 0.02)
    with ListingAhead().during_job([failing], growing=True):
        assert failing.listed.wait(PATIENCE)
