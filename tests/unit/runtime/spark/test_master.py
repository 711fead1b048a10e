"""How long a Spark master may take to answer."""

from __future__ import annotations

import os

import pytest

from tidegate.runtime.spark import master


@pytest.mark.parametrize(
    ("load", "launch", "seconds"),
    [(0.1, 2.0, 20.0), (0.1, 9.0, 36.0), (4.0, 2.0, 40.0), (4.0, 9.0, 72.0), (1000.0, 2.0, 100.0)],
)
def test_a_busy_machine_gets_more_time_but_not_for_ever(monkeypatch, load, launch, seconds):
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert master.seconds_to_answer(launch) == seconds
