"""Whole queries over small data, on every runtime: the expected rows are there to be read.

After a change of a case, write its expected rows anew and read the difference:

    ./dev test tests/golden --update-golden

They are written only if the reference semantics agrees with them at every instant.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from golden.canonical import canonical_text, output_rows
from golden.case import Golden, load, merged, name_in_all, names, source_streams, with_streams
from reference.duckdb_oracle import assert_relations_close, duckdb_relations, tables_of
from reference.instants import OutputRow, interesting_instants, snapshots
from reference.semantics import failures, relations

from tidegate.catalog.catalog import Program, Query, SourceStream
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.runtime.job import DEAD_LETTERS
from tidegate.session import Session

ROWS_PER_STEP = 17
"""Few, so that every stream takes several steps, of which none ends where a file or a window does."""

REFERENCE_INSTANTS, DUCKDB_INSTANTS = 80, 20


Results = dict[str, list[pa.RecordBatch]]


def run_embedded(program: Program, *, buckets: int, rows_per_step: int = ROWS_PER_STEP) -> Results:
    found: Results = {}
    job = compile_job(program, buckets=buckets, sinks={})
    run = EmbeddedRun(
        job, on_rows=lambda name, rows: found.setdefault(name, []).append(rows), once=True, rows_per_step=rows_per_step
    )
    run.wait()
    return found


@pytest.mark.parametrize("name", names())
def test_expected_rows_are_what_the_reference_semantics_says(name, request):
    case = load(name)
    update = request.config.getoption("--update-golden", default=False)
    results = run_embedded(case.program, buckets=1)
    for query in case.queries:
        rows = output_rows(results.get(query.name, []))
        agree_with_reference(case, query, rows, None if update else REFERENCE_INSTANTS)
        if update:
            case.expected(query).write_text(canonical_text(query.plan.schema, rows), encoding="utf-8")
        assert canonical_text(query.plan.schema, rows) == case.expected(query).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", names())
def test_buckets_and_steps_make_no_difference(name):
    case = load(name)
    for buckets, rows_per_step in ((4, ROWS_PER_STEP), (3, 10**6)):
        results = run_embedded(case.program, buckets=buckets, rows_per_step=rows_per_step)
        for query in case.queries:
            agree_with_expected(case, query, results.get(query.name, []))


# What a range alert does at an instant depends on all that came before: `test_ranges_data.py` has its SQL.
# DuckDB has other hashes, so it would keep other rows of a sample.
@pytest.mark.parametrize("name", [name for name in names() if name not in ("totals", "shared_totals", "sample")])
def test_duckdb_computes_the_same_at_sampled_instants(name):
    case = load(name)
    results = run_embedded(case.program, buckets=1)
    tables = tables_of({s.name: s.schema for s in source_streams(case.program)}, case.raw)
    for query in case.queries:
        rows = output_rows(results.get(query.name, []))
        instants = sample(interesting_instants(query.plan, case.raw, rows), DUCKDB_INSTANTS)
        actual, expected = snapshots(rows, instants), duckdb_relations(query.plan, tables, instants)
        for instant in instants:
            assert_relations_close(actual[instant], expected[instant])


def test_every_row_that_fails_is_a_dead_letter():
    case = load("failing_rows")
    query, _ = case.queries
    letters = pa.Table.from_batches(run_embedded(case.program, buckets=4)[DEAD_LETTERS])
    reasons = Counter(row["reason"] for row in letters.to_pylist() if row["origin"].startswith(query.name))
    expected = failures(query.plan, case.raw, {time for time, _ in case.raw["meter"]})
    assert reasons.total() == expected.total()
    # A row may fail for several reasons, of which one is told.
    possible = Counter(kind for failure in expected.elements() for kind in failure.kinds)
    assert all(0 < count <= possible[reason] for reason, count in reasons.items())


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:warning.W202")  # joins without windows keep cold rows for ever
@pytest.mark.parametrize("buckets", [1, 4])
def test_spark_gives_the_expected_rows(spark, buckets, tmp_path):
    """All cases as one Spark job; each source comes in parts, so that there are several micro-batches."""
    cases = [load(name) for name in names()]
    program = merged(cases)
    parts = [in_parts(stream, tmp_path / stream.name) for stream in source_streams(program)]
    with Session(spark=spark, buckets=buckets) as session:
        running = session.run(Program(with_streams(program.catalog, parts), program.queries), once=True)
        running.wait()
        assert running.progress().steps > 2
        for case in cases:
            for query in case.queries:
                agree_with_expected(case, query, running.results(name_in_all(case, query)).to_batches())


def agree_with_reference(case: Golden, query: Query, rows: Sequence[OutputRow], count: int | None) -> None:
    instants = sample(interesting_instants(query.plan, case.raw, rows), count)
    actual, expected = snapshots(rows, instants), relations(query.plan, case.raw, instants)
    different = [t for t in instants if actual[t] != expected[t]]
    assert not different, (different[0], actual[different[0]], expected[different[0]])


def agree_with_expected(case: Golden, query: Query, batches: Iterable[pa.RecordBatch]) -> None:
    assert canonical_text(query.plan.schema, output_rows(batches)) == case.expected(query).read_text(encoding="utf-8")


def sample(instants: Sequence[int], count: int | None) -> Sequence[int]:
    """Instants from the whole of the time that there is; all of them if there is no count."""
    return instants if count is None else instants[:: max(1, len(instants) // count)]


def in_parts(stream: SourceStream, folder: Path, *, parts: int = 2) -> SourceStream:
    """The stream from a folder with its file cut in parts, which Spark brings one by one."""
    source = (Path(dict(stream.options)["base"]) / stream.location).resolve()
    folder.mkdir()
    for number, write in enumerate(_parts(source, parts)):
        path = folder / f"part-{number}{source.suffix}"
        write(path)
        os.utime(path, (number, number))  # Spark goes by the time of change, not by the name
    return replace(stream, location=str(folder), options=(("files_per_batch", "1"),))


def _parts(source: Path, parts: int):
    if source.suffix == ".parquet":
        table = pq.read_table(source)
        return [lambda path, part=part: pq.write_table(part, path) for part in _cut(table, table.num_rows, parts)]
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    head, body = ("".join(lines[:1]), lines[1:]) if source.suffix == ".csv" else ("", lines)
    texts = [head + "".join(part) for part in _cut(body, len(body), parts)]
    return [lambda path, text=text: path.write_text(text, encoding="utf-8") for text in texts]


def _cut(rows, length: int, parts: int):
    cuts = [length * i // parts for i in range(parts + 1)]
    return [rows[a:b] if isinstance(rows, list) else rows.slice(a, b - a) for a, b in pairwise(cuts)]
