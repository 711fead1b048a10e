"""Run the alert over readings in Parquet files, and note rows, seconds and memory on the way."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benchmarks.support.rivals_data import DISTANCE
from benchmarks.support.scale_data import THRESHOLD
from tidegate.session import Session

EVERY = 0.2
"""Seconds between two samples."""


class Work(NamedTuple):
    """What to run: rows of both streams together, keys, and buckets."""

    rows: int
    keys: int = 100
    buckets: int = 2


class Sample(NamedTuple):
    """Rows read, seconds passed, and bytes of memory and of state at one moment of a run."""

    rows: int
    seconds: float
    memory: int
    state: int


@dataclass(frozen=True, slots=True)
class Growth:
    """What came of a run: its samples, and the alarms that it raised and should have raised."""

    samples: Sequence[Sample]
    found: int
    expected: int

    @property
    def rate(self) -> float:
        return self.samples[-1].rows / self.samples[-1].seconds

    @staticmethod
    def from_json(text: str, expected: int) -> Growth:
        fields = json.loads(text)
        return Growth([Sample(*each) for each in fields["samples"]], fields["found"], expected)


def run(folder: str, buckets: int) -> tuple[list[Sample], int]:
    with Session(runtime="embedded", buckets=buckets) as session:
        streams = "".join(
            f"CREATE STREAM {s} (key INT, value DOUBLE, at BIGINT) FROM '{folder}/{s}' TIMESTAMP BY at;\n" for s in "ab"
        )
        # Every pair above the threshold is an alarm, so that the number of alarms is known.
        alert = (
            f"CREATE ALERT alarm FROM a, b WITHIN {DISTANCE} MICROSECONDS MATCHING key "
            f"WHEN a.value + b.value > {THRESHOLD} EMIT ALL;"
        )
        began = time.perf_counter()
        running = session.sql(streams + alert, once=True)
        assert running is not None
        samples: list[Sample] = []
        ended = False
        while not ended:
            ended = running.wait(EVERY)
            progress = running.progress()
            samples.append(Sample(progress.rows_in, time.perf_counter() - began, memory(), progress.state_bytes))
        return samples, running.results().num_rows


def memory() -> int:
    """Return the bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    where, given = sys.argv[1], Work(**json.loads(sys.argv[2]))
    run(str(Path(where, "first")), given.buckets)  # kernels are loaded
    found_samples, found_alarms = run(str(Path(where, "whole")), given.buckets)
    print(json.dumps({"samples": found_samples, "found": found_alarms}))
