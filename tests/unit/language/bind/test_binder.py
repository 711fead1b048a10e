"""The binder: the plans that queries mean, and what is said about queries that mean nothing."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot
from support.pipes import CLOSING_PRICE

from tidegate.algebra.explain import explain
from tidegate.algebra.plan import walk
from tidegate.catalog.catalog import Catalog, DerivedStream, Program, SourceStream
from tidegate.errors import QueryError
from tidegate.expressions.nodes import InList
from tidegate.language.bind.program import bind
from tidegate.schema import Schema, Type

STREAMS = """
CREATE STREAM OpenAuction (itemID INT, sellerID INT, start_price REAL, timestamp TIMESTAMP)
  FROM 'open.csv' TIMESTAMP BY timestamp;
CREATE STREAM ClosedAuction (itemID INT, buyerID INT, timestamp TIMESTAMP) FROM 'closed.csv' TIMESTAMP BY timestamp;
CREATE STREAM Bid (itemID INT, bid_price DOUBLE, bidderID INT, timestamp TIMESTAMP)
  FROM 'bid.csv' ORDERED BY timestamp DELAY 5 SECONDS;
"""

CATALOG = bind(STREAMS).catalog


def program(text: str) -> Program:
    return bind(text, CATALOG)


def plan(text: str) -> str:
    [query] = program(text).queries
    return explain(query.plan)


def names(text: str) -> tuple[str, ...]:
    [query] = program(text).queries
    return query.plan.schema.names


def types(text: str) -> list[Type]:
    [query] = program(text).queries
    return [field.type for field in query.plan.schema]


def error(text: str) -> str:
    with pytest.raises(QueryError) as caught:
        program(text)
    return caught.value.render()


# ---- streams and programs


def test_a_source_stream_enters_the_catalog() -> None:
    text = "CREATE STREAM s (A VARCHAR, t BIGINT) FROM 'x.csv' DELAY 2 MINUTES TIMESTAMP BY T WITH (format = 'csv')"
    assert bind(text).catalog.find("S") == SourceStream(
        "s", Schema.of(A=Type.STRING, t=Type.BIGINT), "x.csv", "t", 120_000_000, (("format", "csv"),)
    )


def test_nothing_to_run_is_no_error() -> None:
    assert bind("").queries == bind(STREAMS).queries == ()


def test_queries_are_named_in_the_order_of_the_text() -> None:
    text = """SELECT itemID FROM Bid;
              CREATE STREAM unread AS SELECT itemID FROM Bid;
              CREATE STREAM read AS SELECT itemID FROM Bid;
              INSERT INTO 'out/' SELECT itemID FROM (SELECT * FROM READ) x;
              SELECT itemID FROM Bid"""
    found = [(query.name, query.into) for query in program(text).queries]
    assert found == [("query_1", None), ("unread", None), ("query_2", "out/"), ("query_3", None)]
    assert isinstance(program(text).catalog.find("read"), DerivedStream)


def test_a_query_does_not_take_the_name_of_a_stream() -> None:
    text = "CREATE STREAM query_1 AS SELECT itemID FROM Bid; SELECT itemID FROM Bid; SELECT itemID FROM Bid"
    assert [query.name for query in program(text).queries] == ["query_1", "query_1_2", "query_2"]


def test_a_derived_stream_means_its_query() -> None:
    text = "CREATE STREAM cheap AS SELECT itemID FROM Bid WHERE bid_price < 1.5; SELECT * FROM cheap c"
    assert plan(text) == snapshot("""\
Map c.itemID AS itemID
  Rename to c
    Map Bid.itemID AS itemID
      Filter Bid.bid_price < 1.5
        Rename to Bid
          Scan Bid\
""")


# ---- the queries of PIPES, section 7


def test_currency_conversion() -> None:
    assert plan("SELECT itemID, ROUND(bid_price * 0.75), bidderID FROM Bid;") == snapshot("""\
Map Bid.itemID AS itemID, round(Bid.bid_price * 0.75) AS round, Bid.bidderID AS bidderID
  Rename to Bid
    Scan Bid\
""")


def test_selection() -> None:
    text = """SELECT Bid.*
              FROM Bid
              WHERE itemID = 1007 OR itemID = 1020
                    OR itemID = 2001 OR itemID = 2019
                    OR itemID = 1087;"""
    assert plan(text) == snapshot("""\
Map Bid.itemID AS itemID, Bid.bid_price AS bid_price, Bid.bidderID AS bidderID, Bid.timestamp AS timestamp
  Filter Bid.itemID = 1007 OR Bid.itemID = 1020 OR Bid.itemID = 2001 OR Bid.itemID = 2019 OR Bid.itemID = 1087
    Rename to Bid
      Scan Bid\
""")


def test_short_auctions() -> None:
    text = """SELECT OpenAuction.*
              FROM OpenAuction O WINDOW(RANGE 5 HOURS),
                    ClosedAuction C
              WHERE O.itemID = C.itemID;"""
    assert plan(text) == snapshot("""\
Map O.itemID AS itemID, O.sellerID AS sellerID, O.start_price AS start_price, O.timestamp AS timestamp
  Filter O.itemID = C.itemID
    Join all pairs
      Rename to O
        Window range 5 hours
          Scan OpenAuction
      Rename to C
        Scan ClosedAuction\
""")


def test_closing_price() -> None:
    [query] = program(CLOSING_PRICE).queries
    assert query.name == "ClosingPriceStream"
    assert explain(query.plan) == snapshot("""\
Map P.itemID AS itemID, P.sellerID AS sellerID, max_price AS price
  Aggregate max(P.price) AS max_price by P.itemID, P.sellerID
    Rename to P
      Map P.itemID AS itemID, P.price AS price, O.sellerID AS sellerID
        Filter P.itemID = C.itemID AND C.itemID = O.itemID
          Join all pairs
            Join all pairs
              Rename to P
                Union all
                  Map Bid.itemID AS itemID, Bid.bid_price AS price
                    Rename to Bid
                      Window range 2 days
                        Scan Bid
                  Map OpenAuction.itemID AS itemID, CAST(OpenAuction.start_price AS DOUBLE) AS price
                    Rename to OpenAuction
                      Window range 2 days
                        Scan OpenAuction
              Rename to C
                Scan ClosedAuction
            Rename to O
              Window range 2 days
                Scan OpenAuction\
""")


def test_the_inner_query_of_hot_items() -> None:
    text = """SELECT itemID, num FROM (SELECT B1.itemID AS itemID, COUNT(*) AS num
                                       FROM Bid [RANGE 60 MINUTES] B1 GROUP BY B1.itemID) WHERE num >= 3"""
    assert plan(text) == snapshot("""\
Map subquery.itemID AS itemID, subquery.num AS num
  Filter subquery.num >= 3
    Rename to subquery
      Map B1.itemID AS itemID, count AS num
        Aggregate count(*) AS count by B1.itemID
          Rename to B1
            Window range 1 hour
              Scan Bid\
""")


# ---- windows and joins


def test_the_window_of_an_instant_is_dropped() -> None:
    bare = plan("SELECT itemID FROM Bid")
    assert bare == plan("SELECT itemID FROM Bid WINDOW(NOW)") == plan("SELECT itemID FROM Bid [RANGE 1 us]")
    assert "Window" not in bare
    assert "Window range 1 microsecond slide 1 second" in plan("SELECT itemID FROM Bid [RANGE 1 SLIDE 1 SECOND]")


def test_a_window_over_a_subquery_of_raw_elements_is_on_top_of_it() -> None:
    assert plan("SELECT * FROM (SELECT itemID AS i FROM Bid) WINDOW(RANGE 1 HOUR SLIDE 1 MINUTE) s") == snapshot("""\
Map s.i AS i
  Rename to s
    Window range 1 hour slide 1 minute
      Map Bid.itemID AS i
        Rename to Bid
          Scan Bid\
""")


def test_conditions_of_joins_stay_in_the_join() -> None:
    text = """SELECT b.itemID FROM Bid b JOIN OpenAuction o [RANGE 1 DAY] ON b.itemID = o.itemID
              CROSS JOIN ClosedAuction c WHERE c.itemID = 1"""
    assert plan(text) == snapshot("""\
Map b.itemID AS itemID
  Filter c.itemID = 1
    Join all pairs
      Join on b.itemID = o.itemID
        Rename to b
          Scan Bid
        Rename to o
          Window range 1 day
            Scan OpenAuction
      Rename to c
        Scan ClosedAuction\
""")


def test_a_join_condition_sees_only_what_it_joins() -> None:
    assert error("SELECT 1 FROM Bid b, OpenAuction o JOIN ClosedAuction c ON b.itemID = c.itemID") == snapshot("""\
error[Q101]: FROM has no 'b'
  --> 1:60
   | SELECT 1 FROM Bid b, OpenAuction o JOIN ClosedAuction c ON b.itemID = c.itemID
   |                                                            ^
   = hint: available: c, o\
""")


# ---- SELECT


def test_outputs_without_a_name_get_a_readable_one() -> None:
    text = """SELECT b.itemID, bid_price + 1, ROUND(bid_price), CAST(itemID AS BIGINT), bidderID AS who, b.itemid, 7,
                     b.* FROM Bid b"""
    assert names(text) == snapshot(
        (
            "itemID",
            "column_2",
            "round_bid_price",
            "itemID_2",
            "who",
            "itemid_3",
            "column_7",
            "itemID_4",
            "bid_price",
            "bidderID",
            "timestamp",
        )
    )
    text = "SELECT COUNT(*), SUM(bid_price), sum(bid_price) / 2, MAX(bid_price + 1) FROM Bid [RANGE 1 HOUR]"
    assert names(text) == snapshot(("count", "sum_bid_price", "column_3", "max"))


def test_distinct_is_on_top() -> None:
    assert plan("SELECT DISTINCT itemID FROM Bid [RANGE 1 HOUR]") == snapshot("""\
Distinct
  Map Bid.itemID AS itemID
    Rename to Bid
      Window range 1 hour
        Scan Bid\
""")


def test_constants_have_the_narrowest_type() -> None:
    text = "SELECT 1, 3000000000, 1.5, 'x', TRUE, NULL, TIMESTAMP '2026-01-01', INTERVAL 1 DAY FROM Bid"
    expected = "INT BIGINT DOUBLE STRING BOOLEAN STRING TIMESTAMP INTERVAL"
    assert " ".join(type_.name for type_ in types(text)) == expected


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        (
            "CASE itemID WHEN 1 THEN 2.5 WHEN 2 THEN NULL ELSE 3 END",
            "CASE WHEN s.itemID = 1 THEN 2.5 WHEN s.itemID = 2 THEN NULL ELSE 3.0 END",
        ),
        (
            "itemID IS NOT DISTINCT FROM 1",
            "CASE WHEN s.itemID IS NULL OR 1 IS NULL THEN s.itemID IS NULL AND 1 IS NULL ELSE s.itemID = 1 END",
        ),
        ("bid_price NOT BETWEEN 1 AND 2", "NOT (s.bid_price >= 1.0 AND s.bid_price <= 2.0)"),
        ("itemID IN (1, 3000000000, NULL)", "CAST(s.itemID AS BIGINT) IN (1, 3000000000, NULL)"),
        ("itemID IN (1, bidderID)", "s.itemID = 1 OR s.itemID = s.bidderID"),
        ("timestamp IN ('2026-01-01 00:00:00Z')", "s.timestamp IN (TIMESTAMP '2026-01-01 00:00:00Z')"),
        ("(itemID + 1)::STRING LIKE '1%'", "CAST(s.itemID + 1 AS STRING) LIKE '1%'"),
        ("CAST(itemID AS INT)", "s.itemID"),
    ],
)
def test_expressions_are_spelt_out(text: str, meaning: str) -> None:
    assert plan(f"SELECT {text} AS x FROM Bid s").splitlines()[0] == f"Map {meaning} AS x"


def test_a_long_list_of_constants_is_one_node() -> None:
    [query] = program(f"SELECT itemID FROM Bid WHERE itemID IN ({', '.join(map(str, range(5000)))})").queries
    [chosen] = [node for node in walk(query.plan) if hasattr(node, "predicate")]
    assert isinstance(chosen.predicate, InList)
    assert len(chosen.predicate.options) == 5000


# ---- GROUP BY


def test_computed_keys_and_arguments_become_columns_below_the_aggregate() -> None:
    text = """SELECT itemID % 10 AS digit, AVG(bid_price * 2), COUNT(*) + 1, (itemID % 10) * 2
              FROM Bid [RANGE 1 HOUR] GROUP BY itemID % 10 HAVING MAX(bid_price) > 5 AND COUNT(*) > 1"""
    assert plan(text) == snapshot("""\
Map key_1 AS digit, avg, count + 1 AS column_3, key_1 * 2 AS column_4
  Filter max_bid_price > 5.0 AND count > 1
    Aggregate avg(argument_2) AS avg, count(*) AS count, max(Bid.bid_price) AS max_bid_price by key_1
      Map Bid.itemID % 10 AS key_1, Bid.bid_price * 2.0 AS argument_2, Bid.bid_price
        Rename to Bid
          Window range 1 hour
            Scan Bid\
""")


def test_keys_may_be_aliases_and_positions() -> None:
    wanted = plan("SELECT itemID % 10 AS digit, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY itemID % 10")
    assert plan("SELECT itemID % 10 AS digit, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY DIGIT") == wanted
    assert plan("SELECT itemID % 10 AS digit, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY 1") == wanted


def test_having_may_name_aliases() -> None:
    wanted = plan("SELECT itemID, COUNT(*) AS n FROM Bid [RANGE 1 HOUR] GROUP BY itemID HAVING COUNT(*) > 1")
    assert plan("SELECT itemID, COUNT(*) AS n FROM Bid [RANGE 1 HOUR] GROUP BY itemID HAVING n > 1") == wanted


def test_a_column_of_the_stream_comes_before_an_alias() -> None:
    text = "SELECT MAX(bid_price) AS itemID FROM Bid [RANGE 1 HOUR] GROUP BY itemID"
    assert "by Bid.itemID" in plan(text)


def test_keys_inside_of_keys() -> None:
    text = """SELECT itemID + 1, (itemID + 1) * 2, COUNT(*) FROM Bid [RANGE 1 HOUR]
              GROUP BY (itemID + 1) * 2, itemID + 1"""
    assert plan(text) == snapshot("""\
Map key_2 AS column_1, key_1 AS column_2, count
  Aggregate count(*) AS count by key_1, key_2
    Map (Bid.itemID + 1) * 2 AS key_1, Bid.itemID + 1 AS key_2
      Rename to Bid
        Window range 1 hour
          Scan Bid\
""")


def test_aggregates_without_groups() -> None:
    assert plan("SELECT COUNT(*), COUNT(*) FROM Bid [RANGE 1 HOUR]") == snapshot("""\
Map count, count AS count_2
  Aggregate count(*) AS count
    Rename to Bid
      Window range 1 hour
        Scan Bid\
""")
    assert plan("SELECT 1 AS one FROM Bid [RANGE 1 HOUR] HAVING TRUE") == snapshot("""\
Map 1 AS one
  Filter TRUE
    Aggregate count(*) AS count
      Rename to Bid
        Window range 1 hour
          Scan Bid\
""")


def test_groups_without_aggregates_are_distinct_rows() -> None:
    assert plan("SELECT itemID FROM Bid [RANGE 1 HOUR] GROUP BY itemID, bidderID") == snapshot("""\
Map Bid.itemID AS itemID
  Distinct
    Map Bid.itemID, Bid.bidderID
      Rename to Bid
        Window range 1 hour
          Scan Bid\
""")


# ---- UNION ALL


def test_a_union_has_the_names_of_the_first_and_types_for_all() -> None:
    text = """SELECT itemID AS i, NULL AS x FROM Bid UNION ALL SELECT bid_price, 'y' FROM Bid
              UNION ALL SELECT DISTINCT bidderID, 'z' FROM Bid"""
    assert plan(text) == snapshot("""\
Union all
  Map CAST(Bid.itemID AS DOUBLE) AS i, NULL AS x
    Rename to Bid
      Scan Bid
  Map Bid.bid_price AS i, 'y' AS x
    Rename to Bid
      Scan Bid
  Map CAST(bidderID AS DOUBLE) AS i, column_2 AS x
    Distinct
      Map Bid.bidderID AS bidderID, 'z' AS column_2
        Rename to Bid
          Scan Bid\
""")
    assert types(text) == [Type.DOUBLE, Type.STRING]


# ---- mistakes: names


def test_unknown_names_are_shown_with_what_was_probably_meant() -> None:
    assert error("SELECT itemID FROM Bit") == snapshot("""\
error[Q101]: unknown stream 'Bit'
  --> 1:20
   | SELECT itemID FROM Bit
   |                    ^^^
   = hint: did you mean 'Bid'?\
""")
    assert error("SELECT price FROM Bid") == snapshot("""\
error[Q102]: Bid has no column 'price'
  --> 1:8
   | SELECT price FROM Bid
   |        ^^^^^
   = hint: did you mean 'bid_price'?\
""")
    assert error("SELECT b.itemIDs FROM Bid b, OpenAuction o") == snapshot("""\
error[Q102]: Bid has no column 'itemIDs'
  --> 1:10
   | SELECT b.itemIDs FROM Bid b, OpenAuction o
   |          ^^^^^^^
   = hint: did you mean 'itemID'?\
""")
    assert error("SELECT x.itemID FROM Bid b") == snapshot("""\
error[Q101]: FROM has no 'x'
  --> 1:8
   | SELECT x.itemID FROM Bid b
   |        ^
   = hint: available: b\
""")
    assert error("SELECT x.* FROM Bid b") == snapshot("""\
error[Q101]: FROM has no 'x'
  --> 1:8
   | SELECT x.* FROM Bid b
   |        ^
   = hint: available: b\
""")
    assert error("SELECT ruond(bid_price) FROM Bid") == snapshot("""\
error[Q120]: unknown function 'ruond'
  --> 1:8
   | SELECT ruond(bid_price) FROM Bid
   |        ^^^^^
   = hint: did you mean 'round'?\
""")
    assert error("SELECT CAST(itemID AS DUBLE) FROM Bid") == snapshot("""\
error[Q104]: unknown type 'DUBLE'
  --> 1:23
   | SELECT CAST(itemID AS DUBLE) FROM Bid
   |                       ^^^^^
   = hint: did you mean 'DOUBLE'?\
""")
    assert error("CREATE STREAM s (a INTT) FROM 'x' TIMESTAMP BY a") == snapshot("""\
error[Q104]: unknown type 'INTT'
  --> 1:20
   | CREATE STREAM s (a INTT) FROM 'x' TIMESTAMP BY a
   |                    ^^^^
   = hint: did you mean 'INT'?\
""")
    assert error("SELECT a FROM late; CREATE STREAM late AS SELECT itemID AS a FROM Bid") == snapshot("""\
error[Q101]: unknown stream 'late'
  --> 1:15
   | SELECT a FROM late; CREATE STREAM late AS SELECT itemID AS a FROM Bid
   |               ^^^^
   = hint: it is created further below; move it before this query\
""")


def test_ambiguous_names_are_shown_with_both_meanings() -> None:
    assert error("SELECT itemID FROM Bid b, OpenAuction o") == snapshot("""\
error[Q103]: column 'itemID' is ambiguous
  --> 1:8
   | SELECT itemID FROM Bid b, OpenAuction o
   |        ^^^^^^
   = hint: write b.itemID or o.itemID\
""")
    assert error("SELECT Bid.itemID FROM Bid x, Bid y") == snapshot("""\
error[Q103]: 'Bid' is ambiguous
  --> 1:8
   | SELECT Bid.itemID FROM Bid x, Bid y
   |        ^^^
   = hint: it may mean x or y\
""")


def test_names_that_are_taken_are_refused() -> None:
    assert error("CREATE STREAM BID AS SELECT 1 FROM Bid") == snapshot("""\
error[Q105]: a stream 'BID' already exists
  --> 1:15
   | CREATE STREAM BID AS SELECT 1 FROM Bid
   |               ^^^
   = hint: choose another name\
""")
    assert error("CREATE STREAM bid (t TIMESTAMP) FROM 'x' TIMESTAMP BY t") == snapshot("""\
error[Q105]: a stream 'bid' already exists
  --> 1:15
   | CREATE STREAM bid (t TIMESTAMP) FROM 'x' TIMESTAMP BY t
   |               ^^^
   = hint: choose another name\
""")
    assert error("CREATE STREAM s (a INT, A INT) FROM 'x' TIMESTAMP BY a") == snapshot("""\
error[Q105]: there are two columns 'A'
  --> 1:25
   | CREATE STREAM s (a INT, A INT) FROM 'x' TIMESTAMP BY a
   |                         ^
   = hint: rename one of them; names are case-insensitive\
""")
    assert error("SELECT 1 FROM Bid, bid") == snapshot("""\
error[Q105]: there are two 'bid' in this FROM
  --> 1:20
   | SELECT 1 FROM Bid, bid
   |                    ^^^
   = hint: give it another alias: bid AS bid_2\
""")
    assert error("SELECT itemID AS valid_from FROM Bid") == snapshot("""\
error[Q112]: a result cannot have a column 'valid_from'
  --> 1:8
   | SELECT itemID AS valid_from FROM Bid
   |        ^^^^^^
   = hint: every row of a result has its own valid_from and valid_to; give the column an alias\
""")
    assert error("SELECT DISTINCT * FROM (SELECT 1 AS a, 2 AS Valid_To FROM Bid [RANGE 1 HOUR]) s") == snapshot("""\
error[Q112]: a result cannot have a column 'Valid_To'
  --> 1:17
   | SELECT DISTINCT * FROM (SELECT 1 AS a, 2 AS Valid_To FROM Bid [RANGE 1 HOUR]) s
   |                 ^
   = hint: every row of a result has its own valid_from and valid_to; give the column an alias\
""")


def test_reserved_names_are_fine_inside() -> None:
    assert names("CREATE STREAM s AS SELECT 1 AS valid_to FROM Bid; SELECT valid_to AS v FROM s") == ("v",)


def test_the_time_of_a_stream_is_a_time() -> None:
    assert error("CREATE STREAM s (a INT, ts TIMESTAMP) FROM 'x' TIMESTAMP BY tz") == snapshot("""\
error[Q102]: stream 's' has no column 'tz'
  --> 1:61
   | CREATE STREAM s (a INT, ts TIMESTAMP) FROM 'x' TIMESTAMP BY tz
   |                                                             ^^
   = hint: available: a, ts\
""")
    assert error("CREATE STREAM s (a INT, ts TIMESTAMP) FROM 'x' TIMESTAMP BY a") == snapshot("""\
error[Q109]: column 'a' is INT, which is not a time
  --> 1:61
   | CREATE STREAM s (a INT, ts TIMESTAMP) FROM 'x' TIMESTAMP BY a
   |                                                             ^
   = hint: if it is a time, add its unit, for example UNIT SECONDS\
""")


# ---- mistakes: types and aggregates


def test_types_that_do_not_fit_are_refused() -> None:
    assert error("SELECT itemID FROM Bid WHERE itemID") == snapshot("""\
error[Q113]: a condition must be BOOLEAN, but this is INT
  --> 1:30
   | SELECT itemID FROM Bid WHERE itemID
   |                              ^^^^^^
   = hint: compare it with a value\
""")
    assert error("SELECT CASE WHEN TRUE THEN 1 ELSE 'x' END FROM Bid") == snapshot("""\
error[Q115]: the branches of this CASE have no common type
  --> 1:8
   | SELECT CASE WHEN TRUE THEN 1 ELSE 'x' END FROM Bid
   |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
   = hint: they are INT, STRING; CAST them to one type\
""")
    assert error("SELECT itemID, 1 FROM Bid UNION ALL SELECT itemID FROM Bid") == snapshot("""\
error[Q108]: all queries of a UNION ALL need the same number of columns
  --> 1:37
   | SELECT itemID, 1 FROM Bid UNION ALL SELECT itemID FROM Bid
   |                                     ^^^^^^^^^^^^^^^^^^^^^^
   = hint: the queries before it have 2, this one has 1\
""")
    assert error("SELECT itemID AS i FROM Bid UNION ALL SELECT timestamp FROM Bid") == snapshot("""\
error[Q108]: column 'i' of this UNION ALL is INT before, but TIMESTAMP here
  --> 1:39
   | SELECT itemID AS i FROM Bid UNION ALL SELECT timestamp FROM Bid
   |                                       ^^^^^^^^^^^^^^^^^^^^^^^^^
   = hint: CAST one of them\
""")
    assert error("SELECT 99999999999999999999 FROM Bid") == snapshot("""\
error[Q111]: this integer does not fit into 64 bits
  --> 1:8
   | SELECT 99999999999999999999 FROM Bid
   |        ^^^^^^^^^^^^^^^^^^^^
   = hint: write 99999999999999999999.0 for a DOUBLE\
""")
    assert error("SELECT SUM(timestamp) FROM Bid [RANGE 1 HOUR]") == snapshot("""\
error[Q121]: SUM of TIMESTAMP is not defined
  --> 1:8
   | SELECT SUM(timestamp) FROM Bid [RANGE 1 HOUR]
   |        ^^^^^^^^^^^^^^
   = hint: it takes a number\
""")


def test_columns_outside_of_groups_are_refused() -> None:
    assert error("SELECT itemID, bidderID, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY itemID") == snapshot("""\
error[Q106]: column 'Bid.bidderID' is neither grouped nor aggregated
  --> 1:16
   | SELECT itemID, bidderID, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY itemID
   |                ^^^^^^^^
   = hint: add it to GROUP BY, or aggregate it: MIN, MAX, …\
""")
    assert error("SELECT *, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY itemID") == snapshot("""\
error[Q106]: column 'Bid.bid_price' is neither grouped nor aggregated
  --> 1:8
   | SELECT *, COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY itemID
   |        ^
   = hint: add it to GROUP BY, or aggregate it: MIN, MAX, …\
""")
    assert error("SELECT itemID FROM Bid [RANGE 1 HOUR] GROUP BY itemID + 1") == snapshot("""\
error[Q106]: column 'Bid.itemID' is neither grouped nor aggregated
  --> 1:8
   | SELECT itemID FROM Bid [RANGE 1 HOUR] GROUP BY itemID + 1
   |        ^^^^^^
   = hint: add it to GROUP BY, or aggregate it: MIN, MAX, …\
""")
    assert error("SELECT COUNT(*) FROM Bid [RANGE 1 HOUR] HAVING itemID > 1") == snapshot("""\
error[Q106]: column 'Bid.itemID' is neither grouped nor aggregated
  --> 1:48
   | SELECT COUNT(*) FROM Bid [RANGE 1 HOUR] HAVING itemID > 1
   |                                                ^^^^^^
   = hint: add it to GROUP BY, or aggregate it: MIN, MAX, …\
""")
    assert error("SELECT itemID FROM Bid [RANGE 1 HOUR] GROUP BY 2") == snapshot("""\
error[Q106]: this SELECT has no column 2
  --> 1:48
   | SELECT itemID FROM Bid [RANGE 1 HOUR] GROUP BY 2
   |                                                ^
   = hint: it has 1\
""")


def test_misplaced_aggregates_are_refused() -> None:
    assert error("SELECT itemID FROM Bid WHERE COUNT(*) > 1") == snapshot("""\
error[Q107]: an aggregate is not allowed in WHERE
  --> 1:30
   | SELECT itemID FROM Bid WHERE COUNT(*) > 1
   |                              ^^^^^^^^
   = hint: put conditions on aggregates into HAVING\
""")
    assert error("SELECT SUM(COUNT(*)) FROM Bid [RANGE 1 HOUR]") == snapshot("""\
error[Q107]: an aggregate is not allowed in another aggregate
  --> 1:12
   | SELECT SUM(COUNT(*)) FROM Bid [RANGE 1 HOUR]
   |            ^^^^^^^^
   = hint: aggregate first in a subquery in FROM\
""")
    assert error("SELECT COUNT(*) AS n FROM Bid [RANGE 1 HOUR] GROUP BY n") == snapshot("""\
error[Q107]: an aggregate is not allowed in GROUP BY
  --> 1:55
   | SELECT COUNT(*) AS n FROM Bid [RANGE 1 HOUR] GROUP BY n
   |                                                       ^
   = hint: group by columns of the streams; put conditions on aggregates into HAVING\
""")
    assert error("SELECT MAX(itemID, bidderID) FROM Bid [RANGE 1 HOUR]") == snapshot("""\
error[Q107]: MAX takes one argument, not 2
  --> 1:8
   | SELECT MAX(itemID, bidderID) FROM Bid [RANGE 1 HOUR]
   |        ^^^^^^^^^^^^^^^^^^^^^
   = hint: GREATEST compares several values of one row\
""")
    assert error("SELECT SUM(*) FROM Bid [RANGE 1 HOUR]") == snapshot("""\
error[Q107]: SUM does not take a '*'
  --> 1:8
   | SELECT SUM(*) FROM Bid [RANGE 1 HOUR]
   |        ^^^^^^
   = hint: only COUNT does\
""")


# ---- mistakes: state without bound


def test_state_without_bound_is_refused() -> None:
    assert error("SELECT COUNT(*) FROM Bid WINDOW(RANGE UNBOUNDED)") == snapshot("""\
error[Q201]: an aggregate over an unbounded window would have to keep all elements for ever
  --> 1:26
   | SELECT COUNT(*) FROM Bid WINDOW(RANGE UNBOUNDED)
   |                          ^^^^^^^^^^^^^^^^^^^^^^^
   = hint: give the window a RANGE, such as RANGE 1 HOUR\
""")
    assert error("SELECT DISTINCT itemID FROM Bid [RANGE UNBOUNDED]") == snapshot("""\
error[Q201]: DISTINCT over an unbounded window would have to keep all elements for ever
  --> 1:33
   | SELECT DISTINCT itemID FROM Bid [RANGE UNBOUNDED]
   |                                 ^^^^^^^^^^^^^^^^^
   = hint: give the window a RANGE, such as RANGE 1 HOUR\
""")
    assert error("SELECT 1 FROM Bid b, OpenAuction [RANGE UNBOUNDED] o WHERE b.itemID = o.itemID") == snapshot("""\
error[Q201]: a join over an unbounded window would have to keep all elements for ever
  --> 1:34
   | SELECT 1 FROM Bid b, OpenAuction [RANGE UNBOUNDED] o WHERE b.itemID = o.itemID
   |                                  ^^^^^^^^^^^^^^^^^
   = hint: give the window a RANGE, such as RANGE 1 HOUR, or declare the KEY of a stream and how rows arrive\
""")


def test_an_unbounded_window_without_state_is_fine() -> None:
    assert "Window range unbounded" in plan("SELECT itemID FROM Bid [RANGE UNBOUNDED] WHERE itemID = 1")


def test_a_window_over_long_windows_is_refused() -> None:
    assert error("SELECT * FROM (SELECT itemID FROM Bid [RANGE 1 HOUR]) [RANGE 1 DAY] s") == snapshot("""\
error[Q202]: a window over elements that are valid for up to 1 hour would make 3600000000 pieces of each
  --> 1:55
   | SELECT * FROM (SELECT itemID FROM Bid [RANGE 1 HOUR]) [RANGE 1 DAY] s
   |                                                       ^^^^^^^^^^^^^
   = hint: read its rows as they appear, with ISTREAM(…), or in steps: FROM (SELECT * FROM … GRANULARITY(1 MINUTE))\
""")


def test_an_error_in_a_stream_of_another_text_is_shown_where_it_is_read() -> None:
    ever: Catalog = program("CREATE STREAM ever AS SELECT itemID FROM Bid WINDOW(RANGE UNBOUNDED)").catalog
    with pytest.raises(QueryError) as caught:
        bind("SELECT DISTINCT e.itemID FROM ever e", ever)
    assert caught.value.render() == snapshot("""\
error[Q201]: DISTINCT over an unbounded window would have to keep all elements for ever
  --> 1:31
   | SELECT DISTINCT e.itemID FROM ever e
   |                               ^^^^^^
   = hint: give the window a RANGE, such as RANGE 1 HOUR\
""")
