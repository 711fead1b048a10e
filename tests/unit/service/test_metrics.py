"""Metrics: right figures, in the format of Prometheus, and a dashboard that names only those."""

from __future__ import annotations

import json
import re

import pytest
from support.paths import ROOT

from tidegate.live.answers import QueryStatus
from tidegate.runtime.figures import OperatorFigures, OperatorPlace, SourceFigures, StepPhases
from tidegate.runtime.job import Progress, QueryState, StepTime
from tidegate.runtime.state import StateSize
from tidegate.service.metrics import ServiceFigures, collect_metrics, format_metrics
from tidegate.time import BEGINNING, FOREVER

LINE = re.compile(r'(?P<name>[a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\["\\n])*"(,[a-z]+="[^"]*")?\})? -?[0-9.e+-]+')
DASHBOARD = ROOT / "docs" / "grafana" / "tidegate.json"


def figures(progress: Progress, state: QueryState = QueryState.RUNNING) -> ServiceFigures:
    queries = (QueryStatus("a", "", "running", None, 0), QueryStatus("b", "", "paused", None, 0))
    sizes = {OperatorPlace(1, 0, bucket): StateSize(bytes=30, rows=2, cold_bytes=500) for bucket in range(2)}
    return ServiceFigures(state, progress, sizes, queries, 2, 7)


def lines(progress: Progress, now: int = 10_000_000, state: QueryState = QueryState.RUNNING) -> list[str]:
    return format_metrics(collect_metrics(figures(progress, state), now)).splitlines()


def test_the_figures_of_a_run():
    progress = Progress(rows_in=5, rows_out={"hot": 3}, dead={"late": 2}, state_bytes=100, steps=4)
    progress.watermarks = {"trade": 4_000_000, "quiet": BEGINNING, "table": FOREVER}
    progress.operators = {
        OperatorPlace(1, 0, bucket): OperatorFigures(4 + bucket, 4, bucket, 0.25) for bucket in range(2)
    }
    for step in range(1, 5):
        progress.note_step(StepTime(step, 0.0, 5, 0.25, StepPhases(run=float(step))), {})
    progress.sources = {"trade": SourceFigures(0.0, 12)}
    found = lines(progress)
    for line in (
        "tidegate_up 1",
        "tidegate_rows_in_total 5",
        'tidegate_rows_out_total{query="hot"} 3',
        'tidegate_dead_letters_total{reason="late"} 2',
        "tidegate_state_bytes 100",
        "tidegate_steps_total 4",
        "tidegate_last_step_seconds 0.25",
        'tidegate_step_phase_seconds{phase="run",quantile="0.5"} 2.0',
        'tidegate_step_phase_seconds{phase="run",quantile="0.99"} 4.0',
        'tidegate_step_phase_seconds_sum{phase="run"} 10.0',
        'tidegate_step_phase_seconds_count{phase="run"} 4',
        'tidegate_source_rows_total{stream="trade"} 12',
        'tidegate_source_rows_per_second{stream="trade"} 0.0',
        'tidegate_operator_state_bytes{operator="1/0"} 60',
        'tidegate_operator_state_rows{operator="1/0"} 4',
        'tidegate_watermark_timestamp_seconds{stream="trade"} 4.0',
        'tidegate_watermark_lag_seconds{stream="trade"} 6.0',
        'tidegate_operator_rows_in_total{operator="1/0"} 9',
        'tidegate_operator_rows_out_total{operator="1/0"} 8',
        'tidegate_operator_omitted_rows_total{operator="1/0"} 1',
        'tidegate_operator_seconds_total{operator="1/0"} 0.5',
        'tidegate_queries{state="running"} 1',
        'tidegate_queries{state="paused"} 1',
        "tidegate_subscribers 2",
        "tidegate_subscriber_lost_rows_total 7",
    ):
        assert line in found
    assert not [line for line in found if "quiet" in line or "table" in line]


def test_a_run_that_has_ended_is_not_up():
    assert "tidegate_up 0" in lines(Progress(), state=QueryState.FAILED)


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\nb", "ä{}", ""])
def test_every_line_is_one_that_prometheus_reads(name):
    found = lines(Progress(rows_out={name: 1}))
    samples = [line for line in found if not line.startswith("#")]
    assert all(LINE.fullmatch(line) for line in samples)
    assert sum(line.startswith("tidegate_rows_out_total") for line in samples) == 1
    described = [line.split()[2] for line in found if line.startswith("# TYPE")]
    assert len(described) == len(set(described))
    assert {re.sub(r"(_sum|_count)?[{ ].*", "", line) for line in samples} <= set(described)


def test_the_dashboard_names_only_metrics_that_exist_and_all_of_them():
    expressions = [t["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for t in panel["targets"]]
    named = {re.sub("_(sum|count)$", "", name) for each in expressions for name in re.findall(r"tidegate_\w+", each)}
    known = {metric.name for metric in collect_metrics(figures(Progress()))}
    assert named <= known
    assert known - named == {"tidegate_watermark_timestamp_seconds"}  # the lag is shown


def test_the_labels_of_the_dashboard_exist():
    labels = {metric.name: metric.labels for metric in collect_metrics(figures(Progress()))}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            (name,) = {re.sub("_(sum|count)$", "", each) for each in re.findall(r"tidegate_\w+", target["expr"])}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= set(labels[name])
