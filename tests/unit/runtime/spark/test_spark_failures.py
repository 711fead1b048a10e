"""What goes wrong on Spark is one coded error with a hint; here without Spark."""

from __future__ import annotations

import socket

import pytest
from pyspark.errors import PySparkException

from tidegate.errors import DataError
from tidegate.runtime.spark.failures import explain_failure
from tidegate.runtime.spark.master import check_master
from tidegate.runtime.spark.session import settings_for, start_spark

IN_A_TASK = """Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times: {0}
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
{0}

\tat org.apache.spark.api.python.BasePythonRunner.handle(PythonRunner.scala:1)
"""


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this process had started no Java; another test may have."""
    for module in ("gateway", "failures"):
        monkeypatch.setattr(f"tidegate.runtime.spark.{module}.java_process", lambda: None)


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_a_master_that_cannot_be_reached_is_an_error_before_spark_is_started(closed_port):
    with pytest.raises(DataError, match="Connection refused") as raised:
        start_spark(f"spark://127.0.0.1:{closed_port}")
    assert raised.value.code == "D403"
    assert "--master" in (raised.value.hint or "")


@pytest.mark.parametrize("address", ["head", "head:", ":7077", "head:seven"])
def test_an_address_without_host_or_port_is_an_error(address):
    with pytest.raises(DataError, match="is not host:port") as raised:
        check_master(f"spark://{address}")
    assert raised.value.code == "D403"


@pytest.mark.parametrize("master", ["nonsense", "", "locally", "http://head:7077", "local[2", "yarn-client"])
def test_what_is_no_master_is_an_error_before_spark_is_started(master):
    with pytest.raises(DataError, match="is not a Spark master") as raised:
        start_spark(master)
    assert raised.value.code == "D403"


def test_of_several_masters_one_that_answers_is_enough(closed_port):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{listener.getsockname()[1]}")


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2,4]", "local-cluster[1,1,512]", "yarn", "k8s://https://head"]
)
def test_other_masters_are_not_probed(master):
    check_master(master)


def test_sparks_own_page_is_there_when_asked_for(monkeypatch):
    monkeypatch.delenv("TIDEGATE_SPARK_UI", raising=False)
    assert settings_for("local[2]")["spark.ui.enabled"] == "false"
    monkeypatch.setenv("TIDEGATE_SPARK_UI", "4141")
    assert (settings_for("local[2]")["spark.ui.enabled"], settings_for("local[2]")["spark.ui.port"]) == ("true", "4141")


def test_an_unknown_level_of_sparks_log_is_an_error(monkeypatch):
    monkeypatch.setenv("TIDEGATE_SPARK_LOG", "loud")
    with pytest.raises(DataError) as raised:
        start_spark()
    assert (raised.value.code, raised.value.hint) == ("D407", "available: off, error, warn, info, debug")


@pytest.mark.parametrize(
    ("said", "code", "message"),
    [
        ("ModuleNotFoundError: No module named 'tidegate'", "D405", "cannot import tidegate"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "D404", "killed or crashed"),
        (
            "SparkException: EOFException while reading the port from tidegate.runtime.spark.daemon's stdout.",
            "D404",
            "killed or crashed",
        ),
        ("tidegate.errors.DataError: error[D104]: x.csv cannot be read", "D104", "^error.D104.: x.csv cannot be read$"),
        ("ValueError: no", "D401", "^error.D401.: Spark ended the query: ValueError: no\n"),
    ],
)
def test_what_a_task_says_is_one_error(said, code, message):
    found = explain_failure(PySparkException(IN_A_TASK.format(said)))
    assert found is not None
    assert found.code == code
    with pytest.raises(DataError, match=message):
        raise found


def test_errors_of_others_are_not_explained():
    assert explain_failure(OSError("no space left")) is None


def test_a_lost_connection_to_java_is_an_error_that_says_the_checkpoint_is_intact():
    found = explain_failure(ConnectionRefusedError())
    assert found.code == "D402"
    assert "the checkpoint is intact" in found.message
