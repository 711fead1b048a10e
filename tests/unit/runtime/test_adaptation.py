"""Sizes that change between steps: who decides them, what is recorded, and what is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.json import read_json
from reference.instants import snapshots
from reference.semantics import relations_of

from tidegate.algebra.adaptable import is_adaptable
from tidegate.algebra.plan import walk
from tidegate.connectors.memory import MemorySource
from tidegate.connectors.sinks import open_sink
from tidegate.errors import InternalError
from tidegate.language.bind.program import bind
from tidegate.physical.common.sizes import SizeChange, SizeHistory
from tidegate.runtime.adaptation import Adapt, Adaptation
from tidegate.runtime.checkpoint import Checkpoint, Record
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import Job, instant_after
from tidegate.runtime.quality import QUALITY
from tidegate.session import Session
from tidegate.time import BEGINNING, EARLIEST, FOREVER

DELAY = 3
TEXT = """
CREATE STREAM s (t BIGINT, k INT) FROM '{folder}/s.csv' TIMESTAMP BY t DELAY 3 US;
CREATE STREAM r (t BIGINT, k INT) FROM '{folder}/r.csv' TIMESTAMP BY t DELAY 1 US;
"""
COUNTED = "CREATE QUERY q AS SELECT k, CAST(COUNT(*) AS INT) AS n FROM s WINDOW(RANGE MIN 2, MAX 6) GROUP BY k;"
TIMES = [0, 1, 1, 4, 3, 6, 8, 8, 10, 13, 12, 14]
ROWS = [{"t": t, "k": t % 2} for t in TIMES]
PER_STEP = 3
INSTANTS = range(-3, 30)


def job(folder: Path, text: str = COUNTED, adapt: Adapt | None = None) -> Job:
    for name in ("s", "r"):
        (folder / f"{name}.csv").write_text("t,k\n0,0\n")
    made = compile_job(bind(TEXT.format(folder=folder) + text), sinks={})
    sources = {
        name: MemorySource(each.stream, pa.Table.from_pylist(ROWS, schema=each.stream.schema.arrow))
        for name, each in made.sources.items()
    }
    return replace(made, sources=sources, times="micros", adapt=adapt)


class Script:
    """A hook that gives the windows of a job sizes by the number of the step, and keeps what it saw."""

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes, self.seen = sizes, list[Adaptation]()

    def __call__(self, adaptation: Adaptation) -> dict[str, SizeHistory]:
        self.seen.append(adaptation)
        if (size := self.sizes.get(adaptation.step)) is None:
            return {}
        return {key: adaptation.change(key, size, f"step {adaptation.step}") for key in adaptation.windows}


def ran(made: Job, checkpoint: Path | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """The rows that came out, by output."""
    rows: dict[str, list[tuple[Any, ...]]] = {}

    def collect(name: str, batch: pa.RecordBatch) -> None:
        rows.setdefault(name, []).extend(tuple(row.values()) for row in batch.to_pylist())

    place = None if checkpoint is None else str(checkpoint)
    run = EmbeddedRun(made, on_rows=collect, once=True, checkpoint=place, rows_per_step=PER_STEP)
    run.wait()
    return rows


def last_record(checkpoint: Path) -> Record:
    record = Checkpoint(str(checkpoint)).last_record()
    assert record is not None
    return record


def test_a_hook_decides_after_each_step_and_changes_begin_after_what_was_seen(tmp_path) -> None:
    script = Script({1: 4, 3: 2})
    made = job(tmp_path, adapt=script)
    rows = ran(made)
    changes = [(row[2], row[3], row[-1]) for row in rows[QUALITY]]
    # The first step sees the times 0, 1 and 1, the third one up to 10: their watermarks are 3 less.
    assert changes == [(None, 6, ""), (2, 4, "step 1"), (11, 2, "step 3")]
    (plan,) = (query.plan for query in bind(TEXT.format(folder=tmp_path) + COUNTED).queries)
    sizes = {node: [(2, 4), (11, 2)] for node in walk(plan) if is_adaptable(node)}
    expected = relations_of(plan, {"s": [(r["t"], r["t"] + 1, r) for r in ROWS]}, INSTANTS, sizes)
    assert snapshots([(begin, end, values) for begin, end, *values in rows["q"]], INSTANTS) == expected


def test_a_hook_sees_the_step_and_the_histories_so_far(tmp_path) -> None:
    script = Script({1: 4})
    made = job(tmp_path, adapt=script)
    ran(made)
    first, second = script.seen[:2]
    assert (first.step, first.rows, first.arrived) == (1, {"s": 3}, {"s": 3})
    assert (second.rows, second.arrived) == ({"s": 3}, {"s": 6})
    assert first.watermarks == {"s": 1 - DELAY}
    assert first.delays == {"s": DELAY}
    assert first.state.rows > 0
    assert first.seconds > 0
    assert first.phases.run > 0
    (key,) = made.adjusted
    assert [each.size for each in second.sizes[key].changes] == [6, 4]
    assert made.adjusted[key].text == "Window range 6 microseconds of s"
    assert made.adjusted[key].queries == ("q",)


def test_without_a_hook_the_sizes_are_the_best_and_said_once(tmp_path) -> None:
    rows = ran(job(tmp_path), tmp_path / "checkpoint")
    assert rows[QUALITY] == [("q", "Window range 6 microseconds of s", None, 6, 6, 2, "")]
    assert ran(job(tmp_path), tmp_path / "checkpoint").get(QUALITY) is None
    fixed = "CREATE QUERY q AS SELECT k, CAST(COUNT(*) AS INT) AS n FROM s WINDOW(RANGE 6) GROUP BY k;"
    plain = ran(job(tmp_path, fixed))
    assert QUALITY not in plain
    assert sorted(rows["q"]) == sorted(plain["q"])


def test_a_run_that_goes_on_has_the_recorded_sizes(tmp_path) -> None:
    sizes = {1: 4, 3: 2}
    whole = ran(job(tmp_path, adapt=Script(sizes)), tmp_path / "whole")
    first = job(tmp_path, adapt=Script(sizes))
    cut = {s: MemorySource(each.stream, pa.Table.from_pylist(ROWS[:9], schema=each.stream.schema.arrow))
           for s, each in first.sources.items()}  # fmt: skip
    parts = ran(replace(first, sources=cut), tmp_path / "parts")
    later = ran(job(tmp_path), tmp_path / "parts")
    assert [*parts[QUALITY], *later.get(QUALITY, [])] == whole[QUALITY]
    record, expected = last_record(tmp_path / "parts"), last_record(tmp_path / "whole")
    assert (record.sizes, record.readers) == (expected.sizes, expected.readers)
    (history,) = record.sizes.values()
    assert history.changes == (SizeChange(11, 2, "step 3"),)  # the watermark is 11


@pytest.mark.parametrize("lost", [1, 2])
def test_a_step_whose_record_is_lost_has_the_sizes_of_the_record_before(tmp_path, lost) -> None:
    sizes = {1: 4, 2: 3, 3: 2}
    whole = ran(job(tmp_path, adapt=Script(sizes)), tmp_path / "checkpoint")
    before = last_record(tmp_path / "checkpoint")
    for path in sorted((tmp_path / "checkpoint" / "steps").iterdir())[-lost:]:
        path.unlink()
    again = ran(job(tmp_path, adapt=Script(sizes)), tmp_path / "checkpoint")
    assert last_record(tmp_path / "checkpoint").sizes == before.sizes
    assert set(again["q"]) <= set(whole["q"])


def test_rows_on_quality_in_files_are_published_once_whatever_is_repeated(tmp_path) -> None:
    def run() -> list[dict[str, object]]:
        sinks = {name: open_sink(str(tmp_path / "out" / name), format="jsonl") for name in ("q", QUALITY)}
        made = replace(job(tmp_path, adapt=Script({1: 4, 3: 2})), sinks=sinks)
        ran(made, tmp_path / "checkpoint")
        files = sorted((tmp_path / "out" / QUALITY).glob("*.jsonl"))
        return [row for file in files for row in read_json(file).to_pylist()]

    once = run()
    assert [row["size"] for row in once] == [6, 4, 2]
    for path in sorted((tmp_path / "checkpoint" / "steps").iterdir())[-1:]:
        path.unlink()
    assert run() == once


# ---- instants


def test_the_first_instant_is_after_every_start_that_was_seen(tmp_path) -> None:
    texts = {
        "SELECT k FROM s WINDOW(RANGE MIN 2, MAX 6)": 10 + DELAY + 1,
        "SELECT k FROM s WINDOW(ROWS MIN 2, MAX 6)": 10 + DELAY + 1,
        "SELECT k FROM (SELECT * FROM s UNION ALL SELECT * FROM r) x WINDOW(ROWS MIN 2, MAX 6)": 30 + 1 + 1,
        # The last element may begin at 13, which is 15 in steps of 4 less one, and then at 16, 18 or 20 in granules.
        "SELECT k FROM s WINDOW(RANGE 6 SLIDE 4) GRANULARITY(COARSEST 5, FINEST 1)": 15 + 1,
    }
    for number, (text, expected) in enumerate(texts.items()):
        made = job(tmp_path, f"CREATE QUERY q{number} AS {text};")
        (key,) = made.adjusted
        watermarks = dict.fromkeys(made.graph.streams, 10) | ({"r": 30} if "r" in made.graph.streams else {})
        assert instant_after(made, key, watermarks) == expected, text
    assert instant_after(made, key, {"s": BEGINNING}) == EARLIEST
    assert instant_after(made, key, {"s": FOREVER}) == FOREVER


def test_coarse_granules_become_finer_at_their_multiples_only(tmp_path) -> None:
    made = job(tmp_path, "CREATE QUERY q AS SELECT k FROM s WINDOW(RANGE 6) GRANULARITY(COARSEST 12, FINEST 2);")
    ((key, window),) = made.adjusted.items()
    coarse = SizeHistory.of(2).changed(5, 12)
    adaptation = Adaptation(3, made.graph, {"s": 10}, made.source_streams, made.adjusted, {key: coarse})
    assert window.bounds.chain == (2, 4, 12)
    assert adaptation.first_instant(key, 4) == 24
    assert adaptation.first_instant(key, 12) == 14
    assert adaptation.change(key, 4).newest == SizeChange(24, 4)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda a, key: {"other": a.sizes[key]}, "I361"),
        (lambda a, key: {key: SizeHistory.of(3)}, "I362"),
        (lambda a, key: {key: a.sizes[key].changed(100, 1)}, "I363"),
        (lambda a, key: {key: a.sizes[key].changed(100, 7)}, "I363"),
        (lambda a, key: {key: a.sizes[key].changed(a.first_instant(key, 3) - 1, 3)}, "I364"),
    ],
)
def test_a_hook_that_breaks_the_rules_ends_the_run(tmp_path, change, code) -> None:
    def adapt(adaptation: Adaptation) -> Mapping[str, SizeHistory]:
        (key,) = adaptation.windows
        return change(adaptation, key)

    with pytest.raises(InternalError) as caught:
        ran(job(tmp_path, adapt=adapt))
    assert caught.value.code == code


def test_a_window_of_two_queries_keeps_to_the_bounds_of_both(tmp_path) -> None:
    other = COUNTED.replace("QUERY q", "QUERY p").replace("MIN 2", "MIN 4")
    made = job(tmp_path, COUNTED + other)
    (window,) = made.adjusted.values()
    assert (window.bounds.worst, window.bounds.best, window.queries) == (4, 6, ("p", "q"))
    rows = ran(replace(made, adapt=Script({2: 5})))
    assert [(row[0], row[3]) for row in rows[QUALITY]] == [("p", 6), ("q", 6), ("p", 5), ("q", 5)]


def test_a_session_tells_the_sizes(tmp_path) -> None:
    table = pa.table({"t": [0, 3], "k": [1, 1]})
    with Session(runtime="embedded") as session:
        session.stream("s", table, time="t", unit="microseconds")
        query = session.sql("SELECT COUNT(*) AS n FROM s WINDOW(RANGE MIN 2 SECONDS, MAX 6 SECONDS)")
        query.finish()
        (row,) = query.quality().to_pylist()
    assert (row["size"], row["worst"], row["valid_from"]) == (6_000_000, 2_000_000, None)
