"""All example queries of PIPES give the reference's answer, and NEXMark's examples run."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from golden.canonical import output_rows
from pyspark.sql import SparkSession
from reference import functions
from reference.instants import OutputRow, interesting_instants_of, snapshots
from reference.semantics import relations_of
from support import pipes

from examples.nexmark import generate
from tidegate.algebra.plan import Plan
from tidegate.catalog.catalog import Program, SourceStream
from tidegate.connectors.memory import MemorySource
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_job
from tidegate.runtime.embedded.runner import EmbeddedRun
from tidegate.schema import Type
from tidegate.session import Session

# The queries are as the dissertation has them, streams without a window among them.
pytestmark = pytest.mark.filterwarnings("ignore::tidegate.TidegateWarning")

EXAMPLES = Path(generate.__file__).parent
RATE = 0.5
ON_SPARK = [
    "QL-07 highest bid",
    "QL-08 hot items",
    "QL-09 average selling price by seller",
    "QL-11 new users",
]


@pytest.fixture(autouse=True)
def _the_reference_knows_the_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(functions.PLAIN, "doltoeuro", lambda dollars: dollars * RATE)


def result(text: str, session: Session) -> tuple[Plan, list[OutputRow]]:
    """The plan of the only query of a text, and the rows that it gives; nothing may fail."""
    session.function("DolToEuro", lambda dollars: pc.multiply(dollars, RATE), arguments=["DOUBLE"], result="DOUBLE")
    program = bind(text, session.catalog)
    running = session.run(program, once=True)
    assert running is not None
    running.wait()
    assert not running.progress().dead
    [query] = program.queries
    return query.plan, rows_of(running.results())


def rows_of(table: pa.Table) -> list[OutputRow]:
    return output_rows(table.to_batches())


def assert_is_the_reference(plan: Plan, rows: list[OutputRow]) -> None:
    instants = interesting_instants_of(plan, pipes.elements(), rows)
    expected = relations_of(plan, pipes.elements(), instants)
    assert any(expected.values()), "the data says nothing about this query"
    assert snapshots(rows, instants) == expected


# ---- the queries of PIPES


@pytest.mark.parametrize("name", pipes.QUERIES)
def test_a_query_of_pipes_gives_the_answer_of_the_reference(name: str, tmp_path: Path) -> None:
    text = pipes.declared(tmp_path) + pipes.scaled(pipes.QUERIES[name])
    with Session(runtime="embedded", buckets=2) as session:
        assert_is_the_reference(*result(text, session))


@pytest.mark.spark
@pytest.mark.parametrize("name", ON_SPARK)
def test_a_query_of_pipes_gives_the_same_on_spark(name: str, tmp_path: Path, spark: SparkSession) -> None:
    text = pipes.declared(tmp_path) + pipes.scaled(pipes.QUERIES[name])
    with Session(spark=spark, buckets=2) as session:
        assert_is_the_reference(*result(text, session))


@pytest.mark.parametrize("name", pipes.QUERIES)
def test_a_query_of_pipes_runs_as_it_is_printed(name: str, tmp_path: Path) -> None:
    with Session(runtime="embedded", buckets=2) as session:
        _, rows = result(pipes.declared(tmp_path) + pipes.QUERIES[name], session)
    assert rows


def test_cql_can_say_one_thing_in_two_ways(tmp_path: Path) -> None:
    """PIPES prints the rule for CQL: ISTREAM of all that came is RSTREAM of what comes now."""
    found = []
    for name in ("QL-15 Istream of all", "QL-15 Rstream of now"):
        with Session(runtime="embedded") as session:
            found.append(result(pipes.declared(tmp_path) + pipes.QUERIES[name], session)[1])
    instants = range(-1, 100)
    assert snapshots(found[0], instants) == snapshots(found[1], instants)


def test_a_source_is_registered_as_it_is_printed() -> None:
    """QL-01; the connection is the user's, and here it is a table in memory."""
    program = bind(pipes.REGISTERED + "SELECT OpenAuction.* FROM OpenAuction;")
    stream = program.catalog.find("openauction")
    assert isinstance(stream, SourceStream)
    assert (stream.location, stream.time_column) == ("establishConnection://port34100/converter", "timestamp")
    assert [f.type for f in stream.schema] == [Type.INT, Type.INT, Type.REAL, Type.TIMESTAMP]
    opened = [
        {**row, "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=row["timestamp"])}
        for row in pipes.in_order("OpenAuction")
    ]
    rows = _run(program, MemorySource(stream, pa.Table.from_pylist(opened)))
    expected = [(row["timestamp"], row["timestamp"] + 1, row["itemID"]) for row in pipes.in_order("OpenAuction")]
    assert [(start, end, item) for start, end, (item, *_) in rows] == expected


def _run(program: Program, source: MemorySource) -> list[OutputRow]:
    found: list[pa.RecordBatch] = []
    job = compile_job(program, sinks={}, sources={source.stream.name: source})
    EmbeddedRun(job, on_rows=lambda _, batch: found.append(batch), once=True).finish()
    return sorted(row for batch in found for row in rows_of(pa.Table.from_batches([batch])))


# ---- NEXMark's examples


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nexmark")
    generate.write(folder, generate.Scale(2_000, per_second=1_000))
    return folder


@pytest.mark.parametrize("example", [p.relative_to(EXAMPLES).as_posix() for p in sorted(EXAMPLES.rglob("*.sql"))])
def test_an_example_of_nexmark_runs_without_dead_letters(example: str, events: Path) -> None:
    text = (EXAMPLES / example).read_text().replace("'../data/", "'data/").replace("'data/", f"'{events}/")
    with Session(runtime="embedded") as session:
        session.function("dol_to_euro", lambda cents: pc.multiply(cents, RATE), arguments=["DOUBLE"], result="DOUBLE")
        running = session.sql(text, once=True)
        assert running is not None
        running.wait()
        assert not running.progress().dead
        assert running.progress().rows_in > 0
        assert running.results().num_rows > 0
