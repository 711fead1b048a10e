"""The parser: windows, set operations, subqueries and statements, and the forms that CQL and PIPES write."""

from __future__ import annotations

from typing import Any

import pytest
from support.written import SECOND, expression, select, shape, source

from tidegate.errors import Span
from tidegate.language import syntax
from tidegate.language.parse.parser import parse


def query(text: str) -> Any:
    [statement] = parse(text)
    assert isinstance(statement, syntax.QueryStatement)
    return statement.query


def window(text: str) -> Any:
    found = source(f"s {text}")
    assert isinstance(found, syntax.StreamReference)
    return shape(found.window)


# ---- windows


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WINDOW(ROWS 10)", ("RowsClause", 10, 1, ())),
        ("[ROWS 10]", ("RowsClause", 10, 1, ())),
        ("[Rows 10 Slide 5]", ("RowsClause", 10, 5, ())),
        ("WINDOW(ROWS UNBOUNDED)", ("RowsClause", None, 1, ())),
        ("WINDOW(ROWS MIN 50, MAX 200)", ("RowsClause", 200, 1, (), 50)),
        ("WINDOW(PARTITION BY a, s.b ROWS 3 SLIDE 2)", ("RowsClause", 3, 2, ("a", "s.b"))),
        ("[PARTITION BY a ROWS 3]", ("RowsClause", 3, 1, ("a",))),
        ("WINDOW(PARTITION BY a RANGE 5 SECONDS)", ("WindowClause", 5 * SECOND, 1, ("a",))),
        ("WINDOW(RANGE MIN 12 HOURS, MAX 24 HOURS)", ("WindowClause", 86400 * SECOND, 1, 43200 * SECOND)),
        ("WINDOW(RANGE MIN 1, MAX 2 SLIDE 3)", ("WindowClause", 2, 3, 1)),
    ],
)
def test_windows_by_count_by_group_and_of_varying_size(text, expected):
    assert window(text) == expected


@pytest.mark.parametrize("text", ["s o [NOW] GRANULARITY(2)", "s [NOW] o GRANULARITY(2)", "s [NOW] GRANULARITY(2) o"])
def test_a_granularity_follows_the_window_with_the_alias_anywhere(text):
    found = source(text)
    assert isinstance(found, syntax.StreamReference)
    assert found.alias is not None
    assert shape(found.granularity) == ("GranularityClause", 2)


def test_a_granularity_may_vary():
    found = source("s GRANULARITY(COARSEST 2 HOURS, FINEST 10 SECONDS)")
    assert isinstance(found, syntax.StreamReference)
    assert shape(found.granularity) == ("GranularityClause", 10 * SECOND, 7200 * SECOND)


# ---- FROM


@pytest.mark.parametrize(
    ("text", "function"),
    [
        ("Istream(s)", "istream"),
        ("DSTREAM(s [ROWS 3]) x", "dstream"),
        ("RSTREAM((SELECT a FROM t))", "rstream"),
        ("ISTREAM(SELECT a FROM t)", "istream"),
        ("DSTREAM(s, LAST) [RANGE 5 SECONDS] x", "dstream last"),
    ],
)
def test_streams_of_changes_are_subqueries(text, function):
    found = source(text)
    assert isinstance(found, syntax.Subquery)
    assert isinstance(found.query, syntax.ChangesOf)
    assert found.query.function == function


def test_a_subquery_needs_no_parentheses_and_takes_all_that_follows():
    [found] = select("SELECT DISTINCT (a, b) FROM SELECT a, b FROM s, t WHERE a = b GROUP BY a, b").sources
    assert isinstance(found, syntax.Subquery)
    assert isinstance(found.query, syntax.Select)
    assert (len(found.query.sources), len(found.query.group_by)) == (2, 2)


def test_columns_in_parentheses_are_columns():
    assert [shape(item) for item in select("SELECT DISTINCT(s.a, b AS c, *) FROM s").items] == [
        ("Item", "s.a", None),
        ("Item", "b", "c"),
        ("Star", None),
    ]
    assert shape(select("SELECT (a + b) * 2 FROM s").items[0]) == ("Item", ("*", ("+", "a", "b"), 2), None)


@pytest.mark.parametrize("word", ["LEFT", "RIGHT OUTER", "full outer"])
def test_outer_joins(word):
    found = source(f"s {word} JOIN t ON TRUE")
    assert isinstance(found, syntax.JoinClause)
    assert found.kind.name == word.split()[0].upper()


def test_joins_by_common_columns():
    found = source("s JOIN t USING (a, b)")
    assert isinstance(found, syntax.JoinClause)
    assert ([name.text for name in found.using], found.condition) == (["a", "b"], None)


# ---- several queries


def nested(node: Any) -> Any:
    match node:
        case syntax.SetQuery(operator=operator, left=left, right=right):
            return (operator, nested(left), nested(right))
        case syntax.UnionAll(queries=queries):
            return ("union all", *map(nested, queries))
    return node.sources[0].name.text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a UNION b", ("union", "a", "b")),
        ("a UNION DISTINCT b UNION ALL c", ("union all", ("union", "a", "b"), "c")),
        ("a UNION b INTERSECT c", ("union", "a", ("intersect", "b", "c"))),
        ("a INTERSECT ALL b UNION c", ("union", ("intersect all", "a", "b"), "c")),
        ("a EXCEPT b EXCEPT ALL c", ("except all", ("except", "a", "b"), "c")),
        ("a MINUS b", ("except", "a", "b")),
        ("a UNION MAX b", ("union max", "a", "b")),
        ("a EXCEPT STRICT (b UNION c)", ("except strict", "a", ("union", "b", "c"))),
    ],
)
def test_set_operations_lean_to_the_left_and_intersect_binds_tighter(text, expected):
    words = [
        f"SELECT x FROM {w}" if w in {"a", "b", "c"} else w for w in text.replace("(", "( ").replace(")", " )").split()
    ]
    assert nested(query(" ".join(words))) == expected


def test_order_and_limit():
    found = query("SELECT a FROM s ORDER BY a DESC NULLS FIRST, b + 1 ASC NULLS LAST, 3 LIMIT 5 OFFSET 2 PER c, d")
    assert isinstance(found, syntax.OrderedQuery)
    assert shape(found.order) == (
        ("OrderBy", "a", True, True),
        ("OrderBy", ("+", "b", 1), False, False),
        ("OrderBy", 3, False, None),
    )
    assert shape(found.limit) == ("LimitClause", 5, 2, ("c", "d"), False)
    tied = query("SELECT a FROM s ORDER BY a LIMIT 5 WITH TIES")
    assert shape(tied.limit) == ("LimitClause", 5, 0, (), True)


def test_limit_is_about_the_whole_of_a_set_operation():
    found = query("SELECT a FROM s UNION ALL SELECT a FROM t LIMIT 5")
    assert isinstance(found, syntax.OrderedQuery)
    assert isinstance(found.query, syntax.UnionAll)


@pytest.mark.parametrize(
    "text", ["SELECT ISTREAM(a, *) FROM s", "SELECT Istream(DISTINCT a) FROM s", "ISTREAM(SELECT a FROM s)"]
)
def test_changes_of_a_whole_query(text):
    assert isinstance(query(text), syntax.ChangesOf)
    assert query(text).function == "istream"


def test_definitions_before_a_query():
    found = query("WITH x AS (SELECT a FROM s), y AS (SELECT a FROM x) SELECT a FROM y LIMIT 1")
    assert isinstance(found, syntax.WithQuery)
    assert [definition.name.text for definition in found.definitions] == ["x", "y"]


# ---- queries inside of expressions


@pytest.mark.parametrize(
    ("text", "kind", "details"),
    [
        ("a IN (SELECT b FROM t)", syntax.InQuery, {"negated": False}),
        ("a NOT IN (SELECT b FROM t)", syntax.InQuery, {"negated": True}),
        ("a IN ((SELECT b FROM t))", syntax.InQuery, {"negated": False}),
        ("EXISTS (SELECT * FROM t)", syntax.Exists, {"negated": False}),
        ("exists ((SELECT * FROM t))", syntax.Exists, {"negated": False}),
        ("a >= ALL (SELECT b FROM t)", syntax.QuantifiedComparison, {"operator": ">=", "every": True}),
        ("a != any (SELECT b FROM t)", syntax.QuantifiedComparison, {"operator": "<>", "every": False}),
        (
            "a = SOME (WITH x AS (SELECT b FROM t) SELECT b FROM x)",
            syntax.QuantifiedComparison,
            {"operator": "=", "every": False},
        ),
        ("(SELECT MAX(b) FROM t)", syntax.QueryValue, {}),
    ],
)
def test_queries_inside_of_expressions(text, kind, details):
    found = expression(text)
    assert isinstance(found, kind)
    assert {name: getattr(found, name) for name in details} == details


def test_a_query_is_a_part_of_larger_expressions():
    found = expression("((SELECT MAX(b) FROM t) + 1) * f((SELECT MIN(b) FROM t), 2)")
    assert sum(isinstance(node, syntax.QueryValue) for node in syntax.walk(found)) == 2


def test_aggregates_with_distinct_and_filter():
    assert shape(expression("COUNT(DISTINCT a)")) == ("FunctionCall", "COUNT", ("a",), True)
    assert shape(expression("COUNT(*) FILTER (WHERE a > 1)")) == ("CountStar", "COUNT", (">", "a", 1))
    assert shape(expression("filter(a)")) == ("FunctionCall", "filter", ("a",))


def test_new_words_are_still_good_names():
    words = "table query max strict last asc desc limit per offset except intersect minus left right full using filter"
    words += " exists any some istream granularity partition coarsest finest valid idle show drop explain describe"
    names = [shape(item.expression) for item in select(f"SELECT {', '.join(words.split())} FROM s").items]
    assert names == words.split()


def test_coalesce_time_is_a_clause_and_its_words_are_still_good_names():
    assert select("SELECT COALESCE TIME a FROM s").coalesce == Span(7, 20)
    assert select("SELECT coalesce\n time DISTINCT * FROM s").distinct
    assert select("SELECT COALESCE TIME time FROM s").coalesce is not None
    for text in (
        "coalesce time",
        "coalesce time, b",
        "coalesce time /* a */ , b",
        "coalesce(a, time)",
        "coalesce AS time",
    ):
        found = select(f"SELECT {text} FROM s")
        assert found.coalesce is None
    assert shape(select("SELECT coalesce time FROM s").items[0].expression) == "coalesce"


# ---- statements


def test_sources_with_validities_arrival_times_and_silence():
    [statement] = parse("CREATE STREAM s (a INT, f BIGINT, t BIGINT) FROM 'x' VALID FROM f TO t IDLE AFTER 30 SECONDS")
    assert isinstance(statement, syntax.CreateSource)
    assert statement.time_column is not None
    assert statement.end_column is not None
    assert (statement.time_column.text, statement.end_column.text) == ("f", "t")
    assert (statement.idle_after, statement.is_table) == (30 * SECOND, False)
    [statement] = parse("CREATE STREAM s (a INT) SOURCE 'x'")
    assert isinstance(statement, syntax.CreateSource)
    assert statement.time_column is None


def test_tables():
    [statement] = parse("CREATE TABLE t (a INT) FROM 'x' WITH (format = 'csv')")
    assert isinstance(statement, syntax.CreateSource)
    assert (statement.is_table, statement.options) == (True, (("format", "csv"),))


def test_a_source_function_has_a_name_and_arguments():
    [statement] = parse("CREATE STREAM s (a INT) SOURCE connect('port34100', 'converter')")
    assert isinstance(statement, syntax.CreateSource)
    assert isinstance(statement.location, syntax.SourceCall)
    assert (statement.location.name.text, statement.location.arguments) == ("connect", ("port34100", "converter"))


def test_commands():
    text = "DROP STREAM a; DROP TABLE b; drop query c; SHOW STREAMS; SHOW TABLES; SHOW QUERIES; DESCRIBE d; DESC e"
    assert [shape(statement)[0] for statement in parse(text)] == [
        *["DropStatement"] * 3,
        *["ShowStatement"] * 3,
        *["DescribeStatement"] * 2,
    ]
    [statement] = parse("EXPLAIN SELECT a FROM s LIMIT 3")
    assert isinstance(statement, syntax.ExplainStatement)
