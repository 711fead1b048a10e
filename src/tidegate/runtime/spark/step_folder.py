"""Exchange what differs from step to step through files, where the driver and the only task are on one machine.

The function that Spark runs is then the same in all steps, so Spark prepares it once. To send another function with
each job, and to collect rows through Java, takes about a third of the time of an empty job.
"""

from __future__ import annotations

import pickle
import secrets
import shutil
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from tidegate.runtime.spark.directives import ShippedSetup
from tidegate.runtime.spark.rows import Row
from tidegate.runtime.spark.tasks import KeyedRow, WholeStep, WholeTask

_STEP = "step"


@dataclass(frozen=True, slots=True)
class FolderTask:
    """Run the step that the driver has put into a folder, and leave its rows there."""

    shipped: ShippedSetup
    folder: Path

    def __call__(self, _: int, __: Iterable[object]) -> Iterator[KeyedRow]:
        # From our own driver: only its user can write to the folder.
        key, step = pickle.loads((self.folder / _STEP).read_bytes())  # noqa: S301
        rows = [row for _, row in WholeTask(self.shipped, step)(0, ())]
        _write(self.folder / key, rows)
        return iter(())


class StepFolder:
    """A private folder, which is removed with this object or at the end of the process."""

    def __init__(self) -> None:
        self._path = Path(mkdtemp(prefix="tidegate-step-"))
        weakref.finalize(self, shutil.rmtree, self._path, ignore_errors=True)

    def task(self, shipped: ShippedSetup) -> FolderTask:
        return FolderTask(shipped, self._path)

    def put(self, step: WholeStep) -> str:
        """Store a step for the task, and return the key of its rows."""
        key = secrets.token_hex(8)
        _write(self._path / _STEP, (key, step))
        return key

    def take(self, key: str) -> list[Row]:
        """Return the rows of a step that a task has run, and forget them."""
        file = self._path / key
        rows: list[Row] = pickle.loads(file.read_bytes())  # noqa: S301 - from our own task
        file.unlink()
        return rows


def _write(file: Path, content: object) -> None:
    """Write a file as a whole: several attempts at a task may write the same rows."""
    part = file.with_name(f"{file.name}-{secrets.token_hex(4)}")
    part.write_bytes(pickle.dumps(content, pickle.HIGHEST_PROTOCOL))
    part.replace(file)
