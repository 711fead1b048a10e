"""When results are reported: once, when their end is known, or early."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from support.paths import ROOT

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.runtime.bucket_step import Outbox
from tidegate.runtime.compile import compile_job, program_identity
from tidegate.runtime.embedded.engine import Engine

STREAM = "CREATE STREAM s (t BIGINT, k INT) FROM 'dataframe://s' TIMESTAMP BY t KEY (t);"
COUNT = "SELECT COUNT(*) AS n FROM s WINDOW(RANGE 5)"
Row = tuple[int, ...]


def engine(text: str) -> Engine:
    program = bind(STREAM + text)
    stream = program.catalog.find("s")
    assert isinstance(stream, SourceStream)
    source = MemorySource(stream, pa.Table.from_pylist([], schema=stream.schema.arrow))
    return Engine(compile_job(program, sinks={}, sources={"s": source}))


def reported(text: str, marks: list[int], rows: Sequence[Row]) -> list[list[Row]]:
    """What comes out of a query as time comes to each mark, and at the end; rows are of their time and key."""
    running = engine(text)
    steps = []
    for before, mark in zip([-1, *marks], marks, strict=False):
        new = [{"t": t, "k": k} for t, k in rows if before <= t < mark]
        batch = pa.RecordBatch.from_pylist(new, schema=pa.schema([("t", pa.int64()), ("k", pa.int32())]))
        elements = running.decoders["s"].decode(batch, running.watermarks["s"], 0).batch
        steps.append(_rows(running.advance([("s", elements)], {"s": mark})))
    return [*steps, _rows(running.finish())]


def _rows(out: Outbox) -> list[Row]:
    return sorted(tuple(row.values()) for _, batch in out.results for row in batch.to_arrow().to_pylist())


def at_each_instant(steps: list[list[Row]]) -> dict[int, Counter[Row]]:
    found = [row for step in steps for row in step]
    return {t: Counter(row[2:] for row in found if row[0] <= t < row[1]) for t in range(40)}


PICTURE = [1, 3, 6, 8], [(0, 1), (2, 1)]


def test_a_count_is_reported_once_when_its_end_is_known() -> None:
    assert reported(COUNT, *PICTURE) == [[], [(0, 2, 1)], [(2, 5, 2)], [(5, 7, 1)], []]


def test_with_emit_early_a_count_is_reported_when_it_begins_and_when_its_end_is_known() -> None:
    early = reported(f"{COUNT} EMIT EARLY", *PICTURE)
    assert early == [[(0, 1, 1)], [(1, 2, 1), (2, 3, 2)], [(3, 5, 2), (5, 6, 1)], [(6, 7, 1)], []]


def test_the_picture_shows_what_is_reported() -> None:
    picture = (ROOT / "docs" / "reporting.svg").read_text()
    bars = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" .*\n<text [^>]*>(\d)<', picture)
    found: dict[int, list[Row]] = {}
    for x, y, width, n in bars:
        begin = (int(x) - 190) // 55
        found.setdefault(int(y), []).append((begin, begin + int(width) // 55, int(n)))
    _, *shown = (found[y] for y in sorted(found))
    steps = [step for text in (COUNT, f"{COUNT} EMIT EARLY") for step in reported(text, *PICTURE) if step]
    assert shown == steps


GROUPED = "SELECT k, COUNT(*) AS n FROM s WINDOW(RANGE 9) GROUP BY k"


@pytest.mark.parametrize(
    "text",
    [
        GROUPED,
        "SELECT DISTINCT k FROM s WINDOW(RANGE 9)",
        "SELECT k, MEDIAN(t) AS m FROM s WINDOW(RANGE 9) GROUP BY k",
        "SELECT k, t FROM s WINDOW(RANGE 9) ORDER BY t DESC LIMIT 2",
        "SELECT k, t FROM s WINDOW(ROWS 2)",
        "SELECT k FROM s WINDOW(RANGE 9) EXCEPT SELECT k FROM s WINDOW(RANGE 3)",
        "SELECT k, t FROM s WINDOW(RANGE 9) WHERE k IN (SELECT k FROM s WINDOW(RANGE 4))",
        "SELECT k, t FROM s WINDOW(RANGE 9) a WHERE NOT EXISTS (SELECT * FROM s WINDOW(RANGE 4) b WHERE b.t > a.t)",
        f"SELECT a.k, a.n, b.t FROM ({GROUPED}) a, s WINDOW(RANGE 9) b WHERE a.k = b.k",
        "SELECT a.t AS one, b.t AS other FROM s WINDOW(ROWS 2) a, s WINDOW(ROWS 3) b WHERE a.k = b.k",
        "SELECT a.k AS one, b.k AS other FROM s WINDOW(ROWS 2) a, s WINDOW(ROWS 3) b WHERE a.t = b.t",
        f"SELECT n FROM ({GROUPED}) WHERE n > 1 UNION ALL SELECT t AS n FROM s",
    ],
)
def test_however_often_time_moves_a_result_is_not_cut(text: str) -> None:
    rows = [(0, 1), (2, 1), (3, 2), (5, 1), (11, 2), (12, 1), (13, 3)]
    often, once = (reported(text, marks, rows) for marks in (list(range(1, 31)), [30]))
    assert Counter(row for step in often for row in step) == Counter(row for step in once for row in step)
    early = reported(f"{text} EMIT EARLY", list(range(1, 31)), rows)
    assert at_each_instant(early) == at_each_instant(often)
    assert sum(map(len, early)) > sum(map(len, often))


@pytest.mark.parametrize("text", [f"ISTREAM({GROUPED})", f"RSTREAM({GROUPED})", "SELECT a.k FROM s a"])
def test_instants_are_reported_at_once(text: str) -> None:
    marks = list(range(1, 8))
    for mark, step in zip(marks, reported(text, marks, [(0, 1), (3, 1)]), strict=False):
        assert all((start, end) == (mark - 1, mark) for start, end, *_ in step)
    assert reported(text, marks, [(0, 1), (3, 1)])[0]


# ---- where it is written


@pytest.mark.parametrize(
    "text",
    [
        f"{COUNT} EMIT EARLY",
        f"{COUNT} emit  early WITH (shedding = off)",
        f"{COUNT} WITH (shedding = off) EMIT EARLY",
        f"INSERT INTO 'out' {COUNT} EMIT EARLY",
        f"CREATE STREAM x AS {COUNT} EMIT EARLY",
        f"WITH x AS ({COUNT}) SELECT n FROM x EMIT EARLY",
        "SELECT k FROM s ORDER BY k LIMIT 1 EMIT EARLY",
    ],
)
def test_emit_early_is_written_at_the_end_of_what_runs(text: str) -> None:
    [query] = bind(STREAM + text).queries
    assert query.early


def test_emit_is_still_a_name() -> None:
    [query] = bind(STREAM + "SELECT emit.k FROM s emit").queries
    assert not query.early


def test_emit_early_after_a_part_of_a_query_is_refused() -> None:
    with pytest.raises(QueryError) as caught:
        bind(f"{STREAM} SELECT n FROM ({COUNT} EMIT EARLY)")
    assert caught.value.code == "Q126"
    assert "EMIT EARLY" in caught.value.message


def test_emit_early_of_a_stream_that_another_query_reads_is_warned_of() -> None:
    program = bind(f"{STREAM} CREATE STREAM x AS {COUNT} EMIT EARLY; SELECT n FROM x;")
    assert [(w.code, w.hint) for w in program.warnings] == [("W213", "write EMIT EARLY after the query that reads x")]
    assert not program.queries[0].early


def test_a_checkpoint_belongs_to_a_query_with_or_without_emit_early() -> None:
    identities = [program_identity(bind(f"{STREAM} {COUNT} {early}")) for early in ("", "EMIT EARLY")]
    assert identities[0] != identities[1]
