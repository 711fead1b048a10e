"""CHECK: which numbers a column can have, what becomes of other rows, in every format, and how it is shown."""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.micros import in_micros

from tidegate.algebra.plan import Scan, walk
from tidegate.catalog.catalog import SourceStream
from tidegate.catalog.domains import describe_domain
from tidegate.catalog.show import answer
from tidegate.connectors.decode import DecodedBatch
from tidegate.connectors.typed_columns import typed_decoder
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.schema import Domain, Schema, Type
from tidegate.session import Session
from tidegate.time import BEGINNING

INF, NAN = math.inf, math.nan


def domain(declaration: str) -> Domain:
    stream = bind(f"CREATE STREAM s (x {declaration}) FROM 's'").catalog.find("s")
    assert isinstance(stream, SourceStream)
    [(name, found)] = stream.domains
    assert name == "x"
    return found


# ---- what is declared


@pytest.mark.parametrize(
    ("declaration", "low", "high"),
    [
        ("DOUBLE CHECK (x BETWEEN -40 AND 60)", -40.0, 60.0),
        ("DOUBLE CHECK (X >= 0.5)", 0.5, INF),
        ("DOUBLE CHECK (x > 0)", math.nextafter(0, 1), INF),
        ("DOUBLE CHECK (x < 100)", -INF, math.nextafter(100, 0)),
        ("DOUBLE CHECK (x > 0 AND x <= 100)", math.nextafter(0, 1), 100.0),
        ("DOUBLE CHECK (0 <= x AND 100 > x)", 0.0, math.nextafter(100, 0)),
        ("DOUBLE CHECK (x = 3)", 3.0, 3.0),
        ("DOUBLE CHECK (x > 1 AND x BETWEEN 0 AND 9 AND x >= 2)", 2.0, 9.0),
        ("REAL CHECK (x > 0)", math.nextafter(0, 1), INF),
        ("INT CHECK (x > 0 AND x < 10)", 1, 9),
        ("INT CHECK (x >= 0.5 AND x <= 9.5)", 1, 9),
        ("INT CHECK (x > 0.5 AND x < 9.5)", 1, 9),
        ("BIGINT CHECK (x > 9007199254740992)", 9007199254740993, INF),
    ],
)
def test_a_check_declares_the_least_and_the_greatest_number(declaration, low, high):
    found = domain(declaration)
    assert (found.low, found.high) == (low, high)
    assert type(found.low) is type(low)


def test_columns_without_a_check_have_no_domain():
    stream = bind("CREATE STREAM s (x DOUBLE, y DOUBLE CHECK (y > 0), z INT) FROM 's'").catalog.find("s")
    assert isinstance(stream, SourceStream)
    assert [name for name, _ in stream.domains] == ["y"]


def test_tables_may_have_checks_and_scans_know_them():
    program = bind("CREATE TABLE t (x INT CHECK (x BETWEEN 1 AND 3)) FROM 't.csv'; SELECT x FROM t")
    [scan] = [node for node in walk(program.queries[0].plan) if isinstance(node, Scan)]
    assert scan.domains == (("x", Domain(1, 3)),)


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("STRING CHECK (x > 'a')", "a CHECK is for numbers, but column 'x' is STRING"),
        ("TIMESTAMP CHECK (x > 3)", "a CHECK is for numbers, but column 'x' is TIMESTAMP"),
        ("BOOLEAN CHECK (x)", "a CHECK is for numbers, but column 'x' is BOOLEAN"),
        ("DOUBLE CHECK (y > 0)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (s.x > 0)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x > x)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x > 'a')", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x > TRUE)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x > NULL)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x < 1e999)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x <> 0)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x > 0 OR x < -5)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (NOT x > 0)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x IN (1, 2))", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (abs(x) < 3)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x BETWEEN 0 AND x)", "a CHECK compares its own column, 'x', with numbers"),
        ("DOUBLE CHECK (x BETWEEN 60 AND -40)", "no number can pass this CHECK"),
        ("INT CHECK (x > 1 AND x < 2)", "no number can pass this CHECK"),
        ("DOUBLE CHECK (x > 99999999999999999999)", "this integer does not fit into 64 bits"),
    ],
)
def test_other_checks_are_refused(declaration, message):
    with pytest.raises(QueryError) as caught:
        domain(declaration)
    assert caught.value.message == message
    assert caught.value.hint is not None


# ---- what becomes of rows


def decoded(values: pa.Array, type_: Type, found: Domain) -> DecodedBatch:
    schema = Schema.of(x=type_, t=Type.BIGINT)
    stream = SourceStream("s", schema, "nowhere", "t", domains=(("x", found),))
    raw = pa.RecordBatch.from_pydict({"x": values, "t": pa.array(range(len(values)), pa.int64())})
    return typed_decoder(stream, frozenset({"x"})).decode(raw, BEGINNING)


def test_values_outside_are_dead_letters_and_null_is_nowhere_outside():
    values = pa.array([0.0, -0.0, 100.0, 100.5, None, NAN, INF, -1e-300], pa.float64())
    out = decoded(values, Type.DOUBLE, Domain(0.0, 100.0))
    assert out.batch.start.tolist() == [0, 1, 2, 4]
    assert [tuple(letter.values())[:5] for letter in out.dead.to_pylist()] == [
        (
            "s",
            "outside_domain",
            f"column 'x': {text} is outside its domain: at least 0.0, at most 100.0",
            time,
            json.dumps({"x": shown, "t": time}),
        )
        for text, shown, time in [
            ("100.5", 100.5, 3),
            ("NaN", "NaN", 5),
            ("Infinity", "Infinity", 6),
            ("-1e-300", -1e-300, 7),
        ]
    ]


def test_an_infinite_domain_still_has_no_nan():
    out = decoded(pa.array([-INF, INF, NAN]), Type.DOUBLE, Domain(low=-INF))
    assert out.batch.start.tolist() == [0, 1]


@given(
    st.lists(st.none() | st.integers(-5, 5) | st.sampled_from([2**53, 2**53 + 1, 2**63 - 1, -(2**63)])),
    st.integers(-5, 5) | st.just(2**53 + 1),
    st.integers(-5, 5) | st.just(2**70) | st.just(INF),
)
def test_whole_numbers_are_compared_exactly(numbers, low, high):
    out = decoded(pa.array(numbers, pa.int64()), Type.BIGINT, Domain(low, high))
    assert out.batch.columns.column(0).to_pylist() == [n for n in numbers if n is None or low <= n <= high]


@given(st.lists(st.floats(width=32)), st.sampled_from([">", ">=", "<", "<="]), st.sampled_from([0.0, 0.1, -7.5]))
def test_a_row_lives_if_its_number_compares_as_declared(numbers, operator, bound):
    compared = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}[operator]
    for type_ in (Type.REAL, Type.DOUBLE):
        out = decoded(pa.array(numbers, type_.arrow), type_, domain(f"{type_.name} CHECK (x {operator} {bound})"))
        expected = [i for i, number in enumerate(numbers) if compared(number, bound)]
        assert out.batch.start.tolist() == expected


def test_a_row_has_one_fault_and_its_time_is_judged_first():
    schema = Schema.of(x=Type.INT, y=Type.INT, t=Type.BIGINT)
    stream = SourceStream("s", schema, "nowhere", "t", domains=(("x", Domain(1, 9)), ("y", Domain(1, 9))))
    raw = pa.RecordBatch.from_pydict({"x": ["0", "0", "0", "5"], "y": ["0", "?", "5", "0"], "t": [5, 15, 16, 17]})
    out = typed_decoder(stream, frozenset({"x", "y"})).decode(raw, 10)
    assert [(letter["reason"], letter["detail"].split(":")[0]) for letter in out.dead.to_pylist()] == [
        ("late", "late by 5 microseconds"),
        ("malformed", "column 'y'"),
        ("outside_domain", "column 'x'"),
        ("outside_domain", "column 'y'"),
    ]
    assert out.latest == 17


ROWS = [
    {"t": 0, "x": 50.0, "y": 1},
    {"t": 1, "x": 150.0, "y": 2},
    {"t": 2, "x": None, "y": 3},
    {"t": 3, "x": 0.0, "y": 4},
]


def as_csv(path, rows):
    lines = (",".join("" if v is None else str(v) for v in row.values()) for row in rows)
    path.write_text("\n".join(["t,x,y", *lines, ""]))


def as_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def as_parquet(path, rows):
    pq.write_table(pa.Table.from_pylist(rows), path)


@pytest.mark.parametrize(("ending", "write"), [("csv", as_csv), ("jsonl", as_jsonl), ("parquet", as_parquet)])
def test_every_format_sets_rows_outside_aside(tmp_path, ending, write):
    path = tmp_path / f"s.{ending}"
    write(path, ROWS)
    stream = f"""CREATE STREAM s (t BIGINT, x DOUBLE CHECK (x > 0 AND x <= 100), y INT CHECK (y < 4))
                 FROM '{path}' TIMESTAMP BY t;"""
    with Session(runtime="embedded") as session:
        running = session.sql(f"{stream} SELECT x, y FROM s", once=True)
        assert running is not None
        assert [(row["x"], row["y"]) for row in running.finish().to_pylist()] == [(50.0, 1), (None, 3)]
        letters = in_micros(running.dead_letters()).to_pylist()
    assert [(letter["origin"], letter["reason"], letter["time"], letter["detail"]) for letter in letters] == [
        ("s", "outside_domain", time, f"column 'x': {text} is outside its domain: more than 0.0, at most 100.0")
        for time, text in ((1, "150"), (3, "0"))
    ]
    assert [json.loads(letter["row"]) for letter in letters] == [ROWS[1], ROWS[3]]


def test_only_columns_that_are_read_are_checked(tmp_path):
    path = tmp_path / "s.csv"
    as_csv(path, ROWS)
    text = f"CREATE STREAM s (t BIGINT, x DOUBLE CHECK (x > 200), y INT) FROM '{path}' TIMESTAMP BY t; SELECT y FROM s"
    with Session(runtime="embedded") as session:
        running = session.sql(text, once=True)
        assert running is not None
        assert running.finish().num_rows == 4
        assert running.dead_letters().num_rows == 0


def test_generated_rows_are_checked_too():
    text = """CREATE STREAM g (at TIMESTAMP, value DOUBLE CHECK (value < -1000000))
              FROM 'generator://?rows=20&seed=7' TIMESTAMP BY at; SELECT value FROM g"""
    with Session(runtime="embedded") as session:
        running = session.sql(text, once=True)
        assert running is not None
        assert running.finish().num_rows == 0
        assert running.dead_letters().column("reason").to_pylist() == ["outside_domain"] * 20


# ---- in words


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (Domain(), ""),
        (Domain(-40.0, 60.0), "at least -40.0, at most 60.0"),
        (Domain(low=math.nextafter(0.0, 1.0)), "more than 0.0"),
        (Domain(high=math.nextafter(0.0, -1.0)), "less than 0.0"),
        (Domain(math.nextafter(0.1, 1.0), math.nextafter(0.3, 0.0)), "more than 0.1, less than 0.3"),
        (Domain(0.1, 0.3), "at least 0.1, at most 0.3"),
        (Domain(1, 9), "at least 1, at most 9"),
    ],
)
def test_domains_are_said_as_they_were_written(found, words):
    assert describe_domain(found) == words


def test_describe_says_what_is_declared_of_columns():
    text = "CREATE STREAM s (x DOUBLE CHECK (x > 0), y INT CHECK (y BETWEEN 1 AND 3), z INT) FROM 's'; DESCRIBE s"
    [described] = bind(text).commands
    assert answer(described) == (  # type: ignore[arg-type]
        "stream s from 's', by time of arrival\n  x  DOUBLE, more than 0.0\n  y  INT, at least 1, at most 3\n  z  INT"
    )
