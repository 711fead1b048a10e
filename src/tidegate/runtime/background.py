"""A job that runs in a thread of its own, with its state and error for other threads."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from tidegate.connectors.ranges import Source
from tidegate.physical.common.operator import Chunks
from tidegate.physical.common.sizes import SizeHistories
from tidegate.runtime.checkpoint_lock import CheckpointLock
from tidegate.runtime.figures import Metadata, OperatorPlace
from tidegate.runtime.file_events import FileEvents
from tidegate.runtime.job import Job, Progress, QueryState
from tidegate.runtime.pieces import out_of_memory_error
from tidegate.runtime.state import StateSize

if TYPE_CHECKING:
    from tidegate.runtime.costs.join_statistics import QueryStudy
    from tidegate.runtime.metadata import Observed


class BackgroundRun(ABC):
    """Base class of the runs of all runtimes: thread, state, and waiting for the end."""

    job: Job

    def __init__(self) -> None:
        self.progress = Progress()
        # `wait` uses this event instead of the thread: a join that a signal interrupts marks the thread as ended.
        self._ended = threading.Event()
        self._closing = threading.Lock()
        self._outcome = QueryState.RUNNING
        self._error: BaseException | None = None
        self._lock: CheckpointLock | None = None
        self._events: FileEvents | None = None

    @property
    def state(self) -> QueryState:
        return self._outcome if self._ended.is_set() else QueryState.RUNNING

    @property
    def error(self) -> BaseException | None:
        return self._error if self._ended.is_set() else None

    @abstractmethod
    def state_sizes(self) -> Mapping[OperatorPlace, StateSize]:
        """Return the size of the state of each operator in each bucket, after the last step."""

    @abstractmethod
    def size_histories(self) -> SizeHistories:
        """Return the histories of the sizes of all adaptable windows, by key."""

    def quality(self) -> pa.Table:
        """Return the sizes that windows and granularities have from now on, with their queries."""
        from tidegate.runtime.quality import quality_rows

        rows = quality_rows(self.job.adjusted, {}, {}, self.size_histories(), self.job.times)
        return pa.Table.from_batches([rows])

    def metadata(self, query: str | None = None) -> Metadata:
        """Return the metadata of the run, or of what one of its queries uses."""
        from tidegate.runtime.metadata import collect_metadata

        return collect_metadata(self.job, self._observe(), query)

    def explain(self, query: str) -> str:
        """Show the stages of a query with what they do."""
        from tidegate.runtime.metadata import explain_running

        return explain_running(self.job, self._observe(), query)

    def explain_cost(self, query: str) -> str:
        """Show the stages of a query with what they are estimated to need, and what they do."""
        from tidegate.runtime.costs.explain import explain_cost_of_running

        sizes = {key: each.newest.size for key, each in self.size_histories().items()}
        return explain_cost_of_running(self.job, self._observe(), query, sizes)

    def study_query(self, query: str, states: Mapping[int, Sequence[Chunks]] | None = None) -> QueryStudy:
        """Return what the run has shown of a query, for a better plan.

        `states` has the states of stages with joins in all buckets, by number.
        """
        from tidegate.runtime.costs.join_statistics import study_query

        return study_query(self.job, self._observe(), query, states or {})

    def study_sources(self) -> QueryStudy:
        """Return what the run has shown of its sources, for the plan of a new query."""
        from tidegate.runtime.costs.join_statistics import study_sources

        return study_sources(self.job, self._observe())

    def _observe(self) -> Observed:
        from tidegate.runtime.metadata import Observed

        return Observed(self.progress, self.state_sizes(), self.job.clock())

    def wait(self, timeout: float | None = None) -> bool:
        ended = self._ended.wait(timeout)
        if (error := self.error) is not None:
            raise error
        return ended

    @abstractmethod
    def _work(self) -> QueryState:
        """Run the job to its end and return its final state."""

    @contextmanager
    def _hold_lock(self, checkpoint: str | None) -> Iterator[None]:
        """Lock the checkpoint until the job ends; release it at once if its start fails."""
        self._lock = CheckpointLock(checkpoint) if checkpoint is not None else None
        try:
            yield
        except BaseException:
            self._release_lock()
            raise

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()

    def _release_lock(self) -> None:
        if self._lock is not None:
            self._lock.release()

    def _watch_files(self, sources: Iterable[Source]) -> None:
        with self._closing:
            before, self._events = self._events, FileEvents(sources)
            if before is not None:
                before.close()

    def _wait_for_input(self) -> None:
        """Wait until sources may have new rows, or another thread wants something."""
        assert self._events is not None
        self._events.wait()

    def _wake(self) -> None:
        """End the waiting for input."""
        with self._closing:
            if self._events is not None and not self._ended.is_set():
                self._events.wake()

    def _begin(self) -> None:
        threading.Thread(target=self._run_guarded, name="tidegate", daemon=True).start()

    def _run_guarded(self) -> None:
        try:
            self._outcome = self._work()
        except MemoryError as error:
            self._outcome, self._error = QueryState.FAILED, out_of_memory_error()
            self._error.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - `wait` and readers of results raise it
            self._outcome, self._error = QueryState.FAILED, error
        finally:
            self._release_lock()
            with self._closing:
                if self._events is not None:
                    self._events.close()
                self._ended.set()
