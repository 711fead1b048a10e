"""The parser: every construct, where it stands in the text, and what is said about mistakes."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot
from support.written import SECOND, expression, select, shape, source

from tidegate.errors import QueryError, Span
from tidegate.language import syntax
from tidegate.language.parse.parser import parse
from tidegate.language.syntax import Constant, Expression, Operation


def error(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        parse(text)
    return caught.value.render()


# ---- constants


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", 1),
        ("12.5", 12.5),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-7", -7),
        ("- 7.5", -7.5),
        ("-9223372036854775808", -(2**63)),
        ("+3", 3),
        ("'it''s'", "it's"),
        ("''", ""),
        ("TRUE", True),
        ("false", False),
        ("Null", None),
        ("TIMESTAMP '2026-01-01 00:00:00'", datetime(2026, 1, 1, tzinfo=UTC)),
        ("TIMESTAMP '2026-01-01T02:00:00+02:00'", datetime(2026, 1, 1, tzinfo=UTC)),
        ("INTERVAL 5 SECONDS", timedelta(seconds=5)),
        ("INTERVAL '5' SECOND", timedelta(seconds=5)),
        ("INTERVAL '5 seconds'", timedelta(seconds=5)),
        ("INTERVAL 2 h", timedelta(hours=2)),
    ],
)
def test_constants_have_their_value_and_span(text: str, value: object) -> None:
    node = expression(text)
    assert isinstance(node, Constant)
    assert node.value == value
    assert type(node.value) is type(value)


# ---- expressions


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a + b * c", ("+", "a", ("*", "b", "c"))),
        ("a - b - c", ("-", ("-", "a", "b"), "c")),
        ("(a - b) - (c)", ("-", ("-", "a", "b"), "c")),
        ("a / b % c DIV d", ("div", ("%", ("/", "a", "b"), "c"), "d")),
        ("-a", ("negate", "a")),
        ("- -1", 1),
        ("a - -1", ("-", "a", -1)),
        ("a || 'x' || b", ("||", ("||", "a", "x"), "b")),
        ("a = 1 AND b <> 2 OR NOT c != 3", ("or", ("and", ("=", "a", 1), ("<>", "b", 2)), ("not", ("<>", "c", 3)))),
        ("a < b AND b <= c", ("and", ("<", "a", "b"), ("<=", "b", "c"))),
        ("s.a > 1", (">", "s.a", 1)),
        ("a >= b + 1", (">=", "a", ("+", "b", 1))),
        ("NOT a = b", ("not", ("=", "a", "b"))),
        ("a IS NULL", ("is_null", "a")),
        ("a IS NOT NULL", ("not", ("is_null", "a"))),
        ("a IS TRUE", ("is_true", "a")),
        ("a IS NOT FALSE", ("not", ("is_false", "a"))),
        ("a = b IS TRUE", ("is_true", ("=", "a", "b"))),
        ("a IS NOT DISTINCT FROM b", ("SameAs", "a", "b")),
        ("a IS DISTINCT FROM b", ("not", ("SameAs", "a", "b"))),
        ("a LIKE 'x%'", ("like", "a", "x%")),
        ("a NOT LIKE 'x!%' ESCAPE '!'", ("not", ("like", "a", "x!%", "!"))),
        ("a BETWEEN 1 AND 2 AND b", ("and", ("Between", "a", 1, 2), "b")),
        ("a NOT BETWEEN 1 AND 2", ("not", ("Between", "a", 1, 2))),
        ("a IN (1, 2)", ("OneOf", "a", (1, 2))),
        ("a NOT IN (b)", ("not", ("OneOf", "a", ("b",)))),
        ("CASE WHEN a THEN 1 WHEN b THEN 2 ELSE 3 END", ("CaseWhen", None, (("a", 1), ("b", 2)), 3)),
        ("CASE a WHEN 1 THEN 'x' END", ("CaseWhen", "a", ((1, "x"),), None)),
        ("CAST(a AS DOUBLE)", ("CastTo", "a", "DOUBLE")),
        ("a::INT + 1", ("+", ("CastTo", "a", "INT"), 1)),
        ("-a::INT", ("negate", ("CastTo", "a", "INT"))),
        ("f()", ("FunctionCall", "f", ())),
        ("f(a, 1)", ("FunctionCall", "f", ("a", 1))),
        ("COUNT(*)", ("CountStar", "COUNT")),
        ("SUM(price * 2)", ("FunctionCall", "SUM", (("*", "price", 2),))),
    ],
)
def test_expressions_have_the_shape_that_precedence_gives_them(text: str, expected: object) -> None:
    assert shape(expression(text)) == expected


def test_a_thousand_alternatives_are_a_flat_tree() -> None:
    def depth(node: Expression) -> int:
        return 1 + max(map(depth, node.arguments), default=0) if isinstance(node, Operation) else 0

    terms = " OR ".join(f"a = {n}" for n in range(1000))
    assert depth(expression(terms)) == 11


def test_what_is_nested_too_deeply_is_refused() -> None:
    assert error("SELECT " + "NOT " * 5000 + "a FROM s").startswith("error[Q003]: this is nested")


# ---- names


def test_most_keywords_are_good_column_names() -> None:
    words = "timestamp range slide window delay rows now stream source end limit left over interval cast by unbounded"
    names = [shape(i.expression) for i in select(f"SELECT {', '.join(words.split())} FROM s").items]
    assert names == words.split()


def test_quotes_make_any_name() -> None:
    assert shape(expression('"select"')) == "select"
    assert shape(expression("`a b`.`c``d`")) == "a b.c`d"
    assert shape(expression('"say ""hi"""')) == 'say "hi"'


def test_keywords_in_any_case_and_comments_anywhere() -> None:
    text = "SeLeCt a -- the column\n/* from\n here */ fRoM s wHeRe a--\n= 1;"
    assert shape(select(text).where) == ("=", "a", 1)


# ---- queries


def test_select_has_all_its_clauses() -> None:
    query = select("SELECT DISTINCT a, b AS x, c y, s.*, * FROM s WHERE a = 1 GROUP BY a, b HAVING count(*) > 1")
    assert [shape(i) for i in query.items] == [
        ("Item", "a", None),
        ("Item", "b", "x"),
        ("Item", "c", "y"),
        ("Star", "s"),
        ("Star", None),
    ]
    assert (shape(query.where), shape(query.group_by)) == (("=", "a", 1), ("a", "b"))
    assert shape(query.having) == (">", ("CountStar", "count"), 1)
    assert query.distinct
    assert not select("SELECT ALL a FROM s").distinct


@pytest.mark.parametrize(
    ("text", "size", "slide", "alias"),
    [
        ("s", 0, 0, None),
        ("s o", 0, 0, "o"),
        ("s WINDOW(RANGE 5 HOURS)", 5 * 3600 * SECOND, 1, None),
        ("s AS o WINDOW(RANGE 5 seconds SLIDE 1 Second)", 5 * SECOND, SECOND, "o"),
        ("s WINDOW (RANGE 5 ms) o", 5000, 1, "o"),
        ("s WINDOW(RANGE UNBOUNDED) AS o", None, 1, "o"),
        ("s WINDOW(NOW)", 1, 1, None),
        ("s WINDOW(RANGE 7)", 7, 1, None),
        ("s WINDOW(RANGE 7 SLIDE 2)", 7, 2, None),
        ("s [RANGE 60 MINUTES] o", 3600 * SECOND, 1, "o"),
        ("s [RANGE 60 MINUTES SLIDE 30 MINUTES]", 3600 * SECOND, 1800 * SECOND, None),
        ("s [Now] o", 1, 1, "o"),
        ("s [Range Unbounded]", None, 1, None),
        ("s window", 0, 0, "window"),
        ("(SELECT a FROM s) o WINDOW(RANGE 1 DAY)", 86400 * SECOND, 1, "o"),
        ("(SELECT a FROM s) WINDOW(RANGE 1 DAY) o", 86400 * SECOND, 1, "o"),
    ],
)
def test_a_source_has_a_window_and_an_alias_on_either_side(
    text: str, size: int | None, slide: int, alias: str | None
) -> None:
    node = source(text)
    assert isinstance(node, (syntax.StreamReference, syntax.Subquery))
    assert (node.alias.text if node.alias else None) == alias
    assert ((node.window.size, node.window.slide) if node.window else (0, 0)) == (size, slide)


def test_joins_lean_to_the_left() -> None:
    assert shape(source("a JOIN b x ON a.i = x.i CROSS JOIN c INNER JOIN d ON TRUE")) == (
        "JoinClause",
        (
            "JoinClause",
            (
                "JoinClause",
                ("StreamReference", "a", None, None),
                ("StreamReference", "b", None, "x"),
                ("=", "a.i", "x.i"),
            ),
            ("StreamReference", "c", None, None),
            None,
        ),
        ("StreamReference", "d", None, None),
        True,
    )


def test_a_comma_may_end_the_from_clause() -> None:
    assert len(select("SELECT a FROM s, t, WHERE a = 1").sources) == 2
    assert len(select("SELECT a FROM s, GROUP BY a").sources) == 1
    assert len(select("SELECT a FROM s,").sources) == 1


def test_unions_inside_unions_become_one() -> None:
    text = "SELECT a FROM s UNION ALL ((SELECT b FROM t) UNION ALL (SELECT c FROM u)) UNION ALL SELECT d FROM v"
    [statement] = parse(text)
    assert isinstance(statement, syntax.QueryStatement)
    assert isinstance(statement.query, syntax.UnionAll)
    assert [shape(q.items[0]) for q in statement.query.queries] == [("Item", c, None) for c in "abcd"]


# ---- statements


def test_a_source_stream_has_all_its_clauses_in_any_order() -> None:
    text = """CREATE STREAM bid (item_id INT, "price" DOUBLE, timestamp TIMESTAMP) FROM 'bid''s.csv'
              DELAY 5 SECONDS WITH (format = 'csv', header = TRUE, kafka.group = g, n = -1) ORDERED BY timestamp"""
    [statement] = parse(text)
    assert isinstance(statement, syntax.CreateSource)
    assert [(c.name.text, c.type.text) for c in statement.columns] == [
        ("item_id", "INT"),
        ("price", "DOUBLE"),
        ("timestamp", "TIMESTAMP"),
    ]
    assert (statement.location, statement.delay) == ("bid's.csv", 5 * SECOND)
    assert statement.time_column == syntax.Name("timestamp", Span(len(text) - 9, len(text)))
    assert statement.options == (("format", "csv"), ("header", "true"), ("kafka.group", "g"), ("n", "-1"))


def test_statements_are_separated_by_semicolons_and_the_last_one_is_optional() -> None:
    text = ";; CREATE STREAM d AS SELECT a FROM s;; INSERT INTO 'out' SELECT a FROM d; SELECT a FROM d"
    kinds = [syntax.CreateDerived, syntax.Insert, syntax.QueryStatement]
    assert [type(s) for s in parse(text)] == kinds
    assert [type(s) for s in parse(text + ";")] == kinds
    assert parse("") == parse("  -- nothing\n;") == ()


def test_spans_show_what_a_node_was_made_of() -> None:
    text = "SELECT a + 1 AS x, s.* FROM s AS t WINDOW(RANGE 5 HOURS), (SELECT b FROM u) WHERE t.a IN (2) AND c IS NULL"
    found = set()

    def visit(node: object) -> None:
        if is_dataclass(node):
            span = getattr(node, "span", None)
            if isinstance(span, Span):
                found.add((type(node).__name__, text[span.start : span.end]))
            for each in fields(node):
                visit(getattr(node, each.name))
        elif isinstance(node, tuple):
            for part in node:
                visit(part)

    visit(parse(text))
    assert found == {
        ("QueryStatement", text),
        ("Select", text),
        ("Item", "a + 1 AS x"),
        ("Operation", "a + 1"),
        ("ColumnReference", "a"),
        ("Name", "a"),
        ("Constant", "1"),
        ("Name", "x"),
        ("Star", "s.*"),
        ("Name", "s"),
        ("StreamReference", "s AS t WINDOW(RANGE 5 HOURS)"),
        ("Name", "t"),
        ("WindowClause", "WINDOW(RANGE 5 HOURS)"),
        ("Subquery", "(SELECT b FROM u)"),
        ("Select", "SELECT b FROM u"),
        ("Item", "b"),
        ("ColumnReference", "b"),
        ("Name", "b"),
        ("StreamReference", "u"),
        ("Name", "u"),
        ("Operation", "t.a IN (2) AND c IS NULL"),
        ("OneOf", "t.a IN (2)"),
        ("ColumnReference", "t.a"),
        ("Constant", "2"),
        ("Operation", "c IS NULL"),
        ("ColumnReference", "c"),
        ("Name", "c"),
    }


# ---- mistakes


@pytest.mark.parametrize(
    ("text", "wrong", "meant"),
    [
        ("SELCT a FROM s", "SELCT", "SELECT"),
        ("SELECT a FORM s", "FORM", "FROM"),
        ("SELECT a FROM s WHRE a = 1", "WHRE", "WHERE"),
        ("SELECT a FROM s GRUOP BY a", "GRUOP", "GROUP"),
        ("SELECT a FROM s GROUP BY a HAVNG TRUE", "HAVNG", "HAVING"),
        ("SELECT a FROM s WINDO(RANGE 5 HOURS)", "WINDO", "WINDOW"),
        ("SELECT a FROM s WINDOW(RNAGE 5 HOURS)", "RNAGE", "RANGE"),
        ("CREATE STRAEM s (a INT) FROM 'x'", "STRAEM", "STREAM"),
        ("CREATE STREAM s (a INT) FROM 'x' TIMESTMP BY a", "TIMESTMP", "TIMESTAMP BY"),
        ("SELECTED a FROM s", "SELECTED", "SELECT"),
    ],
)
def test_a_misspelt_keyword_is_pointed_out(text: str, wrong: str, meant: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    span = caught.value.span
    assert (text[span.start : span.end], caught.value.hint) == (wrong, f"did you mean {meant}?")


def test_what_was_expected_is_said_in_words() -> None:
    assert error("SELECT a,\nFROM s") == snapshot("""\
error[Q001]: unexpected 'FROM': expected an expression or '*'
  --> 2:1
   | FROM s
   | ^^^^\
""")
    assert error("SELECT a b c FROM s") == snapshot("""\
error[Q001]: unexpected 'c': expected ',' or FROM
  --> 1:12
   | SELECT a b c FROM s
   |            ^\
""")
    assert error("SELECT a FROM") == snapshot("""\
error[Q001]: the text ends too early: expected a name, '(' or SELECT
  --> 1:14
   | SELECT a FROM
   |              ^\
""")
    assert error("SELECT a FROM s WHERE (a = 1") == snapshot("""\
error[Q001]: the text ends too early: expected ')'
  --> 1:29
   | SELECT a FROM s WHERE (a = 1
   |                             ^\
""")
    assert error("SELECT a FROM s WHERE a BETWEEN 1") == snapshot("""\
error[Q001]: the text ends too early: expected an operator or AND
  --> 1:34
   | SELECT a FROM s WHERE a BETWEEN 1
   |                                  ^\
""")
    assert error("SELECT a FROM s 5") == snapshot("""\
error[Q001]: unexpected '5': expected a name, ',', the end, AS, GROUP, JOIN, WHERE or WINDOW
  --> 1:17
   | SELECT a FROM s 5
   |                 ^\
""")
    assert error("INSERT INTO out SELECT a FROM s") == snapshot("""\
error[Q001]: a sink with a name is not supported
  --> 1:13
   | INSERT INTO out SELECT a FROM s
   |             ^^^
   = hint: write the folder in quotes: INSERT INTO 'out' SELECT …\
""")
    assert error("CREATE STREAM group (a INT) FROM 'x'") == snapshot("""\
error[Q001]: unexpected 'group': expected a name
  --> 1:15
   | CREATE STREAM group (a INT) FROM 'x'
   |               ^^^^^
   = hint: "group" in quotes is a name\
""")
    assert error("CREATE STREAM s (a INT) TIMESTAMP BY a") == snapshot("""\
error[Q001]: unexpected 'TIMESTAMP BY': expected FROM
  --> 1:25
   | CREATE STREAM s (a INT) TIMESTAMP BY a
   |                         ^^^^^^^^^^^^\
""")
    assert error("SELECT a ? b FROM s") == snapshot("""\
error[Q001]: unexpected character '?'
  --> 1:10
   | SELECT a ? b FROM s
   |          ^\
""")


def test_what_is_never_closed_is_shown_where_it_opens() -> None:
    assert error("SELECT 'abc FROM s") == snapshot("""\
error[Q001]: this quote is never closed
  --> 1:8
   | SELECT 'abc FROM s
   |        ^
   = hint: end it with '; inside it, write '' for one\
""")
    assert error("SELECT a /* b FROM s") == snapshot("""\
error[Q001]: this comment is never closed
  --> 1:10
   | SELECT a /* b FROM s
   |          ^
   = hint: end it with */\
""")
    assert error('SELECT "a FROM s') == snapshot("""\
error[Q001]: this quote is never closed
  --> 1:8
   | SELECT "a FROM s
   |        ^
   = hint: end it with "; inside it, write "" for one\
""")


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("SELECT a FROM s NATURAL JOIN t", "NATURAL JOIN", "NATURAL JOIN is not supported yet"),
        ("SELECT SUM(a) OVER (PARTITION BY b) FROM s", "OVER", "OVER is not supported"),
        ("SELECT CAST(a AS VARCHAR(20)) FROM s", "(20)", "a length or precision of a type is not supported yet"),
        ("SELECT a FROM s FETCH FIRST 5 ROWS ONLY", "FETCH FIRST", "FETCH is not supported"),
        ("CREATE VIEW v AS SELECT a FROM s", "CREATE VIEW", "CREATE VIEW is not supported"),
        ("CREATE TABLE t AS SELECT a FROM s", "CREATE TABLE", "CREATE TABLE … AS is not supported"),
        (
            "WITH RECURSIVE r AS (SELECT a FROM s) SELECT a FROM r",
            "WITH RECURSIVE",
            "WITH RECURSIVE is not supported yet",
        ),
    ],
)
def test_sql_that_is_not_there_yet_is_named(text: str, place: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    span = caught.value.span
    assert caught.value.code == "Q002"
    assert caught.value.message == message
    assert text[span.start : span.end] == place


def test_wrong_amounts_and_constants_are_refused() -> None:
    assert error("SELECT a FROM s WINDOW(RANGE 0 SECONDS)") == snapshot("""\
error[Q114]: RANGE must be longer than zero
  --> 1:30
   | SELECT a FROM s WINDOW(RANGE 0 SECONDS)
   |                              ^^^^^^^^^
   = hint: write for example RANGE 10 SECONDS\
""")
    assert error("SELECT a FROM s WINDOW(RANGE 5 SECONDS SLIDE 0)") == snapshot("""\
error[Q114]: SLIDE must be longer than zero
  --> 1:46
   | SELECT a FROM s WINDOW(RANGE 5 SECONDS SLIDE 0)
   |                                              ^
   = hint: write for example SLIDE 10 SECONDS\
""")
    assert error("SELECT a FROM s WINDOW(RANGE 1.5 HOURS)") == snapshot("""\
error[Q111]: '1.5' is not a whole number
  --> 1:30
   | SELECT a FROM s WINDOW(RANGE 1.5 HOURS)
   |                              ^^^^^^^^^
   = hint: use a smaller unit of time\
""")
    assert error("SELECT a FROM s WINDOW(RANGE 5 SECNODS)") == snapshot("""\
error[Q110]: unknown unit of time 'SECNODS'
  --> 1:32
   | SELECT a FROM s WINDOW(RANGE 5 SECNODS)
   |                                ^^^^^^^
   = hint: did you mean 'second'?\
""")
    assert error("SELECT a FROM s WINDOW(RANGE 99999999999999999999 DAYS)") == snapshot("""\
error[Q111]: this length of time is too long
  --> 1:30
   | SELECT a FROM s WINDOW(RANGE 99999999999999999999 DAYS)
   |                              ^^^^^^^^^^^^^^^^^^^^^^^^^
   = hint: the longest is about 73,000 years\
""")
    assert error("SELECT TIMESTAMP 'yesterday' FROM s") == snapshot("""\
error[Q111]: 'yesterday' is not a point in time
  --> 1:18
   | SELECT TIMESTAMP 'yesterday' FROM s
   |                  ^^^^^^^^^^^
   = hint: write for example TIMESTAMP '2026-01-31 12:00:00'\
""")
    assert error("SELECT INTERVAL 'soon' FROM s") == snapshot("""\
error[Q110]: 'soon' is not a duration
  --> 1:17
   | SELECT INTERVAL 'soon' FROM s
   |                 ^^^^^^
   = hint: write for example '5 seconds'\
""")
    assert error("SELECT a FROM s x WINDOW(NOW) y") == snapshot("""\
error[Q105]: 'x' is already the alias here
  --> 1:31
   | SELECT a FROM s x WINDOW(NOW) y
   |                               ^
   = hint: write one alias, before or after the window\
""")
    assert error("CREATE STREAM s (a INT) FROM 'x' DELAY 1 HOUR TIMESTAMP BY a DELAY 2 HOURS") == snapshot("""\
error[Q105]: DELAY is given twice
  --> 1:62
   | CREATE STREAM s (a INT) FROM 'x' DELAY 1 HOUR TIMESTAMP BY a DELAY 2 HOURS
   |                                                              ^^^^^^^^^^^^^
   = hint: remove one of them\
""")


WORDS = """SELECT FROM WHERE GROUP BY HAVING UNION ALL DISTINCT AS a b s t . , ; * ( ) [ ] + - / % || :: = < > 1 2.5 'x'
"q" JOIN ON CROSS WINDOW RANGE SLIDE UNBOUNDED NOW SECONDS CREATE STREAM INSERT INTO TIMESTAMP ORDERED DELAY WITH INT
CASE WHEN THEN ELSE END CAST IN IS NOT NULL TRUE BETWEEN AND OR LIKE ESCAPE INTERVAL COUNT ' " /* -- ? ORDER LIMIT
EXCEPT INTERSECT LEFT USING ROWS PARTITION GRANULARITY ISTREAM EXISTS ANY DROP SHOW STREAMS QUERY EXPLAIN VALID TABLE
KEY CONSTRAINT FOREIGN REFERENCES CLUSTERED WITHIN SET MODE CONSTRAINTS"""


@given(st.lists(st.sampled_from(WORDS.split()), max_size=30).map(" ".join))
def test_any_text_is_a_program_or_has_an_error_with_a_place(text: str) -> None:
    wrong = None
    try:
        parse(text)
    except QueryError as error:
        wrong = error
    assert wrong is None or (0 <= wrong.span.start <= len(text) and wrong.render())


def test_a_call_with_numbers_only_is_no_length_of_a_type():
    (statement,) = parse("SELECT power(2, 3), sqrt(2), interval1 FROM s")
    assert len(statement.query.items) == 3
