"""Which value of an alert on one stream decides what is omitted, and what EXPLAIN says of it."""

from __future__ import annotations

import pytest

from tidegate.algebra.alert_operators import ThresholdJoin
from tidegate.algebra.explain_threshold_alert import certificates
from tidegate.algebra.plan import Plan, walk
from tidegate.algebra.threshold_alert import Demand, KeepAll
from tidegate.catalog.python_functions import Registration
from tidegate.errors import QueryError
from tidegate.expressions.sql_text import to_sql
from tidegate.language.bind.program import bind
from tidegate.runtime.compile import compile_queries

DECLARED = (
    "CREATE STREAM h (k INT, v DOUBLE CHECK (v BETWEEN 1 AND 100), w DOUBLE, name STRING, t BIGINT) "
    "FROM 'x.csv' TIMESTAMP BY t;\n"
)


def optimized(when: str, rest: str = "WITHIN 5 SECONDS", end: str = "") -> Plan:
    functions = Registration()
    functions.function("costly", len, arguments=["DOUBLE"], result="DOUBLE")
    functions.function("strange", len, arguments=["STRING"], result="DOUBLE")
    text = f"{DECLARED} CREATE ALERT x FROM h {rest} MATCHING k WHEN {when} {end};"
    ((compiled,), _) = compile_queries(bind(text, functions.catalog))
    return compiled.optimized


def join(plan: Plan) -> ThresholdJoin:
    (found,) = [node for node in walk(plan) if isinstance(node, ThresholdJoin)]
    return found


def demand(when: str, **rest: str) -> Demand | KeepAll:
    return join(optimized(when, **rest)).alerts[0].demands[0]


@pytest.mark.parametrize(
    ("when", "value", "sides"),
    [
        ("exp(v) > 3", "h.v", (True, False)),
        ("exp(v) < 3", "h.v", (False, True)),
        ("abs(v - 20) > 3", "h.v", (True, True)),
        ("ln(v + w) > 3", "ln(h.v + h.w)", (True, False)),
        ("v + w > 3", "h.v + h.w", (True, False)),
        ("exp(v + w) > 3", "h.v + h.w", (True, False)),
        ("sin(w) > 0.5", "sin(h.w)", (True, False)),
    ],
)
def test_the_value_is_the_smallest_part_that_suffices(when, value, sides):
    found = demand(when)
    assert isinstance(found, Demand)
    assert (found.value_text, (found.above, found.below), found.keeps_copies) == (value, sides, True)
    assert (found.window, found.strict) == (5_000_000, False)


@pytest.mark.parametrize("when", ["costly(v) > 3", "3 < costly(v) * costly(v)", "costly(v) > costly(v * 2)"])
def test_what_is_assumed_is_about_the_value_that_the_function_reads(when):
    found = demand(when, end="ASSUME QUASICONVEX")
    assert isinstance(found, Demand)
    assert (found.value_text, found.above, found.below) == ("h.v", True, True)


def test_a_user_defined_function_is_not_computed_below_the_alert():
    plan = optimized("costly(v + w) > 3", end="ASSUME QUASICONVEX")
    (below,) = join(plan).inputs
    assert "costly" not in repr(below)
    assert to_sql(join(plan).alerts[0].condition) == 'costly("alert:x:0") > 3.0'


@pytest.mark.parametrize(
    ("when", "rest", "end", "why"),
    [
        ("costly(v) > 3", "WITHIN 5", "", "nothing is known about the shape of costly(h.v)"),
        (
            "costly(v) > w",
            "WITHIN 5",
            "ASSUME QUASICONVEX",
            "the threshold reads several columns of it in several places",
        ),
        ("strange(name) > 3", "WITHIN 5", "ASSUME QUASICONVEX", "the threshold reads a value that is not a number"),
        ("exp(v) > 3", "", "", "without WITHIN each element is compared with the threshold"),
        ("exp(v) > 3", "WITHIN 5", "EMIT ALL", "EMIT ALL asks for every element"),
    ],
)
def test_without_a_shape_every_element_is_compared(when, rest, end, why):
    found = demand(when, rest=rest, end=end)
    assert isinstance(found, KeepAll)
    assert found.why == why


def test_a_wrong_assumption_is_refused():
    with pytest.raises(QueryError, match="the assumption of alert 'x' is false"):
        demand("-power(v - 20, 2) > 3", end="ASSUME QUASICONVEX")


def test_explain_says_what_the_function_is_computed_for_and_why():
    first, second = certificates(optimized("exp(v) > 3"))
    assert first == "x: the function is computed for elements that no others, 5 seconds apart, represent"
    assert second == "  h: keeps the greatest h.v of any 5 seconds: rising: exp(h.v) is rising for h.v in [1, 100]"
    first, second = certificates(optimized("exp(v) > 3", rest="WITHIN 5 SECONDS OPEN"))
    assert first.startswith("x: the function is computed for elements that no others, less than 5 seconds apart")
    assert certificates(optimized("costly(v) > 3"))[0] == "x: the function is computed for each element"
    assert certificates(optimized("exp(v) > 3", rest=""))[0] == "x: each element is compared with the threshold"


def test_alerts_on_one_stream_do_not_join_groups():
    text = (
        f"{DECLARED} CREATE ALERT x FROM h WITHIN 5 SECONDS WHEN v > 3;"
        "CREATE ALERT y FROM h, h i WITHIN 5 SECONDS WHEN h.v + i.v > 3;"
    )
    compiled, _ = compile_queries(bind(text))
    assert [len(join(each.optimized).inputs) for each in compiled] == [1, 2]
