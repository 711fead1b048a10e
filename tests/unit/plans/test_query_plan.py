"""Plans by hand: each is the plan of the SQL that a person would write, and errors are in what was written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

import tidegate
from tidegate import QueryError, TidegateWarning
from tidegate.optimizer.optimize import optimize

STREAMS = """
CREATE STREAM bid (item INT, price DOUBLE, at TIMESTAMP) FROM 'examples/auction/bid.csv' TIMESTAMP BY at;
CREATE STREAM sold (item INT, at TIMESTAMP) FROM 'examples/auction/sold.csv' TIMESTAMP BY at;
CREATE STREAM offer (item INT, a BIGINT, b BIGINT) FROM 'offer' VALID FROM a TO b
"""


@pytest.fixture
def session():
    with tidegate.Session(runtime="embedded") as opened:
        opened.sql(STREAMS)
        yield opened


@pytest.fixture
def plan(session):
    return session.plan


def combine(method, plan):
    return getattr(bids(plan).select("item"), method)(plan.scan("offer").select("item"))


def bids(plan):
    return plan.scan("bid").window("10 minutes")


CASES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "scan": (lambda p: p.scan("bid"), "SELECT * FROM bid"),
    "where": (
        lambda p: p.scan("bid").where("price > 3", "item = 1 OR item = 2"),
        "SELECT * FROM bid WHERE price > 3 AND (item = 1 OR item = 2)",
    ),
    "select": (
        lambda p: p.scan("bid").select("item", "price * 2 AS twice", half="price / 2"),
        "SELECT item, price * 2 AS twice, price / 2 AS half FROM bid",
    ),
    "select of a join": (
        lambda p: bids(p).join(p.scan("sold"), using="item").select("bid.*"),
        "SELECT bid.* FROM bid WINDOW(RANGE 10 MINUTES) JOIN sold USING (item)",
    ),
    "slide": (
        lambda p: p.scan("bid").window("10 minutes", slide="1 minute").aggregate(n="COUNT(*)"),
        "SELECT COUNT(*) AS n FROM bid WINDOW(RANGE 10 MINUTES SLIDE 1 MINUTE)",
    ),
    "sizes": (
        lambda p: p.scan("bid").window("10 minutes", min="1 minute").aggregate("COUNT(*) AS n"),
        "SELECT COUNT(*) AS n FROM bid WINDOW(RANGE MIN 1 MINUTE, MAX 10 MINUTES)",
    ),
    "rows": (
        lambda p: p.scan("bid").window(rows=10, slide=2, partition_by=["item"]),
        "SELECT * FROM bid WINDOW(PARTITION BY item ROWS 10 SLIDE 2)",
    ),
    "sizes in rows": (lambda p: p.scan("bid").window(rows=9, min=2), "SELECT * FROM bid WINDOW(ROWS MIN 2, MAX 9)"),
    "all rows": (
        lambda p: p.scan("bid").window(rows="unbounded").istream(),
        "ISTREAM(SELECT * FROM bid WINDOW(ROWS UNBOUNDED))",
    ),
    "unbounded": (lambda p: p.scan("bid").window("Unbounded"), "SELECT * FROM bid WINDOW(RANGE UNBOUNDED)"),
    "now": (lambda p: p.scan("bid").window("now"), "SELECT * FROM bid"),
    "window over a filter": (
        lambda p: p.scan("bid").where("price > 3").window("1 hour"),
        "SELECT * FROM bid WINDOW(RANGE 1 HOUR) WHERE price > 3",
    ),
    "two windows": (
        lambda p: p.scan("bid").window("1 second").window("1 second").select(m="item").distinct(),
        "SELECT DISTINCT item AS m FROM (SELECT * FROM bid WINDOW(RANGE 1 SECOND)) WINDOW(RANGE 1 SECOND)",
    ),
    "granularity": (
        lambda p: bids(p).granularity("1 minute").aggregate(n="COUNT(*)"),
        "SELECT COUNT(*) AS n FROM bid WINDOW(RANGE 10 MINUTES) GRANULARITY(1 MINUTE)",
    ),
    "granularities": (
        lambda p: bids(p).granularity(coarsest="1 hour", finest="1 minute"),
        "SELECT * FROM bid WINDOW(RANGE 10 MINUTES) GRANULARITY(COARSEST 1 HOUR, FINEST 1 MINUTE)",
    ),
    "granularity, then window": (
        lambda p: p.scan("bid").granularity("1 second").window("10 seconds"),
        "SELECT * FROM (SELECT * FROM bid GRANULARITY(1 SECOND)) WINDOW(RANGE 10 SECONDS)",
    ),
    "join": (
        lambda p: bids(p).alias("b").join(p.scan("sold").window("now").alias("s"), on="b.item = s.item"),
        "SELECT * FROM bid AS b WINDOW(RANGE 10 MINUTES) JOIN sold AS s ON b.item = s.item",
    ),
    "left join": (
        lambda p: p.scan("sold").join(bids(p), on="bid.item = sold.item", how="left").where("price IS NULL"),
        "SELECT * FROM sold LEFT JOIN bid WINDOW(RANGE 10 MINUTES) ON bid.item = sold.item WHERE price IS NULL",
    ),
    "full join": (
        lambda p: bids(p).join(p.scan("offer"), "bid.item = offer.item", how="full"),
        "SELECT * FROM bid WINDOW(RANGE 10 MINUTES) FULL JOIN offer ON bid.item = offer.item",
    ),
    "cross join": (
        lambda p: bids(p).join(p.scan("sold"), how="cross"),
        "SELECT * FROM bid WINDOW(RANGE 10 MINUTES) CROSS JOIN sold",
    ),
    "join of three": (
        lambda p: bids(p).join(p.scan("sold"), using="item").join(p.scan("offer"), on="offer.item = bid.item"),
        "SELECT * FROM bid WINDOW(RANGE 10 MINUTES) JOIN sold USING (item) JOIN offer ON offer.item = bid.item",
    ),
    "join with a filter": (
        lambda p: bids(p).where("price > 1").join(p.scan("sold"), on="bid.item = sold.item").select("price"),
        "SELECT price FROM bid WINDOW(RANGE 10 MINUTES), sold WHERE bid.item = sold.item AND price > 1",
    ),
    "group": (
        lambda p: bids(p).group_by("item", dear="price > 9").aggregate("AVG(price)", n="COUNT(*)"),
        "SELECT item, price > 9 AS dear, AVG(price), COUNT(*) n FROM bid [RANGE 10 MINUTES] GROUP BY item, price > 9",
    ),
    "having": (
        lambda p: bids(p).group_by("item").aggregate(n="COUNT(*)").where("n > 3").select("item"),
        "SELECT item FROM bid WINDOW(RANGE 10 MINUTES) GROUP BY item HAVING COUNT(*) > 3",
    ),
    "keys alone": (
        lambda p: bids(p).group_by("item").aggregate(),
        "SELECT item FROM bid WINDOW(RANGE 10 MINUTES) GROUP BY item",
    ),
    "distinct": (lambda p: bids(p).select("item").distinct(), "SELECT DISTINCT item FROM bid WINDOW(RANGE 10 MINUTES)"),
    "union all": (
        lambda p: p.scan("bid").select("item").union_all(p.scan("sold").select("item"), p.scan("offer").select("item")),
        "SELECT item FROM bid UNION ALL SELECT item FROM sold UNION ALL SELECT item FROM offer",
    ),
    **{
        method: (
            partial(combine, method),
            f"SELECT item FROM bid WINDOW(RANGE 10 MINUTES) {word} SELECT item FROM offer",
        )
        for method, word in {
            "union": "UNION",
            "union_max": "UNION MAX",
            "except_": "EXCEPT",
            "except_all": "EXCEPT ALL",
            "except_strict": "EXCEPT STRICT",
            "intersect": "INTERSECT",
            "intersect_all": "INTERSECT ALL",
        }.items()
    },
    "set operations of set operations": (
        lambda p: (
            bids(p)
            .select("item")
            .union_all(p.scan("sold").select("item"))
            .intersect(p.scan("offer").select("item").limit(1, order_by="item"))
        ),
        """(SELECT item FROM bid WINDOW(RANGE 10 MINUTES) UNION ALL SELECT item FROM sold)
        INTERSECT (SELECT item FROM offer ORDER BY item LIMIT 1)""",
    ),
    "limit": (
        lambda p: bids(p).limit(3, order_by=["price DESC NULLS FIRST", "item"], offset=1, per="item", ties=True),
        """SELECT * FROM bid WINDOW(RANGE 10 MINUTES)
        ORDER BY price DESC NULLS FIRST, item LIMIT 3 WITH TIES OFFSET 1 PER item""",
    ),
    "limit without an order": (lambda p: bids(p).limit(3), "SELECT * FROM bid WINDOW(RANGE 10 MINUTES) LIMIT 3"),
    "coalesce": (
        lambda p: bids(p).select("item").coalesce_time(),
        "SELECT COALESCE TIME item FROM bid [RANGE 10 MINUTES]",
    ),
    "coalesce of distinct rows": (
        lambda p: bids(p).distinct().coalesce_time().coalesce_time(),
        "SELECT COALESCE TIME DISTINCT * FROM bid [RANGE 10 MINUTES]",
    ),
    "coalesce of a union": (
        lambda p: p.scan("offer").union_all(p.scan("offer")).coalesce_time(),
        "SELECT COALESCE TIME * FROM (SELECT * FROM offer UNION ALL SELECT * FROM offer)",
    ),
    "istream": (lambda p: p.scan("offer").istream(), "ISTREAM(SELECT * FROM offer)"),
    "dstream": (lambda p: bids(p).dstream(), "DSTREAM(SELECT * FROM bid WINDOW(RANGE 10 MINUTES))"),
    "dstream last": (lambda p: p.scan("offer").dstream(last=True), "SELECT * FROM DSTREAM(offer, LAST)"),
    "rstream": (lambda p: p.scan("offer").rstream(), "RSTREAM(SELECT * FROM offer)"),
    "semi-join": (
        lambda p: bids(p).semi_join(p.scan("sold").where("sold.item > 1"), on="sold.item = bid.item"),
        """SELECT * FROM bid WINDOW(RANGE 10 MINUTES)
        WHERE EXISTS (SELECT * FROM sold WHERE sold.item > 1 AND sold.item = bid.item)""",
    ),
    "anti-join": (
        lambda p: p.scan("sold").anti_join(bids(p), on="sold.item = bid.item"),
        "SELECT * FROM sold WHERE NOT EXISTS (SELECT * FROM bid WINDOW(RANGE 10 MINUTES) WHERE sold.item = bid.item)",
    ),
    "subquery in a condition": (
        lambda p: p.scan("sold").where("item IN (SELECT item FROM bid WINDOW(RANGE 10 MINUTES))"),
        "SELECT * FROM sold WHERE item IN (SELECT item FROM bid WINDOW(RANGE 10 MINUTES))",
    ),
    "from a query": (
        lambda p: p.query("SELECT item FROM bid UNION ALL SELECT item FROM sold").where("item > 1"),
        "SELECT * FROM (SELECT item FROM bid UNION ALL SELECT item FROM sold) WHERE item > 1",
    ),
    "comments": (
        lambda p: p.scan("bid").where("price > 1 -- cheap", "item = 1").select("price -- only"),
        "SELECT price FROM bid WHERE price > 1 AND item = 1",
    ),
    "names in quotes": (
        lambda p: p.scan("bid").select(**{"select": "item", 'a "b"': "price"}).where('"select" > 1'),
        'SELECT item AS "select", price AS "a ""b""" FROM bid WHERE item > 1',
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_by_hand_is_that_of_the_sql_that_a_person_writes(session, name):
    build, written = CASES[name]
    made = build(session.plan)
    [by_hand], [expected] = session.bind(made.sql).queries, session.bind(written).queries
    assert by_hand.plan.schema == expected.plan.schema
    assert optimize(by_hand.plan)[0] == optimize(expected.plan)[0]


WRONG: dict[str, tuple[Callable[[Any], Any], str, Any, Any]] = {
    "unknown stream": (lambda p: p.scan("bidd").columns, "Q101", "bidd", "bidd"),
    "unknown column": (lambda p: p.scan("bid").where("1 < 2", "3 < pirce").columns, "Q102", "3 < pirce", "pirce"),
    "unknown alias": (lambda p: p.scan("bid").alias("b").select("c.item").columns, "Q101", "c.item", "c"),
    "unknown function": (lambda p: p.scan("bid").select(n="CONT(item)").columns, "Q120", "CONT(item)", "CONT"),
    "types": (lambda p: p.scan("bid").where("price > 'a' || item").columns, "Q121", "price > 'a' || item", None),
    "no aggregate": (lambda p: bids(p).aggregate(n="price").columns, "Q106", "price", "price"),
    "not a key": (lambda p: bids(p).group_by("item").aggregate("price").columns, "Q106", "price", "price"),
    "unfinished": (lambda p: p.scan("bid").where("price >"), "Q001", "price >", ""),
    "two expressions": (lambda p: p.scan("bid").select("item, price"), "Q330", "item, price", "item, price"),
    "a clause more": (lambda p: p.scan("bid").where("price > 1 GROUP BY item"), "Q330", "price > 1 GROUP BY item", ...),
    "half an expression": (lambda p: p.scan("bid").where("item > 1) OR (item < 3"), "Q001", ..., ")"),
    "another statement": (lambda p: p.scan("bid").select("item FROM bid; DROP STREAM bid; SELECT 1"), "Q330", ..., ...),
    "another query": (lambda p: p.scan("bid").select("1 FROM sold UNION ALL SELECT 2"), "Q330", ..., ...),
    "another source": (lambda p: p.scan("bid").select("item FROM select price"), "Q330", ..., ...),
    "semicolon": (lambda p: p.scan("bid").where("item > 1;"), "Q001", "item > 1;", ";"),
    "open comment": (lambda p: p.scan("bid").where("item > 1 /* why"), "Q001", ..., ...),
    "distinct in a column": (lambda p: p.scan("bid").select("DISTINCT item"), "Q330", "", ""),
    "changes in a column": (lambda p: p.scan("bid").select("ISTREAM(item)"), "Q330", "", ""),
    "span of time": (lambda p: p.scan("bid").window("10 parsecs"), "Q110", "10 parsecs", "parsecs"),
    "injected window": (lambda p: p.scan("bid").window("1 second) WHERE (1 = 1"), "Q330", ..., ...),
    "injected slide": (lambda p: p.scan("bid").window("1 second SLIDE 5"), "Q330", ..., ...),
    "injected order": (lambda p: p.scan("bid").limit(1, order_by="item LIMIT 5 --"), "Q001", ..., ...),
    "several statements": (lambda p: p.query("SELECT 1 FROM bid; SELECT 2 FROM bid"), "Q330", ..., ...),
    "not a query": (lambda p: p.query("DROP STREAM bid"), "Q330", ..., ...),
    "no type of time": (lambda p: p.scan("bid").window(10), "Q330", "", ""),
    "neither time nor rows": (lambda p: p.scan("bid").window(), "Q330", "", ""),
    "both time and rows": (lambda p: p.scan("bid").window("1 second", rows=3), "Q330", "", ""),
    "no rows": (lambda p: p.scan("bid").window(rows=0), "Q330", "", ""),
    "now and more": (lambda p: p.scan("bid").window("now", slide="1 second"), "Q330", "", ""),
    "unbounded and more": (lambda p: p.scan("bid").window("unbounded", min="1 second"), "Q330", "", ""),
    "no granularity": (lambda p: p.scan("bid").granularity(finest="1 second"), "Q330", "", ""),
    "join without a condition": (lambda p: p.scan("bid").join(p.scan("sold")), "Q330", "", ""),
    "cross join with one": (lambda p: p.scan("bid").join(p.scan("sold"), "1 = 1", how="cross"), "Q330", "", ""),
    "unknown join": (lambda p: p.scan("bid").join(p.scan("sold"), "1 = 1", how="asof"), "Q330", "", ""),
    "join with a name": (lambda p: p.scan("bid").join("sold", "1 = 1"), "Q330", "", ""),
    "union with groups": (lambda p: p.scan("bid").union(p.scan("sold").group_by("item")), "Q330", "", ""),
    "nothing": (lambda p: p.scan("bid").where(), "Q330", "", ""),
    "no keys": (lambda p: p.scan("bid").group_by(), "Q330", "", ""),
    "no operand": (lambda p: p.scan("bid").union_all(), "Q330", "", ""),
    "no number": (lambda p: p.scan("bid").limit(-1), "Q330", "", ""),
    "no name": (lambda p: p.scan(""), "Q330", "", ""),
    "unknown emission": (lambda p: p.scan("bid").run(emit="late"), "Q330", "", ""),
}
"""A plan, the code of its error, the text that the error shows, and the part of it that it marks; `...`: whatever."""


@pytest.mark.parametrize("name", WRONG)
def test_an_error_is_shown_in_what_was_written(plan, name):
    build, code, text, marked = WRONG[name]
    with pytest.raises(QueryError) as caught:
        build(plan)
    error = caught.value
    assert error.code == code, error.render()
    assert error.hint is not None or code == "Q001"
    if text is not ...:
        assert error.text == text
    if marked is not ... and marked is not None:
        assert error.text[error.span.start : error.span.end] == marked


def test_an_error_about_the_whole_shows_the_sql(plan):
    with pytest.raises(QueryError) as caught:
        _ = bids(plan).window("1 day").aggregate(n="COUNT(*)").columns
    assert caught.value.code == "Q202"
    assert "WINDOW(RANGE 10 minutes)" in caught.value.text


def test_a_plan_stays_as_it_is(plan):
    first = plan.scan("bid")
    before = first.sql
    assert first.where("price > 3") != first
    assert first.where("price > 3") == first.where("price > 3")
    assert first.sql == before
    with pytest.raises(AttributeError):
        first.query = before


def test_a_plan_shows_its_columns_and_operators(plan):
    made = bids(plan).group_by("item").aggregate(n="COUNT(*)").where("n > 3 OR item < 0")
    assert made.columns == {"item": "INT", "n": "BIGINT"}
    assert repr(made).startswith("<QueryPlan item INT, n BIGINT>\nMap ")
    assert "      Scan bid" in repr(made)
    assert "n &gt; 3 OR item &lt; 0" in made._repr_html_()
    assert "physical plan" in made.explain()
    assert repr(plan.scan("bid").group_by("item", "price")) == "<groups by item, price: call .aggregate(…)>"


def test_a_plan_that_is_not_ready_says_why(plan):
    shown = repr(plan.scan("bid").where("pirce > 3"))
    assert "cannot run yet" in shown
    assert "did you mean 'price'?" in shown
    assert "did you mean &#x27;price&#x27;?" in plan.scan("bid").where("pirce > 3")._repr_html_()


def test_a_warning_is_shown_in_what_was_written(plan):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        plan.scan("bid").aggregate(n="COUNT(*)").run(once=True).wait()
    [found] = [each.message for each in caught]
    assert isinstance(found, TidegateWarning)
    assert (found.code, found.text) == ("W101", "bid")
    assert caught[0].filename == __file__


def test_plans_of_two_sessions_do_not_mix(plan):
    with tidegate.Session(runtime="embedded") as other:
        other.sql(STREAMS)
        with pytest.raises(QueryError, match="different sessions"):
            plan.scan("bid").union_all(other.plan.scan("bid"))


def test_a_plan_runs_as_its_sql_does(session):
    made = bids(session.plan).group_by("item").aggregate(n="COUNT(*)", top="MAX(price)").where("top > 12")
    expected = session.sql(made.sql).finish()
    assert expected.num_rows > 1
    assert made.run().finish() == expected
    named = made.run(name="tops", emit="early", times="micros", once=True)
    assert named.names == ("tops",)
    assert named.results("tops").num_rows >= expected.num_rows
    changes = made.run(emit="changes", once=True).results()
    assert "op" in changes.schema.names


def test_a_plan_is_a_derived_stream(session):
    dear = session.plan.scan("bid").where("price > 12").create("dear")
    assert dear.sql == "SELECT *\nFROM dear"
    expected = session.sql("SELECT item FROM bid WHERE price > 12").finish()
    assert dear.select("item").run(once=True).results() == expected
    with pytest.raises(QueryError) as caught:
        session.plan.scan("bid").where("prise > 12").create("dearer")
    assert caught.value.text == "prise > 12"


def test_plans_need_an_open_session(session):
    made = session.plan.scan("bid")
    session.close()
    with pytest.raises(QueryError, match="closed"):
        made.run()
    with pytest.raises(QueryError, match="closed"):
        _ = session.plan
