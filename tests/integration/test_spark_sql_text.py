"""What Spark makes of the text of a predicate is what `evaluate` makes of the predicate."""

from __future__ import annotations

import math
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidegate.errors import NOWHERE
from tidegate.expressions.evaluate import evaluate
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Case, Column, InList, Literal
from tidegate.expressions.spark import spark_sql
from tidegate.schema import Schema, Type

NAN, INF = math.nan, math.inf
SCHEMA = Schema.of(
    b=Type.BOOLEAN,
    i=Type.INT,
    l=Type.BIGINT,
    f=Type.REAL,
    d=Type.DOUBLE,
    s=Type.STRING,
    t=Type.TIMESTAMP,
    v=Type.INTERVAL,
)
TIMES = [0, -1, 1_700_000_000_123_456, 253_402_300_799_999_999, -62_135_596_800_000_000]
EDGES: dict[str, list[Any]] = {
    "b": [True, False, None],
    "i": [0, 1, -1, 5, -(2**31), 2**31 - 1, None],
    "l": [0, 1, -1, 5, -(2**63), 2**63 - 1, 2**53 + 1, None],
    "f": [0.0, -0.0, 0.1, 1.5, NAN, INF, -INF, 3e38, None],
    "d": [0.0, -0.0, 0.1, 1.5, NAN, INF, -INF, 1e300, -5e-324, 2.0**63, None],
    "s": [
        "",
        "a",
        "ab",
        "a%b",
        "a_b",
        "a\\b",
        "it's",
        '"',
        "a\nb",
        "é😀",
        "e\u0301",
        "${user.home}",
        "$",
        "\\",
        "\\n",
        "\t",
        None,
    ],
    "t": [*TIMES, None],
    "v": [0, 1, -1, 90_061_000_001, -86_400_000_000, None],
}
COUNT = max(len(values) for values in EDGES.values())
COLUMNS = {f.name: Column(f.name, f.type) for f in SCHEMA}
b, i, l, f, d, s, t, v = COLUMNS.values()  # noqa: E741 - one letter for each type


def of(name, *arguments):
    return resolve(name, [a if not isinstance(a, LITERALS) else constant(a) for a in arguments], NOWHERE)


LITERALS = (bool, int, float, str, datetime, timedelta, type(None))
KINDS = {bool: Type.BOOLEAN, float: Type.DOUBLE, str: Type.STRING, datetime: Type.TIMESTAMP, timedelta: Type.INTERVAL}


def constant(value, type_=None):
    if type_ is None and isinstance(value, int) and not isinstance(value, bool):
        type_ = Type.INT if -(2**31) <= value < 2**31 else Type.BIGINT
    return Literal(value, type_ or KINDS.get(type(value), Type.NULL))


def one_of(column, *values):
    return InList(column, tuple(constant(x, column.type) for x in values))


def when(micros):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)


NUMBERS = (i, l, f, d)
CONSTANTS: dict[Column, list[Any]] = {
    i: [0, -1, 2**31 - 1, -(2**31)],
    l: [0, -1, 2**63 - 1, -(2**63)],
    f: [0.0, -0.0, 0.1, NAN, -INF],
    d: [0.0, -0.0, 0.1, NAN, INF, 1e300, -5e-324, 2.0**63],
}
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
PATTERNS = ["", "%", "_", "a%", "%b", "%a%", "a_b", "a\\%b", "a\\_b", "a\\\\b", "__", "%\\\\", "%'%", "%😀", "$%"]
ESCAPED = [("a!%b", "!"), ("a%%b", "%"), ("a\\b", "!"), ("a!!b", "!"), ("a\\_b", "\\"), ("$${%", "$")]
PREDICATES = [
    *(of(name, a, constant(x, a.type)) for a in NUMBERS for x in CONSTANTS[a] for name in COMPARISONS),
    *(of(name, s, x) for x in EDGES["s"] if x is not None for name in ("=", "<", ">=")),
    *(of(name, t, when(x)) for x in TIMES for name in ("=", "<", ">=")),
    *(of(name, v, timedelta(microseconds=x)) for x in EDGES["v"] if x is not None for name in ("=", "<", ">=")),
    *(of("=", a, None) for a in COLUMNS.values()),
    *(of("is_null", a) for a in COLUMNS.values()),
    *(of(name, a, c) for name in ("=", "<", ">=") for a in NUMBERS for c in NUMBERS if a is not c),
    *(of("like", s, x) for x in PATTERNS),
    *(of("like", s, x, e) for x, e in ESCAPED),
    b,
    of("not", b),
    of("is_true", b),
    of("is_false", b),
    of("not", of("is_true", of("=", d, NAN))),
    of("and", of(">", i, 0), of("<", d, 2.0)),
    of("or", of("=", b, None), of("is_null", s)),
    of("and", b, None),
    of("or", b, None),
    of("=", b, True),
    of("<", b, True),
    one_of(i, 0, 5, 2**31 - 1),
    one_of(i, 0, None),
    one_of(l, -(2**63), 2**63 - 1, *range(20)),
    one_of(f, 0.1, NAN),
    one_of(d, -0.0, NAN, INF),
    one_of(d, *(float(x) for x in range(20)), None),
    one_of(s, "it's", "a\\b", "", "${user.home}"),
    one_of(s, *(chr(97 + x) for x in range(20)), "\\"),
    one_of(t, when(0), None),
    one_of(v, timedelta(0), timedelta(days=-1)),
    one_of(b, True, None),
    of("not", one_of(i, 1, None)),
    of("coalesce", b, of("=", i, 0), False),
    of("=", of("coalesce", d, 0.0), 0.0),
    of("=", of("greatest", d, 1.5), NAN),
    of("=", of("least", d, constant(None, Type.DOUBLE), 1.5), 1.5),
    of("is_null", of("nullif", d, NAN)),
    of("is_null", of("nullif", d, 0.0)),
    of(">", of("length", s), 2),
    of("starts_with", s, "a"),
    of("ends_with", s, "b"),
    of("contains", s, "\\"),
    of("=", of("+", d, 1.0), of("*", d, 2.0)),
    of(">", of("-", f, f), d),
    Case(((of("is_null", i), of("=", d, NAN)), (of(">", i, 0), constant(True))), b, Type.BOOLEAN),
    of("=", Case(((b, s),), constant("it's"), Type.STRING), "it's"),
    Literal(None, Type.BOOLEAN),
    Literal(True, Type.BOOLEAN),
]

# A filter over a file sees the statistics of its row groups, which know no NaN and tell the zeros apart.
PUSHED = [
    *(of(name, d, x) for name, x in ((">", 1e300), ("=", NAN), ("=", 0.0), (">=", -0.0), ("<", 0.0), ("<>", NAN))),
    *(of(name, f, d) for name in (">", "=")),
    of("not", of("<=", f, constant(1.5, Type.REAL))),
    one_of(d, -0.0, NAN),
    one_of(l, 2**63 - 1, 5),
    of("like", s, "a%"),
    of("=", s, "it's"),
    of(">=", t, when(-1)),
    of("=", i, 5.0),
]


def edge_table():
    """Every edge value at least once, and each column out of step with the others."""
    columns = []
    for shift, field in enumerate(SCHEMA):
        values = EDGES[field.name]
        rows = [values[(row + shift * (row // len(values))) % len(values)] for row in range(4 * COUNT)]
        stored = pa.int64() if field.type in (Type.TIMESTAMP, Type.INTERVAL) else field.type.arrow
        columns.append(pa.array(rows, stored).cast(field.type.arrow))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA.arrow)


@contextmanager
def spark_session(warehouse):
    """A session in UTC; if other tests have one open, a sibling of it, which is not ours to stop."""
    from pyspark.sql import SparkSession

    settings: dict[str, bool | float | int | str | None] = {
        "spark.ui.enabled": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(warehouse),
    }
    if (open_ := SparkSession.getActiveSession()) is not None:
        sibling = open_.newSession()
        sibling.conf.set("spark.sql.session.timeZone", "UTC")
        yield sibling
        return
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    try:
        yield session
    finally:
        session.stop()


@pytest.mark.spark
def test_spark_agrees_on_every_predicate_for_every_edge_value(tmp_path):
    texts = [spark_sql(p) for p in PREDICATES]
    assert None not in texts
    table = edge_table()
    with spark_session(tmp_path) as session:
        frame = session.createDataFrame(pa.Table.from_batches([table]))
        answers = frame.selectExpr(*(f"{text} AS p{n}" for n, text in enumerate(texts))).collect()
        pq.write_table(pa.Table.from_batches([table]).drop(["v"]), tmp_path / "edges.parquet", row_group_size=1)
        stored = session.read.parquet(str(tmp_path / "edges.parquet"))
        kept = [stored.where(spark_sql(p)).count() for p in PUSHED]
    for n, predicate in enumerate(PREDICATES):
        expected = evaluate(predicate, table, table.num_rows).values.to_pylist()
        assert [row[n] for row in answers] == expected, texts[n]
    for predicate, count in zip(PUSHED, kept, strict=True):
        assert count == evaluate(predicate, table, table.num_rows).values.to_pylist().count(True), spark_sql(predicate)


@pytest.mark.parametrize(
    "predicate",
    [
        of("=", of("+", i, 1), 2),
        of("=", of("/", d, 2.0), 1.0),
        of("=", of("upper", s), "SS"),
        of("=", of("hour", t), 1),
        of("=", of("concat", s, d), "1.5"),
        of("=", of("sqrt", d), 1.0),
    ],
)
def test_what_can_fail_or_means_something_else_stays_here(predicate):
    assert spark_sql(predicate) is None
