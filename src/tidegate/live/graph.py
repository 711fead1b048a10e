"""A query graph that runs, and is replaced between two steps when its program changes."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa

from tidegate.catalog.catalog import Catalog
from tidegate.catalog.limits import NO_LIMITS
from tidegate.connectors.ranges import Source
from tidegate.connectors.source import check_start, open_source
from tidegate.errors import QueryError
from tidegate.live.admission import refuse_overload
from tidegate.live.answers import Answer
from tidegate.live.change_queue import ChangeQueue
from tidegate.live.changes import apply_change, end_phases
from tidegate.live.feeds import FeedsOfQueries, ResultFeed
from tidegate.live.prepared import Prepared
from tidegate.live.program import ProgramVersion, VersionEncoder
from tidegate.live.runs import RunCallbacks, start_live_run
from tidegate.live.state import LiveProgram, recover_program
from tidegate.optimizer.sharing import SubplanTable
from tidegate.physical.common.codec import from_json
from tidegate.runtime.adaptation import Adapt
from tidegate.runtime.checkpoint import Checkpoint
from tidegate.runtime.compile import source_stream_of
from tidegate.runtime.embedded.live_runner import LiveEmbeddedRun
from tidegate.runtime.job import Job, QueryState
from tidegate.runtime.moved_states import NOTHING_HELD, HeldElements
from tidegate.runtime.outputs import query_schema
from tidegate.runtime.resources.managed_job import manage_job
from tidegate.runtime.state import StateStore
from tidegate.session import Session

if TYPE_CHECKING:
    from tidegate.runtime.spark.live_runner import LiveSparkRun

T = TypeVar("T")


class LiveGraph:
    """A query graph that runs from a checkpoint, with the feeds of its results.

    Its program changes between two steps: a version is recorded, then the run goes on with the job of that version.
    """

    def __init__(self, root: str, session: Session, adapt: Adapt | None = None) -> None:
        self._root, self._session, self._adapt = root, session, adapt
        self._manager: Adapt | None = None
        self._changing = threading.Lock()
        self._ready = threading.Event()
        self._is_committing = False
        self._queue = ChangeQueue()
        self._feeds = FeedsOfQueries()
        self._sources: dict[str, Source] = {}
        self._checkpoint, self._encoder = Checkpoint(self._root), VersionEncoder()
        try:
            self._table = SubplanTable(covers=True)
            self._live = self._recover()
            self._run = self._start_run()
        except BaseException:
            self._session.close()
            raise
        self._ready.set()
        threading.Thread(target=self._end_feeds_with_run, name="tidegate-feeds", daemon=True).start()

    @property
    def state(self) -> QueryState:
        """State of the run as a whole. Never waits."""
        return self._run.state

    @property
    def error(self) -> BaseException | None:
        """Error that ended the run, if any."""
        return self._run.error

    def _open_feed(self, name: str) -> ResultFeed:
        return self._add_feed(name, ResultFeed(query_schema(self._live.query(name))))

    def _add_feed(self, name: str, feed: ResultFeed) -> ResultFeed:
        self._feeds.add(name, feed)
        if self.state is not QueryState.RUNNING:
            feed.end(self.error)
        return feed

    def _end_feeds_with_run(self) -> None:
        """Wait for the end of the run, then end all feeds, with its error if it failed."""
        with suppress(BaseException):
            self._run.wait()
        self._feeds.end_all(self.error)

    # --- changes -------------------------------------------------------------------------------------

    def _apply(self, prepared: Prepared, followed: list[ResultFeed] | None = None) -> tuple[Answer, ...]:
        """Apply a prepared text between two steps of the run; add a feed of its query to the list, if there is one."""
        if not prepared.is_change and prepared.program.catalog == self._live.catalog and not prepared.dropped_streams:
            return ()
        dropped = prepared.dropped_streams
        opened = {s: source for s, source in self._sources.items() if s not in dropped}
        for each in prepared.compiled.values():
            for stream in each.streams - opened.keys():
                opened[stream] = self._open_source(prepared.program.catalog, stream)
                check_start(opened[stream], live=True, is_resumed=False)

        def change() -> tuple[Answer, ...]:
            applied = apply_change(self._live, prepared, self._run.moment(), self._run.stage_states)
            after = applied.program
            added = {q.name for q in after.version.queries} - {q.name for q in self._live.version.queries}
            _refuse_shared_sinks(after)
            job = self._make_job(after, opened, self._run.job.buckets)
            new = [query for query in after.queries() if query.name in added]
            refuse_overload(self._run.job, job, new)
            for name, sink in after.sinks().items():
                if name in added:
                    sink.clear()
            self._sources = opened
            self._commit(after, job, dropped, applied.held)
            if followed is not None:
                followed.append(self._open_feed(prepared.program.queries[0].name))
            return applied.answers

        return self._submit(change)

    def _commit(
        self,
        after: LiveProgram,
        job: Job,
        dropped: frozenset[str] = frozenset(),
        held: HeldElements = NOTHING_HELD,
    ) -> None:
        """Record a version of the program, and go on with it; in the thread of the run.

        `held` has the elements that new stages hold from their beginning.
        """
        after = after.with_states(StateStore(self._root), job, held)
        self._is_committing = True
        self._checkpoint.write_program(after.version.version, self._encoder.encode(after.version))
        gone = {q.name for q in self._live.version.queries} - {q.name for q in after.version.queries}
        self._live, self._manager = after, job.adapt
        self._run.swap_job(job, [query.name for query in after.version.queries], dropped, after.version.moved)
        StateStore(self._root).keep_stages(job.graph.numbers)
        for name in gone:
            self._run.progress.rows_out.pop(name, None)
            self._feeds.end_query(name)
        self._is_committing = False

    def _make_job(self, live: LiveProgram, sources: Mapping[str, Source], buckets: int) -> Job:
        job = live.make_job(sources, buckets, self._adapt)
        is_managed = self._adapt is None and (job.limits != NO_LIMITS or job.adjusted)
        return manage_job(job, self._manager) if is_managed else job

    def _between_steps(self) -> None:
        """Apply the changes that wait, and end phases that are over; in the thread of the run."""
        self._ready.wait()
        # Once a version is recorded, it must run.
        self._queue.apply(lambda: self._is_committing)
        # A text that is being prepared builds on the phases of now.
        if (moment := self._run.moment()).flushed and self._changing.acquire(blocking=False):
            try:
                after = end_phases(self._live, moment)
                self._commit(after, self._make_job(after, self._sources, self._run.job.buckets))
                self._table.forget([n for n in self._table.owners() if n not in self._live.compiled])
            finally:
                self._changing.release()

    def _submit(self, change: Callable[[], T]) -> T:
        """Run a change between two steps, and wait for it."""
        return self._queue.submit(change, self._run.wake, self._check_running)

    def _check_running(self) -> None:
        if (error := self.error) is not None:
            raise QueryError("Q320", f"the run has failed: {error}", hint="start the session again") from error
        if self.state is not QueryState.RUNNING:
            raise QueryError("Q312", "the session is closed", hint="open another one over the same checkpoint")

    # --- results -------------------------------------------------------------------------------------

    def _on_rows(self, name: str, rows: pa.RecordBatch) -> None:
        self._feeds.add_rows(name, rows)

    # --- the start -----------------------------------------------------------------------------------

    def _recover(self) -> LiveProgram:
        """Return the program of the newest version, and open its sources."""
        content = self._checkpoint.last_program()
        self.is_resumed = content is not None
        version = from_json(ProgramVersion, content) if content else ProgramVersion()
        live, self.warnings = recover_program(version, self._table)
        for warning in self.warnings:
            warnings.warn(warning, stacklevel=4)  # points to the user's call
        streams = {s for each in live.running_phases() for s in live.compiled[each.number].streams}
        for stream in sorted(streams):
            self._sources[stream] = self._open_source(live.catalog, stream)
            check_start(self._sources[stream], live=True, is_resumed=True)
        return live

    def _open_source(self, catalog: Catalog, stream: str) -> Source:
        return open_source(source_stream_of(catalog, stream), connectors=self._session.connectors)

    def _start_run(self) -> LiveEmbeddedRun | LiveSparkRun:
        job = self._make_job(self._live, self._sources, self._session.choose_buckets(self._root))
        self._manager = job.adapt
        StateStore(self._root).keep_stages(job.graph.numbers)
        callbacks = RunCallbacks(self._on_rows, self._between_steps, self._feeds.has_reader)
        return start_live_run(job, self._session, self._root, self._live.version, callbacks)


def _refuse_shared_sinks(live: LiveProgram) -> None:
    """Refuse a query that would write to the folder of another one."""
    writers: dict[str, str] = {}
    for name, sink in live.sinks().items():
        if (other := writers.setdefault(sink.folder, name)) != name:
            raise QueryError("Q321", f"queries '{other}' and '{name}' would write to the same folder {sink.folder}")
