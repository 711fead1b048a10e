"""Queries that run, but probably do not mean what their author thinks: what is said about them, and where."""

from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

import tidegate
from tidegate.errors import QueryError, Span, TidegateWarning
from tidegate.language.bind.program import bind
from tidegate.language.bind.warnings.unwindowed import GROUPED
from tidegate.runtime.compile import compile_queries, plan_warnings

STREAMS = """CREATE STREAM bid (item INT, price DOUBLE, at TIMESTAMP) FROM 'bid.csv' TIMESTAMP BY at;
CREATE STREAM sold (item INT, at TIMESTAMP) FROM 'sold.csv' TIMESTAMP BY at;
CREATE STREAM rate (item INT, percent DOUBLE, since BIGINT, until BIGINT)
  FROM 'rate.csv' VALID FROM since TO until;
CREATE TABLE name (item INT, name STRING) FROM 'name.csv';
CREATE STREAM dear AS SELECT * FROM bid WHERE price > 10;
CREATE STREAM top AS SELECT item, MAX(price) AS price FROM bid WINDOW(RANGE 1 HOUR) GROUP BY item;
"""
HOUR = "WINDOW(RANGE 1 HOUR)"
LIKE_MAX, LIKE_FINEST = "it is always as long as MAX", "time always moves in steps of FINEST"


def warned(query: str) -> list[str]:
    """What a query without a window is warned about: the text at the place."""
    return [found.text[found.span.start : found.span.end] for found in bind(STREAMS + query).warnings]


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("SELECT COUNT(*) FROM bid", ["bid"]),
        ("SELECT item, MAX(price) FROM bid b GROUP BY item", ["bid b"]),
        ("SELECT item FROM bid GROUP BY item", ["bid"]),
        ("SELECT COUNT(*) FROM bid b, name n WHERE b.item = n.item", ["bid b"]),
        ("SELECT COUNT(*) FROM dear", ["dear"]),
        ("SELECT COUNT(*) FROM (SELECT * FROM bid WHERE price > 3) x", ["(SELECT * FROM bid WHERE price > 3) x"]),
        ("SELECT b.price FROM bid b, sold s WHERE b.item = s.item", ["bid b", "sold s"]),
        ("SELECT b.price FROM bid b LEFT JOIN sold s ON b.item = s.item", ["bid b", "sold s"]),
        ("SELECT price FROM bid JOIN sold USING (item)", ["bid", "sold"]),
        (f"SELECT b.price FROM bid b {HOUR}, sold s WHERE b.item = s.item", ["sold s"]),
        ("WITH few AS (SELECT * FROM bid WHERE price < 3) SELECT COUNT(*) FROM few", ["few"]),
        ("SELECT * FROM bid ORDER BY price LIMIT 3", ["bid"]),
        ("SELECT DISTINCT item FROM bid", ["bid"]),
        ("SELECT item FROM bid EXCEPT SELECT item FROM sold", ["bid", "sold"]),
        ("SELECT item FROM bid WHERE EXISTS (SELECT 1 FROM sold s WHERE s.item = bid.item)", ["sold s"]),
        ("SELECT item FROM bid WHERE item IN (SELECT item FROM sold)", ["sold"]),
        ("CREATE STREAM n AS SELECT COUNT(*) AS n FROM bid; SELECT n FROM n WHERE n > 3", ["bid"]),
        ("EXPLAIN SELECT COUNT(*) FROM bid", ["bid"]),
    ],
)
def test_a_stream_without_a_window_is_warned_about(query: str, places: list[str]) -> None:
    assert warned(query) == places


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM bid WHERE price > 3",
        "SELECT item FROM bid UNION ALL SELECT item FROM sold",
        "SELECT COUNT(*) FROM bid WINDOW(NOW)",
        "SELECT COUNT(*) FROM bid [NOW]",
        "SELECT DISTINCT item FROM bid WINDOW(NOW)",
        "SELECT * FROM bid WINDOW(NOW) ORDER BY price LIMIT 3",
        f"SELECT COUNT(*) FROM bid {HOUR}",
        f"SELECT COUNT(*) FROM bid {HOUR} GRANULARITY(1 MINUTE)",
        f"SELECT b.price FROM bid b {HOUR}, sold s WINDOW(NOW) WHERE b.item = s.item",
        "SELECT b.price, n.name FROM bid b, name n WHERE b.item = n.item",
        "SELECT b.price, r.percent FROM bid b, rate r WHERE b.item = r.item",
        "SELECT b.price, l.price FROM bid b, bid l WINDOW(PARTITION BY item ROWS 1) WHERE b.item = l.item",
        "SELECT b.price, t.price FROM bid b, top t WHERE b.item = t.item",
        "SELECT COUNT(*) FROM name",
        "SELECT COUNT(*) FROM rate",
        "SELECT MAX(price) FROM top",
        "SELECT item FROM bid WHERE item IN (SELECT item FROM name)",
        f"SELECT item FROM bid WHERE NOT EXISTS (SELECT 1 FROM sold s {HOUR} WHERE s.item = bid.item)",
        "CREATE ALERT a FROM bid b, sold s WITHIN 1 MINUTE MATCHING item WHEN b.price > s.item",
    ],
)
def test_queries_that_mean_what_they_say_are_not_warned_about(query: str) -> None:
    assert warned(query) == []


def test_a_warning_shows_its_place_and_what_to_write() -> None:
    (found,) = bind(STREAMS + "SELECT COUNT(*)\nFROM bid").warnings
    assert found.render().splitlines() == [
        "warning[W101]: bid has no window: its rows are valid for one instant, so " + GROUPED,
        "  --> 9:6",
        "   | FROM bid",
        "   |      ^^^",
        "   = hint: give it a window, for example bid WINDOW(RANGE 10 MINUTES), or WINDOW(NOW) if this is meant",
    ]


def test_a_stream_of_an_earlier_text_is_shown_where_it_is_read() -> None:
    catalog = bind(STREAMS + "CREATE STREAM counted AS SELECT COUNT(*) AS n FROM bid").catalog
    (found,) = bind("SELECT MAX(price) FROM dear", catalog).warnings
    assert (found.text, found.span) == ("SELECT MAX(price) FROM dear", Span(23, 27))
    assert bind("SELECT n FROM counted", catalog).warnings == ()  # it was said when the stream was made


@pytest.fixture
def session():
    with tidegate.Session(runtime="embedded") as made:
        made.stream("reading", pa.table({"at": [0, 10], "value": [1.0, 3.0]}), time="at", unit="microseconds")
        yield made


def test_python_warns_where_the_text_is_handed_over(session) -> None:
    with pytest.warns(tidegate.TidegateWarning, match="reading has no window") as caught:
        query = session.sql("SELECT COUNT(*) AS n FROM reading")
    assert [warning.filename for warning in caught] == [__file__]
    assert [warning.code for warning in query.warnings] == ["W101"]
    assert query.finish().num_rows == 2


def test_a_strict_session_refuses_what_is_warned_about(session) -> None:
    session.strict = True
    with pytest.raises(QueryError, match="reading has no window") as refused:
        session.sql("SELECT COUNT(*) AS n FROM reading")
    assert refused.value.code == "W101"


def test_warnings_travel_between_processes_whole() -> None:
    warning = TidegateWarning("W301", "odd", Span(1, 2), text="abc", hint="mend it")
    again = pickle.loads(pickle.dumps(warning))
    assert again == warning
    assert again.render() == warning.render()
    assert warning.as_error().exit_code == 3


# ---- clauses of time

MINUTE = "make the window at least as long as the granularity: WINDOW(RANGE 1 MINUTE) GRANULARITY(1 MINUTE)"


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("bid", "valid for one instant are seldom valid at a whole multiple of 1 minute: almost all rows are left out"),
        ("bid WINDOW(NOW)", "almost all rows are left out"),
        ("(SELECT * FROM bid) b", "almost all rows are left out"),
        ("bid WINDOW(RANGE 15 SECONDS)", "valid for 15 seconds are seldom valid at a whole multiple of 1 minute: only"),
        ("bid WINDOW(RANGE 15 SECONDS)", "only about 25 % of the rows remain"),
    ],
)
def test_a_granularity_that_leaves_out_most_rows_is_warned_about(source: str, kept: str) -> None:
    (found,) = bind(f"{STREAMS} SELECT price FROM {source} GRANULARITY(1 MINUTE)").warnings
    assert (found.code, found.hint) == ("W102", MINUTE)
    assert kept in found.message
    assert found.text[found.span.start : found.span.end] == "GRANULARITY(1 MINUTE)"


@pytest.mark.parametrize(
    "source", ["bid WINDOW(RANGE 1 MINUTE)", "bid WINDOW(ROWS 5)", "bid WINDOW(RANGE UNBOUNDED)", "rate", "top", "name"]
)
def test_a_granularity_that_leaves_out_no_row_or_nobody_knows_how_many_is_not_warned_about(source: str) -> None:
    assert bind(f"{STREAMS} SELECT * FROM {source} GRANULARITY(1 MINUTE)").warnings == ()


@pytest.mark.parametrize(
    ("source", "message", "hint"),
    [
        (
            "rate WINDOW(RANGE MIN 1 SECOND, MAX 2 SECONDS)",
            f"MIN has no effect, because the window extends every instant of rows that last: {LIKE_MAX}",
            "write WINDOW(RANGE 2 SECONDS)",
        ),
        (
            "bid WINDOW(ROWS MIN 5, MAX 10 SLIDE 2)",
            "MIN has no effect, because the window moves in steps of rows: it always has MAX rows",
            "write WINDOW(ROWS 10 SLIDE 2)",
        ),
        (
            "top GRANULARITY(COARSEST 1 HOUR, FINEST 1 MINUTE)",
            f"COARSEST has no effect, because it is over the results of a query that keeps rows: {LIKE_FINEST}",
            "write GRANULARITY(1 MINUTE)",
        ),
        (
            f"(SELECT * FROM bid {HOUR} GRANULARITY(1 MINUTE)) b WINDOW(RANGE MIN 1 HOUR, MAX 2 HOURS)",
            f"MIN has no effect, because the window is over time in granules: {LIKE_MAX}",
            "write WINDOW(RANGE 2 HOURS)",
        ),
    ],
)
def test_a_range_of_quality_that_has_no_effect_is_warned_about(source: str, message: str, hint: str) -> None:
    (found,) = bind(f"{STREAMS} SELECT COUNT(*) FROM {source}").warnings
    assert (found.code, found.message, found.hint) == ("W103", message, hint)


@pytest.mark.parametrize(
    "source",
    [
        "bid WINDOW(RANGE MIN 1 HOUR, MAX 2 HOURS)",
        "bid WINDOW(RANGE MIN 1 HOUR, MAX 2 HOURS SLIDE 1 HOUR)",
        "dear WINDOW(RANGE MIN 2 HOURS, MAX 2 HOURS)",
        "bid WINDOW(PARTITION BY item ROWS MIN 5, MAX 10)",
        f"bid {HOUR} GRANULARITY(COARSEST 1 HOUR, FINEST 1 MINUTE)",
        "bid WINDOW(RANGE MIN 1 HOUR, MAX 2 HOURS) GRANULARITY(COARSEST 1 HOUR, FINEST 1 MINUTE)",
    ],
)
def test_a_range_of_quality_that_takes_effect_is_not_warned_about(source: str) -> None:
    assert bind(f"{STREAMS} SELECT COUNT(*) FROM {source}").warnings == ()


# ---- shedding

PAIRS = "FROM bid b WINDOW(RANGE 1 HOUR), sold s WINDOW(RANGE 1 HOUR) WHERE b.price > s.item"
SHED = "WITH (shedding = on, budget = 10)"


def compiled(query: str, before: str = "") -> list[str]:
    """The warnings about a query that is compiled."""
    program = bind(before + STREAMS + query)
    return [warning.message for warning in plan_warnings(program, compile_queries(program)[0])]


@pytest.mark.parametrize(
    ("query", "what"),
    [
        (f"SELECT COUNT(*) {PAIRS}", "COUNT above"),
        (f"SELECT b.item, MAX(price) {PAIRS} GROUP BY b.item", "MAX above"),
        (f"SELECT b.item {PAIRS} ORDER BY b.item LIMIT 3", "LIMIT above"),
        (f"SELECT item FROM bid {HOUR} EXCEPT SELECT b.item {PAIRS}", "EXCEPT of"),
        (f"SELECT item FROM bid WHERE item NOT IN (SELECT b.item {PAIRS})", "a condition that no row may meet of"),
        (f"SELECT * FROM ISTREAM(SELECT b.price {PAIRS}) WINDOW(ROWS 3)", "a window of rows over"),
        (f"ISTREAM(SELECT DISTINCT b.price {PAIRS})", "ISTREAM of"),
    ],
)
def test_values_above_a_join_that_sheds_are_refused_unless_asked_for(query: str, what: str) -> None:
    with pytest.raises(QueryError, match="a join that sheds would be wrong") as refused:
        compiled(f"{query} {SHED}")
    assert (refused.value.code, refused.value.message.startswith(what)) == ("Q128", True)
    assert refused.value.text
    assert compiled(f"{query} {SHED[:-1]}, approximate = yes)") == []
    assert compiled(query) == []


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT b.item {PAIRS}",
        f"SELECT DISTINCT b.item {PAIRS}",
        f"SELECT b.item {PAIRS} INTERSECT SELECT item FROM bid {HOUR}",
        f"SELECT b.item {PAIRS} EXCEPT SELECT item FROM bid {HOUR}",
        f"SELECT item FROM bid WHERE item IN (SELECT b.item {PAIRS})",
        "CREATE ALERT a FROM bid b, sold s WITHIN 1 MINUTE WHEN b.price > s.item",
    ],
)
def test_rows_of_a_join_that_sheds_are_part_of_the_exact_result(query: str) -> None:
    assert compiled(f"{query} {SHED}") == []


EQUAL = "SELECT b.price FROM bid b WINDOW(RANGE 1 HOUR), sold s WINDOW(RANGE 1 HOUR) WHERE b.item = s.item"


def test_shedding_where_nothing_can_be_shed_is_warned_about() -> None:
    (found,) = compiled(f"{EQUAL} {SHED}")
    assert found == (
        "query_1 turns shedding on, but nothing can be shed: b, s: every pair with equal b.item, s.item is a result, "
        "so no comparison promises more than another; all are made, by hash, and UTILITY BY would say which results "
        "to prefer"
    )
    (found,) = compiled(f"SELECT price FROM bid {SHED}")
    assert found == "query_1 turns shedding on, but nothing can be shed: there is no join"


@pytest.mark.parametrize("more", ["AND b.price > s.item", "UTILITY BY b.price"])
def test_a_join_by_key_sheds_if_comparisons_can_be_told_apart(more: str) -> None:
    assert compiled(f"{EQUAL} {more} {SHED}") == []
    assert compiled(f"{EQUAL} {SHED.replace('= on', '= drop')}") == []
    with pytest.raises(QueryError, match="COUNT above a join that sheds would be wrong"):
        compiled(f"{EQUAL.replace('b.price', 'COUNT(*)', 1)} {more} {SHED}")


def test_shedding_by_set_is_warned_about_if_no_query_can_shed() -> None:
    assert len(compiled(EQUAL, before="SET shedding = on;")) == 1
    assert compiled(f"{EQUAL}; SELECT b.item {PAIRS}", before="SET shedding = on;") == []
