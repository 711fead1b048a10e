"""Grouping below a join on a KEY: what becomes of plans, and where the rule must not apply."""

from __future__ import annotations

import pytest

from tidegate.algebra.explain import explain
from tidegate.algebra.plan import Aggregate, walk
from tidegate.catalog.catalog import Catalog
from tidegate.language.bind.program import bind
from tidegate.optimizer.advice import GroupPosition, PlanAdvice, PlanChoices
from tidegate.optimizer.optimize import optimize

STREAMS = """
CREATE STREAM bid (auction BIGINT, price DOUBLE, at TIMESTAMP) FROM 'bid' TIMESTAMP BY at;
CREATE STREAM auction (id BIGINT, seller BIGINT, at TIMESTAMP) FROM 'auction' TIMESTAMP BY at KEY (id);
CREATE STREAM small (id INT, seller BIGINT, at TIMESTAMP) FROM 'small' TIMESTAMP BY at KEY (id);
CREATE STREAM person (id BIGINT, city STRING, at TIMESTAMP) FROM 'person' TIMESTAMP BY at KEY (id);
CREATE STREAM offer (item BIGINT, day INT, cost DOUBLE, at TIMESTAMP) FROM 'offer' TIMESTAMP BY at KEY (item, day);
CREATE STREAM stay (id BIGINT, room INT, since TIMESTAMP, till TIMESTAMP)
FROM 'stay' VALID FROM since TO till KEY (id);
CREATE TABLE fee (id BIGINT, rate DOUBLE) FROM 'fee.csv';
"""
BIDS, AUCTIONS = "bid b WINDOW(RANGE 10 MINUTES)", "auction a WINDOW(RANGE 1 HOUR)"
BELOW = PlanAdvice(choices=PlanChoices(grouping=GroupPosition.BELOW))
LAW = "group_below_join_on_key"


def optimized(select: str, advice: PlanAdvice = BELOW) -> tuple[str, tuple[str, ...]]:
    program = bind(STREAMS + select, Catalog())
    plan, rules = optimize(program.queries[0].plan, program.settings, advice=advice)
    return explain(plan), rules


def test_a_group_meets_one_row_of_the_stream_with_the_key():
    text, rules = optimized(f"""
        SELECT b.auction, a.seller, MAX(b.price) AS top FROM {BIDS}, {AUCTIONS}
        WHERE b.auction = a.id GROUP BY b.auction, a.seller""")
    assert LAW in rules
    assert text.splitlines() == [
        "Map b.auction AS auction, a.seller AS seller, max_price AS top",
        "  Join on b.auction = a.id",
        "    Aggregate max(b.price) AS max_price by b.auction",
        "      Window range 10 minutes",
        "        Rename to b",
        "          Scan bid",
        "    Window range 1 hour",
        "      Rename to a",
        "        Scan auction",
    ]


def test_it_goes_below_one_join_after_the_other():
    text, _ = optimized(f"""
        SELECT b.auction, p.city, COUNT(*) AS n
        FROM {BIDS}, {AUCTIONS}, person p WINDOW(RANGE 1 HOUR)
        WHERE b.auction = a.id AND a.seller = p.id GROUP BY b.auction, a.seller, p.city""")
    lines = [line.strip() for line in text.splitlines()]
    assert lines[lines.index("Aggregate count(*) AS count by b.auction") + 1] == "Window range 10 minutes"


USED = {
    "computed argument": f"SELECT a.id, AVG(abs(b.price)) AS x FROM {BIDS}, {AUCTIONS} WHERE b.auction = a.id "
    "GROUP BY a.id",
    "more columns": f"SELECT a.id, b.price, COUNT(*) AS x FROM {BIDS}, {AUCTIONS} WHERE a.id = b.auction "
    "GROUP BY a.id, b.price",
    "cast": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, small a WINDOW(RANGE 1 HOUR) WHERE b.auction = a.id "
    "GROUP BY b.auction",
    "key of two columns": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, offer o WINDOW(RANGE 1 HOUR) "
    "WHERE b.auction = o.item AND o.day = 3 GROUP BY b.auction",
    "rows that last": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, stay s WHERE b.auction = s.id GROUP BY b.auction",
    "window of rows": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, auction a WINDOW(ROWS 9) WHERE b.auction = a.id "
    "GROUP BY b.auction",
}
REFUSED = {
    "another group": f"SELECT a.seller, COUNT(*) AS x FROM {BIDS}, {AUCTIONS} WHERE b.auction = a.id GROUP BY a.seller",
    "no group": f"SELECT COUNT(*) AS x FROM {BIDS}, {AUCTIONS} WHERE b.auction = a.id",
    "part of the key": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, offer o WINDOW(RANGE 1 HOUR) "
    "WHERE b.auction = o.item GROUP BY b.auction",
    "another condition": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, {AUCTIONS} "
    "WHERE b.auction = a.id AND b.price > a.seller GROUP BY b.auction",
    "argument of the other side": f"SELECT b.auction, MAX(a.seller) AS x FROM {BIDS}, {AUCTIONS} "
    "WHERE b.auction = a.id GROUP BY b.auction",
    "argument that can fail": f"SELECT b.auction, MAX(1 / b.auction) AS x FROM {BIDS}, {AUCTIONS} "
    "WHERE b.auction = a.id GROUP BY b.auction",
    "call that can fail": f"SELECT b.auction, SUM(b.auction) AS x FROM {BIDS}, {AUCTIONS} "
    "WHERE b.auction = a.id GROUP BY b.auction",
    "group that can fail": f"SELECT b.auction, 1 / a.seller AS y, COUNT(*) AS x FROM {BIDS}, {AUCTIONS} "
    "WHERE b.auction = a.id GROUP BY b.auction, 1 / a.seller",
    "window over rows that last": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, stay s WINDOW(RANGE 5 MINUTES) "
    "WHERE b.auction = s.id GROUP BY b.auction",
    "table": f"SELECT b.auction, COUNT(*) AS x FROM {BIDS}, fee f WHERE b.auction = f.id GROUP BY b.auction",
    "no key": f"SELECT a.auction, COUNT(*) AS x FROM {BIDS}, bid a WINDOW(RANGE 1 HOUR) WHERE b.auction = a.auction "
    "GROUP BY a.auction",
    "no constraints": f"SET constraints = off; SELECT b.auction, COUNT(*) AS x FROM {BIDS}, {AUCTIONS} "
    "WHERE b.auction = a.id GROUP BY b.auction",
}


@pytest.mark.parametrize("select", USED.values(), ids=USED)
def test_it_applies_where_the_join_columns_have_a_key_and_decide_the_group(select: str):
    assert LAW in optimized(select)[1]


@pytest.mark.parametrize("select", REFUSED.values(), ids=REFUSED)
def test_it_does_not_apply_elsewhere(select: str):
    assert LAW not in optimized(select)[1]


def test_nothing_changes_without_a_choice():
    for select in USED.values():
        assert LAW not in optimized(select, PlanAdvice())[1]


UNIQUE = """
    SELECT b.auction, o.top, COUNT(*) AS n
    FROM bid b WINDOW(RANGE 9 SECONDS),
         (SELECT seller, MAX(id) AS top FROM auction WINDOW(RANGE 9 SECONDS) GROUP BY seller) o
    WHERE b.auction = o.seller GROUP BY b.auction, o.top"""


@pytest.mark.parametrize(("grouping", "is_below"), [(GroupPosition.USUAL, True), (GroupPosition.ABOVE, False)])
def test_grouping_above_joins_can_be_chosen_where_it_is_usually_below(grouping: GroupPosition, is_below: bool):
    program = bind(STREAMS + UNIQUE, Catalog())
    plan, _ = optimize(program.queries[0].plan, advice=PlanAdvice(choices=PlanChoices(grouping=grouping)))
    (counting,) = (each for each in walk(plan) if isinstance(each, Aggregate) and each.calls[0].function == "count")
    assert all(not isinstance(each, Aggregate) for each in walk(counting.source)) == is_below
