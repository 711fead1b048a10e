from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from tidegate.errors import NOWHERE
from tidegate.expressions.functions.resolve import resolve
from tidegate.expressions.nodes import Case, Cast, Column, InList, Literal
from tidegate.expressions.sql_text import to_sql
from tidegate.schema import Type

a, b, c = (Column(name, Type.INT) for name in "abc")
p, q, r = (Column(name, Type.BOOLEAN) for name in "pqr")
s = Column("s", Type.STRING)
big, x = Column("big", Type.BIGINT), Column("x", Type.DOUBLE)


def of(name, *arguments):
    return resolve(name, arguments, NOWHERE)


def lit(value, type_):
    return Literal(value, type_)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (of("*", of("+", a, b), c), "(a + b) * c"),
        (of("+", a, of("*", b, c)), "a + b * c"),
        (of("-", of("-", a, b), c), "a - b - c"),
        (of("-", a, of("-", b, c)), "a - (b - c)"),
        (of("*", a, of("div", b, c)), "a * (b DIV c)"),
        (of("and", of("or", p, q), r), "(p OR q) AND r"),
        (of("or", p, of("and", q, r)), "p OR q AND r"),
        (of("and", p, of("and", q, r)), "p AND q AND r"),
        (of("not", of("and", p, q)), "NOT (p AND q)"),
        (of("and", of("not", p), q), "NOT p AND q"),
        (of("not", of("=", a, b)), "NOT a = b"),
        (of("=", of("not", p), q), "(NOT p) = q"),
        (of("=", p, of("=", a, b)), "p = (a = b)"),
        (of("=", of("=", a, b), p), "a = b = p"),
        (of("is_null", of("+", a, b)), "a + b IS NULL"),
        (of("is_null", of("or", p, q)), "(p OR q) IS NULL"),
        (of("not", of("is_null", a)), "a IS NOT NULL"),
        (of("not", of("is_true", p)), "p IS NOT TRUE"),
        (of("is_false", p), "p IS FALSE"),
        (of("like", s, lit("it's%", Type.STRING)), "s LIKE 'it''s%'"),
        (of("not", of("like", s, lit("a!%", Type.STRING), lit("!", Type.STRING))), "s NOT LIKE 'a!%' ESCAPE '!'"),
        (of("like", of("||", s, s), lit("%", Type.STRING)), "s || s LIKE '%'"),
        (InList(a, (lit(1, Type.INT), lit(None, Type.INT))), "a IN (1, NULL)"),
        (of("not", InList(of("+", a, b), (lit(1, Type.INT),))), "a + b NOT IN (1)"),
        (of("negate", of("negate", a)), "-(-a)"),
        (of("negate", lit(-1, Type.INT)), "-(-1)"),
        (of("-", a, lit(-1, Type.INT)), "a - -1"),
        (of("negate", of("+", a, b)), "-(a + b)"),
        (of("*", of("negate", a), b), "-a * b"),
        (of("round", x, lit(2, Type.INT)), "round(x, 2)"),
        (of("if", p, a, lit(None, Type.NULL)), "CASE WHEN p THEN a END"),
        (Case(((p, a), (q, b)), c, Type.INT), "CASE WHEN p THEN a WHEN q THEN b ELSE c END"),
        (of("coalesce", a, b), "coalesce(a, b)"),
        (lit(True, Type.BOOLEAN), "TRUE"),
        (lit(math.nan, Type.DOUBLE), "CAST('nan' AS DOUBLE)"),
        (lit(-math.inf, Type.REAL), "CAST('-inf' AS REAL)"),
        (lit(-0.0, Type.DOUBLE), "-0.0"),
        (
            lit(datetime(2024, 2, 29, 12, 30, 0, 5, tzinfo=UTC), Type.TIMESTAMP),
            "TIMESTAMP '2024-02-29 12:30:00.000005Z'",
        ),
        (lit(timedelta(seconds=90), Type.INTERVAL), "INTERVAL 90 SECONDS"),
        (lit(timedelta(hours=-1), Type.INTERVAL), "-INTERVAL 1 HOUR"),
        (lit(timedelta(0), Type.INTERVAL), "INTERVAL 0 SECONDS"),
        (Column("o.item_id", Type.INT), "o.item_id"),
        (Column('odd "name"', Type.INT), '"odd ""name"""'),
    ],
)
def test_an_expression_reads_as_one_would_write_it(expression, text):
    assert to_sql(expression) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (of("/", a, b), "a / b"),
        (of("=", a, x), "a = x"),
        (of("+", big, lit(1, Type.INT)), "big + 1"),
        (of("+", Cast(a, Type.BIGINT), b), "CAST(a AS BIGINT) + b"),
        (of("+", Cast(a, Type.BIGINT), lit(1, Type.INT)), "CAST(a AS BIGINT) + 1"),
        (of("=", Cast(a, Type.BIGINT), lit(None, Type.NULL)), "CAST(a AS BIGINT) = NULL"),
        (of("sqrt", a), "sqrt(a)"),
        (of("||", s, a), "s || a"),
        (of("=", Cast(s, Type.INT), a), "CAST(s AS INT) = a"),
        (Cast(a, Type.BIGINT), "CAST(a AS BIGINT)"),
    ],
)
def test_casts_are_shown_unless_they_would_come_by_themselves(expression, text):
    assert to_sql(expression) == text
