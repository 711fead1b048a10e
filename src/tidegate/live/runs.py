"""Start the run of a live graph, on either runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.live.program import ProgramVersion
from tidegate.runtime.embedded.live_runner import LiveEmbeddedRun
from tidegate.runtime.job import Job
from tidegate.session import Session
from tidegate.values import value

if TYPE_CHECKING:
    from tidegate.runtime.spark.live_runner import LiveSparkRun


@value
class RunCallbacks:
    """What a run calls: with results, between steps, and to ask whether anybody reads the results of a query."""

    on_rows: Callable[[str, pa.RecordBatch], None]
    between: Callable[[], None]
    is_wanted: Callable[[str], bool]


def start_live_run(
    job: Job, session: Session, checkpoint: str, version: ProgramVersion, callbacks: RunCallbacks
) -> LiveEmbeddedRun | LiveSparkRun:
    """Start a run, which continues the checkpoint with a version of the program."""
    if session.runtime == "embedded":
        return LiveEmbeddedRun(
            job,
            on_rows=callbacks.on_rows,
            checkpoint=checkpoint,
            between=callbacks.between,
            forgotten=version.forgotten,
            moved=version.moved,
            is_wanted=callbacks.is_wanted,
        )
    from tidegate.runtime.spark.live_runner import LiveSparkRun
    from tidegate.runtime.spark.session import check_workers

    check_workers(session.spark)
    return LiveSparkRun(
        job,
        session.spark,
        on_rows=callbacks.on_rows,
        checkpoint=checkpoint,
        between=callbacks.between,
        forgotten=version.forgotten,
        moved=version.moved,
        is_wanted=callbacks.is_wanted,
    )
