"""The binder: alerts on totals, one or one for each subscription; and what is said about wrong ones.

Wrong statements are in ``wrong_subscriptions.txt``: a statement, an arrow, the message. After a change of words,
``PYTHONPATH=tests python tests/unit/language/bind/test_binder_subscriptions.py``
writes the messages again, for a person to read.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot
from support.wrong import cases, said_of, write_anew

from tidegate.algebra.alert_operators import RangeThreshold, TotalThreshold
from tidegate.algebra.explain import describe, explain
from tidegate.algebra.plan import Filter, Map, Plan, Scan
from tidegate.algebra.properties import is_chronon
from tidegate.algebra.subscriptions import Dimension, SubscriptionColumns, TotalCompletion
from tidegate.catalog.catalog import Catalog, DropQuery, Explain, Query
from tidegate.catalog.show import answer
from tidegate.errors import QueryError
from tidegate.language.bind.program import bind
from tidegate.optimizer.optimize import optimize
from tidegate.schema import Type

TEXTS = Path(__file__).with_name("wrong_subscriptions.txt")

CATALOG = bind("""
CREATE STREAM trade (symbol STRING, price DOUBLE, shares INT, size BIGINT, code INT, at TIMESTAMP)
  FROM 'trade' TIMESTAMP BY at;
CREATE STREAM watch (id INT, symbol STRING, low DOUBLE, high DOUBLE, floor INT, threshold BIGINT, until TIMESTAMP,
  code BIGINT, active BOOLEAN, at TIMESTAMP) FROM 'watch' TIMESTAMP BY at;
CREATE STREAM quote (name STRING, bid DOUBLE, action STRING, at TIMESTAMP) FROM 'quote' TIMESTAMP BY at;
CREATE STREAM narrow (id STRING, low REAL, ends DOUBLE, at TIMESTAMP) FROM 'narrow' TIMESTAMP BY at;
CREATE TABLE place (symbol STRING, city STRING) FROM 'place.csv';
""").catalog

ONE = "CREATE ALERT busy FROM trade t"
MANY = "CREATE ALERTS busy FROM trade t, watch r"
TOTAL = "WHEN TOTAL(t.size) >= r.threshold"


def query(text: str, catalog: Catalog = CATALOG) -> Query:
    return bind(text, catalog).queries[-1]


def total(text: str) -> TotalThreshold:
    plan = query(text).plan
    assert isinstance(plan, Map)
    assert isinstance(plan.source, TotalThreshold)
    return plan.source


def ranges(text: str) -> RangeThreshold:
    plan = query(text).plan
    assert isinstance(plan, Map)
    assert isinstance(plan.source, RangeThreshold)
    return plan.source


def dimensions(where: str, *, begin: str = MANY) -> tuple[Dimension, ...]:
    return ranges(f"{begin} WHERE {where} {TOTAL}").subscribed.dimensions


def type_of(plan: Plan, column: str | None) -> Type:
    assert column is not None
    return plan.schema.type_of(column)


# ---- CREATE ALERT


def test_an_alert_on_a_total_counts_what_is_left_of_a_stream():
    text = f"{ONE} WITHIN 1 HOUR WHERE price > 10 AND t.symbol <> 'X' MATCHING symbol REPEAT WHEN TOTAL(shares) > 999"
    assert explain(query(text).plan) == snapshot(
        """\
Map t.symbol AS symbol, t.price AS t_price, t.shares AS t_shares, t.size AS t_size, t.code AS t_code, t.at AS t_at, \
"alert:total" AS total
  Total threshold busy when total of t.shares >= 1000 of each t.symbol within 1 hour, repeated
    Map t.symbol, t.price, t.shares, t.size, t.code, t.at, CAST(t.shares AS BIGINT) AS range:weight
      Filter t.price > 10.0 AND t.symbol <> 'X'
        Rename to t
          Scan trade\
"""
    )
    found = total(text)
    assert (found.keys, found.threshold) == (("t.symbol",), 1000)
    assert found.waiting == TotalCompletion("busy", "range:weight", 3_600_000_000, repeats=True)


def test_elements_that_are_counted_weigh_one():
    assert explain(query("CREATE ALERT busy FROM trade WHEN 5 <= COUNT(*)").plan.source) == snapshot(
        """\
Total threshold busy when count >= 5
  Map trade.symbol, trade.price, trade.shares, trade.size, trade.code, trade.at, 1 AS range:weight
    Rename to trade
      Scan trade\
"""
    )


def test_a_weight_that_is_a_column_is_not_computed():
    found = total(f"{ONE} WHERE t.price > 3 WHEN TOTAL(t.size) >= 5")
    assert found.waiting == TotalCompletion("busy", "t.size")
    assert isinstance(found.source, Filter)


@pytest.mark.parametrize(
    ("when", "threshold"),
    [
        ("TOTAL(t.size) >= 5", 5),
        ("TOTAL(t.size) > 5", 6),
        ("TOTAL(t.size) > 0", 1),
        ("5 <= TOTAL(t.size)", 5),
        ("5 < TOTAL(t.size)", 6),
        ("COUNT(*) >= 2 * 3 + 1", 7),
        ("COUNT(*) >= CAST(CEIL(2.5) AS BIGINT)", 3),
        ("COUNT(*) >= 5000000000", 5_000_000_000),
    ],
)
def test_the_threshold_is_a_constant(when, threshold):
    assert total(f"{ONE} WHEN {when}").threshold == threshold


def test_what_is_counted_may_be_a_query_or_a_derived_stream():
    joined = "(SELECT t.size, p.city FROM trade t, place p WHERE t.symbol = p.symbol) t"
    assert total(f"CREATE ALERT busy FROM {joined} MATCHING city WHEN TOTAL(size) >= 5").keys == ("t.city",)
    text = "CREATE STREAM dear AS SELECT symbol, size FROM trade WHERE price > 3;"
    assert query(f"{text} CREATE ALERT busy FROM dear WHEN COUNT(*) >= 5").reads == {"dear"}


def test_an_alarm_has_the_keys_once_then_the_element_then_the_subscription_then_the_total():
    schema = query(
        "CREATE ALERTS b FROM trade t, narrow n WHERE t.symbol = n.id AND n.at > t.at WHEN COUNT(*) > 1"
    ).plan
    assert [(f.name, f.type) for f in schema.schema] == [
        ("symbol", Type.STRING),
        ("t_price", Type.DOUBLE),
        ("t_shares", Type.INT),
        ("t_size", Type.BIGINT),
        ("t_code", Type.INT),
        ("t_at", Type.TIMESTAMP),
        ("n_low", Type.REAL),
        ("n_ends", Type.DOUBLE),
        ("n_at", Type.TIMESTAMP),
        ("total", Type.BIGINT),
    ]
    names = query(
        "CREATE ALERT x FROM (SELECT size AS total FROM trade) t MATCHING total WHEN COUNT(*) > 1"
    ).plan.schema
    assert names.names == ("total", "total_2")


# ---- CREATE ALERTS


def test_alerts_for_subscriptions_count_elements_in_their_ranges():
    text = f"""{MANY} WITHIN 1 DAY WHERE t.price BETWEEN r.low AND r.high AND t.at < r.until AND t.price > 3
               AND r.symbol <> 'X' MATCHING symbol REPEAT {TOTAL} NOTIFY 'me'"""
    found = query(text)
    assert (found.is_alert, found.notify, set(found.reads)) == (True, "me", {"trade", "watch"})
    assert explain(found.plan.source) == snapshot(
        """\
Subscriptions busy when total of t.size >= r.threshold for t.price in [r.low, r.high], t.at in (-∞, r.until), \
t.symbol = r.symbol within 1 day, repeated, of each r.id, ended by r.active IS FALSE
  Filter t.price > 3.0
    Rename to t
      Scan trade
  Map r.id, r.symbol, r.low, r.high, r.floor, r.threshold, r.until, r.code, r.active, r.at, \
r.active IS FALSE AS range:ended
    Filter r.symbol <> 'X'
      Rename to r
        Scan watch\
"""
    )
    assert ranges(text).waiting == TotalCompletion("busy", "t.size", 86_400_000_000, repeats=True)
    assert ranges(text).keys == (("t.symbol",), ("r.symbol",))
    assert ranges(text).subscribed == SubscriptionColumns(
        "r.id",
        "r.threshold",
        (Dimension("t.price", "r.low", "r.high"), Dimension("t.at", None, "r.until", high_open=True)),
        "range:ended",
    )


def test_what_is_no_column_is_computed_below():
    text = """CREATE ALERTS busy FROM watch r, trade t WHERE t.shares > r.floor - 1 AND r.high >= t.shares
              AND upper(t.symbol) = r.symbol AND t.code = r.code ID until TERMINATE WHEN threshold = 0
              WHEN r.threshold * 2 < TOTAL(t.shares * 2)"""
    assert explain(query(text).plan.source) == snapshot(
        """\
Subscriptions busy when total of t.shares * 2 >= r.threshold * 2 + 1 for t.shares in (r.floor - 1, r.high], \
upper(t.symbol) = r.symbol, t.code = r.code, of each r.until, ended by r.threshold = 0
  Map t.symbol, t.price, t.shares, t.size, t.code, t.at, upper(t.symbol) AS range:key:0, \
CAST(t.code AS BIGINT) AS range:key:1, CAST(t.shares AS DOUBLE) AS range:value:0, \
CAST(t.shares * 2 AS BIGINT) AS range:weight
    Rename to t
      Scan trade
  Map r.id, r.symbol, r.low, r.high, r.floor, r.threshold, r.until, r.code, r.active, r.at, \
CAST(r.floor - 1 AS DOUBLE) AS range:low:0, r.threshold * 2 + 1 AS range:threshold, r.threshold = 0 AS range:ended
    Rename to r
      Scan watch\
"""
    )
    assert ranges(text).keys == (("range:key:0", "range:key:1"), ("r.symbol", "r.code"))
    assert query(text).plan.schema.names[:3] == ("t_symbol", "t_price", "t_shares")


def test_without_ranges_and_keys_every_element_counts():
    found = ranges(f"{MANY} TERMINATE WHEN r.active WHEN COUNT(*) >= 10")
    assert found.keys == ((), ())
    assert found.subscribed == SubscriptionColumns("r.id", "range:threshold", (), "r.active")
    assert describe(found) == "Subscriptions busy when count >= 10, of each r.id, ended by r.active"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("t.price >= r.low", Dimension("t.price", "r.low", None)),
        ("t.price > r.low", Dimension("t.price", "r.low", None, low_open=True)),
        ("t.price <= r.low", Dimension("t.price", None, "r.low")),
        ("t.price < r.low", Dimension("t.price", None, "r.low", high_open=True)),
        ("r.low <= t.price", Dimension("t.price", "r.low", None)),
        ("r.low < t.price", Dimension("t.price", "r.low", None, low_open=True)),
        ("r.low >= t.price", Dimension("t.price", None, "r.low")),
        ("r.low > t.price", Dimension("t.price", None, "r.low", high_open=True)),
        ("t.price < r.high AND r.low <= t.price", Dimension("t.price", "r.low", "r.high", high_open=True)),
        ("r.high BETWEEN t.price AND 9", Dimension("t.price", None, "r.high")),
        ("price > low AND price < high", Dimension("t.price", "r.low", "r.high", low_open=True, high_open=True)),
    ],
)
def test_ends_belong_to_a_range_or_do_not(where, expected):
    assert dimensions(where) == (expected,)


def test_there_are_up_to_four_dimensions_in_the_order_of_where():
    found = dimensions(
        "t.size > r.floor AND t.price < r.high AND t.at < r.until AND t.shares <= r.floor AND t.price > r.low"
    )
    assert [each.value for each in found] == ["t.size", "t.price", "t.at", "t.shares"]
    assert (found[1].low, found[1].high) == ("r.low", "r.high")


@pytest.mark.parametrize(
    ("where", "types"),
    [
        ("t.shares > r.floor", [Type.INT]),
        ("t.shares > r.code", [Type.BIGINT]),
        ("t.size > r.floor", [Type.BIGINT]),
        ("t.shares > r.low", [Type.DOUBLE]),
        ("t.shares BETWEEN r.floor AND r.high", [Type.DOUBLE]),
        ("t.shares BETWEEN r.floor AND r.code", [Type.BIGINT]),
        ("t.shares > r.code AND t.shares < r.high", [Type.DOUBLE]),
        ("t.at < r.until", [Type.TIMESTAMP]),
        # Not every BIGINT is a DOUBLE: one end is compared exactly, the other is not.
        ("t.size BETWEEN r.code AND r.high", [Type.BIGINT, Type.DOUBLE]),
    ],
)
def test_a_value_and_its_ends_have_one_type(where, types):
    found = ranges(f"{MANY} WHERE {where} {TOTAL}")
    for each, type_ in zip(found.subscribed.dimensions, types, strict=True):
        assert type_of(found.elements, each.value) is type_
        ends = [end for end in (each.low, each.high) if end is not None]
        assert {type_of(found.subscriptions, end) for end in ends} == {type_}


def test_short_numbers_are_compared_as_long_ones():
    found = ranges("CREATE ALERTS b FROM narrow t, narrow r WHERE t.low BETWEEN r.low AND r.ends WHEN COUNT(*) > 1")
    assert found.subscribed.dimensions == (Dimension("range:value:0", "range:low:0", "r.ends"),)
    assert type_of(found.elements, "range:value:0") is type_of(found.subscriptions, "range:low:0") is Type.DOUBLE


def test_one_column_may_be_several_ends():
    found = ranges(f"{MANY} WHERE t.price >= r.low AND t.shares <= r.low AND t.size <= r.low {TOTAL}")
    assert [(each.low, each.high) for each in found.subscribed.dimensions] == [
        ("r.low", None),
        (None, "r.low"),
        (None, "r.low"),
    ]


def test_the_same_said_twice_is_said_once():
    assert dimensions("t.price > r.low AND t.price > r.low") == dimensions("t.price > r.low")
    keys = ranges(f"{MANY} WHERE t.symbol = r.symbol AND r.symbol = t.symbol MATCHING symbol {TOTAL}").keys
    assert keys == (("t.symbol",), ("r.symbol",))


def test_constant_conditions_are_kept():
    found = ranges(f"{MANY} WHERE 1 > 2 AND TRUE {TOTAL}")
    assert describe(found.elements) == "Filter 1 > 2"


def test_the_stream_of_the_weights_is_counted_wherever_it_stands():
    swapped = ranges(f"CREATE ALERTS busy FROM watch r, trade t WHERE t.price > r.low MATCHING symbol {TOTAL}")
    assert swapped == ranges(f"{MANY} WHERE t.price > r.low MATCHING symbol {TOTAL}")


def test_a_stream_may_subscribe_to_itself():
    found = ranges("CREATE ALERTS b FROM watch t, watch r WHERE t.low > r.low WHEN TOTAL(t.threshold) >= r.threshold")
    assert found.subscribed.dimensions == (Dimension("t.low", "r.low", None, low_open=True),)


# ---- subscriptions


def ended(text: str) -> str:
    found = ranges(text)
    return describe(found).partition("ended by ")[2]


def test_subscriptions_end_as_terminate_when_says_or_by_a_column_of_theirs():
    assert ended(f"{MANY} {TOTAL} TERMINATE WHEN floor < 0 OR low IS NULL") == "r.floor < 0 OR r.low IS NULL"
    assert ended(f"{MANY} {TOTAL}") == "r.active IS FALSE"
    assert ended("CREATE ALERTS b FROM trade t, quote q ID name WHEN COUNT(*) > 3") == "upper(q.action) = 'TERMINATE'"
    assert ended("CREATE ALERTS b FROM trade t, narrow q WHEN COUNT(*) > 3") == ""
    assert ranges("CREATE ALERTS b FROM trade t, narrow q WHEN COUNT(*) > 3").subscribed.ended is None


def test_columns_called_active_and_action_count_only_if_their_types_fit():
    text = "CREATE ALERTS b FROM trade t, (SELECT id, floor AS {}, 'x' AS {} FROM watch) r WHEN COUNT(*) > 3"
    assert ended(text.format("active", "action")) == "upper(r.action) = 'TERMINATE'"
    assert ended(text.format("action", "active")) == ""


def test_an_id_may_be_written_with_its_stream_or_without():
    begin = "CREATE ALERTS b FROM trade t, quote q"
    for written in ("q.name", "name", "NAME", "quote.name", '"name"'):
        assert ranges(f"{begin} ID {written} WHEN COUNT(*) > 3").subscribed.id == "q.name"
    # A name that both have is that of the subscription.
    assert ranges(f"{MANY} ID symbol {TOTAL}").subscribed.id == "r.symbol"


# ---- names and commands


def test_alarms_are_a_stream_of_instants_that_others_can_read():
    program = bind(f"{ONE} WHEN COUNT(*) > 3; SELECT COUNT(*) AS n FROM busy WINDOW(RANGE 1 HOUR)", CATALOG)
    assert [q.reads for q in program.queries] == [{"trade"}, {"busy"}]
    assert is_chronon(program.queries[0].plan)
    more = f"{ONE} WHEN COUNT(*) > 3; CREATE ALERT more FROM busy MATCHING t_symbol WHEN TOTAL(total) > 3"
    assert isinstance(query(more).plan, Map)
    assert [q.name for q in bind(more, CATALOG).queries] == ["busy", "more"]
    joined = f"{ONE} WHEN COUNT(*) > 3; CREATE ALERT two FROM busy b, quote q WITHIN 5 WHEN b.total > q.bid"
    assert query(joined).reads == {"busy", "quote"}


def test_alerts_on_totals_are_shown_described_explained_and_dropped():
    text = f"{MANY} {TOTAL} NOTIFY 'me'"
    shown, described = bind(f"{text}; SHOW ALERTS; DESCRIBE busy", CATALOG).commands
    assert answer(shown).startswith("busy  t_symbol STRING, ")  # type: ignore[arg-type]
    assert answer(described).startswith("alert busy over trade, watch, notify 'me'\n  t_symbol ")  # type: ignore[arg-type]
    program = bind(f"EXPLAIN {text}", CATALOG)
    [command] = program.commands
    assert isinstance(command, Explain)
    assert (command.query.is_alert, program.catalog.find("busy")) == (True, None)
    assert bind(f"{text}; DROP ALERT busy", CATALOG).queries == ()
    known = bind(text, CATALOG)
    assert bind("DROP ALERT busy", known.catalog, known.queries).commands == (DropQuery("busy"),)
    with pytest.raises(QueryError, match="stream 'watch' is in use: 'busy' reads it"):
        bind("DROP STREAM watch", known.catalog, known.queries)


def test_optimised_plans_are_described_alike():
    found = query(f"{MANY} WHERE t.shares > r.low MATCHING symbol {TOTAL}").plan
    optimised, _ = optimize(found)
    first, second = (
        next(line for line in explain(each).splitlines() if "Subscriptions" in line) for each in (found, optimised)
    )
    assert first == second


def test_plans_that_were_changed_are_still_described():
    found = ranges(f"{MANY} WHERE t.shares > r.low {TOTAL}")
    scan = Scan("x", found.elements.schema)
    changed = RangeThreshold(scan, found.subscriptions, found.keys, found.waiting, found.subscribed)
    assert '"range:value:0" in (r.low, ∞)' in describe(changed)


# ---- wrong statements


@pytest.mark.parametrize(("statement", "message"), cases(TEXTS))
def test_a_wrong_statement_is_answered_with_what_to_write_instead(statement, message):
    assert said_of(statement, CATALOG) == message


def test_every_message_shows_the_place_and_says_what_to_write():
    statements = [statement for statement, _ in cases(TEXTS)]
    assert len(set(statements)) == len(statements) >= 80
    for statement, message in cases(TEXTS):
        assert "\n   | " in message, statement
        assert "\n   = hint: " in message, statement


if __name__ == "__main__":
    write_anew(TEXTS, CATALOG)
