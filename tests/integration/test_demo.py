"""The demo: the condensation alert over generated readings."""

from __future__ import annotations

import re
import sys
from datetime import timedelta
from html import unescape

import numpy as np
import pytest
from support.paths import ROOT

from examples.condensation import demo
from tidegate.session import Session

pytestmark = pytest.mark.slow


def test_the_demo_shows_alarms_and_how_little_was_kept(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py", "--runtime", "embedded"])
    demo.main()
    shown = capsys.readouterr().out
    alarms, incidents, machines = _numbers(r"([\d,]+) alarms of ([\d,]+) incidents on ([\d,]+) machines", shown)
    assert 200 >= alarms >= incidents >= machines > 10
    kept, tuples, by_spark = _numbers(r"kept at most ([\d,]+) of ([\d,]+) tuples at a time; .* kept ([\d,]+)", shown)
    assert tuples == 600_000
    assert kept * 5 < by_spark < tuples
    drawn = re.findall(r"<text[^>]*>(.*)</text>", (ROOT / "docs/demo.svg").read_text(encoding="utf-8"))
    assert [unescape(line) for line in drawn] == ["$ ./dev demo --runtime embedded", *shown.splitlines()]


def test_every_alarm_of_the_demo_is_true():
    with Session(runtime="embedded") as session:
        running = session.sql(demo.PROGRAM.read_text(), once=True)
        assert running is not None
        alarms = running.finish().to_pandas()
    gamma = np.log(alarms["h_value"] / 100) + 18.678 * alarms["a_value"] / (257.14 + alarms["a_value"])
    dew_point = 257.14 * gamma / (18.678 - gamma)
    assert (dew_point > alarms["s_value"]).all()
    assert np.allclose(dew_point - alarms["s_value"], alarms["value"], rtol=0, atol=1e-9)
    times = alarms[["h_at", "a_at", "s_at"]]
    assert (times.max(axis=1) - times.min(axis=1)).max() <= timedelta(microseconds=demo.DISTANCE)


@pytest.mark.spark
def test_made_up_rows_come_a_batch_at_a_time_on_spark(spark):
    with Session(spark=spark) as session:
        session.sql("CREATE STREAM g (k INT, at TIMESTAMP) FROM 'generator://?rows=25&keys=3&batch=10' TIMESTAMP BY at")
        running = session.sql("SELECT k FROM g WHERE k >= 0", once=True)
        assert running is not None
        running.wait()
        assert running.results().num_rows == running.progress().rows_in == 25
        assert running.progress().steps == 3


def _numbers(pattern: str, text: str) -> list[int]:
    found = re.search(pattern, text)
    assert found is not None, text
    return [int(number.replace(",", "")) for number in found.groups()]
