"""Which elements alerts can do without: windows by topology, values, shapes, and what EXPLAIN says of them."""

from __future__ import annotations

import pytest

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.explain_threshold_alert import certificates
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.threshold_alert import Alert, Demand, KeepAll, Link
from tidegate.errors import QueryError
from tidegate.expressions.nodes import TRUE
from tidegate.language.bind.program import bind
from tidegate.optimizer.omission import omission_window
from tidegate.runtime.compile import compile_queries

DECLARED = "".join(
    f"CREATE STREAM {name} (k INT, v DOUBLE CHECK (v BETWEEN {low} AND {high}), w DOUBLE, t BIGINT) "
    f"FROM 'x.csv' TIMESTAMP BY t;\n"
    for name, low, high in (("h", 1, 100), ("a", -40, 60), ("s", -40, 60))
)


def alert(*links: Link, members: int, step: int = 1) -> Alert:
    return Alert("x", tuple(range(members)), links, TRUE, TRUE, step)


def windows(of: Alert) -> list[tuple[int, bool] | None]:
    found = [omission_window(of, position) for position in range(len(of.members))]
    return [None if isinstance(each, KeepAll) else each for each in found]


def optimized(*statements: str) -> list[Plan]:
    compiled, _ = compile_queries(bind(DECLARED + "\n".join(statements)))
    return [each.optimized for each in compiled]


def demands(statement: str) -> tuple[Demand | KeepAll, ...]:
    (join,) = [node for node in walk(optimized(statement)[0]) if isinstance(node, ThresholdJoin)]
    return join.alerts[0].demands


def sides(statement: str) -> list[tuple[bool, bool] | None]:
    return [(d.above, d.below) if isinstance(d, Demand) else None for d in demands(statement)]


# ---- windows


def test_two_streams_have_twice_the_distance():
    assert windows(alert(Link(0, 1, 10, 10), members=2)) == [(20, False), (20, False)]


def test_open_ends_must_not_be_reached():
    assert windows(alert(Link(0, 1, 10, 10, open_before=True, open_after=True), members=2)) == [(20, True)] * 2
    assert windows(alert(Link(0, 1, 10, 10, open_after=True), members=2)) == [(20, False)] * 2


def test_in_a_clique_every_stream_has_the_distance():
    links = [Link(i, j, 10, 10) for j in range(4) for i in range(j)]
    assert windows(alert(*links, members=4)) == [(10, False)] * 4


def test_the_centre_of_a_star_and_the_middle_of_a_chain_are_kept_whole():
    assert windows(alert(Link(0, 1, 10, 10), Link(0, 2, 10, 10), members=3)) == [None, (20, False), (20, False)]
    chain = alert(Link(0, 1, 10, 10), Link(1, 2, 4, 4), Link(2, 3, 3, 3), members=4)
    assert windows(chain) == [(20, False), None, None, (6, False)]


def test_of_a_clique_without_one_edge_its_two_ends_can_omit():
    links = [Link(0, 1, 10, 10), Link(0, 2, 10, 10), Link(1, 2, 10, 10), Link(1, 3, 10, 10), Link(2, 3, 10, 10)]
    assert windows(alert(*links, members=4)) == [(10, False), None, None, (10, False)]


def test_with_different_distances_it_is_what_any_two_others_leave():
    links = [Link(0, 1, 1, 1), Link(0, 2, 1, 1), Link(1, 2, 10, 10)]
    assert windows(alert(*links, members=3))[0] is None
    links = [Link(0, 1, 5, 5), Link(0, 2, 7, 7), Link(1, 2, 4, 4)]
    assert windows(alert(*links, members=3)) == [(8, False), (2, False), (6, False)]


def test_hopping_windows_have_their_length():
    assert windows(alert(Link(0, 1, 10, 10, True, True), members=2, step=5)) == [(10, False)] * 2


# ---- values and shapes


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("h.v + a.v > 5", [(True, False), (True, False)]),
        ("h.v - a.v < 5", [(False, True), (True, False)]),
        ("5 <= h.v - a.v", [(True, False), (False, True)]),
        ("h.v > a.v", [(True, False), (False, True)]),
        ("h.v * a.v > 5", [(True, True), (True, False)]),
        ("greatest(abs(h.v - 3), a.v) > 5", [(True, False), (True, False)]),
        ("abs(h.v - a.v) > 5", [(True, True), (True, True)]),
        ("h.v * h.w + a.v > 5", [(True, False), (True, False)]),
        ("h.v * a.v + h.w > 5", [None, (True, False)]),
        ("sin(h.v * a.v) > 0.5", [None, None]),
    ],
)
def test_what_is_needed_of_each_stream_follows_from_the_formula(formula, expected):
    assert sides(f"CREATE ALERT x FROM h, a WITHIN 5 SECONDS MATCHING k WHEN {formula};") == expected


def test_the_value_is_the_largest_part_that_reads_one_stream():
    first, second = demands("CREATE ALERT x FROM h, a WITHIN 5 SECONDS WHEN ln(h.v / 100) + sin(a.v) * a.v > 0;")
    assert isinstance(first, Demand)
    assert isinstance(second, Demand)
    assert (first.value_text, second.value_text) == ("ln(h.v / 100.0)", "sin(a.v) * a.v")


def test_a_condition_over_several_streams_keeps_them_whole():
    text = "CREATE ALERT x FROM h, a WITHIN 5 SECONDS WHEN h.v + a.v > 0 WHERE h.w < a.w;"
    assert sides(text) == [None, None]


def test_every_combination_needs_every_element():
    assert sides("CREATE ALERT x FROM h, a WITHIN 5 SECONDS WHEN h.v + a.v > 0 EMIT ALL;") == [None, None]


def test_what_cannot_be_proved_can_be_vouched_for():
    text = "CREATE ALERT x FROM h, a WITHIN 5 SECONDS WHEN {} > 0 ASSUME QUASICONVEX IN h;"
    assert sides(text.format("ln(h.v - a.v)")) == [(True, True), None]
    with pytest.raises(QueryError, match="the assumption of alert 'x' is false"):
        sides(text.format("-abs(h.v - a.v)"))


# ---- several alerts, and words


def test_alerts_with_a_stream_in_common_are_one_join():
    first, second, third = optimized(
        "CREATE ALERT one FROM h, a WITHIN 5 SECONDS MATCHING k WHEN h.v + a.v > 0;",
        "CREATE ALERT two FROM a x, s y WITHIN 9 SECONDS MATCHING k WHEN x.v + y.v < 0;",
        "CREATE ALERT three FROM h, a WITHIN 5 SECONDS WHEN h.v + a.v > 0;",
    )
    joins = [next(n for n in walk(plan) if isinstance(n, ThresholdJoin)) for plan in (first, second, third)]
    assert joins[0] == joins[1]
    assert len(joins[0].inputs) == 3
    assert [a.members for a in joins[0].alerts] == [(0, 1), (1, 2)]
    assert len(joins[2].alerts) == 1


def test_explain_says_what_is_kept_and_why():
    (plan,) = optimized("CREATE ALERT dew FROM h, a, s WITHIN 10 SECONDS OF a MATCHING k WHEN h.v * a.v - s.v > 0;")
    first, h, a, s = certificates(plan)
    assert first == "dew: h and a within 10 seconds, a and s within 10 seconds"
    assert h.startswith("  h: keeps the greatest or smallest h.v of any 20 seconds: quasiconvex: h.v * a.v is linear")
    assert a == "  a: keeps every element: not all streams that it joins join each other"
    assert s.startswith("  s: keeps the smallest s.v of any 20 seconds: falling: -s.v is falling for s.v in [-40, 60]")
