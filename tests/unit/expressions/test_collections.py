"""Arrays and maps from one end of the system to the other.

Wrong statements are in ``wrong_collections.txt``: a statement, an arrow, the message. After a change of words,
``PYTHONPATH=tests python tests/unit/expressions/test_collections.py`` writes the messages anew, for a person to read.
"""

from __future__ import annotations

import math
import pickle
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.reading import read_rows
from support.wrong import cases, said_of, write_anew

from tidegate.catalog.catalog import SourceStream
from tidegate.cli.table import align_table
from tidegate.connectors.generator import generate
from tidegate.connectors.sinks import open_sink
from tidegate.connectors.source import open_source
from tidegate.connectors.typed_columns import cast_column
from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.functions.similarity import exact_sum
from tidegate.expressions.nodes import Call, Column, Literal
from tidegate.expressions.spark import spark_sql
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.program import bind
from tidegate.physical.common.kernels.hashing import hash_columns
from tidegate.physical.common.kernels.order_codes import order_codes
from tidegate.schema import Schema, Type
from tidegate.session import Session
from tidegate.time import BEGINNING

TEXTS = Path(__file__).with_name("wrong_collections.txt")
DECLARED = """
CREATE STREAM post (author STRING, tags ARRAY<STRING>, ids ARRAY<BIGINT>, few ARRAY<INT>, words MAP<STRING, DOUBLE>,
                    counts MAP<STRING, INT>, at TIMESTAMP) FROM 'post.jsonl' TIMESTAMP BY at;
"""
CATALOG = bind(DECLARED).catalog
WORDS = Type.MAP_STRING_DOUBLE.arrow
COLLECTIONS = [t for t in Type if t.parts]

SCHEMA = Schema.of(
    t=Type.BIGINT, a=Type.ARRAY_INT, s=Type.ARRAY_STRING, m=Type.MAP_STRING_DOUBLE, n=Type.MAP_INT_BIGINT
)
ROWS = [
    {"t": 1, "a": [1, None, 3], "s": ['a "b"', "c,d", None], "m": [("x", 1.5), ("y", None)], "n": [(7, 2**40)]},
    {"t": 2, "a": [], "s": [], "m": [], "n": []},
    {"t": 3, "a": None, "s": None, "m": None, "n": None},
    {"t": 4, "a": [-5], "s": ["é", "\n", ""], "m": [("null", math.inf), ("", -2.0)], "n": [(-1, 0), (3, None)]},
]


def source(location, schema=SCHEMA):
    return open_source(SourceStream("s", schema, str(location), "t"))


def read(location, schema=SCHEMA):
    """The rows of a location, and the details of dead letters."""
    found = source(location, schema)
    rows, details = [], []
    for raw, _ in read_rows(found, None, 100):
        ingested = found.decoder(frozenset(schema.names)).decode(raw, BEGINNING)
        rows += ingested.batch.columns.to_pylist()
        details += ingested.dead.column("detail").to_pylist()
    return rows, details


# ---- types


def test_a_type_is_known_by_what_it_is_made_of():
    for type_ in COLLECTIONS:
        assert Type.from_name(type_.name) is type_
        assert Type.from_name(type_.name.lower().replace(" ", "")) is type_
        assert Type.of_arrow(type_.arrow) is type_
        assert Type.of_parts(*type_.parts) is type_
        assert pickle.loads(pickle.dumps(type_)) is type_
    assert Type.from_name("Map< text ,\n long >") is Type.MAP_STRING_BIGINT
    assert Type.of_parts() is None
    assert Type.of_parts(Type.ARRAY_INT) is None


@pytest.mark.parametrize(("statement", "message"), cases(TEXTS))
def test_a_wrong_statement_is_answered_with_what_to_write_instead(statement, message):
    assert said_of(statement, CATALOG) == message


@pytest.mark.parametrize(
    "condition",
    [
        "ids[1] = 3",
        "words['a'] > 2.0",
        "ids = ARRAY[1, 2]",
        "words <> MAP[ARRAY['a', author], ARRAY[1.5, 2.5]]",
        "few SUBSET OF ids",
        "NOT few SUPERSET OF ids",
        "few SUBSET OF ids = (overlap(few, ids) > 1)",
        "inner_product(words, counts) >= 0.5",
        "jaccard(tags, ARRAY['a', 'b']) > 0.5 OR cardinality(words) > 3",
        "CAST('[1, 2]' AS ARRAY<INT>) = few",
        "tags[cardinality(tags)] LIKE '%x'",
    ],
)
def test_expressions_are_written_as_they_are_read(condition):
    (query,) = bind(f"SELECT author FROM post WHERE {condition}", CATALOG).queries
    assert to_sql(query.plan.source.predicate).replace("post.", "") == condition


def test_words_of_arrays_are_still_names():
    stream = "CREATE STREAM map (array INT, subset INT, of INT) FROM 'x';"
    text = f"{stream} SELECT array subset, subset superset FROM map [NOW]"
    assert bind(text).queries[-1].plan.schema.names == ("subset", "superset")


def test_spark_is_not_asked_about_them():
    ids, nothing = Column("ids", Type.ARRAY_BIGINT), Literal(None, Type.ARRAY_BIGINT)
    assert spark_sql(Call("=", (ids, nothing), Type.BOOLEAN)) is None
    assert spark_sql(resolve("overlap", (ids, ids), NOWHERE)) is None


# ---- sources and sinks


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_what_is_written_is_read_again(form, tmp_path):
    sink = open_sink(str(tmp_path / "out"), format=form)
    sink.write("batch-1", token := sink.begin("batch-1"), "part", pa.RecordBatch.from_pylist(ROWS, SCHEMA.arrow))
    sink.publish("batch-1", token)
    assert read(tmp_path / "out") == (ROWS, [])


def test_fields_of_csv_are_json(tmp_path):
    lines = ["t,a,s,m,n", "1,[1],[],{},{}", '2,"[1, 2.0]","[""x"", 5]","{""x"": 1e2}","{""7"": 3.0}"', "3,,,,"]
    wrong = [
        '4,"[1,",[],{},{}',
        "5,[2.5],[],{},{}",
        '6,[],[],"{""x"": []}",{}',
        '7,[],[],{},"{""x"": 1}"',
        "8,7,[],{},{}",
    ]
    (tmp_path / "a.csv").write_text("\n".join([*lines, *wrong, '9,[],[],{},"{""1"": 1, ""01"": 2}"']))
    rows, details = read(tmp_path / "a.csv")
    assert [tuple(row.values())[1:] for row in rows] == [
        ([1], [], [], []),
        ([1, 2], ["x", "5"], [("x", 100.0)], [(7, 3)]),
        (None, None, None, None),
    ]
    assert details == [
        "column 'a': '[1,' is not a valid ARRAY<INT>",
        "column 'a': '[2.5]' is not a valid ARRAY<INT>",
        "column 'm': '{\"x\": []}' is not a valid MAP<STRING, DOUBLE>",
        "column 'n': '{\"x\": 1}' is not a valid MAP<INT, BIGINT>",
        "column 'a': '7' is not a valid ARRAY<INT>",
        "column 'n': '{\"1\": 1, \"01\": 2}' is not a valid MAP<INT, BIGINT>",
    ]


def test_lines_of_json_hold_them_as_they_are(tmp_path):
    fast = ['{"t": 1, "a": [1, null], "s": ["x"]}', '{"t": 2, "a": []}', '{"t": 3, "a": null, "s": [null]}']
    slow = ['{"t": 4, "a": [1.0, "2"], "s": [{"b": 1.50}], "m": {"x": "NaN"}, "n": {"1": 2}}', '{"t": 5, "a": [true]}']
    (tmp_path / "a.jsonl").write_text("\n".join(fast))
    arrays = Schema(SCHEMA.fields[:3])
    assert read(tmp_path / "a.jsonl", arrays) == (
        [{"t": 1, "a": [1, None], "s": ["x"]}, {"t": 2, "a": [], "s": None}, {"t": 3, "a": None, "s": [None]}], []
    )  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join([*fast, *slow]))
    rows, details = read(tmp_path / "a.jsonl")
    assert [row["a"] for row in rows] == [[1, None], [], None, [1, 2]]
    assert rows[3]["s"] == ['{"b": 1.50}']
    assert math.isnan(rows[3]["m"][0][1])
    assert rows[3]["n"] == [(1, 2)]
    assert details == ["column 'a': '[true]' is not a valid ARRAY<INT>"]


@pytest.mark.parametrize(
    ("given", "type_", "expected"),
    [
        (pa.array([[1], None], pa.large_list(pa.int8())), Type.ARRAY_BIGINT, [[1], None]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), Type.ARRAY_DOUBLE, [[1.0, 2.0], None]),
        (pa.array([["a", "b"]], pa.list_(pa.large_string())), Type.ARRAY_STRING, [["a", "b"]]),
        (pa.array([[1]], pa.list_(pa.field("element", pa.int64(), nullable=False))), Type.ARRAY_BIGINT, [[1]]),
        (pa.array([[0]], pa.list_(pa.timestamp("ns"))), Type.ARRAY_TIMESTAMP, [[datetime(1970, 1, 1, tzinfo=UTC)]]),
        (pa.array([[1]], pa.list_(pa.duration("s"))), Type.ARRAY_INTERVAL, [[timedelta(seconds=1)]]),
        (pa.array([[(1, 2)]], pa.map_(pa.int16(), pa.float32())), Type.MAP_BIGINT_DOUBLE, [[(1, 2.0)]]),
        (pa.array(['{"a": 1}', None]), Type.MAP_STRING_INT, [[("a", 1)], None]),
    ],
)
def test_columns_of_other_types_are_cast_entry_by_entry(given, type_, expected):
    column = cast_column(given, type_, is_time=False)
    assert (column.values.type, column.values.to_pylist(), bool(column.bad.any())) == (type_.arrow, expected, False)


def test_a_row_is_bad_if_an_entry_is(tmp_path):
    column = cast_column(pa.array([[1, 2**40], [1], None]), Type.ARRAY_INT, is_time=False)
    assert (column.values.to_pylist(), column.bad.tolist()) == ([None, [1], None], [True, False, False])
    twice = pa.MapArray.from_arrays([0, 2, 3], pa.array([1, 1, 1]), pa.array([5.0, 6.0, 7.0]))
    column = cast_column(twice, Type.MAP_BIGINT_DOUBLE, is_time=False)
    assert (column.values.to_pylist(), column.bad.tolist()) == ([None, [(1, 7.0)]], [True, False])
    pq.write_table(pa.table({"t": [1, 2], "n": twice}), tmp_path / "a.parquet")
    rows, details = read(tmp_path / "a.parquet", Schema.of(t=Type.BIGINT, n=Type.MAP_INT_BIGINT))
    assert rows == [{"t": 2, "n": [(1, 7)]}]
    assert details == ['column \'n\': {"1": 5, "1": 6} is not a valid MAP<INT, BIGINT>']


def test_generators_make_them_the_same_however_they_are_cut():
    schema = Schema.of(t=Type.TIMESTAMP, **{f"c{i}": type_ for i, type_ in enumerate(COLLECTIONS)})
    stream = SourceStream("g", schema, "generator://?rows=50&keys=3", "t")
    whole = generate(stream, 0, 50)
    whole.validate(full=True)
    assert whole.schema == schema.arrow
    assert generate(stream, 20, 30).equals(whole[20:])
    assert max(len(value) for value in whole.column("c0").to_pylist()) > 1
    for pairs in whole.column(f"c{len(COLLECTIONS) - 1}").to_pylist():
        assert len(dict(pairs)) == len(pairs)


# ---- functions


def test_an_exact_sum_is_that_of_the_numbers_whatever_their_order():
    assert exact_sum([1e308, 1e308, -1e308]) == 1e308
    assert exact_sum([1e308, 1e308, 1.0]) == math.inf
    assert exact_sum([-1e308, -1e308, 1.0]) == -math.inf
    assert exact_sum([1e16, 1.0, -1e16]) == 1.0
    assert exact_sum([math.inf, 1.0, 1e308, 1e308]) == math.inf
    assert math.isnan(exact_sum([math.inf, -math.inf, 1.0]))


def test_hashes_and_codes_never_change():
    """State in checkpoints is laid out by them."""
    arrays = pa.array([[], [1, None], [2]], pa.list_(pa.int32()))
    maps = pa.array([[("b", 1.0), ("a", -0.0)], [("a", 0.0), ("b", 1.0)]], pa.map_(pa.string(), pa.float64()))
    assert hash_columns([arrays]).tolist() == hash_columns([arrays.cast(pa.list_(pa.int64()))]).tolist()
    assert hash_columns([arrays]).tolist() == [12035550249420947055, 13905672678436543312, 16852874757907148291]
    assert hash_columns([maps]).tolist() == [4418696352256510186, 4418696352256510186]
    coded = order_codes([maps, maps[:1]])
    assert [codes.tolist() for codes in coded.codes] == [[0, 0], [0]]
    assert coded.decode(coded.codes[1], None).to_pylist() == [[("a", 0.0), ("b", 1.0)]]


def test_users_functions_take_and_give_them():
    posts = pa.table({"at": [0, 1], "ids": [[3, 1], None], "words": pa.array([[("a", 1.5)], []], WORDS)})
    with Session(runtime="embedded") as session:
        session.stream("post", posts, time="at")
        session.function("ordered", sorted, arguments=["array<long>"], result="ARRAY<BIGINT>", vectorized=False)
        running = session.sql("SELECT ordered(ids) AS ids, words FROM post", once=True)
        running.wait()
        found = running.results().sort_by("valid_from").drop_columns(["valid_from", "valid_to"])
    assert found.to_pylist() == [{"ids": [1, 3], "words": [("a", 1.5)]}, {"ids": None, "words": []}]


def test_tables_show_them_as_json():
    table = pa.table({"a": pa.array([[1, None], None]), "m": pa.array([[("x", 1.5)], []], WORDS)})
    assert align_table(table) == 'a          m\n[1, null]  {"x": 1.5}\nNULL       {}\n'


if __name__ == "__main__":
    write_anew(TEXTS, CATALOG)
