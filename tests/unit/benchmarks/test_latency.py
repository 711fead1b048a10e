"""The benchmark of latency: rows are written when they are due, and all keys are there."""

from __future__ import annotations

from benchmarks.contestants.steady_writer import FLUSH, chunks
from benchmarks.latency import Floor, report
from benchmarks.support.latency_run import Latency


def test_rows_are_written_within_a_chunk_after_they_are_due():
    found = chunks(2_000, 0.1, 1_000.0)
    rows = [(when, line.split(b",")) for when, *texts in found for text in texts for line in text.splitlines()]
    assert len(rows) == 200
    waits = [when - int(fields[3]) / 1_000_000 for when, fields in rows]
    assert 0 < min(waits) <= max(waits) <= FLUSH + 1e-6


def test_rows_of_a_stream_have_ascending_times_and_ids():
    for stream in zip(*((a, b) for _, a, b in chunks(1_000, 0.1, 1_000.0)), strict=True):
        fields = [line.split(b",") for line in b"".join(stream).splitlines()]
        assert [int(id_) for id_, *_ in fields] == list(range(50))
        assert sorted({int(at) for *_, at in fields}) == [int(at) for *_, at in fields]


def test_all_keys_are_there():
    latency = Latency(p50=10.0, p99=40.0, alarms=5, rows_per_s=19_000.0, right=True)
    found = report({20_000: latency}, {20_000: latency}, {20_000: Floor(p50=5.0, p99=8.0)}, Floor(p50=40.0, p99=60.0))
    assert found.ratios == {
        "spark_p50_vs_bare_floor_20000": 0.25,
        "spark_p50_vs_floor_20000": 2.0,
        "spark_p99_vs_floor_20000": 5.0,
    }
    assert found.equal
    assert {"embedded_p50_ms_20000", "embedded_p99_ms_20000", "rows_per_s"} <= set(found.figures)
