"""EXPLAIN speaks the words of the query: no columns of Tidegate's own, durations as people write them."""

from __future__ import annotations

import re

import pytest

from tidegate.algebra.explain import duration_text
from tidegate.algebra.plan import Map, Output, Scan, Union
from tidegate.expressions.nodes import Call, Column
from tidegate.language.bind.program import bind
from tidegate.runtime.commands import explain_program
from tidegate.runtime.explain_format import ExplainFormat
from tidegate.runtime.explain_names import names_in
from tidegate.schema import Schema, Type

STREAMS = """
CREATE STREAM l (k INT, v REAL, t TIMESTAMP) FROM 'l.csv' TIMESTAMP BY t;
CREATE STREAM r (id INT, k INT, v REAL, t TIMESTAMP) FROM 'r.csv' TIMESTAMP BY t;
"""
ONE = "CREATE ALERT a FROM l, r WITHIN 90 SECONDS MATCHING k WHEN l.v * 2 + ln(r.v) > 36.87;"
OTHER = "CREATE ALERT b FROM l, r WITHIN 10 SECONDS MATCHING k WHEN (l.v + 1) * (r.v + 2) > 36.87;"
PROGRAM = f"""
{STREAMS} {ONE} {OTHER}
CREATE ALERT busy FROM l WITHIN 90 SECONDS MATCHING k WHEN TOTAL(k) >= 10;
CREATE ALERTS traded FROM l, r WHERE l.v BETWEEN r.v - 1 AND r.v + 1 MATCHING k WHEN TOTAL(l.k) >= r.k + 1;
SELECT COUNT(*) AS n FROM l WINDOW(RANGE 90 SECONDS SLIDE 1500 MILLISECONDS);
SELECT l.k FROM l WINDOW(RANGE 1 HOUR), r WINDOW(RANGE 5 SECONDS) WHERE l.k + 1 = r.k * 2;
SELECT l.k FROM l WINDOW(RANGE 1 HOUR), r WINDOW(RANGE 5 SECONDS) WHERE abs(l.v + 1 - r.v) < 2;
"""


@pytest.mark.parametrize("shape", ExplainFormat)
def test_explain_has_no_internal_names_and_no_microseconds(shape):
    said = explain_program(bind(PROGRAM), shape)
    assert not re.findall(r"\b(?:alert|range|key|like):\w+|.*µs.*|.*[0-9]{6}.*", said)


def test_explain_shows_formulas_of_alerts_as_they_were_written():
    lines = [line.strip() for line in explain_program(bind(STREAMS + ONE)).splitlines()]
    assert "Threshold join a when l.v * 2.0 + ln(r.v) > 36.87" in lines  # before the optimiser
    assert "Threshold join a when (l.v * 2.0) + ln(r.v) > 36.87" in lines
    assert "Map l.k AS k, l.v AS l_v, l.t AS l_t, r.id AS r_id, r.v AS r_v, r.t AS r_t, value, incident, alarm" in lines
    assert "omit elements that lie between two greater values of l.v * 2.0 within 3 minutes" in lines
    assert "from stage 1: r.id, r.k, r.v, r.t, ln(r.v)" in lines


def test_durations_are_written_as_people_do():
    assert "window 1 minute 30 seconds, sliding by 1 second 500 milliseconds" in explain_program(bind(PROGRAM))
    seconds = {10: "10 seconds", 90: "1 minute 30 seconds", 3600: "1 hour", 129_600: "1 day 12 hours"}
    seconds |= {90 * 86_400: "90 days", 14 * 86_400: "2 weeks", 0: "0 seconds"}
    assert {each: duration_text(each * 1_000_000) for each in seconds} == seconds
    assert duration_text(1) == "1 microsecond"
    assert duration_text(61_002_003) == "1 minute 1 second 2 milliseconds 3 microseconds"


def test_a_column_with_two_meanings_keeps_its_name():
    scan, v = Scan("s", Schema.of(v=Type.INT)), Column("v", Type.INT)
    one, other = (Map(scan, (Output("key:l:0", Call(f, (v, v), Type.INT)),)) for f in "+-")
    assert list(names_in(one)) == ["key:l:0"]
    assert names_in(Union((one, other))) == {}
