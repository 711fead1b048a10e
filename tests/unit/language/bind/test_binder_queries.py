"""The binder: the plans of PIPES' and CQL's queries, of subqueries, set operations, ORDER BY and commands."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from tidegate.algebra.explain import explain
from tidegate.algebra.plan import (
    WHOLE,
    Change,
    Changes,
    Coalesce,
    CountWindow,
    Distinct,
    Granularity,
    Scan,
    SemiJoin,
    Split,
    Validity,
    walk,
)
from tidegate.catalog.catalog import (
    Catalog,
    Describe,
    DropQuery,
    Explain,
    Program,
    Query,
    ShowQueries,
    ShowStreams,
    ShowTables,
    SourceStream,
)
from tidegate.errors import QueryError
from tidegate.expressions.functions.user_registry import user_function
from tidegate.language.bind.program import bind
from tidegate.schema import Schema, Type

STREAMS = """
CREATE STREAM OpenAuction(itemID INT, sellerID INT,
                           start_price REAL, timestamp TIMESTAMP)
  SOURCE establishConnection('port34100', 'converter')
  ORDERED BY timestamp;
CREATE STREAM ClosedAuction (itemID INT, buyerID INT, timestamp TIMESTAMP) FROM 'closed.csv' TIMESTAMP BY timestamp;
CREATE STREAM Bid (itemID INT, bid_price DOUBLE, bidderID INT, timestamp TIMESTAMP)
  FROM 'bid.csv' ORDERED BY timestamp DELAY 5 SECONDS;
CREATE STREAM sensor (temperature DOUBLE) FROM 'sensor';
CREATE TABLE Person (id INT, name STRING) FROM 'person.csv';
"""

CATALOG = bind(STREAMS).catalog


def program(text: str, catalog: Catalog = CATALOG) -> Program:
    return bind(text, catalog)


def plan(text: str) -> str:
    return explain(program(text).queries[-1].plan)


def nodes(text: str, kind: type) -> list:
    return [node for node in walk(program(text).queries[-1].plan) if isinstance(node, kind)]


# ---- inputs


def test_a_source_may_bring_validities_or_be_timed_by_arrival_or_be_a_table():
    text = """CREATE STREAM i (a INT, f BIGINT, t TIMESTAMP) FROM 'i' VALID FROM F TO T DELAY 1 MINUTE
                IDLE AFTER 5 MINUTES;
              CREATE STREAM n (a INT) FROM 'n'; CREATE TABLE r (a INT) FROM 'r' WITH (format = 'csv')"""
    catalog = bind(text).catalog
    minute = 60_000_000
    schema = Schema.of(a=Type.INT, f=Type.BIGINT, t=Type.TIMESTAMP)
    assert catalog.find("i") == SourceStream("i", schema, "i", "f", minute, (), Validity.INTERVAL, "t", 5 * minute)
    assert catalog.find("n") == SourceStream("n", Schema.of(a=Type.INT), "n", None)
    assert catalog.find("r") == SourceStream(
        "r", Schema.of(a=Type.INT), "r", None, 0, (("format", "csv"),), Validity.RELATION
    )
    [query] = bind("SELECT a FROM r", catalog).queries
    assert [node.validity for node in walk(query.plan) if isinstance(node, Scan)] == [Validity.RELATION]


# ---- the queries of PIPES


def test_currency_conversion_calls_a_function_of_the_user():
    convert = user_function("DolToEuro", lambda price: price, arguments=["DOUBLE"], result="DOUBLE")
    text = "SELECT itemID, DolToEuro(bid_price), bidderID\nFROM Bid;"
    assert len(bind(text, CATALOG.with_function(convert)).queries) == 1


def test_highest_bid():
    text = """SELECT itemID, bid_price
FROM   Bid WINDOW(RANGE 10 MINUTES),
WHERE  bid_price = (SELECT MAX(bid_price)
                    FROM BID WINDOW(RANGE 10 MINUTES));"""
    assert plan(text) == snapshot("""\
Map Bid.itemID AS itemID, Bid.bid_price AS bid_price
  Semi-join on Bid.bid_price = subquery.max_bid_price
    Rename to Bid
      Window range 10 minutes
        Scan Bid
    Rename to subquery
      Aggregate max(BID_2.bid_price) AS max_bid_price
        Rename to BID_2
          Window range 10 minutes
            Scan Bid\
""")


def test_hot_items():
    text = """SELECT itemID
FROM  (SELECT    B1.itemID AS itemID, COUNT(*) AS num
       FROM      Bid [RANGE 60 MINUTES] B1
       GROUP BY B1.itemID)
WHERE num >= ALL(SELECT COUNT(*)
                  FROM Bid [RANGE 60 MINUTES] B2
                  GROUP BY B2.itemID);"""
    assert plan(text) == snapshot("""\
Map subquery.itemID AS itemID
  Anti-join on subquery.num < subquery_2.count
    Rename to subquery
      Map B1.itemID AS itemID, count AS num
        Aggregate count(*) AS count by B1.itemID
          Rename to B1
            Window range 1 hour
              Scan Bid
    Map B2.itemID, count AS subquery_2.count
      Aggregate count(*) AS count by B2.itemID
        Rename to B2
          Window range 1 hour
            Scan Bid\
""")


def test_average_selling_price_by_seller():
    text = """CREATE STREAM ClosingPriceStream AS
    SELECT itemID, sellerID, MAX(start_price) AS price FROM OpenAuction GROUP BY itemID, sellerID;
SELECT sellerID, AVG(price)
FROM ClosingPriceStream WINDOW(PARTITION BY sellerID ROWS 10)
GROUP BY sellerID;"""
    assert plan(text) == snapshot("""\
Map ClosingPriceStream.sellerID AS sellerID, avg_price
  Aggregate avg(ClosingPriceStream.price) AS avg_price by ClosingPriceStream.sellerID
    Rename to ClosingPriceStream
      Window rows 10 by sellerID
        Map OpenAuction.itemID AS itemID, OpenAuction.sellerID AS sellerID, max_start_price AS price
          Aggregate max(OpenAuction.start_price) AS max_start_price by OpenAuction.itemID, OpenAuction.sellerID
            Rename to OpenAuction
              Scan OpenAuction\
""")


def test_highest_bid_of_tumbling_windows():
    text = """SELECT itemID, bid_price
  FROM Bid WINDOW(RANGE 10 MINUTES
                  SLIDE 10 MINUTES)
 WHERE bid_price = (SELECT MAX(bid_price)
                      FROM Bid WINDOW(RANGE 10 MINUTES
                                      SLIDE 10 MINUTES));"""
    assert plan(text).count("Window range 10 minutes slide 10 minutes") == 2


def test_new_users():
    text = """CREATE STREAM NewPersonStream AS
    SELECT P.id, P.name
    FROM   Istream(Person) P;

    SELECT DISTINCT(P.id, P.name)
    FROM   SELECT P.id, P.name
           FROM   NewPersonStream WINDOW(RANGE 12 HOURS) P, OpenAuction O
           WHERE  P.id = O.sellerID;"""
    assert plan(text) == snapshot("""\
Distinct
  Map subquery.id AS id, subquery.name AS name
    Rename to subquery
      Map P.id AS id, P.name AS name
        Filter P.id = O.sellerID
          Join all pairs
            Rename to P
              Window range 12 hours
                Map P.id AS id, P.name AS name
                  Rename to P
                    Changes inserted
                      Map Person.id AS id, Person.name AS name
                        Rename to Person
                          Scan Person
            Rename to O
              Scan OpenAuction\
""")


def test_granularity_stands_above_the_window():
    text = """SELECT AVG(temperature)
  FROM sensor WINDOW(RANGE 1 HOUR) GRANULARITY(1 MINUTE);"""
    assert plan(text) == snapshot("""\
Map avg_temperature
  Aggregate avg(sensor.temperature) AS avg_temperature
    Rename to sensor
      Granularity 1 minute
        Window range 1 hour
          Scan sensor\
""")


def test_ranges_of_quality_mean_the_best():
    text = """SELECT AVG(temperature)
  FROM sensor WINDOW(RANGE MIN 12 HOURS, MAX 24 HOURS)
        GRANULARITY(COARSEST 2 HOURS, FINEST 10 SECONDS);"""
    assert plan(text) == snapshot("""\
Map avg_temperature
  Aggregate avg(sensor.temperature) AS avg_temperature
    Rename to sensor
      Granularity 10 seconds, up to 2 hours
        Window range 1 day, at least 12 hours
          Scan sensor\
""")
    [window] = nodes("SELECT * FROM sensor WINDOW(ROWS MIN 50, MAX 200)", CountWindow)
    assert (window.rows, window.least) == (200, 50)


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("SELECT name FROM Istream(Person)", Change.INSERTED),
        ("SELECT Person.name FROM Dstream(Person)", Change.DELETED),
        ("SELECT p.name FROM Dstream(Person, LAST) p", Change.DELETED_LAST),
        ("SELECT Istream(itemID) FROM Bid [Range Unbounded] WHERE itemID > 1", Change.INSERTED),
        ("DSTREAM(SELECT itemID FROM Bid [ROWS 3])", Change.DELETED),
    ],
)
def test_changes(text, change):
    [found] = nodes(text, Changes)
    assert found.change is change


def test_rstream_is_a_split_into_instants():
    [found] = nodes("SELECT Rstream(itemID) FROM Bid [Now] WHERE itemID > 1", Split)
    assert found.length == 1


def test_coalesce_time_stands_above_the_columns():
    [found] = nodes("SELECT COALESCE TIME DISTINCT itemID FROM Bid [RANGE 5 s]", Coalesce)
    assert (found.length, type(found.source)) == (WHOLE, Distinct)
    assert plan("SELECT itemID FROM Bid WHERE itemID IN (SELECT COALESCE TIME itemID FROM OpenAuction)") == plan(
        "SELECT itemID FROM Bid WHERE itemID IN (SELECT itemID FROM OpenAuction)"
    )


@pytest.mark.parametrize("before", ["", "CREATE STREAM dear AS ", "INSERT INTO 'out' "])
def test_coalesce_time_does_not_go_with_emit_early(before):
    with pytest.raises(QueryError) as caught:
        plan(f"{before}SELECT COALESCE TIME itemID FROM Bid [RANGE 5 s] EMIT EARLY")
    assert caught.value.code == "Q126"
    assert caught.value.hint


def test_windows_by_count_and_by_group():
    [window] = nodes("SELECT * FROM Bid b WINDOW(PARTITION BY b.itemID, bidderid ROWS 5 SLIDE 2)", CountWindow)
    assert (window.rows, window.slide, window.keys) == (5, 2, ("itemID", "bidderID"))
    assert plan("SELECT * FROM Bid [PARTITION BY itemID RANGE 5 s]") == plan("SELECT * FROM Bid [RANGE 5 s]")
    [granularity] = nodes("SELECT * FROM (SELECT itemID FROM Bid) [RANGE 5 s] GRANULARITY(1 SECOND) x", Granularity)
    assert granularity.size == 1_000_000


# ---- subqueries


def test_correlated_conditions_move_into_the_semi_join():
    text = """SELECT itemID FROM Bid b WHERE bid_price > 5 AND NOT EXISTS (
                SELECT * FROM OpenAuction o [RANGE 1 DAY] WHERE o.itemID = b.itemID AND o.start_price > 1)"""
    assert plan(text) == snapshot("""\
Map b.itemID AS itemID
  Anti-join on o.itemID = b.itemID
    Filter b.bid_price > 5.0
      Rename to b
        Scan Bid
    Filter o.start_price > 1.0
      Rename to o
        Window range 1 day
          Scan OpenAuction\
""")


def test_a_correlated_aggregate_is_grouped_by_what_it_is_compared_with():
    text = """SELECT itemID FROM Bid b
              WHERE bid_price > 1.5 * (SELECT AVG(c.bid_price) FROM Bid [RANGE 1 HOUR] c WHERE c.itemID = b.itemID)"""
    assert plan(text) == snapshot("""\
Map b.itemID AS itemID
  Semi-join on c.itemID = b.itemID AND b.bid_price > 1.5 * subquery.avg_bid_price
    Rename to b
      Scan Bid
    Map c.itemID, avg_bid_price AS subquery.avg_bid_price
      Aggregate avg(c.bid_price) AS avg_bid_price by c.itemID
        Rename to c
          Window range 1 hour
            Scan Bid\
""")


def test_not_in_has_three_values():
    assert plan(
        "SELECT itemID FROM Bid b WHERE itemID NOT IN (SELECT itemID FROM OpenAuction [RANGE 1 DAY])"
    ) == snapshot("""\
Map b.itemID AS itemID
  Union all
    Anti-join on TRUE
      Anti-join on b.itemID = OpenAuction.itemID
        Filter b.itemID IS NOT NULL
          Rename to b
            Scan Bid
        Rename to OpenAuction
          Window range 1 day
            Scan OpenAuction
      Filter OpenAuction.itemID IS NULL
        Rename to OpenAuction
          Window range 1 day
            Scan OpenAuction
    Anti-join on TRUE
      Filter b.itemID IS NULL
        Rename to b
          Scan Bid
      Rename to OpenAuction
        Window range 1 day
          Scan OpenAuction\
""")


def test_a_query_as_a_value_is_null_while_it_has_no_row():
    text = "SELECT temperature, (SELECT MAX(sellerID) FROM OpenAuction [RANGE 1 DAY]) AS m FROM sensor"
    assert plan(text) == snapshot("""\
Map sensor.temperature AS temperature, value AS m
  Union all
    Map sensor.temperature, subquery.max_sellerID AS value
      Join all pairs
        Rename to sensor
          Scan sensor
        Rename to subquery
          Aggregate max(OpenAuction.sellerID) AS max_sellerID
            Rename to OpenAuction
              Window range 1 day
                Scan OpenAuction
    Map sensor.temperature, NULL AS value
      Anti-join on TRUE
        Rename to sensor
          Scan sensor
        Rename to subquery
          Aggregate max(OpenAuction.sellerID) AS max_sellerID
            Rename to OpenAuction
              Window range 1 day
                Scan OpenAuction\
""")


def test_a_condition_with_a_query_may_stand_in_an_or():
    text = (
        "SELECT itemID FROM Bid b WHERE bid_price > 9 OR EXISTS (SELECT * FROM OpenAuction o WHERE o.itemID = b.itemID)"
    )
    assert plan(text) == snapshot("""\
Map b.itemID AS itemID
  Filter b.bid_price > 9.0 OR mark
    Union all
      Map b.itemID, b.bid_price, b.bidderID, b.timestamp, TRUE AS mark
        Semi-join on o.itemID = b.itemID
          Rename to b
            Scan Bid
          Rename to o
            Scan OpenAuction
      Map b.itemID, b.bid_price, b.bidderID, b.timestamp, FALSE AS mark
        Anti-join on o.itemID = b.itemID
          Rename to b
            Scan Bid
          Rename to o
            Scan OpenAuction\
""")


def test_having_may_compare_with_queries():
    text = """SELECT bidderID, COUNT(*) AS n FROM Bid [RANGE 1 HOUR] GROUP BY bidderID
              HAVING COUNT(*) >= ALL (SELECT COUNT(*) FROM Bid [RANGE 1 HOUR] GROUP BY bidderID)"""
    assert plan(text) == snapshot("""\
Map Bid.bidderID AS bidderID, count AS n
  Anti-join on count < subquery.count
    Aggregate count(*) AS count by Bid.bidderID
      Rename to Bid
        Window range 1 hour
          Scan Bid
    Map Bid_2.bidderID, count AS subquery.count
      Aggregate count(*) AS count by Bid_2.bidderID
        Rename to Bid_2
          Window range 1 hour
            Scan Bid\
""")


def test_a_query_in_a_query_in_a_query():
    text = """SELECT itemID FROM Bid WHERE itemID IN (SELECT itemID FROM OpenAuction o WHERE EXISTS (
                SELECT * FROM Person p WHERE p.id = o.sellerID))"""
    assert len(nodes(text, SemiJoin)) == 2


# ---- outer joins, set operations, order


def test_an_outer_join_is_the_join_and_what_has_no_partner():
    text = "SELECT temperature, name FROM sensor s LEFT JOIN Person p ON p.id > s.temperature"
    assert plan(text) == snapshot("""\
Map s.temperature AS temperature, p.name AS name
  Union all
    Join on p.id > s.temperature
      Rename to s
        Scan sensor
      Rename to p
        Scan Person
    Map s.temperature, NULL AS p.id, NULL AS p.name
      Anti-join on p.id > s.temperature
        Rename to s
          Scan sensor
        Rename to p
          Scan Person\
""")


def test_set_operations_have_common_types():
    assert plan("SELECT itemID FROM Bid EXCEPT ALL SELECT bid_price FROM Bid") == snapshot("""\
Except all
  Map CAST(Bid.itemID AS DOUBLE) AS itemID
    Rename to Bid
      Scan Bid
  Map Bid.bid_price AS itemID
    Rename to Bid
      Scan Bid\
""")
    assert plan("SELECT itemID FROM Bid UNION SELECT itemID FROM OpenAuction").startswith("Distinct\n  Union all")
    assert plan("SELECT itemID FROM Bid UNION MAX SELECT itemID FROM OpenAuction").startswith("Max union")


def test_an_order_by_what_is_not_selected_is_a_column_for_a_while():
    text = "SELECT itemID FROM Bid [RANGE 1 HOUR] ORDER BY bid_price DESC, 1 LIMIT 3 OFFSET 1 PER bidderID"
    assert plan(text) == snapshot("""\
Map itemID
  Limit 3 after 1 in order of order_1 descending, itemID of each order_2
    Map Bid.itemID AS itemID, Bid.bid_price AS order_1, Bid.bidderID AS order_2
      Rename to Bid
        Window range 1 hour
          Scan Bid\
""")


def test_a_limit_without_order_takes_the_order_of_the_columns():
    assert plan("SELECT itemID, bidderID FROM Bid LIMIT 3").splitlines()[0] == "Limit 3 in order of itemID, bidderID"


def test_definitions_are_known_to_their_query_alone():
    text = "WITH Bid AS (SELECT itemID AS i FROM Bid) SELECT i FROM Bid; SELECT itemID FROM Bid"
    assert [query.plan.schema.names for query in program(text).queries] == [("i",), ("itemID",)]


# ---- aggregates


def test_aggregates_of_distinct_values_of_several_columns_and_with_constants():
    several = "SELECT COUNT(DISTINCT itemID), ARG_MAX(itemID, bid_price) FROM Bid [RANGE 1 HOUR]"
    assert plan(several) == snapshot("""\
Map count_itemID, arg_max_itemID_bid_price
  Aggregate count(distinct Bid.itemID) AS count_itemID, arg_max(Bid.itemID, Bid.bid_price) AS arg_max_itemID_bid_price
    Rename to Bid
      Window range 1 hour
        Scan Bid\
""")
    constants = "SELECT QUANTILE(bid_price, 0.9), COUNT(*) FILTER (WHERE itemID > 1) AS n FROM Bid [RANGE 1 HOUR]"
    assert plan(constants) == snapshot("""\
Map quantile_bid_price, count AS n
  Aggregate quantile(Bid.bid_price, 0.9) AS quantile_bid_price, count(argument_2) AS count
    Map Bid.bid_price, CASE WHEN Bid.itemID > 1 THEN TRUE END AS argument_2
      Rename to Bid
        Window range 1 hour
          Scan Bid\
""")


# ---- commands


def test_commands_are_answered_in_order():
    text = (
        "SHOW STREAMS; SHOW TABLES; DESCRIBE bid; SELECT itemID FROM Bid; SHOW QUERIES; EXPLAIN SELECT itemID FROM Bid"
    )
    streams, tables, bid, queries, explained = program(text).commands
    assert isinstance(streams, ShowStreams)
    assert [s.name for s in streams.streams] == ["OpenAuction", "ClosedAuction", "Bid", "sensor"]
    assert isinstance(tables, ShowTables)
    assert [t.name for t in tables.tables] == ["Person"]
    assert isinstance(bid, Describe)
    assert bid.subject == CATALOG.find("Bid")
    assert isinstance(queries, ShowQueries)
    assert [q.name for q in queries.queries] == ["query_1"]
    assert isinstance(explained, Explain)
    assert len(program(text).queries) == 1


def test_what_nothing_reads_can_be_dropped():
    text = "CREATE STREAM high AS SELECT itemID FROM Bid; DROP STREAM high; DROP STREAM Bid; DROP TABLE Person"
    dropped = program(text)
    assert dropped.queries == ()
    assert [stream.name for stream in dropped.catalog] == ["OpenAuction", "ClosedAuction", "sensor"]
    assert program("SELECT itemID FROM Bid; DROP QUERY query_1").queries == ()


def test_what_a_running_query_reads_cannot_be_dropped():
    [running] = program("SELECT itemID FROM Bid").queries
    with pytest.raises(QueryError, match="'query_1' reads it"):
        bind("DROP STREAM bid", CATALOG, [running])
    assert bind("DROP QUERY Query_1", CATALOG, [running]).commands == (DropQuery("Query_1"),)


def test_a_query_remembers_what_it_reads():
    text = """CREATE STREAM d AS SELECT itemID FROM Bid; WITH w AS (SELECT itemID FROM d) SELECT itemID FROM w
              WHERE itemID IN (SELECT id FROM ISTREAM(Person))"""
    [query] = program(text).queries
    assert isinstance(query, Query)
    assert query.reads == {"d", "person"}
