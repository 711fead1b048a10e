"""Which alerts on totals share one tracker, and what the plans of the others are."""

from __future__ import annotations

import pytest

from tidegate.algebra.alert_operators import GroupedTotals, TotalThreshold
from tidegate.algebra.explain import explain
from tidegate.algebra.plan import Filter, Plan, walk
from tidegate.algebra.subscriptions import ConstantRange, RangedAlert, RangedAlertGroup
from tidegate.errors import Span
from tidegate.expressions.nodes import Literal
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.program import bind
from tidegate.optimizer import total_grouping
from tidegate.optimizer.total_grouping import group_totals
from tidegate.runtime.compile import compile_queries
from tidegate.schema import Type

STREAMS = """CREATE STREAM trade (symbol STRING, price DOUBLE, shares INT, size BIGINT, at TIMESTAMP)
  FROM 'trade' TIMESTAMP BY at;
"""
BASE = "FROM trade t WHERE t.price < 20 MATCHING symbol WHEN TOTAL(t.size) >= 5"


def grouped(*alerts: str) -> list[Plan]:
    """Return the plans of alerts of one text."""
    text = STREAMS + "".join(f"CREATE ALERT a{number} {alert};\n" for number, alert in enumerate(alerts))
    return list(group_totals([query.plan for query in bind(text).queries]))


def groups(*alerts: str) -> list[int]:
    """Return how many alerts each alert is counted together with, itself included; 1 if it is alone."""
    found = [[node for node in walk(plan) if isinstance(node, GroupedTotals)] for plan in grouped(*alerts)]
    return [len(each[0].group) if each else 1 for each in found]


def group_of(*alerts: str) -> GroupedTotals:
    (found,) = {node for plan in grouped(*alerts) for node in walk(plan) if isinstance(node, GroupedTotals)}
    return found


@pytest.mark.parametrize(
    "other",
    [
        "FROM trade t WHERE t.price BETWEEN 7 AND 9 MATCHING symbol WHEN TOTAL(t.size) >= 1",
        "FROM trade t WHERE t.price = 7 MATCHING symbol WHEN TOTAL(t.size) > 1",
        "FROM trade t WHERE 5 + 2 <= t.price MATCHING symbol WHEN TOTAL(t.size) > 1",
        "FROM trade u WHERE u.price > 7 MATCHING symbol WHEN TOTAL(u.size) > 1",
        "FROM trade WHERE price > 7 AND price < 9.5 MATCHING symbol WHEN TOTAL(size) > 1 NOTIFY 'me'",
    ],
)
def test_alerts_that_differ_in_constants_are_counted_together(other: str) -> None:
    assert groups(BASE, other, BASE) == [3, 3, 3]


@pytest.mark.parametrize(
    "other",
    [
        "FROM trade t WHERE t.price < 20 WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 MATCHING symbol REPEAT WHEN TOTAL(t.size) >= 5",
        "FROM trade t WITHIN 1 HOUR WHERE t.price < 20 MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 MATCHING symbol WHEN COUNT(*) >= 5",
        "FROM trade t WHERE t.price < 20 MATCHING symbol WHEN TOTAL(t.shares) >= 5",
        "FROM trade t WHERE t.shares < 20 MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 AND t.shares < 9 MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 AND t.symbol <> 'A' MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 OR t.price > 30 MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < t.shares MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 AND t.price < 30 MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 / t.shares MATCHING symbol WHEN TOTAL(t.size) >= 5",
        "FROM trade t WHERE t.price < 20 MATCHING symbol WHEN TOTAL(t.size + 1) >= 5",
        "FROM (SELECT * FROM trade WHERE shares > 1) t WHERE t.price < 20 MATCHING symbol WHEN TOTAL(t.size) >= 5",
    ],
)
def test_alerts_that_differ_in_more_stay_apart(other: str) -> None:
    assert groups(BASE, other) == [1, 1]


def test_an_alert_alone_stays_as_it_is() -> None:
    (plan,) = grouped(BASE)
    assert [type(node) for node in walk(plan) if isinstance(node, TotalThreshold | GroupedTotals)] == [TotalThreshold]


def test_an_alert_in_which_something_can_fail_is_counted_on_its_own() -> None:
    failing = "FROM trade t WHERE t.price < 20 MATCHING symbol WHEN TOTAL(t.size + 1) >= 5"
    assert groups(failing, failing) == [1, 1]


def test_ranges_that_all_alerts_have_are_filters() -> None:
    first = "FROM trade t WHERE t.shares >= 100 AND t.price < 20 WHEN COUNT(*) >= 5"
    found = group_of(first, first.replace("20", "30"))
    assert found.values == ("t.price",)
    predicates = [to_sql(node.predicate) for node in walk(found) if isinstance(node, Filter)]
    assert predicates == ["t.shares >= 100"]
    assert group_of(first, first.replace("5", "6")).values == ()


def test_terms_that_are_no_ranges_may_be_shared() -> None:
    first = "FROM trade t WHERE t.symbol = 'A' AND t.price < 20 WHEN COUNT(*) >= 5"
    assert groups(first, first.replace("20", "30")) == [2, 2]


def test_a_fifth_value_with_ranges_is_one_too_many() -> None:
    values = ["price", "shares", "size", "price * 2", "price * 3"]
    for count, together in ((4, 2), (5, 1)):
        terms = [" AND ".join(f"t.{value} < {end}.0" for value in values[:count]) for end in (1, 2)]
        terms = [term.replace("t.shares", "CAST(t.shares AS DOUBLE)") for term in terms]
        found = groups(*(f"FROM trade t WHERE {each} WHEN COUNT(*) >= 5" for each in terms))
        assert found == [together] * 2


def test_constants_at_the_ends_of_integers_are_no_ends_of_ranges() -> None:
    first = "FROM trade t WHERE t.size > 9223372036854775806 WHEN COUNT(*) >= 5"
    assert groups(first, first.replace("806", "805")) == [1, 1]


def test_a_group_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(total_grouping, "MOST_ALERTS", 2)
    assert groups(BASE, BASE, BASE) == [2, 2, 1]


def test_queries_say_that_they_share() -> None:
    compiled, _ = compile_queries(bind(f"{STREAMS}CREATE ALERT a {BASE}; CREATE ALERT b {BASE}; SELECT * FROM a"))
    assert ["group_totals" in each.rules for each in compiled] == [True, True, True]
    assert "Total thresholds of 2 alerts, total of t.size of each t.symbol" in explain(compiled[0].optimized)


def test_groups_are_equal_if_their_alerts_are_wherever_they_are_written() -> None:
    def group(end: float, at: int) -> RangedAlertGroup:
        low = Literal(end, Type.DOUBLE, Span(at, at))
        return RangedAlertGroup.of([RangedAlert("a", (ConstantRange(low),), 5)])

    assert group(1.0, 1) == group(1.0, 2)
    assert group(1.0, 1) != group(1.5, 1)
    assert hash(group(1.0, 1)) == hash(group(1.0, 2))
