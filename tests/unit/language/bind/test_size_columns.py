"""SET quality_columns: which columns a query gets, and how they are named."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.session import Session

STREAMS = """
CREATE STREAM a (k INT, h_window INT, at BIGINT) FROM 'a.csv' TIMESTAMP BY at;
CREATE STREAM b (k INT, v INT, at BIGINT) FROM 'b.csv' TIMESTAMP BY at;
"""
RANGE = "WINDOW(RANGE MIN 1 SECOND, MAX 9 SECONDS)"


def columns_of(query: str, setting: str = "SET quality_columns = on;") -> list[str]:
    (found,) = bind(f"{setting}{STREAMS}{query}").queries
    assert found.columns.names == (*found.plan.schema.names, *(each.name for each in found.sizes))
    return [each.name for each in found.sizes]


@pytest.mark.parametrize(
    ("query", "names"),
    [
        (f"SELECT h.k FROM a h {RANGE}", ["h_window"]),
        (f"SELECT h_window FROM a h {RANGE}", ["h_window_2"]),
        (f"SELECT k FROM a {RANGE}", ["a_window"]),
        (f"SELECT x.k FROM a x {RANGE}, b y {RANGE} WHERE x.k = y.k", ["x_window", "y_window"]),
        (f"SELECT x.k FROM a x {RANGE}, a y {RANGE} WHERE x.k = y.k", ["x_window", "y_window"]),
        ("SELECT k FROM a WINDOW(ROWS MIN 1, MAX 5)", ["a_window"]),
        (
            f"SELECT COUNT(*) AS n FROM a {RANGE} GRANULARITY(COARSEST 8 SECONDS, FINEST 1 SECOND)",
            ["a_granularity", "a_window"],
        ),
        (f"SELECT COUNT(*) AS n FROM (SELECT k FROM a UNION ALL SELECT k FROM b) u {RANGE}", ["u_window"]),
        (f"CREATE STREAM c AS SELECT k FROM a {RANGE}; SELECT z.k FROM c z", ["a_window"]),
        ("SELECT k FROM a WINDOW(RANGE 9 SECONDS)", []),
    ],
)
def test_each_window_that_may_change_has_a_column(query, names):
    assert columns_of(query) == names
    assert columns_of(query, "SET quality_columns = on; SET quality_columns = off;") == []
    assert columns_of(query, "") == []


def test_the_setting_is_a_switch():
    with pytest.raises(QueryError, match="quality_columns cannot be 'perhaps'") as caught:
        bind("SET quality_columns = perhaps")
    assert (caught.value.code, caught.value.hint) == ("Q125", "write on, or off")
    with pytest.raises(QueryError) as caught:
        bind("SET qualitycolumns = on")
    assert caught.value.hint == "did you mean 'quality_columns'?"


def test_early_results_cannot_have_sizes():
    with pytest.raises(QueryError, match="EMIT EARLY cannot have a column 'a_window'") as caught:
        columns_of(f"SELECT COUNT(*) AS n FROM a {RANGE} EMIT EARLY")
    assert caught.value.code == "Q126"
    assert columns_of("SELECT COUNT(*) AS n FROM a WINDOW(RANGE 9 SECONDS) EMIT EARLY") == []


def results_of(select, values):
    """The results of a query with columns of sizes, over values with times from 0 on."""
    times = pa.array(range(len(values)), pa.int64())
    table = pa.table({"v": pa.array(values, pa.int32()), "at": times})
    with Session(runtime="embedded") as session:
        session.stream("s", table, time="at", unit="microseconds")
        query = session.sql(f"SET quality_columns = on; {select}", times="micros")
        assert query is not None
        query.finish()
        return query.results()


@pytest.mark.parametrize("rows", [0, 3])
def test_results_have_the_columns(rows):
    found = results_of("SELECT COUNT(*) AS n FROM s WINDOW(RANGE MIN 1, MAX 2)", range(rows))
    assert found.schema.names == ["valid_from", "valid_to", "n", "s_window"]
    if rows:
        # Counts of 1, 2 and 1, and none before and after.
        assert {row["s_window"] for row in found.to_pylist()} == {2}
        assert [row["n"] for row in found.to_pylist() if row["n"]] == [1, 2, 1]


def test_changes_of_a_relation_have_the_sizes_of_their_instants():
    table = results_of("SELECT v FROM s x WINDOW(RANGE MIN 1, MAX 2) EMIT CHANGES", [7])
    found = [tuple(row.values()) for row in table.to_pylist()]
    assert found == [("+", 0, 7, 2), ("-", 2, 7, 2)]
