"""Tables that are read again: ISTREAM and DSTREAM have what changes, as for any relation that changes over time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.instants import snapshots
from reference.semantics import Elements, relations_of
from support.examples import examples
from support.harness import rows_of

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.engine import Engine
from tidegate.runtime.reload import tables_to_read_again
from tidegate.time import BEGINNING, FOREVER

TABLES = "CREATE TABLE t (k INT, v INT) FROM 't.csv'; CREATE TABLE u (k INT, v INT) FROM 'u.csv';"
QUERIES = [
    "ISTREAM(SELECT * FROM t)",
    "DSTREAM(SELECT k FROM t WHERE v > 0)",
    "SELECT v FROM DSTREAM((SELECT * FROM t), LAST)",
    "ISTREAM(SELECT k, SUM(v) AS s, COUNT(*) AS n FROM t GROUP BY k)",
    "DSTREAM(SELECT MAX(v) AS top FROM t)",
    "ISTREAM(SELECT DISTINCT k FROM t)",
    "ISTREAM(SELECT * FROM t ORDER BY v DESC LIMIT 1 PER k)",
    "ISTREAM(SELECT t.v, u.v AS w FROM t JOIN u ON t.k = u.k)",
    "DSTREAM(SELECT u.k, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY u.k)",
    "SELECT k + 1 AS k FROM ISTREAM(t) WHERE k = 0",
    "SELECT k FROM ISTREAM(t) UNION ALL SELECT k FROM DSTREAM(t)",
    "ISTREAM(SELECT * FROM t) UNION ALL ISTREAM(SELECT * FROM u)",
    "ISTREAM(SELECT k FROM t UNION ALL SELECT k FROM u)",
    "ISTREAM(SELECT k, v FROM t EXCEPT ALL SELECT k, v FROM u)",
    "DSTREAM(SELECT k FROM t WHERE v NOT IN (SELECT v FROM u))",
]
COLUMNS = pa.schema([("k", pa.int32()), ("v", pa.int32())])

ROWS = st.lists(st.fixed_dictionaries({"k": st.sampled_from([0, 1]), "v": st.sampled_from([0, 1, None])}), max_size=4)
CHANGES = st.lists(st.tuples(st.integers(1, 3), st.dictionaries(st.sampled_from("tu"), ROWS, min_size=1)), max_size=4)


def engine_of(query: str, buckets: int) -> Engine:
    program = bind(TABLES + query)
    streams = [stream for stream in program.catalog if isinstance(stream, SourceStream)]
    empty = pa.Table.from_pylist([], schema=COLUMNS)
    sources = {stream.name: MemorySource(stream, empty) for stream in streams}
    return Engine(compile_job(program, sinks={}, sources=sources, buckets=buckets))


def batches(rows: list) -> list[pa.RecordBatch]:
    return pa.Table.from_pylist(rows, schema=COLUMNS).to_batches()


@pytest.mark.parametrize("query", QUERIES)
@given(first=st.fixed_dictionaries({"t": ROWS, "u": ROWS}), changes=CHANGES, buckets=st.sampled_from([1, 2, 5]))
@settings(max_examples=examples(25))
def test_what_changes_in_tables_is_what_changes_in_the_relation(query, first, changes, buckets):
    engine = engine_of(query, buckets)
    known = list(engine.watermarks)
    outboxes = [engine.step({name: batches(first[name]) for name in known}, 0)[0]]
    versions, time = {name: [(BEGINNING, rows)] for name, rows in first.items()}, 100
    for later, read in changes:
        found = tables_to_read_again(engine.job.graph, [name for name in read if name in known], known)
        again = {name: read.get(name, versions[name][-1][1]) for name in sorted(found)}
        time += later
        outboxes.append(engine.step({name: batches(rows) for name, rows in again.items()}, time, again=list(again))[0])
        for name, rows in again.items():
            versions[name].append((time, rows))
    ends = {name: [*(start for start, _ in each[1:]), FOREVER] for name, each in versions.items()}
    elements: Elements = {
        name: [(a, b, row) for (a, rows), b in zip(each, ends[name], strict=True) for row in rows]
        for name, each in versions.items()
    }
    [bound] = bind(TABLES + query).queries
    instants = range(97, time + 3)
    rows = rows_of(outboxes)
    assert snapshots(rows, instants) == relations_of(bound.plan, elements, instants)
    assert all(97 < start < time + 1 for start, _, _ in rows)


def test_instants_of_changes_go_on_although_the_clock_stands_still_or_goes_back():
    engine = engine_of("SELECT k FROM ISTREAM(t)", 2)
    outboxes = [engine.step({"t": []}, 0)[0]]
    for number, now in enumerate((100, 100, 90, 200)):
        outboxes.append(engine.step({"t": batches([{"k": number, "v": 0}])}, now, again=["t"])[0])
    assert [(start, end, k) for start, end, (k,) in rows_of(outboxes)] == [
        (100, 101, 0),
        (101, 102, 1),
        (102, 103, 2),
        (200, 201, 3),
    ]


def test_rows_appear_in_buckets_that_had_none_before_the_run_started_again():
    engine = engine_of("SELECT k, v FROM ISTREAM(t)", 5)
    engine.step({"t": []}, 0)
    engine.state = {place: version for place, version in engine.state.items() if version.chunks}
    rows = [{"k": k, "v": 0} for k in range(20)]
    found = rows_of([engine.step({"t": batches(rows)}, 100, again=["t"])[0]])
    assert sorted(k for _, _, (k, _) in found) == list(range(20))
