"""Metadata over real HTTP and from `tidegate.connect`."""

from __future__ import annotations

import pyarrow as pa
import pytest
from support.served import Served, served

import tidegate

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


@pytest.fixture(name="service")
def _service(tmp_path):
    with served(tmp_path) as service:
        service.sql(service.define_readings())
        service.sql("CREATE QUERY hot AS SELECT value FROM reading WHERE value > 6")
        service.sql("CREATE QUERY cold AS SELECT value FROM reading WHERE value < 0")
        service.write(1, (1, 5.0), (2, 7.0), (3, 8.0), (4, 1.0))
        while not service.live.progress().recent_steps:
            assert not service.live.wait(0.01)
        yield service


def test_all_metadata_are_json(service: Served):
    found = service.ask("GET", "/v1/metadata").json
    (hot,) = [row for row in found["operators"] if row["operator"] == "filter value > 6.0"]
    assert (hot["query"], hot["rows_in"], hot["rows_out"], hot["selectivity"]) == ("hot", 4, 2, 0.5)
    assert (hot["bucket"], hot["watermark"]) == (None, "1970-01-01T00:00:00.000004Z")
    (source,) = found["sources"]
    assert (source["source"], source["rows"]) == ("reading", 4)
    assert [row["phase"] for row in found["phases"]] == ["read", "decode", "run", "save", "publish", "record"]


def test_one_query_has_metadata_of_its_own(service: Served):
    found = service.ask("GET", "/v1/queries/HOT/metadata").json
    assert {row["query"] for row in found["operators"]} == {"hot"}
    assert service.ask("GET", "/v1/queries/warm/metadata").status == 404


def test_operators_may_be_an_arrow_stream(service: Served):
    table = pa.ipc.open_stream(service.ask("GET", "/v1/metadata", headers=ARROW).body).read_all()
    assert set(table.column("query").to_pylist()) == {"hot", "cold"}


def test_a_remote_query_returns_tables(service: Served):
    with tidegate.connect(service.server.url) as session:
        found = session.query("hot").metadata()
        expected = service.live.metadata("hot")
        assert found.operators.drop_columns(["lag"]).equals(expected.operators.drop_columns(["lag"]))
        assert found.sources.column("rows").to_pylist() == [4]
        assert found.phases.equals(expected.phases)
        assert session.metadata().operators.num_rows > found.operators.num_rows
        (answer,) = session.execute("SHOW METADATA FOR cold")
        assert {row["rows_out"] for row in answer.table.to_pylist() if row["operator"].startswith("filter")} == {0}
        assert "filter value > 6.0  [4 rows in, 2 out" in session.ask("EXPLAIN ANALYZE QUERY hot")


def test_the_metrics_of_a_run_have_its_sources_phases_and_operators(service: Served):
    text = service.ask("GET", "/metrics").body.decode()
    assert 'tidegate_source_rows_total{stream="reading"} 4' in text
    assert 'tidegate_step_phase_seconds_count{phase="run"} 1' in text
    assert 'tidegate_operator_rows_out_total{operator="0/0"} 2' in text


def test_results_without_a_reader_are_counted_and_a_later_reader_gets_later_ones(service: Served):
    assert service.live.progress().rows_out == {"hot": 2}
    with service.live.subscribe("hot") as feed:
        service.write(2, (5, 9.0))
        rows = feed.next(60)
    assert rows is not None
    assert rows.column("value").to_pylist() == [9.0]
