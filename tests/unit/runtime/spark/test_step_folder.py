"""Steps and their rows go through a private folder."""

from __future__ import annotations

import stat
from typing import Any, cast

import pytest

from tidegate.runtime.spark import step_folder
from tidegate.runtime.spark.directives import ShippedSetup, StepDirective, StepStart
from tidegate.runtime.spark.rows import PayloadKind, value_row
from tidegate.runtime.spark.step_folder import StepFolder
from tidegate.runtime.spark.tasks import WholeStep

SHIPPED = cast("ShippedSetup", None)


def step(number: int) -> WholeStep:
    return WholeStep(StepDirective(number, f"step-{number}", {}, {}), StepStart(), [])


@pytest.fixture(autouse=True)
def _tasks_echo(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace what a task does by one row with the number of its step."""

    def echo(_: Any, given: WholeStep) -> Any:
        row = value_row(0, PayloadKind.REPORT, 0, given.directive.step)
        return lambda *_: iter([(0, row)])

    monkeypatch.setattr(step_folder, "WholeTask", echo)


def run(folder: StepFolder, number: int) -> str:
    key = folder.put(step(number))
    assert list(folder.task(SHIPPED)(0, ())) == []
    return key


def test_a_task_runs_the_step_that_was_put_last():
    folder = StepFolder()
    keys = [run(folder, number) for number in (1, 2)]
    assert [folder.take(key)[0].payload for key in keys] == [1, 2]


def test_rows_are_taken_once_and_nothing_is_left_of_them():
    folder = StepFolder()
    key = run(folder, 1)
    path = folder.task(SHIPPED).folder
    folder.take(key)
    assert [file.name for file in path.iterdir()] == ["step"]
    with pytest.raises(FileNotFoundError):
        folder.take(key)


def test_another_attempt_at_a_task_gives_the_same_rows():
    folder = StepFolder()
    key = run(folder, 5)
    list(folder.task(SHIPPED)(0, ()))
    assert [row.payload for row in folder.take(key)] == [5]


def test_a_task_that_fails_leaves_no_rows(monkeypatch: pytest.MonkeyPatch):
    folder = StepFolder()

    def fail(*_: object) -> Any:
        raise MemoryError

    monkeypatch.setattr(step_folder, "WholeTask", lambda *_: fail)
    key = folder.put(step(1))
    with pytest.raises(MemoryError):
        folder.task(SHIPPED)(0, ())
    with pytest.raises(FileNotFoundError):
        folder.take(key)


def test_nobody_else_can_read_the_folder_and_it_goes_with_its_owner():
    folder = StepFolder()
    path = folder.task(SHIPPED).folder
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IRWXU
    del folder
    assert not path.exists()
