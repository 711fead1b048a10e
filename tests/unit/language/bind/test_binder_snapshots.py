"""What queries with subqueries, set operations and outer joins mean at an instant is what DuckDB says."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.semantics import relation_at
from support.examples import examples

from tidegate.algebra.plan import Union, walk
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind

STREAMS = """
CREATE STREAM a (x INT, y INT, t BIGINT) FROM 'a' TIMESTAMP BY t;
CREATE STREAM b (x INT, z INT, t BIGINT) FROM 'b' TIMESTAMP BY t;
CREATE STREAM c (z INT, w INT, t BIGINT) FROM 'c' TIMESTAMP BY t;
"""
CATALOG = bind(STREAMS).catalog
COLUMNS = {"a": ("x", "y"), "b": ("x", "z"), "c": ("z", "w")}

QUERIES = [
    "SELECT x FROM a WHERE y IN (SELECT z FROM b)",
    "SELECT x FROM a WHERE y NOT IN (SELECT z FROM b)",
    "SELECT x FROM a WHERE NOT (y NOT IN (SELECT z FROM b WHERE b.x = a.x))",
    "SELECT x FROM a WHERE y NOT IN (SELECT z FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.x = a.x AND b.z > a.y)",
    "SELECT x FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.x = a.x AND b.z > 1)",
    "SELECT x FROM a WHERE x > 1 OR EXISTS (SELECT * FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE NOT (x > 1 OR y IN (SELECT z FROM b))",
    "SELECT x FROM a WHERE x > 1 OR y NOT IN (SELECT z FROM b)",
    "SELECT x FROM a WHERE x >= ALL (SELECT z FROM b) OR y IN (SELECT w FROM c)",
    "SELECT x FROM a WHERE NOT (x < ANY (SELECT z FROM b) AND y NOT IN (SELECT w FROM c))",
    "SELECT x FROM a WHERE y NOT IN (SELECT z FROM b) OR (y IN (SELECT w FROM c)) IS NULL",
    "SELECT x FROM a WHERE x > 1 OR (y IN (SELECT z FROM b) AND y NOT IN (SELECT w FROM c WHERE c.z = a.x))",
    "SELECT x FROM a WHERE (x > 1 OR y IN (SELECT z FROM b)) = (y IN (SELECT w FROM c) OR x > 2)",
    "SELECT x, y NOT IN (SELECT z FROM b) AS m FROM a WHERE x > 1 OR NOT y NOT IN (SELECT z FROM b)",
    "SELECT x FROM a WHERE y NOT IN (SELECT NULL FROM b)",
    "SELECT x FROM a WHERE y NOT IN (SELECT a.x FROM b WHERE b.x = 1)",
    "SELECT x FROM a WHERE y NOT IN (SELECT z + a.x FROM b)",
    "SELECT x FROM a WHERE 1 NOT IN (SELECT z FROM b WHERE b.x > a.x)",
    "SELECT x FROM a GROUP BY x HAVING MIN(y) NOT IN (SELECT z FROM b)",
    "SELECT x FROM a WHERE y = (SELECT MAX(z) FROM b)",
    "SELECT x FROM a WHERE y + 1 > (SELECT MIN(z) FROM b WHERE b.x = a.x) * 2",
    "SELECT x FROM a WHERE NOT y < (SELECT MIN(z) FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE (SELECT MAX(z) FROM b WHERE b.x = a.x) IS NULL",
    "SELECT x FROM a WHERE COALESCE((SELECT MAX(z) FROM b WHERE b.x = a.x), 2) > y",
    "SELECT x, (SELECT MAX(z) FROM b WHERE b.x = a.x) AS m FROM a",
    "SELECT x, (SELECT MAX(z) FROM b) - (SELECT MIN(w) FROM c WHERE c.z = a.y) AS m FROM a",
    "SELECT x, y IN (SELECT z FROM b) AS m, y > ALL (SELECT z FROM b WHERE b.x = a.x) AS n FROM a",
    "SELECT x, NOT EXISTS (SELECT * FROM b WHERE b.x = a.x) AS m FROM a",
    "SELECT x FROM a WHERE y >= ALL (SELECT z FROM b)",
    "SELECT x FROM a WHERE y >= ALL (SELECT z FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE NOT y >= ALL (SELECT z FROM b)",
    "SELECT x FROM a WHERE y > ANY (SELECT z FROM b)",
    "SELECT x FROM a WHERE NOT y <> ANY (SELECT z FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE y <> ALL (SELECT MAX(z) FROM b GROUP BY x)",
    "SELECT x FROM a WHERE y IN (SELECT z FROM b WHERE b.x IN (SELECT w FROM c WHERE c.z = b.z))",
    "SELECT x FROM a WHERE y IN (SELECT z + a.x FROM b)",
    "SELECT x FROM a WHERE y IN (SELECT z FROM b UNION ALL SELECT w FROM c)",
    "SELECT x FROM a WHERE y = (SELECT z FROM b ORDER BY z DESC NULLS LAST, x LIMIT 1)",
    "SELECT x, COUNT(*) AS n FROM a GROUP BY x HAVING MAX(y) >= ALL (SELECT MAX(z) FROM b GROUP BY x)",
    "SELECT x, COUNT(*) AS n FROM a GROUP BY x HAVING x IN (SELECT z FROM b) OR COUNT(*) > 1",
    "SELECT x, COUNT(*) AS n FROM a GROUP BY x HAVING x NOT IN (SELECT z FROM b) OR COUNT(*) > 1",
    "SELECT x, MAX(y) IN (SELECT z FROM b) AS m FROM a GROUP BY x HAVING MAX(y) IN (SELECT z FROM b) OR COUNT(*) > 1",
    "SELECT x, (SELECT MAX(z) FROM b WHERE b.x = a.x) AS m, COUNT(*) AS n FROM a GROUP BY x",
    "SELECT a.x, y, z FROM a LEFT JOIN b ON a.x = b.x AND b.z > 1",
    "SELECT a.x, y, z FROM a RIGHT JOIN b ON a.x = b.x",
    "SELECT a.x, b.x AS bx, y, z FROM a FULL OUTER JOIN b ON a.x = b.x AND a.y < b.z",
    "SELECT x, y, z FROM a JOIN b USING (x)",
    "SELECT x, y, z, w FROM a LEFT JOIN b USING (x) JOIN c USING (z)",
    "SELECT x FROM a UNION SELECT z FROM b",
    "SELECT x FROM a EXCEPT SELECT z FROM b",
    "SELECT x FROM a EXCEPT ALL SELECT z FROM b",
    "SELECT x FROM a INTERSECT SELECT z FROM b",
    "SELECT x FROM a INTERSECT ALL SELECT z FROM b",
    "SELECT x FROM a UNION ALL SELECT z FROM b INTERSECT ALL SELECT w FROM c",
    "(SELECT x FROM a UNION SELECT z FROM b) EXCEPT SELECT w FROM c",
    "SELECT x, y FROM a ORDER BY y DESC NULLS FIRST, x NULLS LAST LIMIT 2 OFFSET 1",
    "SELECT x FROM a ORDER BY y + x NULLS LAST, x NULLS LAST, y NULLS LAST LIMIT 2",
    "SELECT x, COUNT(*) AS n FROM a GROUP BY x ORDER BY COUNT(*) DESC, x NULLS LAST LIMIT 1",
    "WITH d AS (SELECT x FROM a WHERE y > 1), e AS (SELECT x FROM d UNION ALL SELECT x FROM b) SELECT x FROM e",
    "SELECT x, COUNT(*) FILTER (WHERE y > 1) AS n, MAX(y) FILTER (WHERE y < 2) AS m FROM a GROUP BY x",
    "SELECT COUNT(DISTINCT y) AS n, x FROM a GROUP BY x",
]

COUNTS_OF_NOTHING = [
    "SELECT x, (SELECT COUNT(*) FROM b WHERE b.x = a.x) AS n FROM a",
    "SELECT x, (SELECT COUNT(DISTINCT z) FROM b WHERE b.x = a.x) AS n FROM a",
    "SELECT x, (SELECT COUNT(*) + 1 FROM b WHERE b.x = a.x) AS n FROM a",
    "SELECT x, (SELECT COUNT(*) FILTER (WHERE z > 1) FROM b WHERE b.x = a.x) * 2 AS n FROM a",
    "SELECT x, (SELECT COUNT(z) FROM b) AS n FROM a",
    "SELECT x, (SELECT COALESCE(MAX(z), 7) FROM b WHERE b.x = a.x) AS n FROM a",
    "SELECT x, (SELECT COUNT(*) FROM b WHERE b.x = a.x HAVING COUNT(*) < 2) AS n FROM a",
    "SELECT x, (SELECT COUNT(*) FROM b WHERE b.x = a.x HAVING MAX(z) > 1) AS n FROM a",
    "SELECT x, (SELECT MAX(z) + (SELECT MIN(w) FROM c) FROM b WHERE b.x = a.x) AS n FROM a",
    "SELECT x FROM a WHERE (SELECT COUNT(*) FROM b WHERE b.x = a.x) = 0",
    "SELECT x FROM a WHERE y >= (SELECT COUNT(*) FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE NOT (SELECT COUNT(*) FROM b WHERE b.x = a.x) > 1",
    "SELECT x FROM a WHERE 1 <= (SELECT COUNT(*) FROM b WHERE b.x = a.x)",
    "SELECT x FROM a WHERE y > (SELECT COUNT(*) FROM b WHERE b.x = a.x HAVING MIN(z) > 0)",
    "SELECT x FROM a WHERE (SELECT COUNT(*) FROM b WHERE b.x = a.x) IS NULL OR x = 1",
    "SELECT x, COUNT(*) AS n FROM a GROUP BY x HAVING COUNT(*) > (SELECT COUNT(*) FROM b WHERE b.x = a.x)",
    "SELECT x, COUNT(*) AS n FROM a GROUP BY x HAVING (SELECT COUNT(z) FROM b) = 0 OR COUNT(*) > 1",
]

number = st.one_of(st.none(), st.integers(0, 3))
rows = st.lists(st.tuples(number, number), max_size=4)


def ours(query: str, tables: dict[str, list[tuple[int | None, int | None]]]) -> Counter:
    [bound] = bind(query, CATALOG).queries
    streams = {
        name: [(0, {**dict(zip(COLUMNS[name], row, strict=True)), "t": 0}) for row in content]
        for name, content in tables.items()
    }
    return relation_at(bound.plan, streams, 0)


@cache
def database() -> Any:
    return duckdb.connect(config={"threads": 1})


def theirs(query: str, tables: dict[str, list[tuple[int | None, int | None]]]) -> Counter:
    with database().cursor() as cursor:
        for name, content in tables.items():
            first, second = ([row[place] for row in content] for place in (0, 1))
            arrays = [pa.array(first, pa.int32()), pa.array(second, pa.int32()), pa.array([0] * len(first), pa.int64())]
            cursor.register(name, pa.Table.from_arrays(arrays, [*COLUMNS[name], "t"]))
        return Counter(cursor.execute(query).fetchall())


@pytest.mark.parametrize("query", QUERIES)
@settings(max_examples=examples(15))
@given(tables=st.fixed_dictionaries({"a": rows, "b": rows, "c": rows}))
def test_a_query_means_at_an_instant_what_sql_says(query, tables):
    assert ours(query, tables) == theirs(query, tables)


@pytest.mark.parametrize("query", COUNTS_OF_NOTHING)
@settings(max_examples=examples(15))
@given(tables=st.fixed_dictionaries({"a": rows, "b": rows, "c": rows}))
def test_a_query_that_stands_for_a_value_counts_nothing_as_zero(query, tables):
    assert ours(query, tables) == theirs(query, tables)


@pytest.mark.parametrize(
    "value",
    [
        "SELECT COUNT(*) + (SELECT MIN(w) FROM c) FROM b WHERE b.x = a.x",
        "SELECT COUNT(*) FROM b WHERE b.x = a.x HAVING 2 NOT IN (SELECT w FROM c)",
    ],
)
def test_a_count_that_another_query_stands_in_is_refused_as_a_value(value):
    with pytest.raises(QueryError) as caught:
        bind(f"SELECT x, ({value}) AS n FROM a", CATALOG)
    assert caught.value.code == "Q116"


def test_a_count_that_is_compared_with_more_than_zero_stays_a_semi_join():
    found = bind("SELECT x FROM a WHERE 1 <= (SELECT COUNT(*) FROM b WHERE b.x = a.x)", CATALOG).queries[0].plan
    assert not any(isinstance(node, Union) for node in walk(found))
