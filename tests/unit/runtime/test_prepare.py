"""What `tidegate prepare` compiles and stores."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tidegate.language.bind.program import bind
from tidegate.runtime import cache_folders, prepare
from tidegate.runtime.compile import compile_queries
from tidegate.runtime.spark import class_archive
from tidegate.runtime.spark.java import ensure_java


@pytest.mark.parametrize(
    ("feature", "operator"),
    [
        ("joins", "JoinOperator"),
        ("aggregates", "AggregateOperator"),
        ("threshold alerts", "ThresholdAlertOperator"),
        ("subscriptions", "SubscriptionsOperator"),
        ("keyed joins", "KeyedJoinOperator"),
        ("similarity joins", "SimilarityJoinOperator"),
        ("joins that shed", "SimilarityJoinOperator"),
    ],
)
def test_a_sample_uses_the_feature_that_it_is_for(feature, operator):
    _, graph = compile_queries(bind(prepare._STREAMS + prepare.SAMPLES[feature]))
    assert operator in {type(node.operator).__name__ for stage in graph.stages for node in stage.nodes}


def test_kernels_are_compiled_again_only_if_they_have_changed(tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "environment_cache", lambda: tmp_path)
    monkeypatch.setattr(prepare, "SAMPLES", {"relations": prepare.SAMPLES["relations"]})
    assert list(prepare.prepare_kernels()) == ["relations"]
    assert list(prepare.prepare_kernels()) == []
    monkeypatch.setattr(prepare, "stamp_of_kernels", lambda: (("kernel.py", 1, 2),))
    assert list(prepare.prepare_kernels()) == ["relations"]


def test_an_environment_that_cannot_be_written_to_uses_the_cache_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("sys.prefix", str(tmp_path / "gone"))
    assert cache_folders.environment_cache() == tmp_path / "tidegate"


def test_java_ignores_an_archive_that_does_not_fit(tmp_path, monkeypatch):
    monkeypatch.setattr(class_archive, "environment_cache", lambda: tmp_path)
    home = ensure_java()
    assert class_archive.archive_options(home) == []
    class_archive.archive_path(home).write_bytes(b"no archive")
    options = class_archive.archive_options(home)
    assert options
    command = [str(Path(home, "bin", "java")), *options, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "warning" not in (done.stdout + done.stderr).lower()
