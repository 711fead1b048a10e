"""A live run is woken by changes of its folders, and by other threads."""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegate.catalog.catalog import SourceStream
from tidegate.connectors.source import open_source
from tidegate.runtime import file_events
from tidegate.runtime.file_events import FileEvents
from tidegate.schema import Schema, Type

NEVER = 3600.0
"""Seconds: a test that waits for an interval fails by its time limit."""


@pytest.fixture
def events(tmp_path, monkeypatch):
    monkeypatch.setattr(file_events, "SECONDS_AT_MOST", NEVER)
    monkeypatch.setattr(file_events, "SECONDS_BETWEEN_LISTINGS", NEVER)
    (tmp_path / "a.csv").write_text("t\n1\n")
    source = open_source(SourceStream("s", Schema.of(t=Type.BIGINT), str(tmp_path), "t"))
    made = FileEvents([source])
    yield made
    made.close()


def append(folder: Path) -> None:
    with (folder / "a.csv").open("a") as more:
        more.write("2\n")


def create(folder: Path) -> None:
    (folder / "b.csv").write_text("t\n1\n")


def move(folder: Path) -> None:
    (folder / "a.csv").rename(folder / "c.csv")


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")
@pytest.mark.parametrize("change", [append, create, move])
def test_a_change_ends_the_waiting(events: FileEvents, tmp_path, change: Callable[[Path], None]):
    changing = threading.Timer(0.05, change, [tmp_path])
    changing.start()
    events.wait()
    changing.join()


def test_another_thread_ends_the_waiting(events: FileEvents):
    events.wake()
    events.wait()


def test_sources_without_folders_are_looked_at_in_intervals():
    source = open_source(SourceStream("s", Schema.of(t=Type.BIGINT), "generator://?rows=1", "t"))
    made = FileEvents([source])
    made.wait()
    made.close()


def test_a_process_with_many_open_files_waits_as_well(events):
    """A service has a descriptor for each connection; `select` takes none above 1023."""
    low, events._woken = events._woken, fcntl.fcntl(events._woken, fcntl.F_DUPFD, 2000)
    os.close(low)
    events.wake()
    events.wait()
    assert events._woken >= 2000


def test_to_wake_a_run_that_has_ended_writes_to_no_other_file(tmp_path):
    """A thread may ask for a change while the run ends. The number of its descriptor may be another file's then."""
    made = FileEvents([])
    waker = made._waker
    made.close()
    with (tmp_path / "other").open("wb") as other:
        os.dup2(other.fileno(), waker)
        made.wake()
        assert os.fstat(waker).st_size == 0
        os.close(waker)
